/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "model/weft-expression-node-private.h"

#define MAX_STEPS 1000000
#define MAX_DEPTH 512
#define MAX_ELEMENTS 65536
#define MAX_TEXT_BYTES 65536

/* One run of an expression. */
typedef struct
{
  const WeftExpression *expression;
  guint n_steps;
  guint depth;
  GError **error;
} Run;

/* Expressions contain expressions. */
static gboolean evaluate (Run *run, const WeftExpressionNode *node, const WeftScope *scope, WeftValue *value);

static gboolean G_GNUC_PRINTF (3, 4) fail (Run *run, gint code, const gchar *format, ...)
{
  g_autofree gchar *reason = NULL;
  va_list arguments;

  va_start (arguments, format);
  reason = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  g_set_error (run->error, WEFT_ERROR, code, "expression '%s': %s", run->expression->text, reason);
  return FALSE;
}

static WeftExpressionNode *
operand_at (const WeftExpressionNode *node, guint position)
{
  return g_ptr_array_index (node->operands, position);
}

static gboolean
evaluate_operand (Run *run, const WeftExpressionNode *node, guint position, const WeftScope *scope,
                  WeftValue *value)
{
  return evaluate (run, operand_at (node, position), scope, value);
}

/* A lookup that found nothing has set no error; one that failed has. */
static gboolean
find_field (Run *run, const WeftScope *scope, GObject *config, const gchar *name, WeftValue *value)
{
  g_autoptr (GError) cause = NULL;

  if (config != NULL && scope->find_field (config, name, value, &cause))
    return TRUE;
  if (cause == NULL)
    return fail (run, WEFT_ERROR_MISSING, "the config has no field '%s', and no default for it", name);
  g_propagate_prefixed_error (run->error, g_steal_pointer (&cause),
                              "expression '%s': ", run->expression->text);
  return FALSE;
}

static const WeftScope *
find_outermost (const WeftScope *scope)
{
  while (scope->outer != NULL)
    scope = scope->outer;
  return scope;
}

static gboolean
evaluate_name (Run *run, const gchar *name, const WeftScope *scope, WeftValue *value)
{
  for (; scope->outer != NULL; scope = scope->outer)
    if (scope->name != NULL && strcmp (scope->name, name) == 0)
      {
        *value = weft_value_copy (scope->value);
        return TRUE;
      }
  if (scope->config != NULL && strcmp (name, "config") == 0)
    {
      *value = weft_value_config (scope->config);
      return TRUE;
    }
  return find_field (run, scope, scope->config, name, value);
}

static gboolean
find_member (Run *run, const WeftValue *of, const gchar *name, const WeftScope *scope, WeftValue *value)
{
  if (of->kind == WEFT_VALUE_CONFIG)
    return find_field (run, find_outermost (scope), of->of.config, name, value);
  if (of->kind != WEFT_VALUE_OBJECT)
    return fail (run, WEFT_ERROR_FORMAT, "'%s' is asked of %s; only configs and objects have members", name,
                 weft_value_kind_get_name (of->kind));
  if (!json_object_has_member (of->of.object, name))
    return fail (run, WEFT_ERROR_MISSING, "the object has no member '%s'", name);
  *value = weft_value_from_json (json_object_get_member (of->of.object, name));
  return TRUE;
}

static gboolean
evaluate_member (Run *run, const WeftExpressionNode *node, const WeftScope *scope, WeftValue *value)
{
  g_auto (WeftValue) of = WEFT_VALUE_INIT;

  return evaluate_operand (run, node, 0, scope, &of) && find_member (run, &of, node->name, scope, value);
}

static gboolean
evaluate_index (Run *run, const WeftExpressionNode *node, const WeftScope *scope, WeftValue *value)
{
  g_auto (WeftValue) of = WEFT_VALUE_INIT;
  g_auto (WeftValue) index = WEFT_VALUE_INIT;
  gint64 position;

  if (!evaluate_operand (run, node, 0, scope, &of) || !evaluate_operand (run, node, 1, scope, &index))
    return FALSE;
  if (index.kind == WEFT_VALUE_TEXT)
    return find_member (run, &of, index.of.text, scope, value);
  if (of.kind != WEFT_VALUE_LIST || index.kind != WEFT_VALUE_INTEGER)
    return fail (run, WEFT_ERROR_FORMAT, "%s is indexed by %s; a list takes whole numbers, an object texts",
                 weft_value_kind_get_name (of.kind), weft_value_kind_get_name (index.kind));
  position = index.of.integer < 0 ? index.of.integer + of.of.list->len : index.of.integer;
  if (position < 0 || position >= of.of.list->len)
    return fail (run, WEFT_ERROR_FORMAT, "index %" G_GINT64_FORMAT " leaves a list of %u", index.of.integer,
                 of.of.list->len);
  *value = weft_value_copy (&g_array_index (of.of.list, WeftValue, (guint) position));
  return TRUE;
}

/* A bound of a slice within a list; an absent one is @fallback. */
static gboolean
clamp_bound (Run *run, const WeftValue *bound, guint length, guint fallback, guint *position)
{
  gint64 number = bound->of.integer;

  *position = fallback;
  if (bound->kind == WEFT_VALUE_NULL)
    return TRUE;
  if (bound->kind != WEFT_VALUE_INTEGER)
    return fail (run, WEFT_ERROR_FORMAT, "a slice is bounded by %s; expected a whole number",
                 weft_value_kind_get_name (bound->kind));
  if (number < 0)
    number = number < -(gint64) length ? 0 : number + length;
  *position = (guint) MIN (number, (gint64) length);
  return TRUE;
}

static gboolean
evaluate_slice (Run *run, const WeftExpressionNode *node, const WeftScope *scope, WeftValue *value)
{
  g_auto (WeftValue) of = WEFT_VALUE_INIT;
  g_auto (WeftValue) first = WEFT_VALUE_INIT;
  g_auto (WeftValue) last = WEFT_VALUE_INIT;
  guint start, end, length;

  if (!evaluate_operand (run, node, 0, scope, &of) || !evaluate_operand (run, node, 1, scope, &first)
      || !evaluate_operand (run, node, 2, scope, &last))
    return FALSE;
  if (of.kind != WEFT_VALUE_LIST && of.kind != WEFT_VALUE_TEXT)
    return fail (run, WEFT_ERROR_FORMAT, "a slice of %s; expected a list or a text",
                 weft_value_kind_get_name (of.kind));
  length = of.kind == WEFT_VALUE_LIST ? of.of.list->len : (guint) g_utf8_strlen (of.of.text, -1);
  if (!clamp_bound (run, &first, length, 0, &start) || !clamp_bound (run, &last, length, length, &end))
    return FALSE;
  if (of.kind == WEFT_VALUE_TEXT)
    {
      g_autofree gchar *text = g_utf8_substring (of.of.text, start, MAX (start, end));

      *value = weft_value_text (text, -1);
      return TRUE;
    }
  *value = weft_value_list ();
  for (guint i = start; i < end; i++)
    weft_value_append (value, &g_array_index (of.of.list, WeftValue, i));
  return TRUE;
}

static gboolean
evaluate_list (Run *run, const WeftExpressionNode *node, const WeftScope *scope, WeftValue *value)
{
  g_auto (WeftValue) list = weft_value_list ();

  for (guint i = 0; i < node->operands->len; i++)
    {
      g_auto (WeftValue) element = WEFT_VALUE_INIT;

      if (!evaluate_operand (run, node, i, scope, &element))
        return FALSE;
      weft_value_append (&list, &element);
    }
  *value = weft_value_copy (&list);
  return TRUE;
}

static gboolean
evaluate_comprehension (Run *run, const WeftExpressionNode *node, const WeftScope *scope, WeftValue *value)
{
  g_auto (WeftValue) source = WEFT_VALUE_INIT;
  g_auto (WeftValue) list = weft_value_list ();

  if (!evaluate_operand (run, node, 1, scope, &source))
    return FALSE;
  if (source.kind != WEFT_VALUE_LIST)
    return fail (run, WEFT_ERROR_FORMAT, "'for %s in' goes over %s; expected a list", node->name,
                 weft_value_kind_get_name (source.kind));
  for (guint i = 0; i < source.of.list->len; i++)
    {
      WeftScope inner = { .outer = scope,
                          .name = node->name,
                          .value = &g_array_index (source.of.list, WeftValue, i) };
      g_auto (WeftValue) condition = WEFT_VALUE_INIT;
      g_auto (WeftValue) element = WEFT_VALUE_INIT;

      if (!evaluate_operand (run, node, 2, &inner, &condition))
        return FALSE;
      if (!weft_value_is_true (&condition))
        continue;
      if (!evaluate_operand (run, node, 0, &inner, &element))
        return FALSE;
      weft_value_append (&list, &element);
    }
  *value = weft_value_copy (&list);
  return TRUE;
}

/* `get (a, 'b', c)`: member b of a, or c if it has none; `get ('b', c)` asks the config itself. It alone needs the scope. */
static gboolean
call_get (Run *run, const WeftValue *arguments, guint n_arguments, const WeftScope *scope, WeftValue *value)
{
  const WeftScope *outermost = find_outermost (scope);
  GObject *config = outermost->config;
  g_autoptr (GError) cause = NULL;

  if ((n_arguments != 2 && n_arguments != 3) || arguments[n_arguments - 2].kind != WEFT_VALUE_TEXT)
    return fail (run, WEFT_ERROR_FORMAT,
                 "get takes a config or an object, the name of a member, and a default");
  if (n_arguments == 3 && arguments[0].kind == WEFT_VALUE_OBJECT)
    {
      const gchar *name = arguments[1].of.text;

      *value = json_object_has_member (arguments[0].of.object, name)
                   ? weft_value_from_json (json_object_get_member (arguments[0].of.object, name))
                   : weft_value_copy (&arguments[2]);
      return TRUE;
    }
  if (n_arguments == 3 && arguments[0].kind != WEFT_VALUE_CONFIG && arguments[0].kind != WEFT_VALUE_NULL)
    return fail (run, WEFT_ERROR_FORMAT, "get asks %s; only configs and objects have members",
                 weft_value_kind_get_name (arguments[0].kind));
  if (n_arguments == 3)
    config = arguments[0].kind == WEFT_VALUE_CONFIG ? arguments[0].of.config : NULL;
  if (config != NULL && outermost->find_field (config, arguments[n_arguments - 2].of.text, value, &cause))
    return TRUE;
  if (cause != NULL)
    {
      g_propagate_error (run->error, g_steal_pointer (&cause));
      return FALSE;
    }
  *value = weft_value_copy (&arguments[n_arguments - 1]);
  return TRUE;
}

static gboolean
call (Run *run, const gchar *name, GArray *arguments, const WeftScope *scope, WeftValue *value)
{
  const WeftValue *values = (const WeftValue *) (gpointer) arguments->data;
  g_autoptr (GError) cause = NULL;

  if (strcmp (name, "get") == 0)
    return call_get (run, values, arguments->len, scope, value);
  if (weft_expression_call (name, values, arguments->len, value, &cause))
    return TRUE;
  if (cause != NULL)
    return fail (run, cause->code, "%s", cause->message);
  return fail (run, WEFT_ERROR_FORMAT, "there is no function '%s'", name);
}

static gboolean
evaluate_call (Run *run, const WeftExpressionNode *node, const WeftScope *scope, WeftValue *value)
{
  g_auto (WeftValue) arguments = WEFT_VALUE_INIT;

  return evaluate_list (run, node, scope, &arguments)
         && call (run, node->name, arguments.of.list, scope, value);
}

/* The first operand that decides, or the last one. */
static gboolean
evaluate_row (Run *run, const WeftExpressionNode *node, const WeftScope *scope, WeftValue *value)
{
  for (guint i = 0; i < node->operands->len; i++)
    {
      weft_value_clear (value);
      if (!evaluate_operand (run, node, i, scope, value))
        return FALSE;
      if (weft_value_is_true (value) == (node->kind == WEFT_NODE_OR))
        break;
    }
  return TRUE;
}

static gboolean
evaluate_negate (Run *run, const WeftExpressionNode *node, const WeftScope *scope, WeftValue *value)
{
  g_auto (WeftValue) operand = WEFT_VALUE_INIT;
  gint64 integer;

  if (!evaluate_operand (run, node, 0, scope, &operand))
    return FALSE;
  if (operand.kind == WEFT_VALUE_REAL)
    {
      *value = weft_value_real (-operand.of.real);
      return TRUE;
    }
  if (operand.kind != WEFT_VALUE_INTEGER)
    return fail (run, WEFT_ERROR_FORMAT, "the negative of %s", weft_value_kind_get_name (operand.kind));
  if (__builtin_sub_overflow ((gint64) 0, operand.of.integer, &integer))
    return fail (run, WEFT_ERROR_LIMIT, "a number leaves 64 bits");
  *value = weft_value_integer (integer);
  return TRUE;
}

static gboolean
evaluate_conditional (Run *run, const WeftExpressionNode *node, const WeftScope *scope, WeftValue *value)
{
  g_auto (WeftValue) condition = WEFT_VALUE_INIT;

  return evaluate_operand (run, node, 1, scope, &condition)
         && evaluate_operand (run, node, weft_value_is_true (&condition) ? 0 : 2, scope, value);
}

/* Python rounds a quotient down, and the remainder has the sign of the divisor. */
static gint64
floor_divide (gint64 a, gint64 b, gint64 *remainder)
{
  gint64 quotient = a / b;

  *remainder = a % b;
  if (*remainder != 0 && (*remainder < 0) != (b < 0))
    {
      quotient--;
      *remainder += b;
    }
  return quotient;
}

static gboolean
raise_to_power (gint64 base, gint64 exponent, gint64 *result)
{
  *result = 1;
  while (exponent > 0)
    {
      if (exponent % 2 == 1 && __builtin_mul_overflow (*result, base, result))
        return FALSE;
      exponent /= 2;
      if (exponent > 0 && __builtin_mul_overflow (base, base, &base))
        return FALSE;
    }
  return TRUE;
}

static gboolean
calculate_integers (Run *run, WeftOperator operator, gint64 a, gint64 b, WeftValue *value)
{
  gint64 result = 0, remainder = 0;
  gboolean fits = TRUE;

  if ((operator== WEFT_OPERATOR_FLOOR_DIVIDE || operator== WEFT_OPERATOR_MODULO) && b == 0)
    return fail (run, WEFT_ERROR_FORMAT, "a division by zero");
  switch (operator)
    {
    case WEFT_OPERATOR_ADD:
      fits = !__builtin_add_overflow (a, b, &result);
      break;
    case WEFT_OPERATOR_SUBTRACT:
      fits = !__builtin_sub_overflow (a, b, &result);
      break;
    case WEFT_OPERATOR_MULTIPLY:
      fits = !__builtin_mul_overflow (a, b, &result);
      break;
    case WEFT_OPERATOR_POWER:
      fits = raise_to_power (a, b, &result);
      break;
    case WEFT_OPERATOR_FLOOR_DIVIDE:
    case WEFT_OPERATOR_MODULO:
    default:
      /* The one quotient that has no place: the lowest number by -1. */
      fits = b != -1 || a != G_MININT64;
      result = fits ? floor_divide (a, b, &remainder) : 0;
      break;
    }
  if (!fits)
    return fail (run, WEFT_ERROR_LIMIT, "a number leaves 64 bits");
  *value = weft_value_integer (operator== WEFT_OPERATOR_MODULO ? remainder : result);
  return TRUE;
}

static gboolean
calculate_reals (Run *run, WeftOperator operator, gdouble a, gdouble b, WeftValue *value)
{
  gdouble result;

  if (b == 0.0
      && (operator== WEFT_OPERATOR_DIVIDE || operator== WEFT_OPERATOR_FLOOR_DIVIDE ||
          operator== WEFT_OPERATOR_MODULO))
    return fail (run, WEFT_ERROR_FORMAT, "a division by zero");
  if (operator== WEFT_OPERATOR_ADD)
    result = a + b;
  else if (operator== WEFT_OPERATOR_SUBTRACT)
    result = a - b;
  else if (operator== WEFT_OPERATOR_MULTIPLY)
    result = a * b;
  else if (operator== WEFT_OPERATOR_DIVIDE)
    result = a / b;
  else if (operator== WEFT_OPERATOR_FLOOR_DIVIDE)
    result = floor (a / b);
  else if (operator== WEFT_OPERATOR_MODULO)
    result = a - b * floor (a / b);
  else
    result = pow (a, b);
  if (!isfinite (result))
    return fail (run, WEFT_ERROR_LIMIT, "a number that is not finite");
  *value = weft_value_real (result);
  return TRUE;
}

/* `[0] * 3`, `3 * [0]` */
static gboolean
repeat_list (Run *run, GArray *list, gint64 n_times, WeftValue *value)
{
  if (n_times > 0 && list->len > 0 && n_times > MAX_ELEMENTS / (gint64) list->len)
    return fail (run, WEFT_ERROR_LIMIT, "a list of more than %d elements", MAX_ELEMENTS);
  *value = weft_value_list ();
  for (gint64 i = 0; i < n_times && list->len > 0; i++)
    for (guint k = 0; k < list->len; k++)
      weft_value_append (value, &g_array_index (list, WeftValue, k));
  return TRUE;
}

static gboolean
join_lists (Run *run, GArray *a, GArray *b, WeftValue *value)
{
  if (a->len + b->len > MAX_ELEMENTS)
    return fail (run, WEFT_ERROR_LIMIT, "a list of more than %d elements", MAX_ELEMENTS);
  *value = weft_value_list ();
  for (guint i = 0; i < a->len; i++)
    weft_value_append (value, &g_array_index (a, WeftValue, i));
  for (guint i = 0; i < b->len; i++)
    weft_value_append (value, &g_array_index (b, WeftValue, i));
  return TRUE;
}

static gboolean
join_texts (Run *run, const gchar *a, const gchar *b, WeftValue *value)
{
  g_autofree gchar *text = NULL;

  if (strlen (a) + strlen (b) > MAX_TEXT_BYTES)
    return fail (run, WEFT_ERROR_LIMIT, "a text of more than %d bytes", MAX_TEXT_BYTES);
  text = g_strconcat (a, b, NULL);
  *value = weft_value_text (text, -1);
  return TRUE;
}

static gint64
get_integer (const WeftValue *value)
{
  return value->kind == WEFT_VALUE_BOOLEAN ? value->of.boolean : value->of.integer;
}

static gboolean
calculate (Run *run, WeftOperator operator, const WeftValue * a, const WeftValue *b, WeftValue *value)
{
  gboolean is_add = operator== WEFT_OPERATOR_ADD, is_multiply = operator== WEFT_OPERATOR_MULTIPLY;
  gboolean are_whole = a->kind != WEFT_VALUE_REAL && b->kind != WEFT_VALUE_REAL;

  if (weft_value_is_number (a) && weft_value_is_number (b))
    {
      gboolean is_whole =
          are_whole
          && operator!= WEFT_OPERATOR_DIVIDE && (operator!= WEFT_OPERATOR_POWER || get_integer (b) >= 0);

      return is_whole
                 ? calculate_integers (run, operator, get_integer (a), get_integer (b), value)
                 : calculate_reals (run, operator, weft_value_get_real (a), weft_value_get_real (b), value);
    }
  if (is_add && a->kind == WEFT_VALUE_TEXT && b->kind == WEFT_VALUE_TEXT)
    return join_texts (run, a->of.text, b->of.text, value);
  if (is_add && a->kind == WEFT_VALUE_LIST && b->kind == WEFT_VALUE_LIST)
    return join_lists (run, a->of.list, b->of.list, value);
  if (is_multiply && a->kind == WEFT_VALUE_LIST && b->kind == WEFT_VALUE_INTEGER)
    return repeat_list (run, a->of.list, b->of.integer, value);
  if (is_multiply && a->kind == WEFT_VALUE_INTEGER && b->kind == WEFT_VALUE_LIST)
    return repeat_list (run, b->of.list, a->of.integer, value);
  return fail (run, WEFT_ERROR_FORMAT, "arithmetic with %s and %s", weft_value_kind_get_name (a->kind),
               weft_value_kind_get_name (b->kind));
}

static gboolean
evaluate_arithmetic (Run *run, const WeftExpressionNode *node, const WeftScope *scope, WeftValue *value)
{
  g_auto (WeftValue) a = WEFT_VALUE_INIT;
  g_auto (WeftValue) b = WEFT_VALUE_INIT;

  return evaluate_operand (run, node, 0, scope, &a) && evaluate_operand (run, node, 1, scope, &b)
         && calculate (run, g_array_index (node->operators, WeftOperator, 0), &a, &b, value);
}

static gboolean
is_in (Run *run, const WeftValue *element, const WeftValue *container, const WeftScope *scope,
       gboolean *result)
{
  const gchar *name = element->kind == WEFT_VALUE_TEXT ? element->of.text : NULL;
  g_auto (WeftValue) found = WEFT_VALUE_INIT;

  *result = FALSE;
  if (container->kind == WEFT_VALUE_LIST)
    for (guint i = 0; i < container->of.list->len && !*result; i++)
      *result = weft_value_equal (element, &g_array_index (container->of.list, WeftValue, i));
  else if (container->kind == WEFT_VALUE_TEXT && name != NULL)
    *result = strstr (container->of.text, name) != NULL;
  else if (container->kind == WEFT_VALUE_OBJECT && name != NULL)
    *result = json_object_has_member (container->of.object, name);
  else if (container->kind == WEFT_VALUE_CONFIG && name != NULL)
    *result = find_outermost (scope)->find_field (container->of.config, name, &found, NULL);
  else
    return fail (run, WEFT_ERROR_FORMAT, "%s is looked for in %s", weft_value_kind_get_name (element->kind),
                 weft_value_kind_get_name (container->kind));
  return TRUE;
}

static gboolean
is_singleton (const WeftValue *value)
{
  return value->kind == WEFT_VALUE_NULL || value->kind == WEFT_VALUE_BOOLEAN;
}

/* Negative, zero or positive, as `a` is below, at or above `b`. */
static gboolean
compare_order (Run *run, const WeftValue *a, const WeftValue *b, gint *order)
{
  if (a->kind == WEFT_VALUE_TEXT && b->kind == WEFT_VALUE_TEXT)
    {
      *order = strcmp (a->of.text, b->of.text);
      return TRUE;
    }
  if (!weft_value_is_number (a) || !weft_value_is_number (b))
    return fail (run, WEFT_ERROR_FORMAT, "the order of %s and %s", weft_value_kind_get_name (a->kind),
                 weft_value_kind_get_name (b->kind));
  if (a->kind == WEFT_VALUE_INTEGER && b->kind == WEFT_VALUE_INTEGER)
    *order = (a->of.integer > b->of.integer) - (a->of.integer < b->of.integer);
  else
    *order = (weft_value_get_real (a) > weft_value_get_real (b))
             - (weft_value_get_real (a) < weft_value_get_real (b));
  return TRUE;
}

static gboolean
compare (Run *run, WeftOperator operator, const WeftValue * a, const WeftValue *b, const WeftScope *scope,
         gboolean *result)
{
  gint order = 0;

  switch (operator)
    {
    case WEFT_OPERATOR_EQUAL:
    case WEFT_OPERATOR_NOT_EQUAL:
      *result = weft_value_equal (a, b) == (operator== WEFT_OPERATOR_EQUAL);
      return TRUE;
    case WEFT_OPERATOR_IN:
    case WEFT_OPERATOR_NOT_IN:
      if (!is_in (run, a, b, scope, result))
        return FALSE;
      *result = *result == (operator== WEFT_OPERATOR_IN);
      return TRUE;
    case WEFT_OPERATOR_IS:
    case WEFT_OPERATOR_IS_NOT:
      if (!is_singleton (b))
        return fail (run, WEFT_ERROR_FORMAT, "'is' compares with %s; expected None, True or False",
                     weft_value_kind_get_name (b->kind));
      *result = (a->kind == b->kind && weft_value_equal (a, b)) == (operator== WEFT_OPERATOR_IS);
      return TRUE;
    default:
      if (!compare_order (run, a, b, &order))
        return FALSE;
      *result = (operator== WEFT_OPERATOR_LESS && order<0)
                || (operator== WEFT_OPERATOR_LESS_EQUAL && order <= 0)
                || (operator== WEFT_OPERATOR_GREATER && order> 0)
                || (operator== WEFT_OPERATOR_GREATER_EQUAL && order >= 0);
      return TRUE;
    }
}

/* `a < b < c` is `a < b and b < c`. */
static gboolean
evaluate_comparison (Run *run, const WeftExpressionNode *node, const WeftScope *scope, WeftValue *value)
{
  g_auto (WeftValue) a = WEFT_VALUE_INIT;
  gboolean result = TRUE;

  if (!evaluate_operand (run, node, 0, scope, &a))
    return FALSE;
  for (guint i = 0; i < node->operators->len && result; i++)
    {
      g_auto (WeftValue) b = WEFT_VALUE_INIT;

      if (!evaluate_operand (run, node, i + 1, scope, &b)
          || !compare (run, g_array_index (node->operators, WeftOperator, i), &a, &b, scope, &result))
        return FALSE;
      weft_value_clear (&a);
      a = weft_value_copy (&b);
    }
  *value = weft_value_boolean (result);
  return TRUE;
}

static gboolean
evaluate_not (Run *run, const WeftExpressionNode *node, const WeftScope *scope, WeftValue *value)
{
  g_auto (WeftValue) operand = WEFT_VALUE_INIT;

  if (!evaluate_operand (run, node, 0, scope, &operand))
    return FALSE;
  *value = weft_value_boolean (!weft_value_is_true (&operand));
  return TRUE;
}

static gboolean
evaluate_kind (Run *run, const WeftExpressionNode *node, const WeftScope *scope, WeftValue *value)
{
  switch (node->kind)
    {
    case WEFT_NODE_LITERAL:
      *value = weft_value_copy (&node->literal);
      return TRUE;
    case WEFT_NODE_NAME:
      return evaluate_name (run, node->name, scope, value);
    case WEFT_NODE_MEMBER:
      return evaluate_member (run, node, scope, value);
    case WEFT_NODE_INDEX:
      return evaluate_index (run, node, scope, value);
    case WEFT_NODE_SLICE:
      return evaluate_slice (run, node, scope, value);
    case WEFT_NODE_CALL:
      return evaluate_call (run, node, scope, value);
    case WEFT_NODE_LIST:
      return evaluate_list (run, node, scope, value);
    case WEFT_NODE_COMPREHENSION:
      return evaluate_comprehension (run, node, scope, value);
    case WEFT_NODE_NOT:
      return evaluate_not (run, node, scope, value);
    case WEFT_NODE_NEGATE:
      return evaluate_negate (run, node, scope, value);
    case WEFT_NODE_AND:
    case WEFT_NODE_OR:
      return evaluate_row (run, node, scope, value);
    case WEFT_NODE_CONDITIONAL:
      return evaluate_conditional (run, node, scope, value);
    case WEFT_NODE_ARITHMETIC:
      return evaluate_arithmetic (run, node, scope, value);
    case WEFT_NODE_COMPARISON:
    default:
      return evaluate_comparison (run, node, scope, value);
    }
}

static gboolean
evaluate (Run *run, const WeftExpressionNode *node, const WeftScope *scope, WeftValue *value)
{
  gboolean is_evaluated;

  if (++run->n_steps > MAX_STEPS)
    return fail (run, WEFT_ERROR_LIMIT, "more than %d steps", MAX_STEPS);
  if (++run->depth > MAX_DEPTH)
    return fail (run, WEFT_ERROR_LIMIT, "nested deeper than %d levels", MAX_DEPTH);
  is_evaluated = evaluate_kind (run, node, scope, value);
  run->depth--;
  /* Elements that are made count too, so that lists of lists are bounded. */
  if (is_evaluated && value->kind == WEFT_VALUE_LIST && node->kind >= WEFT_NODE_SLICE)
    run->n_steps += value->of.list->len;
  return is_evaluated;
}

/* @value is written, not cleared, and only if there is no error. */
gboolean
weft_expression_evaluate (const WeftExpression *self, const WeftScope *scope, WeftValue *value,
                          GError **error)
{
  g_autoptr (GError) cause = NULL;
  Run run = { .expression = self, .error = &cause };
  g_auto (WeftValue) result = WEFT_VALUE_INIT;

  if (evaluate (&run, self->root, scope, &result))
    {
      *value = weft_value_copy (&result);
      return TRUE;
    }
  g_propagate_error (error, g_steal_pointer (&cause));
  return FALSE;
}
