/* SPDX-License-Identifier: Apache-2.0 */
/* `weft mappings`: the table of conversion mappings, one of them in full, or what one makes of keys. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/weft-json.h"
#include "mapping/weft-mapping.h"
#include "pipeline/weft-load-options.h"
#include "weft-command-output.h"

typedef struct
{
  gchar **files;
  gchar *model;
  gchar *module_tree;
  gchar *scope;
  gchar *base_prefix;
  gboolean wants_rules;
  gboolean is_applied;
  gboolean is_reversed;
} MappingsOptions;

static const GOptionEntry mappings_options[] = {
  { "for", 0, 0, G_OPTION_ARG_FILENAME, WEFT_COMMAND_OPTION (MappingsOptions, model),
    "The rules of the model in this folder, in the order they are tried, with scope and origin", "DIR" },
  { "module-tree", 0, 0, G_OPTION_ARG_FILENAME, WEFT_COMMAND_OPTION (MappingsOptions, module_tree),
    "With --for: what the runtime expects, as JSON", "FILE" },
  { "rules", 0, 0, G_OPTION_ARG_NONE, WEFT_COMMAND_OPTION (MappingsOptions, wants_rules),
    "Print the rules alone, as a mapping file has them", NULL },
  { "apply", 'a', 0, G_OPTION_ARG_NONE, WEFT_COMMAND_OPTION (MappingsOptions, is_applied),
    "Read keys from standard input, a line each, and print what becomes of them", NULL },
  { "reverse", 'r', 0, G_OPTION_ARG_NONE, WEFT_COMMAND_OPTION (MappingsOptions, is_reversed),
    "With --apply: from runtime names to published ones", NULL },
  { "scope", 0, 0, G_OPTION_ARG_STRING, WEFT_COMMAND_OPTION (MappingsOptions, scope),
    "With --apply: the sub-model that the rules are for, such as vision_tower", "S" },
  { "base-prefix", 0, 0, G_OPTION_ARG_STRING, WEFT_COMMAND_OPTION (MappingsOptions, base_prefix),
    "With --scope: the base model prefix, which keys may or may not carry", "P" },
  { "mapping", 0, 0, G_OPTION_ARG_FILENAME_ARRAY, WEFT_COMMAND_OPTION (MappingsOptions, files),
    "A mapping of your own, NAME.json; it comes before a shipped one of that name", "FILE" },
  G_OPTION_ENTRY_NULL,
};

static const WeftCommandExample mappings_examples[] = {
  { "Which models have a mapping", "weft mappings" },
  { "One in full", "weft mappings mixtral" },
  { "Which rules a checkpoint gets, and from where", "weft mappings --for llava-1.5-7b" },
  { "Start a mapping of your own from it", "weft mappings mixtral --rules > mymodel.json" },
  { "What becomes of a key",
    "echo model.layers.0.block_sparse_moe.gate.weight | weft mappings mixtral --apply" },
  { "And back", "echo model.layers.0.mlp.gate.weight | weft mappings mixtral --apply --reverse" },
  { "Try your own", "weft mappings mymodel --mapping mymodel.json --apply < keys.txt" },
  { NULL, NULL },
};

static WeftMappingRegistry *
open_registry (const MappingsOptions *options, GError **error)
{
  g_autoptr (WeftMappingRegistry) registry = weft_mapping_registry_new (error);

  for (guint i = 0; registry != NULL && options->files != NULL && options->files[i] != NULL; i++)
    if (!weft_mapping_registry_add_file (registry, options->files[i], error))
      return NULL;
  return g_steal_pointer (&registry);
}

static gint
list_mappings (WeftCommandCall *call, WeftMappingRegistry *registry)
{
  g_auto (GStrv) names = weft_mapping_registry_list_names (registry);
  g_autoptr (JsonArray) array = json_array_new ();
  g_autoptr (JsonNode) root = NULL;

  for (guint i = 0; names[i] != NULL; i++)
    {
      if (call->is_json)
        json_array_add_string_element (array, names[i]);
      else
        weft_command_print ("%s\n", names[i]);
    }
  if (call->is_json)
    {
      root = json_node_init_array (json_node_alloc (), array);
      weft_command_print_json (root);
    }
  return WEFT_COMMAND_DONE;
}

/* Says which names the files of --mapping have, since one is looked up by its name. Empty if there are none. */
static gchar *
describe_files (GStrv files)
{
  GString *text = g_string_new (NULL);

  for (guint i = 0; files != NULL && files[i] != NULL; i++)
    {
      g_autofree gchar *name = g_path_get_basename (files[i]);

      g_string_append_printf (text, "; %s holds '%.*s'", files[i], (gint) (strlen (name) - strlen (".json")),
                              name);
    }
  return g_string_free (text, FALSE);
}

static WeftTransformList *
look_up (WeftMappingRegistry *registry, const gchar *name, GStrv files, GError **error)
{
  g_autofree gchar *held = describe_files (files);
  g_autoptr (GError) local_error = NULL;
  WeftTransformList *list = weft_mapping_registry_lookup (registry, name, &local_error);

  if (list == NULL && local_error == NULL)
    g_set_error (error, WEFT_ERROR, WEFT_ERROR_MISSING,
                 "there is no mapping '%s'%s; `weft mappings` lists those that ship", name, held);
  else if (list == NULL)
    g_propagate_error (error, g_steal_pointer (&local_error));
  return list;
}

static gint
print_rules (WeftTransformList *list)
{
  g_autoptr (JsonNode) root = weft_mapping_to_json (list);

  weft_command_print_json (root);
  return WEFT_COMMAND_DONE;
}

static gint
print_mapping (WeftMappingRegistry *registry, const gchar *name, WeftTransformList *list)
{
  g_autofree gchar *alias_of = weft_mapping_registry_dup_alias (registry, name, NULL);
  g_autoptr (JsonObject) object = json_object_new ();
  g_autoptr (JsonNode) root = NULL;

  json_object_set_string_member (object, "name", name);
  if (alias_of != NULL)
    json_object_set_string_member (object, "alias_of", alias_of);
  else
    json_object_set_null_member (object, "alias_of");
  json_object_set_member (object, "transforms", weft_mapping_describe_json (list));
  root = json_node_init_object (json_node_alloc (), object);
  weft_command_print_json (root);
  return WEFT_COMMAND_DONE;
}

/* The assembled list of the model whose config.json is in a folder. */
static WeftTransformList *
assemble (WeftMappingRegistry *registry, const MappingsOptions *options, GError **error)
{
  g_autofree gchar *path = g_file_test (options->model, G_FILE_TEST_IS_DIR)
                               ? g_build_filename (options->model, "config.json", NULL)
                               : g_strdup (options->model);
  g_autoptr (WeftLoadOptions) load_options = weft_load_options_new ();
  g_autoptr (JsonNode) config = weft_json_load_file (path, error);

  if (config == NULL)
    return NULL;
  if (options->module_tree != NULL)
    {
      g_autoptr (WeftModuleTree) tree = weft_module_tree_load (options->module_tree, error);

      if (tree == NULL || !weft_module_tree_mark_custom_code (tree, config, path, error))
        return NULL;
      weft_load_options_set_module_tree (load_options, tree);
    }
  weft_load_options_set_registry (load_options, registry);
  return weft_load_options_assemble (load_options, config, path, error);
}

static void
print_assembled_rule (WeftWeightTransform *rule)
{
  g_autofree gchar *description = weft_weight_transform_describe (rule);
  const gchar *path = weft_weight_transform_get_origin_path (rule);
  const gchar *via = weft_weight_transform_get_origin_via (rule);

  weft_command_print ("%s", description);
  if (via != NULL)
    weft_command_print ("  (by %s of %s%s%s)", strcmp (via, "class") == 0 ? "the class" : "the model type",
                        *path != '\0' ? "'" : "the model", path, *path != '\0' ? "'" : "");
  weft_command_print ("\n");
}

static gint
print_assembled (WeftCommandCall *call, WeftTransformList *list)
{
  if (call->is_json)
    {
      g_autoptr (JsonNode) root = weft_mapping_describe_assembled_json (list);

      weft_command_print_json (root);
      return WEFT_COMMAND_DONE;
    }
  for (guint i = 0; i < weft_transform_list_get_n_transforms (list); i++)
    print_assembled_rule (weft_transform_list_get_transform (list, i));
  return WEFT_COMMAND_DONE;
}

/* The rules as the command line wants them: scoped, and turned round. */
static WeftTransformList *
prepare_rules (WeftTransformList *list, const MappingsOptions *options, GError **error)
{
  for (guint i = 0; options->scope != NULL && i < weft_transform_list_get_n_transforms (list); i++)
    weft_weight_transform_set_scope (weft_transform_list_get_transform (list, i), options->scope,
                                     options->base_prefix);
  if (options->is_reversed)
    return weft_transform_list_dup_inverse (list, WEFT_INVERSE_FLAGS_NONE, error);
  return g_object_ref (list);
}

static void
add_result (JsonArray *results, const gchar *key, const gchar *result, const gchar *converter)
{
  JsonObject *object = json_object_new ();

  json_object_set_string_member (object, "key", key);
  json_object_set_string_member (object, "result", result);
  if (converter != NULL)
    json_object_set_string_member (object, "converter", converter);
  else
    json_object_set_null_member (object, "converter");
  json_array_add_object_element (results, object);
}

/* Adds what becomes of the key to @results, or prints it if that is NULL. */
static gboolean
apply_to_key (WeftTransformList *rules, const gchar *key, JsonArray *results, GError **error)
{
  g_autoptr (WeftRenamedKey) renamed = weft_transform_list_rename_key (rules, key, NULL, NULL, error);
  g_autofree gchar *result = NULL;
  const gchar *converter_pattern;

  if (renamed == NULL)
    return FALSE;
  /* On the way back a converter comes first, and its outputs are renamed. */
  if (weft_transform_list_is_inverse (rules) && weft_renamed_key_get_converter (renamed) >= 0)
    result = weft_transform_list_rename_output (rules, weft_renamed_key_get_name (renamed), error);
  else
    result = g_strdup (weft_renamed_key_get_name (renamed));
  if (result == NULL)
    return FALSE;
  converter_pattern = weft_renamed_key_get_converter_pattern (renamed);
  if (results != NULL)
    add_result (results, key, result, converter_pattern);
  else
    weft_command_print ("%s\t%s\t%s\n", key, result, converter_pattern != NULL ? converter_pattern : "");
  return TRUE;
}

/* Reads the next line of standard input without its newline. FALSE at the end, or with an error. */
static gboolean
read_key (gchar **line, gsize *capacity, guint number, GError **error)
{
  gssize n_bytes = getline (line, capacity, stdin);

  if (n_bytes < 0)
    {
      if (ferror (stdin))
        g_set_error (error, WEFT_ERROR, WEFT_ERROR_IO, "standard input cannot be read: %s",
                     g_strerror (errno));
      return FALSE;
    }
  if (n_bytes > 0 && (*line)[n_bytes - 1] == '\n')
    (*line)[--n_bytes] = '\0';
  if (!g_utf8_validate (*line, n_bytes, NULL))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT, "line %u of standard input is no UTF-8 text",
                   number);
      return FALSE;
    }
  return TRUE;
}

static gint
apply_to_standard_input (WeftTransformList *rules, WeftCommandCall *call, GError **error)
{
  g_autoptr (JsonArray) results = call->is_json ? json_array_new () : NULL;
  g_autoptr (JsonNode) root = NULL;
  g_autoptr (GError) local_error = NULL;
  gchar *line = NULL;
  gsize capacity = 0;

  for (guint number = 1; local_error == NULL && read_key (&line, &capacity, number, &local_error); number++)
    if (!g_cancellable_set_error_if_cancelled (call->cancellable, &local_error))
      apply_to_key (rules, line, results, &local_error);
  free (line);
  if (local_error != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&local_error));
      return WEFT_COMMAND_FAILED;
    }
  if (results != NULL)
    {
      root = json_node_init_array (json_node_alloc (), results);
      weft_command_print_json (root);
    }
  return WEFT_COMMAND_DONE;
}

static gboolean
check_arguments (const gchar *name, const MappingsOptions *options, GError **error)
{
  if (name == NULL && options->model == NULL && options->is_applied)
    weft_command_set_usage_error (error, "--apply needs the NAME of a mapping, or --for");
  else if (name != NULL && options->model != NULL)
    weft_command_set_usage_error (error, "the NAME of a mapping and --for exclude each other");
  else if (options->model == NULL && options->module_tree != NULL)
    weft_command_set_usage_error (error, "--module-tree goes with --for");
  else
    return TRUE;
  return FALSE;
}

static gint
run_mappings (WeftCommandCall *call, GError **error)
{
  const MappingsOptions *options = call->options;
  const gchar *name = call->n_arguments > 0 ? call->arguments[0] : NULL;
  g_autoptr (WeftMappingRegistry) registry = NULL;
  g_autoptr (WeftTransformList) list = NULL;
  g_autoptr (WeftTransformList) rules = NULL;

  if (!check_arguments (name, options, error))
    return WEFT_COMMAND_FAILED;
  registry = open_registry (options, error);
  if (registry == NULL)
    return WEFT_COMMAND_FAILED;
  if (name == NULL && options->model == NULL)
    return list_mappings (call, registry);
  list = name != NULL ? look_up (registry, name, options->files, error) : assemble (registry, options, error);
  if (list == NULL)
    return WEFT_COMMAND_FAILED;
  if (options->wants_rules)
    return print_rules (list);
  if (!options->is_applied)
    return name != NULL ? print_mapping (registry, name, list) : print_assembled (call, list);
  rules = prepare_rules (list, options, error);
  return rules != NULL ? apply_to_standard_input (rules, call, error) : WEFT_COMMAND_FAILED;
}

const WeftCommandEntry weft_mappings_command = {
  .name = "mappings",
  .arguments = "[NAME]",
  .summary = "List the conversion mappings, show one in full, or try it on keys",
  .description =
      "A mapping is the ordered list of rules that take a published checkpoint of a model type (or class) into its runtime "
      "layout. Without NAME the names are listed; with NAME the mapping is printed as JSON: its rules, the patterns as they are "
      "used, and the inverse of each rule.\n\n"
      "With --for, the rules of a model are printed as a load of it tries them: those of the model and of each part that is a model "
      "itself, found by class or else by model type and bound to the path of that part, then those for old names. With --json each rule has "
      "scope_prefix, base_model_prefix and origin.\n\n"
      "With --apply, keys are read from standard input and sent through the rules in their order, with one state. For each a "
      "line is printed: the key, what becomes of it, and the source pattern of the converter that claims it (empty for none), "
      "separated by tabs; with --json an array of objects with `key`, `result` and `converter`. A `*` in a result is a number that the converter fills in.",
  .max_arguments = 1,
  .options = mappings_options,
  .options_size = sizeof (MappingsOptions),
  .examples = mappings_examples,
  .run = run_mappings,
};
