/* SPDX-License-Identifier: Apache-2.0 */
/* `weft plugins`: what was found on the plugin path, and why something cannot be used. */
#include "plugin/weft-plugin-registry.h"
#include "weft-command-output.h"
#include "weft-enums.h"

typedef struct
{
  gboolean only_failed;
} PluginsOptions;

static const GOptionEntry plugins_options[] = {
  { "failed", 0, 0, G_OPTION_ARG_NONE, WEFT_COMMAND_OPTION (PluginsOptions, only_failed),
    "Only plugins that cannot be used, with the reason; exit code 3 if there is one", NULL },
  G_OPTION_ENTRY_NULL,
};

static const WeftCommandExample plugins_examples[] = {
  { "What is there", "weft plugins" },
  { "One in full", "weft plugins transpose" },
  { "Why is mine not used?", "WEFT_PLUGIN_PATH=$PWD/build weft plugins --failed" },
  { NULL, NULL },
};

static const gchar *
get_state_name (WeftPlugin *plugin)
{
  switch (weft_plugin_get_state (plugin))
    {
    case WEFT_PLUGIN_STATE_USABLE:
      return "usable";
    case WEFT_PLUGIN_STATE_DENIED:
      return "denied";
    default:
      return "failed";
    }
}

static gchar *
get_kind_name (WeftFeatureKind kind)
{
  g_autoptr (GEnumClass) kinds = g_type_class_ref (WEFT_TYPE_FEATURE_KIND);
  GEnumValue *value = g_enum_get_value (kinds, (gint) kind);

  return g_strdup (value != NULL ? value->value_nick : "unknown");
}

/* A file whose descriptor cannot be read has no id; its path is its name. */
static const gchar *
get_name (WeftPlugin *plugin)
{
  const gchar *id = weft_plugin_get_id (plugin);

  return id != NULL ? id : weft_plugin_get_path (plugin);
}

static void
add_string (JsonBuilder *builder, const gchar *member, const gchar *text)
{
  json_builder_set_member_name (builder, member);
  if (text != NULL)
    json_builder_add_string_value (builder, text);
  else
    json_builder_add_null_value (builder);
}

static void
add_features (JsonBuilder *builder, WeftPlugin *plugin)
{
  json_builder_set_member_name (builder, "features");
  json_builder_begin_array (builder);
  for (guint i = 0; i < weft_plugin_get_n_features (plugin); i++)
    {
      g_autofree gchar *kind = get_kind_name (weft_plugin_get_feature_kind (plugin, i));

      json_builder_begin_object (builder);
      add_string (builder, "kind", kind);
      add_string (builder, "name", weft_plugin_get_feature_name (plugin, i));
      json_builder_set_member_name (builder, "denied");
      json_builder_add_boolean_value (builder, weft_plugin_is_feature_denied (plugin, i));
      json_builder_end_object (builder);
    }
  json_builder_end_array (builder);
}

/* NULL before the descriptor was read. */
static gchar *
format_abi (WeftPlugin *plugin)
{
  gint major = weft_plugin_get_abi_major (plugin);

  return major >= 0 ? g_strdup_printf ("%d.%d", major, weft_plugin_get_abi_minor (plugin)) : NULL;
}

static void
add_plugin (JsonBuilder *builder, WeftPlugin *plugin)
{
  g_autofree gchar *abi = format_abi (plugin);

  json_builder_begin_object (builder);
  add_string (builder, "id", weft_plugin_get_id (plugin));
  add_string (builder, "state", get_state_name (plugin));
  add_string (builder, "reason", weft_plugin_get_reason (plugin));
  add_string (builder, "description", weft_plugin_get_description (plugin));
  add_string (builder, "version", weft_plugin_get_version (plugin));
  add_string (builder, "license", weft_plugin_get_license (plugin));
  add_string (builder, "origin", weft_plugin_get_origin (plugin));
  add_string (builder, "abi", abi);
  add_string (builder, "path", weft_plugin_get_path (plugin));
  add_features (builder, plugin);
  json_builder_end_object (builder);
}

static void
print_json (GPtrArray *plugins)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  g_autoptr (JsonNode) root = NULL;

  json_builder_begin_array (builder);
  for (guint i = 0; i < plugins->len; i++)
    add_plugin (builder, plugins->pdata[i]);
  json_builder_end_array (builder);
  root = json_builder_get_root (builder);
  weft_command_print_json (root);
}

static gchar *
join_feature_names (WeftPlugin *plugin)
{
  GString *names = g_string_new (NULL);

  for (guint i = 0; i < weft_plugin_get_n_features (plugin); i++)
    g_string_append_printf (names, "%s%s%s", i > 0 ? ", " : "", weft_plugin_get_feature_name (plugin, i),
                            weft_plugin_is_feature_denied (plugin, i) ? " (denied)" : "");
  return g_string_free (names, FALSE);
}

static void
print_line (WeftPlugin *plugin)
{
  g_autofree gchar *features = join_feature_names (plugin);
  gboolean is_usable = weft_plugin_get_state (plugin) == WEFT_PLUGIN_STATE_USABLE;

  weft_command_print ("%-24s %-7s %s\n", get_name (plugin), get_state_name (plugin),
                      is_usable ? features : weft_plugin_get_reason (plugin));
}

static void
print_in_full (WeftPlugin *plugin)
{
  g_autofree gchar *abi = format_abi (plugin);
  const struct
  {
    const gchar *label, *text;
  } lines[] = {
    { "id", weft_plugin_get_id (plugin) },
    { "state", get_state_name (plugin) },
    { "reason", weft_plugin_get_reason (plugin) },
    { "description", weft_plugin_get_description (plugin) },
    { "version", weft_plugin_get_version (plugin) },
    { "license", weft_plugin_get_license (plugin) },
    { "origin", weft_plugin_get_origin (plugin) },
    { "path", weft_plugin_get_path (plugin) },
    { "abi", abi },
  };

  for (guint i = 0; i < G_N_ELEMENTS (lines); i++)
    if (lines[i].text != NULL)
      weft_command_print ("%-12s %s\n", lines[i].label, lines[i].text);
  for (guint i = 0; i < weft_plugin_get_n_features (plugin); i++)
    {
      g_autofree gchar *kind = get_kind_name (weft_plugin_get_feature_kind (plugin, i));

      weft_command_print ("%-12s %s%s\n", kind, weft_plugin_get_feature_name (plugin, i),
                          weft_plugin_is_feature_denied (plugin, i) ? " (denied)" : "");
    }
}

/* The plugins that the command line asks for. */
static GPtrArray *
choose_plugins (const gchar *name, gboolean only_failed)
{
  GListModel *registry = G_LIST_MODEL (weft_plugin_registry_get_default ());
  GPtrArray *chosen = g_ptr_array_new_with_free_func (g_object_unref);

  for (guint i = 0; i < g_list_model_get_n_items (registry); i++)
    {
      g_autoptr (WeftPlugin) plugin = g_list_model_get_item (registry, i);
      gboolean is_failed = weft_plugin_get_state (plugin) == WEFT_PLUGIN_STATE_FAILED;

      if ((name == NULL || g_strcmp0 (get_name (plugin), name) == 0) && (is_failed || !only_failed))
        g_ptr_array_add (chosen, g_steal_pointer (&plugin));
    }
  return chosen;
}

static gint
run_plugins (WeftCommandCall *call, GError **error)
{
  const PluginsOptions *options = call->options;
  const gchar *id = call->n_arguments > 0 ? call->arguments[0] : NULL;
  g_autoptr (GPtrArray) plugins = choose_plugins (id, options->only_failed);

  if (id != NULL && plugins->len == 0 && !options->only_failed)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_MISSING,
                   "plugin '%s' was not found on the plugin path; `weft plugins` lists what was", id);
      return WEFT_COMMAND_FAILED;
    }
  if (call->is_json)
    print_json (plugins);
  for (guint i = 0; i < plugins->len && !call->is_json; i++)
    {
      if (id != NULL)
        print_in_full (plugins->pdata[i]);
      else
        print_line (plugins->pdata[i]);
    }
  return options->only_failed && plugins->len > 0 ? WEFT_COMMAND_DIFFERS : WEFT_COMMAND_DONE;
}

const WeftCommandEntry weft_plugins_command = {
  .name = "plugins",
  .arguments = "[ID]",
  .summary = "List the plugins, or show one in full",
  .description =
      "Plugins are shared objects that bring ops, kinds of rules, fusions and quantizers. They are looked for in the folders "
      "of WEFT_PLUGIN_PATH, in the user's folder and in that of the library (WEFT_PLUGIN_SYSTEM_PATH replaces it).\n\n"
      "A plugin that cannot be used stays in the list with the reason. WEFT_PLUGIN_DENY takes globs of plugins and "
      "features that shall not be used.",
  .differs = "with --failed: there is a plugin that cannot be used",
  .max_arguments = 1,
  .options = plugins_options,
  .options_size = sizeof (PluginsOptions),
  .examples = plugins_examples,
  .run = run_plugins,
};
