/* SPDX-License-Identifier: Apache-2.0 */
/* Finds plugin files, decides which may be used, and keeps the table of features. It is opened when it is first asked;
 * there is no cache, so none goes stale. */
#include "plugin/weft-plugin-registry.h"

#include <string.h>

#include "plugin/weft-plugin-private.h"

#define PLUGIN_SUFFIX ".so"
#define N_KINDS (WEFT_FEATURE_KIND_COMMUNICATOR + 1)

struct _WeftPluginRegistry
{
  GObject parent_instance;

  /* Recursive: the init of a plugin may ask the registry. */
  GRecMutex mutex;
  gboolean is_opened;
  GPtrArray *plugins;
  GHashTable *features[N_KINDS];
  WeftPlugin *runtime_plugin;
};

static const gchar *const kind_names[N_KINDS] = { "op", "transform", "fusion", "quantizer", "replacement", "communicator" };

/* A type remembers what it is registered as. */
static GQuark
feature_name_quark (void)
{
  return g_quark_from_static_string ("weft-feature-name");
}

static GQuark
feature_plugin_quark (void)
{
  return g_quark_from_static_string ("weft-feature-plugin");
}

/* Finding files. */

static gint
compare_names (gconstpointer a, gconstpointer b)
{
  return strcmp (*(const gchar *const *) a, *(const gchar *const *) b);
}

static void
append_path (GPtrArray *paths, const gchar *found)
{
  g_autofree gchar *path = g_canonicalize_filename (found, NULL);

  if (!g_ptr_array_find_with_equal_func (paths, path, g_str_equal, NULL))
    g_ptr_array_add (paths, g_steal_pointer (&path));
}

static void
append_folder (GPtrArray *paths, const gchar *folder)
{
  g_autoptr (GDir) dir = g_dir_open (folder, 0, NULL);
  g_autoptr (GPtrArray) names = g_ptr_array_new_with_free_func (g_free);
  const gchar *name;

  if (dir == NULL)
    return;
  while ((name = g_dir_read_name (dir)) != NULL)
    if (g_str_has_suffix (name, PLUGIN_SUFFIX))
      g_ptr_array_add (names, g_strdup (name));
  g_ptr_array_sort (names, compare_names);
  for (guint i = 0; i < names->len; i++)
    {
      g_autofree gchar *path = g_build_filename (folder, names->pdata[i], NULL);

      append_path (paths, path);
    }
}

static void
append_tree (GPtrArray *paths, const gchar *folder)
{
  static const gchar *const sub_folders[] = { "ops", "fusions", "quantizers" };

  append_folder (paths, folder);
  for (guint i = 0; i < G_N_ELEMENTS (sub_folders); i++)
    {
      g_autofree gchar *sub_folder = g_build_filename (folder, sub_folders[i], NULL);

      append_folder (paths, sub_folder);
    }
}

/* A folder that is named but not there is kept: it becomes a plugin that failed, with the reason. */
static void
append_search_path (GPtrArray *paths, const gchar *search_path)
{
  g_auto (GStrv) folders = g_strsplit (search_path, G_SEARCHPATH_SEPARATOR_S, -1);

  for (guint i = 0; folders[i] != NULL; i++)
    {
      if (folders[i][0] != '\0' && !g_file_test (folders[i], G_FILE_TEST_EXISTS))
        append_path (paths, folders[i]);
      else if (folders[i][0] != '\0')
        append_tree (paths, folders[i]);
    }
}

static GPtrArray *
find_paths (void)
{
  const gchar *first = g_getenv ("WEFT_PLUGIN_PATH");
  const gchar *system = g_getenv ("WEFT_PLUGIN_SYSTEM_PATH");
  GPtrArray *paths = g_ptr_array_new_with_free_func (g_free);

  if (first != NULL)
    append_search_path (paths, first);
  if (system != NULL)
    append_search_path (paths, system);
  else
    {
      g_autofree gchar *user_folder = g_build_filename (g_get_user_data_dir (), "weft-1", "plugins", NULL);

      append_tree (paths, user_folder);
      append_tree (paths, WEFT_PLUGINDIR);
    }
  return paths;
}

/* Deciding. */

/* The glob of WEFT_PLUGIN_DENY that matches, or NULL. */
static const gchar *
find_denying_glob (const gchar *const *globs, const gchar *name)
{
  for (guint i = 0; globs[i] != NULL; i++)
    if (globs[i][0] != '\0' && g_pattern_match_simple (globs[i], name))
      return globs[i];
  return NULL;
}

static void
apply_denials (WeftPlugin *plugin, const gchar *const *globs)
{
  const gchar *glob = find_denying_glob (globs, weft_plugin_get_id (plugin));

  if (glob != NULL)
    {
      weft_plugin_deny (plugin, glob);
      return;
    }
  for (guint i = 0; i < weft_plugin_get_n_features (plugin); i++)
    if (find_denying_glob (globs, weft_plugin_get_feature_name (plugin, i)) != NULL)
      weft_plugin_deny_feature (plugin, i);
}

static gboolean
has_usable_id (WeftPluginRegistry *self, const gchar *id, const gchar **path)
{
  for (guint i = 0; i < self->plugins->len; i++)
    {
      WeftPlugin *plugin = self->plugins->pdata[i];

      if (weft_plugin_get_state (plugin) == WEFT_PLUGIN_STATE_USABLE
          && g_str_equal (weft_plugin_get_id (plugin), id))
        {
          *path = weft_plugin_get_path (plugin);
          return TRUE;
        }
    }
  return FALSE;
}

static gboolean
check_duplicates (WeftPluginRegistry *self, WeftPlugin *plugin)
{
  const gchar *path = NULL;

  if (has_usable_id (self, weft_plugin_get_id (plugin), &path))
    {
      weft_plugin_fail (plugin, "plugin '%s' is already there: %s", weft_plugin_get_id (plugin), path);
      return FALSE;
    }
  for (guint i = 0; i < weft_plugin_get_n_features (plugin); i++)
    {
      const gchar *name = weft_plugin_get_feature_name (plugin, i);
      WeftFeatureKind kind = weft_plugin_get_feature_kind (plugin, i);
      GType type = GPOINTER_TO_SIZE (g_hash_table_lookup (self->features[kind], name));

      if (type != 0 && !weft_plugin_is_feature_denied (plugin, i))
        {
          weft_plugin_fail (
              plugin, "%s '%s' is already provided by plugin '%s'; name one of the two in WEFT_PLUGIN_DENY",
              kind_names[kind], name, weft_feature_get_plugin_id (type));
          return FALSE;
        }
      if (g_type_from_name (weft_plugin_get_feature_type_name (plugin, i)) != 0)
        {
          weft_plugin_fail (plugin, "type '%s' of %s '%s' exists already in this process",
                            weft_plugin_get_feature_type_name (plugin, i), kind_names[kind], name);
          return FALSE;
        }
    }
  return TRUE;
}

static void
add_feature (WeftPluginRegistry *self, WeftFeatureKind kind, const gchar *name, GType type,
             WeftPlugin *plugin)
{
  g_type_set_qdata (type, feature_name_quark (), (gpointer) g_intern_string (name));
  g_type_set_qdata (type, feature_plugin_quark (), (gpointer) g_intern_string (weft_plugin_get_id (plugin)));
  g_hash_table_insert (self->features[kind], g_strdup (name), GSIZE_TO_POINTER (type));
}

static void
admit (WeftPluginRegistry *self, WeftPlugin *plugin, const gchar *const *globs)
{
  if (weft_plugin_get_state (plugin) == WEFT_PLUGIN_STATE_USABLE)
    apply_denials (plugin, globs);
  if (weft_plugin_get_state (plugin) == WEFT_PLUGIN_STATE_USABLE && check_duplicates (self, plugin)
      && weft_plugin_start (plugin))
    {
      for (guint i = 0; i < weft_plugin_get_n_features (plugin); i++)
        if (!weft_plugin_is_feature_denied (plugin, i))
          add_feature (self, weft_plugin_get_feature_kind (plugin, i),
                       weft_plugin_get_feature_name (plugin, i),
                       g_type_from_name (weft_plugin_get_feature_type_name (plugin, i)), plugin);
    }
  if (weft_plugin_get_state (plugin) == WEFT_PLUGIN_STATE_FAILED)
    g_info ("plugin %s: %s", weft_plugin_get_path (plugin), weft_plugin_get_reason (plugin));
}

static void
lock_opened (WeftPluginRegistry *self)
{
  const gchar *denied;
  g_autoptr (GPtrArray) paths = NULL;
  g_auto (GStrv) globs = NULL;

  g_rec_mutex_lock (&self->mutex);
  if (self->is_opened)
    return;
  self->is_opened = TRUE;
  denied = g_getenv ("WEFT_PLUGIN_DENY");
  globs = g_strsplit_set (denied != NULL ? denied : "", ",: ", -1);
  paths = find_paths ();
  for (guint i = 0; i < paths->len; i++)
    {
      WeftPlugin *plugin = weft_plugin_open (paths->pdata[i]);

      admit (self, plugin, (const gchar *const *) globs);
      g_ptr_array_add (self->plugins, plugin);
    }
}

/* The list of plugins. */

static GType
weft_plugin_registry_get_item_type (GListModel *model)
{
  return WEFT_TYPE_PLUGIN;
}

static guint
weft_plugin_registry_get_n_items (GListModel *model)
{
  WeftPluginRegistry *self = WEFT_PLUGIN_REGISTRY (model);
  guint n_items;

  lock_opened (self);
  n_items = self->plugins->len;
  g_rec_mutex_unlock (&self->mutex);
  return n_items;
}

static gpointer
weft_plugin_registry_get_item (GListModel *model, guint position)
{
  WeftPluginRegistry *self = WEFT_PLUGIN_REGISTRY (model);
  gpointer plugin = NULL;

  lock_opened (self);
  if (position < self->plugins->len)
    plugin = g_object_ref (self->plugins->pdata[position]);
  g_rec_mutex_unlock (&self->mutex);
  return plugin;
}

static void
weft_plugin_registry_list_model_init (GListModelInterface *iface)
{
  iface->get_item_type = weft_plugin_registry_get_item_type;
  iface->get_n_items = weft_plugin_registry_get_n_items;
  iface->get_item = weft_plugin_registry_get_item;
}

G_DEFINE_FINAL_TYPE_WITH_CODE (WeftPluginRegistry, weft_plugin_registry, G_TYPE_OBJECT,
                               G_IMPLEMENT_INTERFACE (G_TYPE_LIST_MODEL,
                                                      weft_plugin_registry_list_model_init))

static void
weft_plugin_registry_finalize (GObject *object)
{
  WeftPluginRegistry *self = WEFT_PLUGIN_REGISTRY (object);

  for (guint kind = 0; kind < N_KINDS; kind++)
    g_hash_table_unref (self->features[kind]);
  g_ptr_array_unref (self->plugins);
  g_rec_mutex_clear (&self->mutex);
  G_OBJECT_CLASS (weft_plugin_registry_parent_class)->finalize (object);
}

static void
weft_plugin_registry_class_init (WeftPluginRegistryClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = weft_plugin_registry_finalize;
}

static void
weft_plugin_registry_init (WeftPluginRegistry *self)
{
  g_rec_mutex_init (&self->mutex);
  self->plugins = g_ptr_array_new_with_free_func (g_object_unref);
  for (guint kind = 0; kind < N_KINDS; kind++)
    self->features[kind] = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
}

/**
 * weft_plugin_registry_get_default:
 *
 * Returns: (transfer none): the registry of this process
 * Since: 1.0
 */
WeftPluginRegistry *
weft_plugin_registry_get_default (void)
{
  static WeftPluginRegistry *registry;

  if (g_once_init_enter (&registry))
    g_once_init_leave (&registry, g_object_new (WEFT_TYPE_PLUGIN_REGISTRY, NULL));
  return registry;
}

static gboolean
check_new_feature (WeftPluginRegistry *self, WeftFeatureKind kind, const gchar *name, GType type,
                   GError **error)
{
  GType known = GPOINTER_TO_SIZE (g_hash_table_lookup (self->features[kind], name));

  if (name[0] == '\0' || !g_type_is_a (type, G_TYPE_OBJECT) || G_TYPE_IS_ABSTRACT (type))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_PLUGIN,
                   "%s '%s' cannot be registered: '%s' is no class that can be instantiated",
                   kind_names[kind], name, type != 0 ? g_type_name (type) : "(none)");
      return FALSE;
    }
  if (known != 0)
    {
      g_set_error (
          error, WEFT_ERROR, WEFT_ERROR_CONFLICT,
          "%s '%s' cannot be registered as '%s': plugin '%s' provides it as '%s'; name that one in WEFT_PLUGIN_DENY",
          kind_names[kind], name, g_type_name (type), weft_feature_get_plugin_id (known),
          g_type_name (known));
      return FALSE;
    }
  return TRUE;
}

/**
 * weft_plugin_registry_register:
 * @self: a registry
 * @kind: what the feature is
 * @name: its name in JSON and on the command line
 * @type: the class that implements it
 * @error: return location
 *
 * Adds a feature for the life of this process, such as a class written in Python or JavaScript.
 *
 * Returns: whether it was added
 * Errors: %WEFT_ERROR_CONFLICT if the name is taken, %WEFT_ERROR_PLUGIN if @type is no class with instances
 * Since: 1.0
 */
gboolean
weft_plugin_registry_register (WeftPluginRegistry *self, WeftFeatureKind kind, const gchar *name, GType type,
                               GError **error)
{
  gboolean is_valid;
  gboolean is_first;
  guint position;

  g_return_val_if_fail (WEFT_IS_PLUGIN_REGISTRY (self), FALSE);
  g_return_val_if_fail ((guint) kind < N_KINDS && name != NULL, FALSE);
  lock_opened (self);
  is_valid = check_new_feature (self, kind, name, type, error);
  is_first = is_valid && self->runtime_plugin == NULL;
  position = self->plugins->len;
  if (is_first)
    {
      self->runtime_plugin = weft_plugin_new_for_runtime ();
      g_ptr_array_add (self->plugins, self->runtime_plugin);
    }
  if (is_valid)
    {
      weft_plugin_add_runtime_feature (self->runtime_plugin, kind, name);
      add_feature (self, kind, name, type, self->runtime_plugin);
    }
  g_rec_mutex_unlock (&self->mutex);
  if (is_first)
    g_list_model_items_changed (G_LIST_MODEL (self), position, 0, 1);
  return is_valid;
}

/* Why a feature is not there, if a plugin that was found would have it. */
static gchar *
explain_missing (WeftPluginRegistry *self, WeftFeatureKind kind, const gchar *name)
{
  for (guint i = 0; i < self->plugins->len; i++)
    {
      WeftPlugin *plugin = self->plugins->pdata[i];

      for (guint j = 0; j < weft_plugin_get_n_features (plugin); j++)
        if (weft_plugin_get_feature_kind (plugin, j) == kind
            && g_str_equal (weft_plugin_get_feature_name (plugin, j), name))
          return g_strdup_printf ("plugin %s has it, but cannot be used: %s", weft_plugin_get_path (plugin),
                                  weft_plugin_get_reason (plugin) != NULL ? weft_plugin_get_reason (plugin)
                                                                          : "WEFT_PLUGIN_DENY denies it");
    }
  return g_strdup_printf (
      "no plugin provides it (%u plugins were found; WEFT_PLUGIN_PATH names folders of more)",
      self->plugins->len);
}

/**
 * weft_plugin_registry_lookup:
 * @self: a registry
 * @kind: what the feature is
 * @name: its name
 * @error: return location
 *
 * Returns: the class that implements it, or %G_TYPE_INVALID
 * Errors: %WEFT_ERROR_MISSING if no usable plugin has it; the message says why
 * Since: 1.0
 */
GType
weft_plugin_registry_lookup (WeftPluginRegistry *self, WeftFeatureKind kind, const gchar *name,
                             GError **error)
{
  GType type;

  g_return_val_if_fail (WEFT_IS_PLUGIN_REGISTRY (self), G_TYPE_INVALID);
  g_return_val_if_fail ((guint) kind < N_KINDS && name != NULL, G_TYPE_INVALID);
  lock_opened (self);
  type = GPOINTER_TO_SIZE (g_hash_table_lookup (self->features[kind], name));
  if (type == G_TYPE_INVALID)
    {
      g_autofree gchar *reason = explain_missing (self, kind, name);

      g_set_error (error, WEFT_ERROR, WEFT_ERROR_MISSING, "%s '%s' is unknown: %s", kind_names[kind], name,
                   reason);
    }
  g_rec_mutex_unlock (&self->mutex);
  return type;
}

/**
 * weft_plugin_registry_list_names:
 * @self: a registry
 * @kind: what the features are
 *
 * Returns: (transfer full): the names of all usable features of that kind, sorted
 * Since: 1.0
 */
GStrv
weft_plugin_registry_list_names (WeftPluginRegistry *self, WeftFeatureKind kind)
{
  g_autoptr (GPtrArray) names = g_ptr_array_new ();
  GHashTableIter iter;
  gpointer name;

  g_return_val_if_fail (WEFT_IS_PLUGIN_REGISTRY (self), NULL);
  g_return_val_if_fail ((guint) kind < N_KINDS, NULL);
  lock_opened (self);
  g_hash_table_iter_init (&iter, self->features[kind]);
  while (g_hash_table_iter_next (&iter, &name, NULL))
    g_ptr_array_add (names, g_strdup (name));
  g_rec_mutex_unlock (&self->mutex);
  g_ptr_array_sort (names, compare_names);
  g_ptr_array_add (names, NULL);
  return (GStrv) g_ptr_array_free (g_steal_pointer (&names), FALSE);
}

/**
 * weft_feature_get_name:
 * @type: a class
 *
 * Returns: (nullable): the name of the feature that it implements; %NULL if it is not registered
 * Since: 1.0
 */
const gchar *
weft_feature_get_name (GType type)
{
  return g_type_get_qdata (type, feature_name_quark ());
}

/**
 * weft_feature_get_plugin_id:
 * @type: a class
 *
 * Returns: (nullable): the id of the plugin that registered it; %NULL if it is not registered
 * Since: 1.0
 */
const gchar *
weft_feature_get_plugin_id (GType type)
{
  return g_type_get_qdata (type, feature_plugin_quark ());
}
