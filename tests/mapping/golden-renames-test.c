/* SPDX-License-Identifier: Apache-2.0 */
/* Every golden key, in both directions, becomes what the reference implementation makes of it, except where Weft
 * differs on purpose; each such key is checked for Weft's own answer. */
#include "golden-differences.h"
#include "golden-private.h"

static WeftMappingRegistry *registry;

/* The list of an entry; looking up copies it, so that each case starts fresh. */
static WeftTransformList *
new_list (JsonObject *golden)
{
  g_autoptr (GError) error = NULL;
  WeftTransformList *list =
      weft_mapping_registry_lookup (registry, json_object_get_string_member (golden, "entry"), &error);

  g_assert_no_error (error);
  for (guint i = 0;
       json_object_has_member (golden, "scope_prefix") && i < weft_transform_list_get_n_transforms (list);
       i++)
    weft_weight_transform_set_scope (weft_transform_list_get_transform (list, i),
                                     json_object_get_string_member (golden, "scope_prefix"),
                                     json_object_get_string_member (golden, "base_model_prefix"));
  return list;
}

/* The steps as the golden file writes them; @n_rules counts from the end for a reversed list. */
static gchar *
write_steps (const WeftRenamedKey *key, guint n_rules)
{
  g_autoptr (JsonArray) steps = json_array_new ();
  g_autoptr (JsonNode) node = NULL;

  for (guint i = 0; i < weft_renamed_key_get_n_steps (key); i++)
    {
      JsonArray *step = json_array_new ();
      guint transform = weft_renamed_key_get_step_transform (key, i);

      json_array_add_int_element (step, n_rules > 0 ? n_rules - 1 - transform : transform);
      json_array_add_string_element (step, weft_renamed_key_get_step_pattern (key, i));
      json_array_add_array_element (steps, step);
    }
  node = json_node_init_array (json_node_alloc (), steps);
  return weft_json_to_text (node, FALSE);
}

static gboolean
check (const gchar *entry, const gchar *key, const gchar *what, const gchar *found, const gchar *wanted)
{
  if (g_strcmp0 (found, wanted) == 0)
    return TRUE;
  g_test_message ("%s: '%s': %s: wanted '%s', found '%s'", entry, key, what, wanted, found);
  g_test_fail ();
  return FALSE;
}

static const gchar *
get_text (JsonObject *golden, const gchar *member)
{
  return json_object_get_string_member_with_default (golden, member, NULL);
}

static gint
find_difference (const gchar *entry, const gchar *key)
{
  for (guint i = 0; i < G_N_ELEMENTS (differences); i++)
    if (g_strcmp0 (differences[i].entry, entry) == 0 && g_strcmp0 (differences[i].key, key) == 0)
      return (gint) i;
  return -1;
}

static void
check_forward (JsonObject *golden, WeftTransformList *list, const WeftRenamedKey *renamed)
{
  const gchar *entry = get_text (golden, "entry");
  const gchar *key = get_text (golden, "key");
  gint difference = find_difference (entry, key);
  g_autofree gchar *steps = write_steps (renamed, 0);
  g_autofree gchar *wanted_steps = weft_json_to_text (json_object_get_member (golden, "steps"), FALSE);

  if (difference >= 0 && differences[difference].renamed != NULL)
    {
      check (entry, key, "renamed", weft_renamed_key_get_name (renamed), differences[difference].renamed);
      g_assert_cmpstr (differences[difference].renamed, !=, get_text (golden, "renamed"));
      return;
    }
  check (entry, key, "renamed", weft_renamed_key_get_name (renamed), get_text (golden, "renamed"));
  check (entry, key, "converter", weft_renamed_key_get_converter_pattern (renamed),
         get_text (golden, "converter_pattern"));
  check (entry, key, "steps", steps, wanted_steps);
}

/* The golden file sends a name through the converter and then, with its result, through all renamings. */
static void
check_reverse (JsonObject *golden, WeftTransformList *list)
{
  const gchar *entry = get_text (golden, "entry");
  const gchar *key = get_text (golden, "key");
  gint difference = find_difference (entry, key);
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftTransformList) inverse =
      weft_transform_list_dup_inverse (list, WEFT_INVERSE_FLAGS_NONE, &error);
  g_autoptr (WeftRenamedKey) reverted = NULL;
  g_autofree gchar *name = NULL;

  g_assert_no_error (error);
  reverted = weft_transform_list_rename_key (inverse, get_text (golden, "renamed"), NULL, NULL, &error);
  g_assert_no_error (error);
  if (weft_renamed_key_get_converter (reverted) >= 0)
    name = weft_transform_list_rename_output (inverse, weft_renamed_key_get_name (reverted), &error);
  else
    name = g_strdup (weft_renamed_key_get_name (reverted));
  g_assert_no_error (error);
  if (difference >= 0 && differences[difference].reverted != NULL)
    {
      check (entry, key, "reverted", name, differences[difference].reverted);
      g_assert_cmpstr (differences[difference].reverted, !=, get_text (golden, "reverted"));
      return;
    }
  check (entry, key, "reverted", name, get_text (golden, "reverted"));
  check (entry, key, "reverted converter", weft_renamed_key_get_converter_pattern (reverted),
         get_text (golden, "reverted_converter_pattern"));
}

static void
test_cases (gconstpointer pointer)
{
  JsonArray *cases = (JsonArray *) pointer;

  for (guint i = 0; i < json_array_get_length (cases); i++)
    {
      JsonObject *golden = json_array_get_object_element (cases, i);
      g_autoptr (WeftTransformList) list = new_list (golden);
      g_autoptr (GError) error = NULL;
      g_autoptr (WeftRenamedKey) renamed = NULL;

      for (guint k = 0; json_object_has_member (golden, "after")
                        && k < json_array_get_length (json_object_get_array_member (golden, "after"));
           k++)
        {
          const gchar *earlier =
              json_array_get_string_element (json_object_get_array_member (golden, "after"), k);
          g_autoptr (WeftRenamedKey) before =
              weft_transform_list_rename_key (list, earlier, NULL, NULL, &error);

          g_assert_no_error (error);
          g_assert_nonnull (before);
        }
      renamed = weft_transform_list_rename_key (list, get_text (golden, "key"), NULL, NULL, &error);
      g_assert_no_error (error);
      check_forward (golden, list, renamed);
      check_reverse (golden, list);
    }
}

/* Weft keeps a name that the model knows, and takes the dot after the prefix as a dot. */
static const struct
{
  const gchar *key;
  const gchar *renamed;
} repair_differences[] = {
  { "x", "x" },
  { "modelXlayers.0.w", "modelXlayers.0.w" },
};

static void
test_prefix_repair (gconstpointer pointer)
{
  JsonArray *cases = (JsonArray *) pointer;

  for (guint i = 0; i < json_array_get_length (cases); i++)
    {
      JsonObject *golden = json_array_get_object_element (cases, i);
      JsonArray *names = json_object_get_array_member (golden, "model_keys");
      g_autoptr (GHashTable) model_keys = g_hash_table_new (g_str_hash, g_str_equal);
      const gchar *wanted = get_text (golden, "renamed");
      g_autofree gchar *repaired = NULL;

      for (guint k = 0; k < json_array_get_length (names); k++)
        g_hash_table_add (model_keys, (gpointer) json_array_get_string_element (names, k));
      for (guint k = 0; k < G_N_ELEMENTS (repair_differences); k++)
        if (g_str_equal (repair_differences[k].key, get_text (golden, "key")))
          wanted = repair_differences[k].renamed;
      repaired = weft_transform_repair_prefix (get_text (golden, "key"),
                                               get_text (golden, "base_model_prefix"), model_keys);
      check ("prefix repair", get_text (golden, "key"), "renamed", repaired, wanted);
    }
}

int
main (int argc, char **argv)
{
  g_autoptr (JsonNode) root = NULL;
  JsonObject *golden;
  int status;

  g_test_init (&argc, &argv, NULL);
  g_test_set_nonfatal_assertions ();
  golden = load_golden ("renames.json", &root);
  registry = weft_mapping_registry_new_shipped ();
  g_test_add_data_func ("/mapping/renames", json_object_get_array_member (golden, "cases"), test_cases);
  g_test_add_data_func ("/mapping/prefix-repair", json_object_get_array_member (golden, "prefix_repair"),
                        test_prefix_repair);
  status = g_test_run ();
  g_clear_object (&registry);
  return status;
}
