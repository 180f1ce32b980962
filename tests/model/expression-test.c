/* SPDX-License-Identifier: Apache-2.0 */
/* The expressions of architecture files: what each gives, and how wrong ones are refused. */
#include <string.h>

#include "base/weft-json.h"
#include "model/weft-expression-private.h"

/* The fields that the expressions of the tables see. */
static const gchar *const fields =
    "{'n': 7, 'big': 9223372036854775807, 'heads': [4, 2, 8], 'name': 'gelu', 'empty': [], 'nothing': null, 'yes': true,"
    " 'rate': 0.5, 'rope': {'type': 'yarn', 'factor': 4}, 'nested': [[1, 2], [3]]}";

static gboolean
find_field (GObject *config, const gchar *name, WeftValue *value, GError **error)
{
  JsonObject *object = g_object_get_data (config, "fields");

  if (strcmp (name, "broken") == 0)
    g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT, "field 'broken' is broken");
  if (!json_object_has_member (object, name))
    return FALSE;
  *value = weft_value_from_json (json_object_get_member (object, name));
  return TRUE;
}

static GObject *
make_config (void)
{
  g_autofree gchar *text = g_strdelimit (g_strdup (fields), "'", '"');
  g_autoptr (JsonNode) root = weft_json_parse (text, -1, "fields", NULL);
  GObject *config = g_object_new (G_TYPE_OBJECT, NULL);

  g_object_set_data_full (config, "fields", json_node_dup_object (root), (GDestroyNotify) json_object_unref);
  return config;
}

static gboolean
evaluate (const gchar *text, gchar **result, GError **error)
{
  g_autoptr (GObject) config = make_config ();
  g_auto (WeftValue) index = weft_value_integer (3);
  g_auto (WeftValue) value = WEFT_VALUE_INIT;
  WeftScope outer = { .config = config, .find_field = find_field };
  WeftScope scope = { .outer = &outer, .name = "index", .value = &index };
  g_autoptr (WeftExpression) expression = weft_expression_parse (text, error);

  if (expression == NULL || !weft_expression_evaluate (expression, &scope, &value, error))
    return FALSE;
  g_assert_cmpstr (weft_expression_get_text (expression), ==, text);
  *result = weft_value_to_string (&value);
  return TRUE;
}

static void
test_values (void)
{
  static const struct
  {
    const gchar *text;
    const gchar *result;
  } rows[] = {
    /* literals */
    { "42", "42" },
    { " 1.5 ", "1.5" },
    { "1e3", "1000.0" },
    { "'a b'", "'a b'" },
    { "\"it's\"", "'it's'" },
    { "[None, null, True, false]", "[None, None, True, False]" },
    { "[]", "[]" },
    { "[1, 2,]", "[1, 2]" },
    { "(1, 2)", "[1, 2]" },
    { "(3)", "3" },
    /* names, innermost first */
    { "n", "7" },
    { "index", "3" },
    { "config.n", "7" },
    { "rope.type", "'yarn'" },
    { "rope['factor']", "4" },
    { "heads[0]", "4" },
    { "heads[-1]", "8" },
    { "nested[0][1]", "2" },
    { "heads[1:]", "[2, 8]" },
    { "heads[:-1]", "[4, 2]" },
    { "heads[-5:9]", "[4, 2, 8]" },
    { "heads[2:1]", "[]" },
    { "name[:2] + name[-1:] + name[3:1]", "'geu'" },
    /* arithmetic, as Python does it */
    { "1 + 2 * 3", "7" },
    { "(1 + 2) * 3", "9" },
    { "2 - 3 - 4", "-5" },
    { "2 ** 3 ** 2", "512" },
    { "-2 ** 2", "-4" },
    { "2 ** -1", "0.5" },
    { "7 // 2", "3" },
    { "-7 // 2", "-4" },
    { "-7 % 3", "2" },
    { "7 % -3", "-2" },
    { "7 / 2", "3.5" },
    { "6 / 3", "2.0" },
    { "7.5 // 2", "3.0" },
    { "True + 1", "2" },
    { "big", "9223372036854775807" },
    { "'a' + 'b'", "'ab'" },
    { "len('\\\\.') + len('\\'')", "3" },
    { "[1] + [2]", "[1, 2]" },
    { "[0] * 3", "[0, 0, 0]" },
    { "2 * ['a']", "['a', 'a']" },
    { "[0] * -1", "[]" },
    /* comparisons and truth */
    { "1 < 2 < 3", "True" },
    { "1 < 2 > 2", "False" },
    { "1 == 1.0", "True" },
    { "'a' < 'b'", "True" },
    { "[1, [2]] == [1, [2]]", "True" },
    { "1 != '1'", "True" },
    { "2 in heads", "True" },
    { "3 not in heads", "True" },
    { "'type' in rope", "True" },
    { "'el' in name", "True" },
    { "'n' in config", "True" },
    { "'m' in config", "False" },
    { "nothing is None", "True" },
    { "n is not None", "True" },
    { "0 is False", "False" },
    { "not n", "False" },
    { "not empty and yes", "True" },
    { "nothing or 'x'", "'x'" },
    { "0 and broken", "0" },
    { "1 or broken", "1" },
    { "1 if yes else broken", "1" },
    { "broken if nothing else 2", "2" },
    { "1 if 0 else 2 if 0 else 3", "3" },
    /* lists made of lists */
    { "[i * 2 for i in range(3)]", "[0, 2, 4]" },
    { "[i for i in heads if i > 2]", "[4, 8]" },
    { "[[j + i for j in range(i)] for i in range(3)]", "[[], [1], [2, 3]]" },
    { "sum(h for h in heads if h < 8)", "6" },
    { "[i if i else 9 for i in range(2)]", "[9, 1]" },
    /* functions */
    { "len(heads) + len(name) + len(rope)", "9" },
    { "min(3, 1, 2) + max(heads)", "9" },
    { "min(1.5, 2)", "1.5" },
    { "abs(-3)", "3" },
    { "int(3.9) + int(-3.9) + int('12') + int(True)", "13" },
    { "[round(0.5), round(1.5), round(2.5)]", "[0, 2, 2]" },
    { "[ceil(1.2), floor(-1.2), floor(4)]", "[2, -2, 4]" },
    { "sum([1, 2.5])", "3.5" },
    { "sum([])", "0" },
    { "range(2, 8, 3)", "[2, 5]" },
    { "range(3, 0, -1)", "[3, 2, 1]" },
    { "range(-2)", "[]" },
    { "reversed(heads)", "[8, 2, 4]" },
    { "any([0, 1])", "True" },
    { "all([0, 1])", "False" },
    { "get('n', 1)", "7" },
    { "get('m', 1)", "1" },
    { "get(rope, 'factor', 1)", "4" },
    { "get(rope, 'absent', 1)", "1" },
    { "get(nothing, 'x', 2)", "2" },
    { "get(config, 'n', 2)", "7" },
    { "is_list(heads) and is_int(n) and is_str(name) and is_dict(rope) and is_bool(yes) and is_float(rate)",
      "True" },
    { "is_int(yes)", "False" },
    { "keys(rope)", "['type', 'factor']" },
    { "str(n) + str('x')", "'7x'" },
    { "float(1)", "1.0" },
    { "bool([])", "False" },
    { "sqrt(16)", "4.0" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autofree gchar *result = NULL;
      g_autoptr (GError) error = NULL;

      g_test_message ("%s", rows[i].text);
      evaluate (rows[i].text, &result, &error);
      g_assert_no_error (error);
      g_assert_cmpstr (result, ==, rows[i].result);
    }
}

static void
test_refused (void)
{
  static const struct
  {
    const gchar *text;
    gint code;
    const gchar *message;
  } rows[] = {
    /* the parser */
    { "", WEFT_ERROR_FORMAT, "expression '', character 1: expected a value, found the end" },
    { "1 +", WEFT_ERROR_FORMAT, "expected a value, found the end" },
    { "1 2", WEFT_ERROR_FORMAT, "character 3: expected an operator or the end, found '2'" },
    { "(1", WEFT_ERROR_FORMAT, "expected a comma or the closing bracket" },
    { "[1, 2", WEFT_ERROR_FORMAT, "expected a comma or the closing bracket" },
    { "f(1 2)", WEFT_ERROR_FORMAT, "expected a comma" },
    { "heads[1", WEFT_ERROR_FORMAT, "expected ']'" },
    { "heads[", WEFT_ERROR_FORMAT, "expected a value" },
    { "'abc", WEFT_ERROR_FORMAT, "expected the end of a text" },
    { "'a\\n'", WEFT_ERROR_FORMAT, "with no backslash but before another" },
    { "'a\\", WEFT_ERROR_FORMAT, "expected the end of a text" },
    { "a.", WEFT_ERROR_FORMAT, "expected the name of a member" },
    { "a.if", WEFT_ERROR_FORMAT, "expected the name of a member" },
    { "1 if 2", WEFT_ERROR_FORMAT, "expected 'else'" },
    { "[i for 3 in x]", WEFT_ERROR_FORMAT, "expected a name" },
    { "[i for i of x]", WEFT_ERROR_FORMAT, "expected 'in'" },
    { "1x", WEFT_ERROR_FORMAT, "expected a whole number" },
    { "1.5x", WEFT_ERROR_FORMAT, "expected the end of a number" },
    { "9223372036854775808", WEFT_ERROR_FORMAT, "at most 64 bits" },
    { "a = 1", WEFT_ERROR_FORMAT, "expected an operator" },
    { "lambda: 1", WEFT_ERROR_FORMAT, "expected an operator" },
    { "{1}", WEFT_ERROR_FORMAT, "expected a value" },
    { "in", WEFT_ERROR_FORMAT, "expected a value" },
    /* names and members */
    { "absent", WEFT_ERROR_MISSING, "the config has no field 'absent'" },
    { "broken", WEFT_ERROR_FORMAT, "expression 'broken': field 'broken' is broken" },
    { "rope.absent", WEFT_ERROR_MISSING, "the object has no member 'absent'" },
    { "config.absent", WEFT_ERROR_MISSING, "no field 'absent'" },
    { "n.x", WEFT_ERROR_FORMAT, "'x' is asked of a whole number" },
    { "heads[3]", WEFT_ERROR_FORMAT, "index 3 leaves a list of 3" },
    { "heads[-4]", WEFT_ERROR_FORMAT, "index -4 leaves" },
    { "heads[1.0]", WEFT_ERROR_FORMAT, "is indexed by a real number" },
    { "n[0]", WEFT_ERROR_FORMAT, "a whole number is indexed" },
    { "n[:1]", WEFT_ERROR_FORMAT, "a slice of a whole number" },
    { "heads['a':]", WEFT_ERROR_FORMAT, "bounded by a text" },
    /* arithmetic */
    { "big + 1", WEFT_ERROR_LIMIT, "a number leaves 64 bits" },
    { "-big - 2", WEFT_ERROR_LIMIT, "a number leaves 64 bits" },
    { "-(-big - 1)", WEFT_ERROR_LIMIT, "a number leaves 64 bits" },
    { "(-big - 1) // -1", WEFT_ERROR_LIMIT, "a number leaves 64 bits" },
    { "big * 2", WEFT_ERROR_LIMIT, "a number leaves 64 bits" },
    { "10 ** 19", WEFT_ERROR_LIMIT, "a number leaves 64 bits" },
    { "2 ** big", WEFT_ERROR_LIMIT, "a number leaves 64 bits" },
    { "sum([big, 1])", WEFT_ERROR_LIMIT, "a number leaves 64 bits" },
    { "1 // 0", WEFT_ERROR_FORMAT, "a division by zero" },
    { "1 % 0", WEFT_ERROR_FORMAT, "a division by zero" },
    { "1 / 0", WEFT_ERROR_FORMAT, "a division by zero" },
    { "1.5 // 0.0", WEFT_ERROR_FORMAT, "a division by zero" },
    { "1e308 * 10", WEFT_ERROR_LIMIT, "not finite" },
    { "'a' + 1", WEFT_ERROR_FORMAT, "arithmetic with a text and a whole number" },
    { "'a' * 2", WEFT_ERROR_FORMAT, "arithmetic with" },
    { "-'a'", WEFT_ERROR_FORMAT, "the negative of a text" },
    { "1 < 'a'", WEFT_ERROR_FORMAT, "the order of a whole number and a text" },
    { "1 in 2", WEFT_ERROR_FORMAT, "a whole number is looked for in a whole number" },
    { "1 is 1", WEFT_ERROR_FORMAT, "expected None, True or False" },
    { "[i for i in n]", WEFT_ERROR_FORMAT, "goes over a whole number" },
    /* functions */
    { "eval('1')", WEFT_ERROR_FORMAT, "there is no function 'eval'" },
    { "len()", WEFT_ERROR_FORMAT, "len: 0 arguments, expected 1 to 1" },
    { "len(1)", WEFT_ERROR_FORMAT, "expected a list" },
    { "range('a')", WEFT_ERROR_FORMAT, "range: argument 1 is a text" },
    { "range(1, 2, 0)", WEFT_ERROR_FORMAT, "a step of zero" },
    { "range(-big, big)", WEFT_ERROR_LIMIT, "64 bits" },
    { "range(-big - 1, 0, -1)", WEFT_ERROR_LIMIT, "64 bits" },
    { "range(65537)", WEFT_ERROR_LIMIT, "more than 65536 elements" },
    { "[0] * 65537", WEFT_ERROR_LIMIT, "more than 65536 elements" },
    { "range(40000) + range(40000)", WEFT_ERROR_LIMIT, "more than 65536 elements" },
    { "[range(65536) for i in range(65536)]", WEFT_ERROR_LIMIT, "more than 1000000 steps" },
    { "[[1 for j in range(2000)] for i in range(2000)]", WEFT_ERROR_LIMIT, "more than 1000000 steps" },
    { "min([])", WEFT_ERROR_FORMAT, "min: of nothing" },
    { "max(1, 'a')", WEFT_ERROR_FORMAT, "max: expected numbers" },
    { "abs(-big - 1)", WEFT_ERROR_LIMIT, "64 bits" },
    { "abs('a')", WEFT_ERROR_FORMAT, "expected a number" },
    { "int('x')", WEFT_ERROR_FORMAT, "no whole number" },
    { "int(1e300)", WEFT_ERROR_LIMIT, "not exact" },
    { "int([])", WEFT_ERROR_FORMAT, "expected a number" },
    { "sqrt(-1)", WEFT_ERROR_FORMAT, "not negative" },
    { "sum(['a'])", WEFT_ERROR_FORMAT, "a list of numbers" },
    { "str([])", WEFT_ERROR_FORMAT, "expected a number or a text" },
    { "keys(1)", WEFT_ERROR_FORMAT, "expected an object" },
    { "get(1)", WEFT_ERROR_FORMAT, "get takes" },
    { "get(1, 'a', 2)", WEFT_ERROR_FORMAT, "get asks a whole number" },
    { "get('broken', 2)", WEFT_ERROR_FORMAT, "is broken" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autofree gchar *result = NULL;
      g_autoptr (GError) error = NULL;

      g_test_message ("%s", rows[i].text);
      g_assert_false (evaluate (rows[i].text, &result, &error));
      g_assert_error (error, WEFT_ERROR, rows[i].code);
      g_test_message ("%s", error->message);
      g_assert_nonnull (strstr (error->message, rows[i].message));
    }
}

/* However deep or long a text is, it is refused, and quickly. */
static void
test_bounds (void)
{
  static const struct
  {
    const gchar *start;
    const gchar *part;
    const gchar *message;
    guint n_times;
  } rows[] = {
    { "", "(", "less nesting", 5000 },
    { "", "[", "less nesting", 5000 },
    { "", "-", "less nesting", 5000 },
    { "", "not ", "less nesting", 4000 },
    { "1", "**1", "less nesting", 4000 },
    { "1", "+1", "operators in a row", 4000 },
    { "a", ".b", "members", 4000 },
    { "a", "[0]", "members", 4000 },
    { "f(", "f(", "less nesting", 4000 },
    { "1", "0", "at most 64 bits", 5000 },
    { "", "1 if 1 else ", "less nesting", 1000 },
    { "", "[x for x in ", "less nesting", 1000 },
    { "'", "a", "longer than 16384", 20000 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GString) text = g_string_new (rows[i].start);
      g_autofree gchar *result = NULL;
      g_autoptr (GError) error = NULL;

      for (guint k = 0; k < rows[i].n_times; k++)
        g_string_append (text, rows[i].part);
      g_assert_false (evaluate (text->str, &result, &error));
      g_assert_nonnull (error);
      g_test_message ("%.80s", strstr (error->message, "character") != NULL
                                   ? strstr (error->message, "character")
                                   : error->message);
      g_assert_nonnull (strstr (error->message, rows[i].message));
    }
}

/* Where a text is an expression: the members of these objects, ... */
static const gchar *const expression_tables[] = { "with", "set", NULL };
/* ... and these members themselves, or the items of their lists. */
static const gchar *const expression_members[] = { "shape",  "if",     "repeat",     "when", "expression",
                                                   "absent", "always", "activation", NULL };

/* Parses every expression at or below @node; what is no expression is walked through. */
static guint
parse_all (JsonNode *node, gboolean is_expression, const gchar *file)
{
  guint n_parsed = 0;

  if (JSON_NODE_HOLDS_OBJECT (node))
    {
      g_autoptr (GList) names = json_object_get_members (json_node_get_object (node));

      for (GList *name = names; name != NULL; name = name->next)
        {
          JsonNode *member = json_object_get_member (json_node_get_object (node), name->data);
          gboolean is_table =
              g_strv_contains (expression_tables, name->data) && JSON_NODE_HOLDS_OBJECT (member);
          g_autoptr (GList) values = is_table ? json_object_get_values (json_node_get_object (member)) : NULL;

          for (GList *value = values; value != NULL; value = value->next)
            n_parsed += parse_all (value->data, TRUE, file);
          if (!is_table)
            n_parsed += parse_all (member, g_strv_contains (expression_members, name->data), file);
        }
    }
  else if (JSON_NODE_HOLDS_ARRAY (node))
    {
      JsonArray *items = json_node_get_array (node);

      for (guint i = 0; i < json_array_get_length (items); i++)
        n_parsed += parse_all (json_array_get_element (items, i), is_expression, file);
    }
  else if (is_expression && json_node_get_value_type (node) == G_TYPE_STRING)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (WeftExpression) expression = weft_expression_parse (json_node_get_string (node), &error);

      if (expression == NULL)
        g_test_fail_printf ("%s: '%s': %s", file, json_node_get_string (node), error->message);
      n_parsed++;
    }
  return n_parsed;
}

/* A definition is compiled only for a model that has it, so an expression that cannot be read would wait for its user. */
static void
test_shipped (void)
{
  g_autofree gchar *folder = g_build_filename (g_getenv ("WEFT_SOURCE_ROOT"), "data", "architectures", NULL);
  g_autoptr (GDir) files = g_dir_open (folder, 0, NULL);
  const gchar *file;
  guint n_parsed = 0;

  g_assert_nonnull (files);
  while ((file = g_dir_read_name (files)) != NULL)
    if (g_str_has_suffix (file, ".json"))
      {
        g_autofree gchar *path = g_build_filename (folder, file, NULL);
        g_autoptr (GError) error = NULL;
        g_autoptr (JsonNode) root = NULL;
        g_autofree gchar *text = NULL;
        gsize length;

        g_assert_true (g_file_get_contents (path, &text, &length, NULL));
        root = weft_json_parse (text, length, file, &error);
        g_assert_no_error (error);
        n_parsed += parse_all (root, FALSE, file);
      }
  g_assert_cmpuint (n_parsed, >, 10000);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/model/expression/values", test_values);
  g_test_add_func ("/model/expression/refused", test_refused);
  g_test_add_func ("/model/expression/bounds", test_bounds);
  g_test_add_func ("/model/expression/shipped", test_shipped);
  return g_test_run ();
}
