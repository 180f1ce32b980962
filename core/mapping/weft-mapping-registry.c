/* SPDX-License-Identifier: Apache-2.0 */
#include "mapping/weft-mapping-registry-internal.h"

#include <string.h>

#include "base/weft-data-path-internal.h"
#include "base/weft-json.h"
#include "mapping/weft-mapping-resource.h"
#include "mapping/weft-mapping.h"

#define SHIPPED_ROOT "/weft/"
#define MAPPINGS "mappings"
#define GGUF_RULES "gguf"

/* One name. A list is read from @path, or from the shipped resource without one, when it is first asked for. */
typedef struct
{
  gchar *path;             /* (nullable) */
  WeftTransformList *list; /* (nullable) */
  gchar *alias_of;         /* (nullable) */
  gboolean is_user_registered;
} Entry;

struct _WeftMappingRegistry
{
  GObject parent_instance;

  /* Name of the folders that it reads, static. */
  const gchar *folder;
  GMutex lock;
  GHashTable *entries; /* name -> Entry */
};

G_DEFINE_FINAL_TYPE (WeftMappingRegistry, weft_mapping_registry, G_TYPE_OBJECT)

static void
free_entry (gpointer pointer)
{
  Entry *entry = pointer;

  g_free (entry->path);
  g_clear_object (&entry->list);
  g_free (entry->alias_of);
  g_free (entry);
}

static void
weft_mapping_registry_init (WeftMappingRegistry *self)
{
  self->folder = MAPPINGS;
  g_mutex_init (&self->lock);
  self->entries = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, free_entry);
}

static void
weft_mapping_registry_finalize (GObject *object)
{
  WeftMappingRegistry *self = WEFT_MAPPING_REGISTRY (object);

  g_hash_table_unref (self->entries);
  g_mutex_clear (&self->lock);
  G_OBJECT_CLASS (weft_mapping_registry_parent_class)->finalize (object);
}

static void
weft_mapping_registry_class_init (WeftMappingRegistryClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = weft_mapping_registry_finalize;
}

/* The content of a mapping that comes with the library, or %NULL. */
static GBytes *
load_shipped (WeftMappingRegistry *self, const gchar *name)
{
  g_autofree gchar *path = NULL;

  if (name[0] == '\0' || strchr (name, '/') != NULL)
    return NULL;
  path = g_strconcat (SHIPPED_ROOT, self->folder, "/", name, WEFT_DATA_FILE_ENDING, NULL);
  return g_resource_lookup_data (weft_mapping_get_resource (), path, G_RESOURCE_LOOKUP_FLAGS_NONE, NULL);
}

/**
 * weft_mapping_registry_new_shipped:
 *
 * Returns: (transfer full): a registry of the mappings that come with the library, and no others
 * Since: 1.0
 */
WeftMappingRegistry *
weft_mapping_registry_new_shipped (void)
{
  return g_object_new (WEFT_TYPE_MAPPING_REGISTRY, NULL);
}

/* A registry of what comes with the library in @folder, and of the folders of that name on the data path. */
static WeftMappingRegistry *
new_with_folders (const gchar *folder, GError **error)
{
  g_autoptr (WeftMappingRegistry) self = weft_mapping_registry_new_shipped ();
  g_auto (GStrv) folders = weft_data_path_list_folders (folder);

  self->folder = folder;
  for (guint i = 0; folders[i] != NULL; i++)
    if (!weft_mapping_registry_add_folder (self, folders[i], error))
      return NULL;
  return g_steal_pointer (&self);
}

/**
 * weft_mapping_registry_new:
 * @error: return location
 *
 * Makes a registry of the mappings that come with the library, and of those in folders `mappings` of: the library's
 * installed folder, the user's folder `$XDG_DATA_HOME/weft-1`, and each folder of `WEFT_DATA_PATH`. The last named in
 * this order counts; within `WEFT_DATA_PATH` the first does.
 *
 * Returns: (transfer full): the registry
 * Errors: %WEFT_ERROR_IO if a folder cannot be listed
 * Since: 1.0
 */
WeftMappingRegistry *
weft_mapping_registry_new (GError **error)
{
  return new_with_folders (MAPPINGS, error);
}

WeftMappingRegistry *
weft_mapping_registry_new_gguf (GError **error)
{
  return new_with_folders (GGUF_RULES, error);
}

/* Puts an entry in place of what was there. The lock is held. */
static Entry *
replace_entry (WeftMappingRegistry *self, const gchar *name)
{
  Entry *entry = g_new0 (Entry, 1);

  g_hash_table_insert (self->entries, g_strdup (name), entry);
  return entry;
}

/**
 * weft_mapping_registry_add_file:
 * @self: a registry
 * @path: path of a file `NAME.json`
 * @error: return location
 *
 * Adds or overrides the mapping NAME. The file is read when the mapping is asked for.
 *
 * Returns: whether the file is named so and exists
 * Errors: %WEFT_ERROR_ARGUMENT if it is not named so, %WEFT_ERROR_IO if it does not exist
 * Since: 1.0
 */
gboolean
weft_mapping_registry_add_file (WeftMappingRegistry *self, const gchar *path, GError **error)
{
  g_autofree gchar *name = g_path_get_basename (path);
  g_autoptr (GMutexLocker) locker = NULL;
  Entry *entry;

  if (!g_str_has_suffix (name, WEFT_DATA_FILE_ENDING) || strlen (name) == strlen (WEFT_DATA_FILE_ENDING))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT,
                   "%s: a mapping file is named after its model type or class, as 'mixtral.json'; rename it",
                   path);
      return FALSE;
    }
  if (!g_file_test (path, G_FILE_TEST_IS_REGULAR))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_IO, "%s: no such file", path);
      return FALSE;
    }
  name[strlen (name) - strlen (WEFT_DATA_FILE_ENDING)] = '\0';
  locker = g_mutex_locker_new (&self->lock);
  entry = replace_entry (self, name);
  entry->path = g_strdup (path);
  entry->is_user_registered = TRUE;
  return TRUE;
}

/**
 * weft_mapping_registry_add_folder:
 * @self: a registry
 * @path: path of a folder
 * @error: return location
 *
 * Adds every file `NAME.json` of a folder, as weft_mapping_registry_add_file() does.
 *
 * Returns: whether the folder can be listed
 * Errors: %WEFT_ERROR_IO if it cannot
 * Since: 1.0
 */
gboolean
weft_mapping_registry_add_folder (WeftMappingRegistry *self, const gchar *path, GError **error)
{
  g_auto (GStrv) files = weft_data_path_list_files (path, error);

  if (files == NULL)
    return FALSE;
  for (guint i = 0; files[i] != NULL; i++)
    if (!weft_mapping_registry_add_file (self, files[i], error))
      return FALSE;
  return TRUE;
}

/**
 * weft_mapping_registry_has:
 * @self: a registry
 * @name: a model type or a class
 *
 * Returns: whether there is a mapping of that name
 * Since: 1.0
 */
gboolean
weft_mapping_registry_has (WeftMappingRegistry *self, const gchar *name)
{
  g_autoptr (GBytes) shipped = NULL;
  gboolean is_added;

  g_mutex_lock (&self->lock);
  is_added = g_hash_table_contains (self->entries, name);
  g_mutex_unlock (&self->lock);
  if (is_added)
    return TRUE;
  shipped = load_shipped (self, name);
  return shipped != NULL;
}

/**
 * weft_mapping_registry_register:
 * @self: a registry
 * @name: a model type or a class
 * @list: its rules; the registry takes a copy
 * @overwrite: whether a mapping of that name is replaced
 * @error: return location
 *
 * Registers a mapping. Its name counts as registered by the user, so that it applies to custom code as well.
 *
 * Returns: whether it was registered
 * Errors: %WEFT_ERROR_EXISTS if there is one and @overwrite is %FALSE; %WEFT_ERROR_PATTERN if a rule is wrong
 * Since: 1.0
 */
gboolean
weft_mapping_registry_register (WeftMappingRegistry *self, const gchar *name, WeftTransformList *list,
                                gboolean overwrite, GError **error)
{
  g_autoptr (WeftTransformList) copy = NULL;
  g_autoptr (GMutexLocker) locker = NULL;
  Entry *entry;

  if (name[0] == '\0' || strchr (name, '/') != NULL)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT,
                   "'%s' is no name of a mapping; write a model type or a class", name);
      return FALSE;
    }
  if (!overwrite && weft_mapping_registry_has (self, name))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_EXISTS,
                   "mapping '%s' already exists; ask for it to be overwritten, or choose another name", name);
      return FALSE;
    }
  copy = weft_transform_list_copy (list, error);
  if (copy == NULL || !weft_transform_list_check_order (copy, error))
    return FALSE;
  for (guint i = 0; i < weft_transform_list_get_n_transforms (copy); i++)
    weft_weight_transform_set_origin (weft_transform_list_get_transform (copy, i), name, i);
  locker = g_mutex_locker_new (&self->lock);
  entry = replace_entry (self, name);
  entry->list = g_steal_pointer (&copy);
  entry->is_user_registered = TRUE;
  return TRUE;
}

/* `{"alias_of": NAME}`, or %NULL with @error unset if the document is a list. */
static gchar *
read_alias (JsonNode *root, const gchar *where, GError **error)
{
  JsonObject *object;
  JsonNode *base;

  if (!JSON_NODE_HOLDS_OBJECT (root))
    return NULL;
  object = json_node_get_object (root);
  base = json_object_get_member (object, "alias_of");
  if (base != NULL && json_object_get_size (object) == 1 && JSON_NODE_HOLDS_VALUE (base)
      && json_node_get_value_type (base) == G_TYPE_STRING)
    return g_strdup (json_node_get_string (base));
  g_set_error (
      error, WEFT_ERROR, WEFT_ERROR_FORMAT,
      "%s: expected a list of rules, or an object with the one member 'alias_of' and the name of another mapping",
      where);
  return NULL;
}

static JsonNode *
load_document (WeftMappingRegistry *self, const gchar *name, const gchar *path, gchar **where, GError **error)
{
  g_autoptr (GBytes) shipped = NULL;

  if (path != NULL)
    {
      *where = g_strdup (path);
      return weft_json_load_file (path, error);
    }
  *where = g_strconcat ("mapping ", name, NULL);
  shipped = load_shipped (self, name);
  return shipped != NULL ? weft_json_parse (g_bytes_get_data (shipped, NULL),
                                            (gssize) g_bytes_get_size (shipped), *where, error)
                         : NULL;
}

/* Finds the list or the alias of a name, and reads it if that is still to be done. Neither, without an error: there is
 * no such mapping. No lock is held while a rule is made, which may call into a plugin. */
static gboolean
resolve (WeftMappingRegistry *self, const gchar *name, WeftTransformList **list, gchar **alias_of,
         GError **error)
{
  g_autofree gchar *path = NULL;
  g_autofree gchar *where = NULL;
  g_autoptr (JsonNode) root = NULL;
  g_autoptr (GError) local_error = NULL;
  Entry *entry;

  *list = NULL;
  *alias_of = NULL;
  g_mutex_lock (&self->lock);
  entry = g_hash_table_lookup (self->entries, name);
  if (entry != NULL)
    {
      g_set_object (list, entry->list);
      *alias_of = g_strdup (entry->alias_of);
      path = g_strdup (entry->path);
    }
  g_mutex_unlock (&self->lock);
  if (*list != NULL || *alias_of != NULL)
    return TRUE;
  root = load_document (self, name, path, &where, &local_error);
  if (root != NULL)
    *alias_of = read_alias (root, where, &local_error);
  if (root != NULL && *alias_of == NULL && local_error == NULL)
    *list = weft_mapping_new_from_json (root, name, where, &local_error);
  if (local_error != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&local_error));
      return FALSE;
    }
  if (root == NULL)
    return TRUE;
  g_mutex_lock (&self->lock);
  entry = g_hash_table_lookup (self->entries, name);
  if (entry == NULL)
    entry = replace_entry (self, name);
  if (entry->list == NULL && g_strcmp0 (entry->path, path) == 0)
    {
      g_set_object (&entry->list, *list);
      g_free (entry->alias_of);
      entry->alias_of = g_strdup (*alias_of);
    }
  g_mutex_unlock (&self->lock);
  return TRUE;
}

/**
 * weft_mapping_registry_lookup:
 * @self: a registry
 * @name: a model type or a class; never a pattern
 * @error: return location
 *
 * Returns: (transfer full) (nullable): a copy of the mapping, that has learnt nothing; %NULL if there is none of that name
 *   (no error is set then)
 * Errors: %WEFT_ERROR_FORMAT, %WEFT_ERROR_PATTERN, ... if the mapping is wrong; %WEFT_ERROR_MISSING if it is an alias of
 *   nothing, or needs an op that no plugin has
 * Since: 1.0
 */
WeftTransformList *
weft_mapping_registry_lookup (WeftMappingRegistry *self, const gchar *name, GError **error)
{
  g_autoptr (WeftTransformList) list = NULL;
  g_autoptr (WeftTransformList) copy = NULL;
  g_autofree gchar *alias_of = NULL;
  g_autofree gchar *second_alias = NULL;

  if (!resolve (self, name, &list, &alias_of, error))
    return NULL;
  if (alias_of != NULL && !resolve (self, alias_of, &list, &second_alias, error))
    return NULL;
  if (alias_of != NULL && list == NULL)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_MISSING,
                   "mapping '%s' is an alias of '%s', which %s; name a mapping with rules", name, alias_of,
                   second_alias != NULL ? "is an alias itself" : "does not exist");
      return NULL;
    }
  copy = list != NULL ? weft_transform_list_copy (list, error) : NULL;
  for (guint i = 0; copy != NULL && i < weft_transform_list_get_n_transforms (copy); i++)
    weft_weight_transform_set_origin (weft_transform_list_get_transform (copy, i), name, i);
  return g_steal_pointer (&copy);
}

/**
 * weft_mapping_registry_dup_alias:
 * @self: a registry
 * @name: a model type or a class
 * @error: return location
 *
 * Returns: (transfer full) (nullable): the mapping that @name is an alias of; %NULL if it is none
 * Errors: those of weft_mapping_registry_lookup()
 * Since: 1.0
 */
gchar *
weft_mapping_registry_dup_alias (WeftMappingRegistry *self, const gchar *name, GError **error)
{
  g_autoptr (WeftTransformList) list = NULL;
  gchar *alias_of = NULL;

  return resolve (self, name, &list, &alias_of, error) ? alias_of : NULL;
}

/**
 * weft_mapping_registry_is_user_registered:
 * @self: a registry
 * @name: a model type or a class
 *
 * Returns: whether the mapping was registered, or comes from a file or a folder that was added
 * Since: 1.0
 */
gboolean
weft_mapping_registry_is_user_registered (WeftMappingRegistry *self, const gchar *name)
{
  gboolean is_user_registered;
  Entry *entry;

  g_mutex_lock (&self->lock);
  entry = g_hash_table_lookup (self->entries, name);
  is_user_registered = entry != NULL && entry->is_user_registered;
  g_mutex_unlock (&self->lock);
  return is_user_registered;
}

static gint
compare_names (gconstpointer a, gconstpointer b)
{
  return strcmp (*(const gchar *const *) a, *(const gchar *const *) b);
}

/**
 * weft_mapping_registry_list_names:
 * @self: a registry
 *
 * Returns: (transfer full): all names, sorted
 * Since: 1.0
 */
GStrv
weft_mapping_registry_list_names (WeftMappingRegistry *self)
{
  g_autofree gchar *path = g_strconcat (SHIPPED_ROOT, self->folder, "/", NULL);
  g_auto (GStrv) files =
      g_resource_enumerate_children (weft_mapping_get_resource (), path, G_RESOURCE_LOOKUP_FLAGS_NONE, NULL);
  g_autoptr (GHashTable) seen = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  g_autoptr (GPtrArray) names = g_ptr_array_new ();
  GHashTableIter iter;
  gpointer name;

  for (guint i = 0; files != NULL && files[i] != NULL; i++)
    g_hash_table_add (seen, g_strndup (files[i], strlen (files[i]) - strlen (WEFT_DATA_FILE_ENDING)));
  g_mutex_lock (&self->lock);
  g_hash_table_iter_init (&iter, self->entries);
  while (g_hash_table_iter_next (&iter, &name, NULL))
    g_hash_table_add (seen, g_strdup (name));
  g_mutex_unlock (&self->lock);
  g_hash_table_iter_init (&iter, seen);
  while (g_hash_table_iter_next (&iter, &name, NULL))
    g_ptr_array_add (names, g_strdup (name));
  g_ptr_array_sort (names, compare_names);
  g_ptr_array_add (names, NULL);
  return (GStrv) g_ptr_array_free (g_steal_pointer (&names), FALSE);
}
