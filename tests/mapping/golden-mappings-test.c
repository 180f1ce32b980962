/* SPDX-License-Identifier: Apache-2.0 */
/* Every shipped mapping, dumped, is equal to what the reference implementation holds: kinds, patterns as written and as
 * used, regular expressions, operations with their parameters, inverses. */
#include "golden-private.h"

static WeftMappingRegistry *registry;

/* `{"op": NAME, "params": {...}}` as the dump has it: `{"type": NAME, ...}`. */
static JsonNode *
translate_operation (JsonObject *golden)
{
  g_autoptr (JsonObject) operation = json_object_new ();
  JsonObject *parameters = json_object_get_object_member (golden, "params");
  g_autoptr (GList) members = json_object_get_members (parameters);

  json_object_set_string_member (operation, "type", json_object_get_string_member (golden, "op"));
  for (GList *member = members; member != NULL; member = member->next)
    json_object_set_member (operation, member->data,
                            json_node_copy (json_object_get_member (parameters, member->data)));
  return json_node_init_object (json_node_alloc (), operation);
}

static JsonNode *
translate_operations (JsonArray *golden)
{
  g_autoptr (JsonArray) operations = json_array_new ();

  for (guint i = 0; i < json_array_get_length (golden); i++)
    json_array_add_element (operations, translate_operation (json_array_get_object_element (golden, i)));
  return json_node_init_array (json_node_alloc (), operations);
}

static void
compare_member (const gchar *entry, const gchar *name, JsonNode *golden, JsonObject *dumped)
{
  JsonNode *found = json_object_get_member (dumped, g_str_equal (name, "kind") ? "type" : name);
  g_autoptr (JsonNode) wanted = g_str_equal (name, "operations")
                                    ? translate_operations (json_node_get_array (golden))
                                    : json_node_copy (golden);
  g_autofree gchar *wanted_text = weft_json_to_text (wanted, FALSE);
  g_autofree gchar *found_text = found != NULL ? weft_json_to_text (found, FALSE) : g_strdup ("nothing");

  if (found != NULL && json_node_equal (wanted, found))
    return;
  g_test_message ("%s: %s: wanted %s, found %s", entry, name, wanted_text, found_text);
  g_test_fail ();
}

static void
compare_rules (const gchar *entry, JsonObject *golden, JsonObject *dumped)
{
  /* What the golden file says about a rule, not of it; the inverse is compared in its turn. */
  const gchar *const others[] = { "guard", "matcher", "reversible", "reverse", "reverse_note", NULL };
  g_autoptr (GList) members = json_object_get_members (golden);

  for (GList *member = members; member != NULL; member = member->next)
    if (!g_strv_contains (others, member->data))
      compare_member (entry, member->data, json_object_get_member (golden, member->data), dumped);
}

static void
compare_both_ways (const gchar *entry, JsonObject *golden, JsonObject *dumped)
{
  compare_rules (entry, golden, dumped);
  g_assert_true (json_object_has_member (dumped, "reverse"));
  compare_rules (entry, json_object_get_object_member (golden, "reverse"),
                 json_object_get_object_member (dumped, "reverse"));
}

static void
test_entry (gconstpointer pointer)
{
  JsonObject *golden = (JsonObject *) pointer;
  const gchar *name = json_object_get_string_member (golden, "name");
  JsonArray *transforms = json_object_get_array_member (golden, "transforms");
  const gchar *wanted_alias = json_object_get_string_member_with_default (golden, "alias_of", NULL);
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftTransformList) list = weft_mapping_registry_lookup (registry, name, &error);
  g_autofree gchar *alias = weft_mapping_registry_dup_alias (registry, name, NULL);
  g_autoptr (JsonNode) dumped = NULL;

  g_assert_no_error (error);
  /* Some aliases have a list of their own, with other spellings of the same rules. */
  if (alias != NULL)
    g_assert_cmpstr (alias, ==, wanted_alias);
  g_assert_nonnull (list);
  dumped = weft_mapping_describe_json (list);
  g_assert_cmpuint (json_array_get_length (json_node_get_array (dumped)), ==,
                    json_array_get_length (transforms));
  for (guint i = 0; i < json_array_get_length (transforms); i++)
    compare_both_ways (name, json_array_get_object_element (transforms, i),
                       json_array_get_object_element (json_node_get_array (dumped), i));
}

/* The shipped names are those of the golden file, each. */
static void
test_names (gconstpointer pointer)
{
  JsonObject *entries = (JsonObject *) pointer;
  g_auto (GStrv) names = weft_mapping_registry_list_names (registry);

  g_assert_cmpuint (g_strv_length (names), ==, json_object_get_size (entries));
  for (guint i = 0; names[i] != NULL; i++)
    g_assert_true (json_object_has_member (entries, names[i]));
}

/* A class is found by its own name, else by its model type. */
static void
test_class_lookup (gconstpointer pointer)
{
  JsonArray *lookups = (JsonArray *) pointer;

  for (guint i = 0; i < json_array_get_length (lookups); i++)
    {
      JsonObject *lookup = json_array_get_object_element (lookups, i);
      const gchar *class_name = json_object_get_string_member (lookup, "class");
      const gchar *model_type = json_object_get_string_member (lookup, "model_type");
      gboolean by_class = weft_mapping_registry_has (registry, class_name);

      g_assert_cmpstr (json_object_get_string_member (lookup, "via"), ==, by_class ? "class" : "model_type");
      g_assert_cmpstr (json_object_get_string_member (lookup, "entry"), ==,
                       by_class ? class_name : model_type);
      g_assert_true (weft_mapping_registry_has (registry, json_object_get_string_member (lookup, "entry")));
    }
}

int
main (int argc, char **argv)
{
  g_autoptr (JsonNode) root = NULL;
  g_autoptr (GList) names = NULL;
  JsonObject *golden;
  JsonObject *entries;
  int status;

  g_test_init (&argc, &argv, NULL);
  golden = load_golden ("mappings.json", &root);
  entries = json_object_get_object_member (golden, "entries");
  registry = weft_mapping_registry_new_shipped ();
  names = json_object_get_members (entries);
  for (GList *name = names; name != NULL; name = name->next)
    {
      g_autofree gchar *path = g_strconcat ("/mapping/golden/", name->data, NULL);

      json_object_set_string_member (json_object_get_object_member (entries, name->data), "name", name->data);
      g_test_add_data_func (path, json_object_get_object_member (entries, name->data), test_entry);
    }
  g_test_add_data_func ("/mapping/names", entries, test_names);
  if (json_object_has_member (golden, "class_lookup"))
    g_test_add_data_func ("/mapping/class-lookup", json_object_get_array_member (golden, "class_lookup"),
                          test_class_lookup);
  status = g_test_run ();
  g_clear_object (&registry);
  return status;
}
