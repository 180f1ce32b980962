/* SPDX-License-Identifier: Apache-2.0 */
/* `weft fusions`: the families that there are, where they fit a model, and what a plan would replace. */
#include "base/weft-json.h"
#include "plugin/weft-plugin-registry.h"
#include "weft-command-load.h"
#include "weft-command-output.h"

/* How many modules of a family are printed before the rest is counted. */
#define N_MODULE_LINES 4

typedef struct
{
  WeftCommandSource source;
  WeftCommandFusion fusion;
  gboolean wants_plan;
  gboolean wants_tree;
} FusionsOptions;

static const GOptionEntry fusions_options[] = {
  { "plan", 0, 0, G_OPTION_ARG_NONE, WEFT_COMMAND_OPTION (FusionsOptions, wants_plan),
    "Show what would be replaced in DIR, by what and by which rules", NULL },
  { "tree", 0, 0, G_OPTION_ARG_NONE, WEFT_COMMAND_OPTION (FusionsOptions, wants_tree),
    "Print the module tree of DIR with what would be replaced, as --module-tree reads it", NULL },
  WEFT_COMMAND_FUSION_OPTIONS (FusionsOptions, fusion),
  WEFT_COMMAND_SOURCE_OPTIONS (FusionsOptions, source),
  G_OPTION_ENTRY_NULL,
};

static const WeftCommandExample fusions_examples[] = {
  { "Which families there are", "weft fusions" },
  { "Which of them fit a model, and where", "weft fusions Llama-3.1-8B" },
  { "What would be replaced", "weft fusions --plan Llama-3.1-8B --fusion gate_up --fusion qkv" },
  { NULL, NULL },
};

static WeftLoadPlan *
make_plan (WeftCommandCall *call, const WeftCommandFusion *fusion, GError **error)
{
  const FusionsOptions *options = call->options;
  g_autoptr (WeftLoadOptions) load_options = weft_command_load_options (&options->source, NULL, error);
  g_autoptr (WeftCheckpoint) checkpoint = NULL;

  if (load_options == NULL || !weft_command_add_fusion (fusion, load_options, error))
    return NULL;
  checkpoint = weft_command_open_source (call->arguments[0], &options->source, call, error);
  return checkpoint != NULL ? weft_load_plan_new (checkpoint, load_options, error) : NULL;
}

static void
add_string (JsonBuilder *builder, const gchar *name, const gchar *value)
{
  json_builder_set_member_name (builder, name);
  if (value != NULL)
    json_builder_add_string_value (builder, value);
  else
    json_builder_add_null_value (builder);
}

static void
print_family (const gchar *name, const gchar *plugin, const GStrv modules, const gchar *reason)
{
  guint n = modules != NULL ? g_strv_length (modules) : 0;

  weft_command_print ("%s  (plugin %s)\n", name, plugin);
  if (reason != NULL)
    weft_command_print ("    %s\n", reason);
  for (guint i = 0; i < MIN (n, N_MODULE_LINES); i++)
    weft_command_print ("    %s\n", modules[i]);
  if (n > N_MODULE_LINES)
    weft_command_print ("    and %u more\n", n - N_MODULE_LINES);
}

/* @executor: NULL: no model was named. */
static gboolean
show_family (WeftCommandCall *call, const gchar *name, WeftReplacementExecutor *executor,
             JsonBuilder *builder, GError **error)
{
  GType type = weft_plugin_registry_lookup (weft_plugin_registry_get_default (), WEFT_FEATURE_KIND_FUSION,
                                            name, error);
  g_autofree gchar *reason = NULL;
  g_auto (GStrv) modules =
      executor != NULL ? weft_replacement_executor_discover (executor, name, &reason, error) : NULL;

  if (type == G_TYPE_INVALID || (executor != NULL && modules == NULL))
    return FALSE;
  if (!call->is_json)
    {
      print_family (name, weft_feature_get_plugin_id (type), modules, reason);
      return TRUE;
    }
  json_builder_begin_object (builder);
  add_string (builder, "name", name);
  add_string (builder, "plugin", weft_feature_get_plugin_id (type));
  if (modules != NULL)
    {
      json_builder_set_member_name (builder, "modules");
      json_builder_begin_array (builder);
      for (guint i = 0; modules[i] != NULL; i++)
        json_builder_add_string_value (builder, modules[i]);
      json_builder_end_array (builder);
      add_string (builder, "reason", reason);
    }
  json_builder_end_object (builder);
  return TRUE;
}

/* The modules of the model that is planned, before anything is replaced. */
static WeftModuleTree *
get_modules (WeftCommandCall *call, WeftLoadPlan *plan, GError **error)
{
  WeftModuleTree *tree = weft_load_plan_get_module_tree (plan);

  if (tree != NULL && weft_module_tree_has_tensors (tree))
    return tree;
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_MISSING,
               "%s: what modules the model has is not known; give --module-tree", call->arguments[0]);
  return NULL;
}

/* Families look at the modules of a model. */
static WeftReplacementExecutor *
open_executor (WeftCommandCall *call, GError **error)
{
  static const WeftCommandFusion without = { .is_without = TRUE };
  g_autoptr (WeftLoadPlan) plan = make_plan (call, &without, error);
  WeftModuleTree *tree = plan != NULL ? get_modules (call, plan, error) : NULL;

  if (tree == NULL)
    return NULL;
  return weft_replacement_executor_new (
      tree, weft_checkpoint_get_config (weft_load_plan_get_checkpoint (plan)), call->arguments[0]);
}

static gint
list_families (WeftCommandCall *call, GError **error)
{
  g_auto (GStrv) names =
      weft_plugin_registry_list_names (weft_plugin_registry_get_default (), WEFT_FEATURE_KIND_FUSION);
  g_autoptr (WeftReplacementExecutor) executor = NULL;
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  g_autoptr (JsonNode) root = NULL;

  if (call->n_arguments > 0 && (executor = open_executor (call, error)) == NULL)
    return WEFT_COMMAND_FAILED;
  json_builder_begin_array (builder);
  for (guint i = 0; names[i] != NULL; i++)
    if (!show_family (call, names[i], executor, builder, error))
      return WEFT_COMMAND_FAILED;
  json_builder_end_array (builder);
  root = json_builder_get_root (builder);
  if (call->is_json)
    weft_command_print_json (root);
  return WEFT_COMMAND_DONE;
}

static void
print_modules (JsonArray *modules)
{
  for (guint i = 0; i < json_array_get_length (modules); i++)
    {
      JsonObject *module = json_array_get_object_element (modules, i);

      weft_command_print ("%s  %s -> %s  by %s\n",
                          json_array_get_string_element (json_object_get_array_member (module, "fqns"), 0),
                          json_object_get_string_member (module, "class"),
                          json_object_get_string_member (module, "new_class"),
                          json_object_get_string_member (module, "origin"));
    }
}

static gint
show_tree (WeftCommandCall *call, WeftLoadPlan *plan, GError **error)
{
  WeftReplacementExecutor *fusion = weft_load_plan_get_fusion (plan);
  WeftModuleTree *tree = get_modules (call, plan, error);
  g_autoptr (JsonNode) root = NULL;

  if (tree == NULL)
    return WEFT_COMMAND_FAILED;
  root = weft_module_tree_to_json (fusion != NULL ? weft_replacement_executor_get_tree (fusion) : tree);
  weft_command_print_json (root);
  return WEFT_COMMAND_DONE;
}

static gint
show_plan (WeftCommandCall *call, GError **error)
{
  const FusionsOptions *options = call->options;
  g_autoptr (WeftLoadPlan) plan = NULL;
  g_autoptr (JsonNode) root = NULL;

  if (call->n_arguments == 0)
    {
      weft_command_set_usage_error (error, "--plan and --tree need DIR");
      return WEFT_COMMAND_FAILED;
    }
  plan = make_plan (call, &options->fusion, error);
  if (plan == NULL)
    return WEFT_COMMAND_FAILED;
  if (options->wants_tree)
    return show_tree (call, plan, error);
  /* Why what is stored is not done is there. */
  weft_command_print_report (call, weft_load_plan_get_report (plan), FALSE);
  root =
      weft_load_plan_get_fusion (plan) != NULL
          ? weft_replacement_executor_to_json (weft_load_plan_get_fusion (plan))
          : weft_json_parse ("{\"modules\": [], \"rules\": [], \"parallel_styles\": {}}", -1, "plan", error);
  if (root == NULL)
    return WEFT_COMMAND_FAILED;
  if (call->is_json)
    weft_command_print_json (root);
  else
    {
      JsonArray *modules = json_object_get_array_member (json_node_get_object (root), "modules");
      JsonArray *rules = json_object_get_array_member (json_node_get_object (root), "rules");

      print_modules (modules);
      weft_command_note (call, "%u modules would be replaced, with %u rules for their weights",
                         json_array_get_length (modules), json_array_get_length (rules));
    }
  return WEFT_COMMAND_DONE;
}

static gint
run_fusions (WeftCommandCall *call, GError **error)
{
  const FusionsOptions *options = call->options;

  if (options->wants_plan || options->wants_tree)
    return show_plan (call, error);
  if (options->fusion.fusions == NULL && options->fusion.fusion_config == NULL
      && options->fusion.plan_overrides == NULL && !options->fusion.is_without)
    return list_families (call, error);
  weft_command_set_usage_error (error, "what is to be replaced goes with --plan or --tree");
  return WEFT_COMMAND_FAILED;
}

const WeftCommandEntry weft_fusions_command = {
  .name = "fusions",
  .arguments = "[DIR]",
  .summary = "List the families of fusions, where they fit a model, and what would be replaced",
  .description =
      "A family of fusions replaces modules by others that hold the same weights in another layout: gate and up projections as "
      "one, query, key and value as one. Without DIR the families that plugins provide are listed; with DIR, the modules that "
      "each fits, or why it fits none. Nothing is read but headers.\n\n"
      "--plan shows what the options, or else config.json, ask for: each module with its class, the class in its place and who asked; "
      "with --json the options, the rules that take the weights there and the styles of the new tensors too.",
  .max_arguments = 1,
  .options = fusions_options,
  .options_size = sizeof (FusionsOptions),
  .examples = fusions_examples,
  .run = run_fusions,
};
