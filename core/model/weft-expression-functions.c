/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "model/weft-expression-node-private.h"

#define MAX_ELEMENTS 65536
/* The largest whole number below which a double holds every one. */
#define MAX_EXACT_REAL 9007199254740992.0

typedef struct
{
  const gchar *name;
  const WeftValue *arguments;
  guint n_arguments;
  GError **error;
} Call;

typedef gboolean (*Function) (const Call *call, WeftValue *value);

static gboolean
fail (const Call *call, gint code, const gchar *expected)
{
  g_set_error (call->error, WEFT_ERROR, code, "%s: %s", call->name, expected);
  return FALSE;
}

static gboolean
check_integer (const Call *call, guint position, gint64 *integer)
{
  const WeftValue *argument = &call->arguments[position];

  if (argument->kind != WEFT_VALUE_INTEGER)
    {
      g_set_error (call->error, WEFT_ERROR, WEFT_ERROR_FORMAT,
                   "%s: argument %u is %s, expected a whole number", call->name, position + 1,
                   weft_value_kind_get_name (argument->kind));
      return FALSE;
    }
  *integer = argument->of.integer;
  return TRUE;
}

static gboolean
check_list (const Call *call)
{
  if (call->arguments[0].kind == WEFT_VALUE_LIST)
    return TRUE;
  g_set_error (call->error, WEFT_ERROR, WEFT_ERROR_FORMAT, "%s: argument 1 is %s, expected a list",
               call->name, weft_value_kind_get_name (call->arguments[0].kind));
  return FALSE;
}

static gboolean
call_len (const Call *call, WeftValue *value)
{
  const WeftValue *of = &call->arguments[0];

  if (of->kind == WEFT_VALUE_TEXT)
    *value = weft_value_integer ((gint64) g_utf8_strlen (of->of.text, -1));
  else if (of->kind == WEFT_VALUE_OBJECT)
    *value = weft_value_integer (json_object_get_size (of->of.object));
  else if (check_list (call))
    *value = weft_value_integer (of->of.list->len);
  else
    return FALSE;
  return TRUE;
}

static gboolean
call_range (const Call *call, WeftValue *value)
{
  gint64 bounds[3] = { 0, 0, 1 };
  guint first = call->n_arguments == 1 ? 1 : 0;
  gint64 n;

  for (guint i = 0; i < call->n_arguments; i++)
    if (!check_integer (call, i, &bounds[first + i]))
      return FALSE;
  if (bounds[2] == 0)
    return fail (call, WEFT_ERROR_FORMAT, "a step of zero");
  if (__builtin_sub_overflow (bounds[1], bounds[0], &n) || n == G_MININT64)
    return fail (call, WEFT_ERROR_LIMIT, "a number leaves 64 bits");
  n = (n > 0) == (bounds[2] > 0) ? n / bounds[2] + (n % bounds[2] != 0) : 0;
  if (n > MAX_ELEMENTS)
    return fail (call, WEFT_ERROR_LIMIT, "a list of more than 65536 elements");
  *value = weft_value_list ();
  for (gint64 i = 0; i < n; i++)
    {
      WeftValue element = weft_value_integer (bounds[0] + i * bounds[2]);

      weft_value_append (value, &element);
    }
  return TRUE;
}

static gboolean
is_better (const Call *call, const WeftValue *candidate, const WeftValue *best, gboolean wants_larger,
           gboolean *result)
{
  if (!weft_value_is_number (candidate) || !weft_value_is_number (best))
    return fail (call, WEFT_ERROR_FORMAT, "expected numbers");
  if (candidate->kind == WEFT_VALUE_INTEGER && best->kind == WEFT_VALUE_INTEGER)
    *result =
        wants_larger ? candidate->of.integer > best->of.integer : candidate->of.integer < best->of.integer;
  else
    *result = wants_larger ? weft_value_get_real (candidate) > weft_value_get_real (best)
                           : weft_value_get_real (candidate) < weft_value_get_real (best);
  return TRUE;
}

/* Of the elements of the one list, or of the arguments. */
static gboolean
find_extreme (const Call *call, gboolean wants_larger, WeftValue *value)
{
  gboolean is_list = call->n_arguments == 1 && call->arguments[0].kind == WEFT_VALUE_LIST;
  GArray *list = is_list ? call->arguments[0].of.list : NULL;
  const WeftValue *elements = is_list ? (const WeftValue *) (gpointer) list->data : call->arguments;
  guint n = is_list ? list->len : call->n_arguments, best = 0;

  if (n == 0)
    return fail (call, WEFT_ERROR_FORMAT, "of nothing");
  for (guint i = 0; i < n; i++)
    {
      gboolean result;

      if (!is_better (call, &elements[i], &elements[best], wants_larger, &result))
        return FALSE;
      best = result ? i : best;
    }
  *value = weft_value_copy (&elements[best]);
  return TRUE;
}

static gboolean
call_min (const Call *call, WeftValue *value)
{
  return find_extreme (call, FALSE, value);
}

static gboolean
call_max (const Call *call, WeftValue *value)
{
  return find_extreme (call, TRUE, value);
}

static gboolean
call_abs (const Call *call, WeftValue *value)
{
  const WeftValue *of = &call->arguments[0];

  if (!weft_value_is_number (of))
    return fail (call, WEFT_ERROR_FORMAT, "expected a number");
  if (of->kind == WEFT_VALUE_INTEGER && of->of.integer == G_MININT64)
    return fail (call, WEFT_ERROR_LIMIT, "a number leaves 64 bits");
  *value = of->kind == WEFT_VALUE_INTEGER ? weft_value_integer (ABS (of->of.integer))
                                          : weft_value_real (fabs (weft_value_get_real (of)));
  return TRUE;
}

/* A number made whole by @round. */
static gboolean
make_whole (const Call *call, gdouble (*round_real) (gdouble), WeftValue *value)
{
  const WeftValue *of = &call->arguments[0];
  gdouble real;

  if (!weft_value_is_number (of))
    return fail (call, WEFT_ERROR_FORMAT, "expected a number");
  if (of->kind == WEFT_VALUE_INTEGER)
    {
      *value = weft_value_copy (of);
      return TRUE;
    }
  real = round_real (weft_value_get_real (of));
  if (!(fabs (real) <= MAX_EXACT_REAL))
    return fail (call, WEFT_ERROR_LIMIT, "a real number above 2^53 is not exact");
  *value = weft_value_integer ((gint64) real);
  return TRUE;
}

static gboolean
parse_integer (const Call *call, const gchar *text, WeftValue *value)
{
  gint64 integer;

  if (!g_ascii_string_to_signed (text, 10, G_MININT64, G_MAXINT64, &integer, NULL))
    return fail (call, WEFT_ERROR_FORMAT, "the text is no whole number");
  *value = weft_value_integer (integer);
  return TRUE;
}

static gboolean
call_int (const Call *call, WeftValue *value)
{
  return call->arguments[0].kind == WEFT_VALUE_TEXT ? parse_integer (call, call->arguments[0].of.text, value)
                                                    : make_whole (call, trunc, value);
}

/* Halves go to the even neighbour, as Python rounds; the rounding mode of a process is that unless it was changed. */
static gboolean
call_round (const Call *call, WeftValue *value)
{
  return make_whole (call, rint, value);
}

static gboolean
call_ceil (const Call *call, WeftValue *value)
{
  return make_whole (call, ceil, value);
}

static gboolean
call_floor (const Call *call, WeftValue *value)
{
  return make_whole (call, floor, value);
}

static gboolean
call_float (const Call *call, WeftValue *value)
{
  if (!weft_value_is_number (&call->arguments[0]))
    return fail (call, WEFT_ERROR_FORMAT, "expected a number");
  *value = weft_value_real (weft_value_get_real (&call->arguments[0]));
  return TRUE;
}

static gboolean
call_sqrt (const Call *call, WeftValue *value)
{
  gdouble real = weft_value_get_real (&call->arguments[0]);

  if (!weft_value_is_number (&call->arguments[0]) || real < 0)
    return fail (call, WEFT_ERROR_FORMAT, "expected a number that is not negative");
  *value = weft_value_real (sqrt (real));
  return TRUE;
}

static gboolean
call_bool (const Call *call, WeftValue *value)
{
  *value = weft_value_boolean (weft_value_is_true (&call->arguments[0]));
  return TRUE;
}

static gboolean
call_str (const Call *call, WeftValue *value)
{
  const WeftValue *of = &call->arguments[0];
  g_autofree gchar *text = of->kind == WEFT_VALUE_TEXT ? g_strdup (of->of.text) : weft_value_to_string (of);

  if (of->kind > WEFT_VALUE_TEXT)
    return fail (call, WEFT_ERROR_FORMAT, "expected a number or a text");
  *value = weft_value_text (text, -1);
  return TRUE;
}

static gboolean
call_sum (const Call *call, WeftValue *value)
{
  gint64 whole = 0;
  gdouble real = 0.0;
  gboolean is_whole = TRUE;

  if (!check_list (call))
    return FALSE;
  for (guint i = 0; i < call->arguments[0].of.list->len; i++)
    {
      const WeftValue *element = &g_array_index (call->arguments[0].of.list, WeftValue, i);
      gint64 integer = element->kind == WEFT_VALUE_BOOLEAN ? element->of.boolean : element->of.integer;

      if (!weft_value_is_number (element))
        return fail (call, WEFT_ERROR_FORMAT, "expected a list of numbers");
      is_whole = is_whole && element->kind != WEFT_VALUE_REAL;
      real += weft_value_get_real (element);
      if (is_whole && __builtin_add_overflow (whole, integer, &whole))
        return fail (call, WEFT_ERROR_LIMIT, "a number leaves 64 bits");
    }
  *value = is_whole ? weft_value_integer (whole) : weft_value_real (real);
  return TRUE;
}

static gboolean
count_true (const Call *call, guint *n)
{
  *n = 0;
  if (!check_list (call))
    return FALSE;
  for (guint i = 0; i < call->arguments[0].of.list->len; i++)
    *n += weft_value_is_true (&g_array_index (call->arguments[0].of.list, WeftValue, i)) ? 1 : 0;
  return TRUE;
}

static gboolean
call_any (const Call *call, WeftValue *value)
{
  guint n;

  if (!count_true (call, &n))
    return FALSE;
  *value = weft_value_boolean (n > 0);
  return TRUE;
}

static gboolean
call_all (const Call *call, WeftValue *value)
{
  guint n;

  if (!count_true (call, &n))
    return FALSE;
  *value = weft_value_boolean (n == call->arguments[0].of.list->len);
  return TRUE;
}

static gboolean
call_reversed (const Call *call, WeftValue *value)
{
  if (!check_list (call))
    return FALSE;
  *value = weft_value_list ();
  for (guint i = call->arguments[0].of.list->len; i > 0; i--)
    weft_value_append (value, &g_array_index (call->arguments[0].of.list, WeftValue, i - 1));
  return TRUE;
}

static gboolean
call_keys (const Call *call, WeftValue *value)
{
  g_autoptr (GList) members = NULL;

  if (call->arguments[0].kind != WEFT_VALUE_OBJECT)
    return fail (call, WEFT_ERROR_FORMAT, "expected an object");
  members = json_object_get_members (call->arguments[0].of.object);
  *value = weft_value_list ();
  for (GList *member = members; member != NULL; member = member->next)
    {
      g_auto (WeftValue) name = weft_value_text (member->data, -1);

      weft_value_append (value, &name);
    }
  return TRUE;
}

static gboolean
answer_kind (const Call *call, WeftValueKind kind, WeftValue *value)
{
  *value = weft_value_boolean (call->arguments[0].kind == kind);
  return TRUE;
}

static gboolean
call_is_list (const Call *call, WeftValue *value)
{
  return answer_kind (call, WEFT_VALUE_LIST, value);
}

static gboolean
call_is_int (const Call *call, WeftValue *value)
{
  return answer_kind (call, WEFT_VALUE_INTEGER, value);
}

static gboolean
call_is_float (const Call *call, WeftValue *value)
{
  return answer_kind (call, WEFT_VALUE_REAL, value);
}

static gboolean
call_is_bool (const Call *call, WeftValue *value)
{
  return answer_kind (call, WEFT_VALUE_BOOLEAN, value);
}

static gboolean
call_is_str (const Call *call, WeftValue *value)
{
  return answer_kind (call, WEFT_VALUE_TEXT, value);
}

static gboolean
call_is_dict (const Call *call, WeftValue *value)
{
  return answer_kind (call, WEFT_VALUE_OBJECT, value);
}

gboolean
weft_expression_call (const gchar *name, const WeftValue *arguments, guint n_arguments, WeftValue *value,
                      GError **error)
{
  static const struct
  {
    const gchar *name;
    guint min_arguments;
    guint max_arguments;
    Function function;
  } functions[] = {
    { "abs", 1, 1, call_abs },         { "all", 1, 1, call_all },           { "any", 1, 1, call_any },
    { "bool", 1, 1, call_bool },       { "ceil", 1, 1, call_ceil },         { "float", 1, 1, call_float },
    { "floor", 1, 1, call_floor },     { "int", 1, 1, call_int },           { "is_bool", 1, 1, call_is_bool },
    { "is_dict", 1, 1, call_is_dict }, { "is_float", 1, 1, call_is_float }, { "is_int", 1, 1, call_is_int },
    { "is_list", 1, 1, call_is_list }, { "is_str", 1, 1, call_is_str },     { "keys", 1, 1, call_keys },
    { "len", 1, 1, call_len },         { "max", 1, 64, call_max },          { "min", 1, 64, call_min },
    { "range", 1, 3, call_range },     { "reversed", 1, 1, call_reversed }, { "round", 1, 1, call_round },
    { "sqrt", 1, 1, call_sqrt },       { "str", 1, 1, call_str },           { "sum", 1, 1, call_sum },
  };
  Call call = { .name = name, .arguments = arguments, .n_arguments = n_arguments, .error = error };

  for (guint i = 0; i < G_N_ELEMENTS (functions); i++)
    {
      if (strcmp (functions[i].name, name) != 0)
        continue;
      if (n_arguments < functions[i].min_arguments || n_arguments > functions[i].max_arguments)
        {
          g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT, "%s: %u arguments, expected %u to %u", name,
                       n_arguments, functions[i].min_arguments, functions[i].max_arguments);
          return FALSE;
        }
      return functions[i].function (&call, value);
    }
  return FALSE;
}
