/* SPDX-License-Identifier: Apache-2.0 */
#include "model/weft-architecture-registry.h"

#include <string.h>

#include "base/weft-data-path-internal.h"
#include "base/weft-json.h"
#include "model/weft-architecture-private.h"
#include "model/weft-architecture-resource.h"

#define SHIPPED_FOLDER "/weft/architectures/"
#define INDEX "index"
#define LAYERS "layers"
#define PARTS "parts"

struct _WeftArchitectureRegistry
{
  GObject parent_instance;

  GMutex lock;
  GHashTable *paths;       /* name of a file, without its ending -> path; shipped ones are not in it */
  GPtrArray *indices;      /* paths of added indices */
  GHashTable *model_types; /* model type -> name of a file */
  GPtrArray *parts;        /* names of files with shared modules; NULL until they are asked for */
  GHashTable *files;       /* name -> WeftArchitectureFile, those that were read */
  GHashTable *expressions; /* JsonNode -> WeftExpression */
};

G_DEFINE_FINAL_TYPE (WeftArchitectureRegistry, weft_architecture_registry, G_TYPE_OBJECT)

static void
free_file (gpointer pointer)
{
  WeftArchitectureFile *file = pointer;

  g_free (file->where);
  json_node_unref (file->root);
  g_free (file);
}

static void
free_expression (gpointer expression)
{
  weft_expression_free (expression);
}

static void
weft_architecture_registry_init (WeftArchitectureRegistry *self)
{
  g_mutex_init (&self->lock);
  self->paths = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  self->indices = g_ptr_array_new_with_free_func (g_free);
  self->files = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, free_file);
  self->expressions = g_hash_table_new_full (NULL, NULL, NULL, free_expression);
}

static void
weft_architecture_registry_finalize (GObject *object)
{
  WeftArchitectureRegistry *self = WEFT_ARCHITECTURE_REGISTRY (object);

  g_hash_table_unref (self->paths);
  g_ptr_array_unref (self->indices);
  g_clear_pointer (&self->model_types, g_hash_table_unref);
  g_clear_pointer (&self->parts, g_ptr_array_unref);
  g_hash_table_unref (self->expressions);
  g_hash_table_unref (self->files);
  g_mutex_clear (&self->lock);
  G_OBJECT_CLASS (weft_architecture_registry_parent_class)->finalize (object);
}

static void
weft_architecture_registry_class_init (WeftArchitectureRegistryClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = weft_architecture_registry_finalize;
}

/**
 * weft_architecture_registry_new_shipped:
 *
 * Returns: (transfer full): a registry of the architectures that come with the library, and no others
 * Since: 1.0
 */
WeftArchitectureRegistry *
weft_architecture_registry_new_shipped (void)
{
  return g_object_new (WEFT_TYPE_ARCHITECTURE_REGISTRY, NULL);
}

/**
 * weft_architecture_registry_new:
 * @error: return location
 *
 * Makes a registry of the architectures that come with the library, and of those in folders `architectures` of: the
 * library's installed folder, the user's folder `$XDG_DATA_HOME/weft-1`, and each folder of `WEFT_DATA_PATH`. The last named
 * in this order counts; within `WEFT_DATA_PATH` the first does.
 *
 * Returns: (transfer full): the registry
 * Errors: %WEFT_ERROR_IO if a folder cannot be listed
 * Since: 1.0
 */
WeftArchitectureRegistry *
weft_architecture_registry_new (GError **error)
{
  g_autoptr (WeftArchitectureRegistry) self = weft_architecture_registry_new_shipped ();
  g_auto (GStrv) folders = weft_data_path_list_folders ("architectures");

  for (guint i = 0; folders[i] != NULL; i++)
    if (!weft_architecture_registry_add_folder (self, folders[i], error))
      return NULL;
  return g_steal_pointer (&self);
}

/**
 * weft_architecture_registry_add_folder:
 * @self: a registry that was not used yet
 * @path: path of a folder
 * @error: return location
 *
 * Adds every file `NAME.json` of a folder, in place of one of that name that is known already. NAME is the model type of the
 * file; an `index.json` in the folder names files of further model types.
 *
 * Returns: whether the folder can be listed
 * Errors: %WEFT_ERROR_IO if it cannot
 * Since: 1.0
 */
gboolean
weft_architecture_registry_add_folder (WeftArchitectureRegistry *self, const gchar *path, GError **error)
{
  g_auto (GStrv) files = weft_data_path_list_files (path, error);

  if (files == NULL)
    return FALSE;
  g_mutex_lock (&self->lock);
  for (guint i = 0; files[i] != NULL; i++)
    {
      g_autofree gchar *name = g_path_get_basename (files[i]);

      name[strlen (name) - strlen (WEFT_DATA_FILE_ENDING)] = '\0';
      if (strcmp (name, INDEX) == 0)
        g_ptr_array_add (self->indices, g_strdup (files[i]));
      else
        g_hash_table_insert (self->paths, g_steal_pointer (&name), g_strdup (files[i]));
    }
  g_mutex_unlock (&self->lock);
  return TRUE;
}

static GBytes *
load_shipped (const gchar *name)
{
  g_autofree gchar *path = g_strconcat (SHIPPED_FOLDER, name, WEFT_DATA_FILE_ENDING, NULL);

  return strchr (name, '/') == NULL ? g_resource_lookup_data (weft_architecture_get_resource (), path,
                                                              G_RESOURCE_LOOKUP_FLAGS_NONE, NULL)
                                    : NULL;
}

/* The document of a name; %NULL without an error if there is none. */
static JsonNode *
load_document (const gchar *name, const gchar *path, gchar **where, GError **error)
{
  g_autoptr (GBytes) shipped = NULL;

  if (path != NULL)
    {
      *where = g_strdup (path);
      return weft_json_load_file (path, error);
    }
  shipped = load_shipped (name);
  if (shipped == NULL)
    return NULL;
  *where = g_strconcat ("architecture ", name, NULL);
  return weft_json_parse (g_bytes_get_data (shipped, NULL), (gssize) g_bytes_get_size (shipped), *where,
                          error);
}

JsonObject *
weft_architecture_get_object (JsonObject *object, const gchar *member)
{
  JsonNode *node = json_object_get_member (object, member);

  return node != NULL && JSON_NODE_HOLDS_OBJECT (node) ? json_node_get_object (node) : NULL;
}

JsonArray *
weft_architecture_get_array (JsonObject *object, const gchar *member)
{
  JsonNode *node = json_object_get_member (object, member);

  return node != NULL && JSON_NODE_HOLDS_ARRAY (node) ? json_node_get_array (node) : NULL;
}

const gchar *
weft_architecture_get_text (JsonObject *object, const gchar *member)
{
  JsonNode *node = json_object_get_member (object, member);

  return node != NULL && JSON_NODE_HOLDS_VALUE (node) && json_node_get_value_type (node) == G_TYPE_STRING
             ? json_node_get_string (node)
             : NULL;
}

gboolean
weft_architecture_get_flag (JsonObject *object, const gchar *member, gboolean fallback)
{
  JsonNode *node = json_object_get_member (object, member);

  return node != NULL && JSON_NODE_HOLDS_VALUE (node) && json_node_get_value_type (node) == G_TYPE_BOOLEAN
             ? json_node_get_boolean (node)
             : fallback;
}

static WeftArchitectureFile *
new_file (JsonNode *root, const gchar *where, GError **error)
{
  JsonObject *object = JSON_NODE_HOLDS_OBJECT (root) ? json_node_get_object (root) : NULL;
  JsonObject *modules = object != NULL ? weft_architecture_get_object (object, "modules") : NULL;
  WeftArchitectureFile *file;

  if (modules == NULL)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT,
                   "%s: no architecture: expected an object with a member 'modules' that is one", where);
      return NULL;
    }
  file = g_new0 (WeftArchitectureFile, 1);
  file->where = g_strdup (where);
  file->root = json_node_ref (root);
  file->modules = modules;
  file->models = weft_architecture_get_object (object, "models");
  file->classes = weft_architecture_get_object (object, "classes");
  file->prefix = weft_architecture_get_text (object, "prefix");
  file->prefix = file->prefix != NULL ? file->prefix : "";
  return file;
}

/* Reads a file when it is first asked for. %NULL without an error: there is none of that name. The lock is held. */
static WeftArchitectureFile *
get_file (WeftArchitectureRegistry *self, const gchar *name, GError **error)
{
  WeftArchitectureFile *file = g_hash_table_lookup (self->files, name);
  g_autofree gchar *where = NULL;
  g_autoptr (JsonNode) root = NULL;

  if (file != NULL)
    return file;
  root = load_document (name, g_hash_table_lookup (self->paths, name), &where, error);
  file = root != NULL ? new_file (root, where, error) : NULL;
  if (file != NULL)
    g_hash_table_insert (self->files, g_strdup (name), file);
  return file;
}

static gboolean
is_family (const gchar *name)
{
  return strcmp (name, LAYERS) != 0 && !g_str_has_prefix (name, PARTS);
}

/* Adds what an index says; one that cannot be read adds nothing. */
static void
add_index (GHashTable *model_types, const gchar *path)
{
  g_autofree gchar *where = NULL;
  g_autoptr (GError) cause = NULL;
  g_autoptr (JsonNode) root = load_document (INDEX, path, &where, &cause);
  JsonObject *types = root != NULL && JSON_NODE_HOLDS_OBJECT (root)
                          ? weft_architecture_get_object (json_node_get_object (root), "model_types")
                          : NULL;
  g_autoptr (GList) names = types != NULL ? json_object_get_members (types) : NULL;

  if (types == NULL)
    g_warning ("%s: no index of architectures: %s", where != NULL ? where : INDEX,
               cause != NULL ? cause->message : "expected an object with a member 'model_types'");
  for (GList *type = names; type != NULL; type = type->next)
    if (weft_architecture_get_text (types, type->data) != NULL)
      g_hash_table_insert (model_types, g_strdup (type->data),
                           g_strdup (weft_architecture_get_text (types, type->data)));
}

/* The shipped index, then added ones, then added files under their own names. The lock is held. */
static GHashTable *
get_model_types (WeftArchitectureRegistry *self)
{
  GHashTableIter added;
  gpointer name;

  if (self->model_types != NULL)
    return self->model_types;
  self->model_types = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  add_index (self->model_types, NULL);
  for (guint i = 0; i < self->indices->len; i++)
    add_index (self->model_types, self->indices->pdata[i]);
  g_hash_table_iter_init (&added, self->paths);
  while (g_hash_table_iter_next (&added, &name, NULL))
    if (is_family (name))
      g_hash_table_insert (self->model_types, g_strdup (name), g_strdup (name));
  return self->model_types;
}

/**
 * weft_architecture_registry_has:
 * @self: a registry
 * @model_type: a model type
 *
 * Returns: whether its architecture is known
 * Since: 1.0
 */
gboolean
weft_architecture_registry_has (WeftArchitectureRegistry *self, const gchar *model_type)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);

  return g_hash_table_contains (get_model_types (self), model_type);
}

static gint
compare_names (gconstpointer a, gconstpointer b)
{
  return strcmp (*(const gchar *const *) a, *(const gchar *const *) b);
}

/* Takes an array of texts that are not owned, and gives copies in order. */
static GStrv
sort_names (GPtrArray *names)
{
  g_autoptr (GStrvBuilder) builder = g_strv_builder_new ();

  g_ptr_array_sort (names, compare_names);
  for (guint i = 0; i < names->len; i++)
    g_strv_builder_add (builder, names->pdata[i]);
  return g_strv_builder_end (builder);
}

/**
 * weft_architecture_registry_list_model_types:
 * @self: a registry
 *
 * Parts that no config is a file of, which a family names after their config class, are not among them.
 *
 * Returns: (transfer full): all model types whose architecture is known, sorted
 * Since: 1.0
 */
GStrv
weft_architecture_registry_list_model_types (WeftArchitectureRegistry *self)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  g_autoptr (GPtrArray) names = g_ptr_array_new ();
  GHashTableIter types;
  gpointer type;

  g_hash_table_iter_init (&types, get_model_types (self));
  while (g_hash_table_iter_next (&types, &type, NULL))
    if (strchr (type, '/') == NULL)
      g_ptr_array_add (names, type);
  return sort_names (names);
}

/**
 * weft_architecture_registry_list_classes:
 * @self: a registry
 * @model_type: a model type
 * @error: return location
 *
 * Returns: (transfer full): the classes of its family that a config of that model type can be evaluated for, sorted; empty if
 *   the model type is not known
 * Errors: %WEFT_ERROR_FORMAT if its file is wrong
 * Since: 1.0
 */
GStrv
weft_architecture_registry_list_classes (WeftArchitectureRegistry *self, const gchar *model_type,
                                         GError **error)
{
  g_autoptr (GError) cause = NULL;
  g_autoptr (WeftArchitecture) architecture = weft_architecture_registry_lookup (self, model_type, &cause);
  g_autoptr (GPtrArray) names = g_ptr_array_new_with_free_func (g_free);
  g_autoptr (GList) classes = NULL;

  if (cause != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&cause));
      return NULL;
    }
  if (architecture != NULL && architecture->file->classes != NULL)
    classes = json_object_get_members (architecture->file->classes);
  for (GList *name = classes; name != NULL; name = name->next)
    g_ptr_array_add (names, weft_architecture_file_expand (architecture->file, name->data));
  return sort_names (names);
}

/* Most families bear the name of a model type of theirs: then the index, the largest of the files, is not read. */
static const gchar *
find_family (WeftArchitectureRegistry *self, const gchar *model_type)
{
  WeftArchitectureFile *file =
      self->indices->len == 0 && is_family (model_type) ? get_file (self, model_type, NULL) : NULL;

  if (file != NULL && file->models != NULL && json_object_has_member (file->models, model_type))
    return model_type;
  return g_hash_table_lookup (get_model_types (self), model_type);
}

WeftArchitecture *
weft_architecture_registry_lookup (WeftArchitectureRegistry *self, const gchar *model_type, GError **error)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  const gchar *name = find_family (self, model_type);
  WeftArchitectureFile *file = name != NULL ? get_file (self, name, error) : NULL;
  WeftArchitecture *architecture;
  JsonObject *model;

  if (file == NULL)
    return NULL;
  model = file->models != NULL ? weft_architecture_get_object (file->models, model_type) : NULL;
  if (model == NULL || file->classes == NULL)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT,
                   "%s: models: has no '%s', or the file has no 'classes'", file->where, model_type);
      return NULL;
    }
  architecture = g_new0 (WeftArchitecture, 1);
  g_atomic_ref_count_init (&architecture->n_references);
  architecture->registry = g_object_ref (self);
  architecture->file = file;
  architecture->model_type = g_strdup (model_type);
  architecture->model = model;
  return architecture;
}

WeftArchitecture *
weft_architecture_ref (WeftArchitecture *self)
{
  g_atomic_ref_count_inc (&self->n_references);
  return self;
}

void
weft_architecture_unref (WeftArchitecture *self)
{
  if (!g_atomic_ref_count_dec (&self->n_references))
    return;
  g_object_unref (self->registry);
  g_free (self->model_type);
  g_free (self);
}

/* Names of files with modules that families share. The lock is held. */
static GPtrArray *
get_parts (WeftArchitectureRegistry *self)
{
  g_auto (GStrv) shipped = NULL;
  GHashTableIter added;
  gpointer name;

  if (self->parts != NULL)
    return self->parts;
  self->parts = g_ptr_array_new_with_free_func (g_free);
  g_hash_table_iter_init (&added, self->paths);
  while (g_hash_table_iter_next (&added, &name, NULL))
    if (g_str_has_prefix (name, PARTS))
      g_ptr_array_add (self->parts, g_strdup (name));
  shipped = g_resource_enumerate_children (weft_architecture_get_resource (), SHIPPED_FOLDER,
                                           G_RESOURCE_LOOKUP_FLAGS_NONE, NULL);
  for (guint i = 0; shipped != NULL && shipped[i] != NULL; i++)
    if (g_str_has_prefix (shipped[i], PARTS) && g_str_has_suffix (shipped[i], WEFT_DATA_FILE_ENDING))
      g_ptr_array_add (self->parts,
                       g_strndup (shipped[i], strlen (shipped[i]) - strlen (WEFT_DATA_FILE_ENDING)));
  return self->parts;
}

static JsonObject *
find_in_parts (WeftArchitectureRegistry *self, const gchar *name, GError **error)
{
  g_autoptr (GError) cause = NULL;
  JsonObject *module = NULL;

  for (guint i = 0; module == NULL && cause == NULL && i < get_parts (self)->len; i++)
    {
      WeftArchitectureFile *parts = get_file (self, self->parts->pdata[i], &cause);

      module = parts != NULL ? weft_architecture_get_object (parts->modules, name) : NULL;
    }
  if (cause != NULL)
    g_propagate_error (error, g_steal_pointer (&cause));
  return module;
}

JsonObject *
weft_architecture_registry_find_module (WeftArchitectureRegistry *self, WeftArchitectureFile *file,
                                        const gchar *name, GError **error)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  g_autoptr (GError) cause = NULL;
  JsonObject *module = weft_architecture_get_object (file->modules, name);
  WeftArchitectureFile *layers;

  if (module == NULL)
    module = find_in_parts (self, name, &cause);
  layers = module == NULL && cause == NULL ? get_file (self, LAYERS, &cause) : NULL;
  if (layers != NULL)
    module = weft_architecture_get_object (layers->modules, name);
  if (cause != NULL)
    g_propagate_error (error, g_steal_pointer (&cause));
  else if (module == NULL)
    g_set_error (error, WEFT_ERROR, WEFT_ERROR_MISSING, "%s: there is no module definition '%s'", file->where,
                 name);
  return module;
}

JsonArray *
weft_architecture_registry_find_bases (WeftArchitectureRegistry *self, const gchar *class_name)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  WeftArchitectureFile *layers = get_file (self, LAYERS, NULL);
  JsonObject *bases =
      layers != NULL ? weft_architecture_get_object (json_node_get_object (layers->root), "bases") : NULL;

  return bases != NULL ? weft_architecture_get_array (bases, class_name) : NULL;
}

JsonObject *
weft_architecture_registry_find_activation (WeftArchitectureRegistry *self, const gchar *name, GError **error)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  WeftArchitectureFile *layers = get_file (self, LAYERS, error);
  JsonObject *table = layers != NULL
                          ? weft_architecture_get_object (json_node_get_object (layers->root), "activations")
                          : NULL;
  const gchar *class_name = table != NULL ? weft_architecture_get_text (table, name) : NULL;
  JsonObject *module = class_name != NULL ? weft_architecture_get_object (layers->modules, class_name) : NULL;

  if (module == NULL && (error == NULL || *error == NULL))
    g_set_error (error, WEFT_ERROR, WEFT_ERROR_MISSING, "there is no activation '%s'", name);
  return module;
}

JsonNode *
weft_architecture_registry_find_common_field (WeftArchitectureRegistry *self, const gchar *name,
                                              GError **error)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  WeftArchitectureFile *layers = get_file (self, LAYERS, error);
  JsonObject *config =
      layers != NULL ? weft_architecture_get_object (json_node_get_object (layers->root), "config") : NULL;
  JsonObject *fields = config != NULL ? weft_architecture_get_object (config, "fields") : NULL;

  return fields != NULL ? json_object_get_member (fields, name) : NULL;
}

static const WeftExpression *
compile (WeftArchitectureRegistry *self, JsonNode *node, GError **error)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  WeftExpression *expression = g_hash_table_lookup (self->expressions, node);

  if (expression != NULL)
    return expression;
  expression = weft_expression_parse (json_node_get_string (node), error);
  if (expression != NULL)
    g_hash_table_insert (self->expressions, node, expression);
  return expression;
}

gboolean
weft_architecture_registry_evaluate (WeftArchitectureRegistry *self, JsonNode *node, const WeftScope *scope,
                                     WeftValue *value, GError **error)
{
  const WeftExpression *expression;

  if (!JSON_NODE_HOLDS_VALUE (node) || json_node_get_value_type (node) != G_TYPE_STRING)
    {
      *value = weft_value_from_json (node);
      return TRUE;
    }
  expression = compile (self, node, error);
  return expression != NULL && weft_expression_evaluate (expression, scope, value, error);
}

gchar *
weft_architecture_file_expand (WeftArchitectureFile *self, const gchar *name)
{
  return name[0] == '$' ? g_strconcat (self->prefix, name + 1, NULL) : g_strdup (name);
}

JsonObject *
weft_architecture_file_find_class (WeftArchitectureFile *self, const gchar *class_name, const gchar **key)
{
  gsize length = strlen (self->prefix);
  JsonObject *entry = self->classes != NULL ? weft_architecture_get_object (self->classes, class_name) : NULL;
  g_autofree gchar *shortened = NULL;
  g_autoptr (GList) keys = NULL;

  *key = class_name;
  if (entry != NULL || self->classes == NULL || length == 0
      || strncmp (class_name, self->prefix, length) != 0)
    return entry;
  shortened = g_strconcat ("$", class_name + length, NULL);
  keys = json_object_get_members (self->classes);
  for (GList *name = keys; name != NULL; name = name->next)
    if (strcmp (name->data, shortened) == 0)
      {
        *key = name->data;
        return weft_architecture_get_object (self->classes, *key);
      }
  return NULL;
}

gchar *
weft_architecture_dup_class_of_role (WeftArchitecture *self, const gchar *role)
{
  JsonObject *roles = weft_architecture_get_object (self->model, "auto");
  const gchar *class_name = roles != NULL ? weft_architecture_get_text (roles, role) : NULL;

  return class_name != NULL ? weft_architecture_file_expand (self->file, class_name) : NULL;
}

JsonObject *
weft_architecture_get_config_section (WeftArchitecture *self, const gchar *member)
{
  JsonObject *config = weft_architecture_get_object (self->model, "config");

  return config != NULL ? weft_architecture_get_object (config, member) : NULL;
}

const gchar *
weft_architecture_get_model_type (WeftArchitecture *self)
{
  const gchar *written = weft_architecture_get_text (self->model, "model_type");

  return written != NULL ? written : self->model_type;
}
