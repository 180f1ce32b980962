/* SPDX-License-Identifier: Apache-2.0 */
#include "model/weft-architecture-builder-private.h"

#include <string.h>

#include "model/weft-module-value-private.h"

/* Elements of one list, and of all lists. */
#define MAX_REPEATS 65536
#define MAX_ELEMENTS (1 << 20)

struct _WeftArchitectureBuilder
{
  WeftArchitectureRegistry *registry;
  WeftDtype dtype;
  GHashTable *bodies;  /* definition, file, config and arguments as text -> WeftModuleBody */
  GHashTable *models;  /* WeftModuleBody -> WeftBuiltModel */
  GHashTable *changed; /* config and changes as text -> WeftModelConfig */
  GPtrArray *configs;  /* all configs that keys of the tables above stand for */
  GHashTable *bases;   /* list in a file -> GPtrArray, by file */
  GHashTable *given;   /* WeftModuleBody -> Given */
  GString *path;
  guint depth;
  guint n_elements;
};

/* The names that a definition adds to those of its config: arguments, then attributes. */
typedef struct
{
  WeftScope *scopes;
  WeftValue *values;
  guint n;
} Names;

/* The arguments that a body was made with. */
typedef struct
{
  WeftModuleBody *body;
  GPtrArray *names;
  WeftValue values; /* a list */
} Given;

/* What a definition is evaluated in. */
typedef struct
{
  WeftArchitectureFile *file;
  WeftModelConfig *config; /* (nullable) */
  const WeftScope *scope;
} Place;

/* Definitions contain definitions. */
static WeftModuleBody *fill (WeftArchitectureBuilder *self, JsonObject *definition, const Place *place,
                             GError **error);
static gboolean add_repeated (WeftArchitectureBuilder *self, WeftModuleBody *box, JsonObject *child,
                              const Place *place, GError **error);

static void
free_model (gpointer pointer)
{
  WeftBuiltModel *model = pointer;

  weft_module_body_unref (model->body);
  g_free (model->class_name);
  g_object_unref (model->config);
  g_free (model);
}

static void
free_given (gpointer pointer)
{
  Given *given = pointer;

  weft_module_body_unref (given->body);
  g_ptr_array_unref (given->names);
  weft_value_clear (&given->values);
  g_free (given);
}

static void
unref_body (gpointer body)
{
  weft_module_body_unref (body);
}

static void
unref_bases (gpointer bases)
{
  g_ptr_array_unref (bases);
}

WeftArchitectureBuilder *
weft_architecture_builder_new (WeftArchitectureRegistry *registry, WeftDtype dtype)
{
  WeftArchitectureBuilder *self = g_new0 (WeftArchitectureBuilder, 1);

  self->registry = g_object_ref (registry);
  self->dtype = dtype;
  self->bodies = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, unref_body);
  self->models = g_hash_table_new_full (NULL, NULL, NULL, free_model);
  self->changed = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_object_unref);
  self->configs = g_ptr_array_new_with_free_func (g_object_unref);
  self->bases = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, unref_bases);
  self->given = g_hash_table_new_full (NULL, NULL, NULL, free_given);
  self->path = g_string_new (NULL);
  return self;
}

void
weft_architecture_builder_free (WeftArchitectureBuilder *self)
{
  g_hash_table_unref (self->given);
  g_hash_table_unref (self->models);
  g_hash_table_unref (self->bodies);
  g_hash_table_unref (self->changed);
  g_ptr_array_unref (self->configs);
  g_hash_table_unref (self->bases);
  g_string_free (self->path, TRUE);
  g_object_unref (self->registry);
  g_free (self);
}

const WeftBuiltModel *
weft_architecture_builder_find_model (WeftArchitectureBuilder *self, WeftModuleBody *body)
{
  return g_hash_table_lookup (self->models, body);
}

static gboolean G_GNUC_PRINTF (4, 5)
    fail (WeftArchitectureBuilder *self, const Place *place, GError **error, const gchar *format, ...)
{
  g_autofree gchar *reason = NULL;
  va_list arguments;

  va_start (arguments, format);
  reason = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT, "%s: %s: module '%s': %s",
               place->config != NULL ? weft_model_config_get_where (place->config) : "no config",
               place->file->where, self->path->str, reason);
  return FALSE;
}

/* An expression that fails says which config was evaluated, by which file, for which module. */
static gboolean
evaluate (WeftArchitectureBuilder *self, JsonNode *expression, const Place *place, WeftValue *value,
          GError **error)
{
  g_autoptr (GError) cause = NULL;

  if (weft_architecture_registry_evaluate (self->registry, expression, place->scope, value, &cause))
    return TRUE;
  g_propagate_prefixed_error (error, g_steal_pointer (&cause), "%s: %s: module '%s': ",
                              place->config != NULL ? weft_model_config_get_where (place->config)
                                                    : "no config",
                              place->file->where, self->path->str);
  return FALSE;
}

/* A condition that is not there holds. */
static gboolean
holds (WeftArchitectureBuilder *self, JsonObject *object, const gchar *member, const Place *place,
       gboolean *result, GError **error)
{
  JsonNode *condition = json_object_get_member (object, member);
  g_auto (WeftValue) value = WEFT_VALUE_INIT;

  *result = TRUE;
  if (condition == NULL)
    return TRUE;
  if (!evaluate (self, condition, place, &value, error))
    return FALSE;
  *result = weft_value_is_true (&value);
  return TRUE;
}

static gboolean
evaluate_count (WeftArchitectureBuilder *self, JsonNode *expression, const Place *place, gint64 *count,
                GError **error)
{
  g_auto (WeftValue) value = WEFT_VALUE_INIT;
  g_autofree gchar *text = NULL;

  if (!evaluate (self, expression, place, &value, error))
    return FALSE;
  if (value.kind != WEFT_VALUE_INTEGER || value.of.integer > MAX_REPEATS)
    {
      text = weft_value_to_string (&value);
      return fail (self, place, error, "repeat: %.60s is no number of modules up to %d", text, MAX_REPEATS);
    }
  *count = MAX (value.of.integer, 0);
  return TRUE;
}

static Names
names_new (guint n)
{
  return (Names){ g_new0 (WeftScope, n + 1), g_new0 (WeftValue, n + 1), 0 };
}

static void
names_clear (Names *self)
{
  for (guint i = 0; i < self->n; i++)
    weft_value_clear (&self->values[i]);
  g_free (self->scopes);
  g_free (self->values);
}

/* Takes the value; gives the scope that sees it. */
static const WeftScope *
names_add (Names *self, const WeftScope *outer, const gchar *name, WeftValue value)
{
  self->values[self->n] = value;
  self->scopes[self->n] = (WeftScope){ .outer = outer, .name = name, .value = &self->values[self->n] };
  return &self->scopes[self->n++];
}

/* The classes that a class derives from; one that many derive from brings its own bases. */
static GPtrArray *
find_bases (WeftArchitectureBuilder *self, WeftArchitectureFile *file, JsonArray *list)
{
  g_autofree gchar *key = g_strdup_printf ("%p %p", (gpointer) file, (gpointer) list);
  g_autoptr (GStrvBuilder) names = g_strv_builder_new ();
  g_auto (GStrv) expanded = NULL;
  GPtrArray *bases = g_hash_table_lookup (self->bases, key);

  if (bases != NULL)
    return bases;
  if (list == NULL)
    g_strv_builder_add (names, "Module");
  for (guint i = 0; list != NULL && i < json_array_get_length (list); i++)
    {
      JsonNode *node = json_array_get_element (list, i);
      const gchar *written = JSON_NODE_HOLDS_VALUE (node) ? json_node_get_string (node) : NULL;
      g_autofree gchar *name = weft_architecture_file_expand (file, written != NULL ? written : "");
      JsonArray *own = weft_architecture_registry_find_bases (self->registry, name);

      g_strv_builder_add (names, name);
      for (guint k = 0; own != NULL && k < json_array_get_length (own); k++)
        g_strv_builder_add (names, json_array_get_string_element (own, k));
    }
  expanded = g_strv_builder_end (names);
  bases = weft_module_bases_new ((const gchar *const *) expanded);
  g_hash_table_insert (self->bases, g_steal_pointer (&key), bases);
  return bases;
}

/* `weight_l{k}` -> `weight_l0` */
static gchar *
expand_name (const gchar *name, const WeftScope *scope)
{
  const gchar *open = strchr (name, '{'), *close = open != NULL ? strchr (open, '}') : NULL;
  g_autofree gchar *index = close != NULL ? g_strndup (open + 1, (gsize) (close - open - 1)) : NULL;
  g_autofree gchar *number = NULL;

  for (; index != NULL && scope->outer != NULL && number == NULL; scope = scope->outer)
    if (scope->name != NULL && strcmp (scope->name, index) == 0)
      number = weft_value_to_string (scope->value);
  return number != NULL ? g_strdup_printf ("%.*s%s%s", (gint) (open - name), name, number, close + 1)
                        : g_strdup (name);
}

static gboolean
evaluate_shape (WeftArchitectureBuilder *self, const gchar *name, JsonArray *extents, const Place *place,
                WeftShape *shape, GError **error)
{
  guint rank = json_array_get_length (extents);
  gint64 dims[WEFT_MAX_RANK] = { 0 };

  for (guint i = 0; i < rank && i < WEFT_MAX_RANK; i++)
    {
      JsonNode *expression = json_array_get_element (extents, i);
      g_auto (WeftValue) extent = WEFT_VALUE_INIT;
      g_autofree gchar *text = NULL;

      if (!evaluate (self, expression, place, &extent, error))
        return FALSE;
      if (extent.kind != WEFT_VALUE_INTEGER)
        {
          text = weft_value_to_string (&extent);
          return fail (self, place, error, "tensor '%s': extent %u is %.60s, expected a whole number", name,
                       i, text);
        }
      dims[i] = extent.of.integer;
    }
  if (weft_shape_init (shape, dims, rank, error))
    return TRUE;
  g_prefix_error (error, "%s: module '%s': tensor '%s': ", place->file->where, self->path->str, name);
  return FALSE;
}

static gboolean
find_dtype (WeftArchitectureBuilder *self, JsonObject *tensor, const gchar *name, const Place *place,
            WeftDtype *dtype, GError **error)
{
  const gchar *written = weft_architecture_get_text (tensor, "dtype");

  *dtype = written != NULL ? weft_dtype_from_any_name (written) : self->dtype;
  return *dtype != WEFT_DTYPE_INVALID
         || fail (self, place, error, "tensor '%s': '%s' is no dtype", name, written);
}

static gboolean
add_tensor (WeftArchitectureBuilder *self, WeftModuleBody *body, JsonObject *tensor, const Place *place,
            GError **error)
{
  const gchar *written = weft_architecture_get_text (tensor, "name");
  JsonArray *extents = weft_architecture_get_array (tensor, "shape");
  gboolean is_buffer = weft_architecture_get_flag (tensor, "buffer", FALSE);
  gboolean is_persistent = weft_architecture_get_flag (tensor, "persistent", TRUE);
  g_autoptr (WeftTensorSpec) spec = NULL;
  g_autofree gchar *name = NULL;
  gboolean is_there;
  WeftShape shape;
  WeftDtype dtype;

  if (written == NULL || extents == NULL)
    return fail (self, place, error, "a tensor needs 'name', a text, and 'shape', a list");
  if (!holds (self, tensor, "if", place, &is_there, error))
    return FALSE;
  if (!is_there)
    return TRUE;
  name = expand_name (written, place->scope);
  if (!evaluate_shape (self, name, extents, place, &shape, error)
      || !find_dtype (self, tensor, name, place, &dtype, error))
    return FALSE;
  spec = is_buffer ? weft_tensor_spec_new_buffer (dtype, &shape, is_persistent)
                   : weft_tensor_spec_new (dtype, &shape);
  weft_module_body_set_tensor (body, name, name, spec);
  return TRUE;
}

/* A tensor, or a group of them that is there several times. */
static gboolean
add_tensor_group (WeftArchitectureBuilder *self, WeftModuleBody *body, JsonObject *group, const Place *place,
                  GError **error)
{
  JsonNode *repeat = json_object_get_member (group, "repeat");
  JsonArray *tensors = weft_architecture_get_array (group, "tensors");
  const gchar *index = weft_architecture_get_text (group, "index");
  gint64 count;

  if (repeat == NULL)
    return add_tensor (self, body, group, place, error);
  if (tensors == NULL || index == NULL)
    return fail (self, place, error, "a group of tensors needs 'index', a text, and 'tensors', a list");
  if (!evaluate_count (self, repeat, place, &count, error))
    return FALSE;
  for (gint64 i = 0; i < count; i++)
    {
      WeftValue number = weft_value_integer (i);
      WeftScope scope = { .outer = place->scope, .name = index, .value = &number };
      Place inner = { place->file, place->config, &scope };

      for (guint k = 0; k < json_array_get_length (tensors); k++)
        {
          JsonNode *tensor = json_array_get_element (tensors, k);

          if (!JSON_NODE_HOLDS_OBJECT (tensor))
            return fail (self, place, error, "tensors: expected objects");
          if (!add_tensor (self, body, json_node_get_object (tensor), &inner, error))
            return FALSE;
        }
    }
  return TRUE;
}

static WeftModelConfig *
change_config (WeftArchitectureBuilder *self, WeftModelConfig *config, JsonObject *changes,
               const Place *place, GError **error)
{
  g_autoptr (GList) names = json_object_get_members (changes);
  guint n = g_list_length (names), i = 0;
  g_autofree const gchar **fields = g_new0 (const gchar *, n + 1);
  g_auto (WeftValue) list = weft_value_list ();
  g_autoptr (GString) key = g_string_new (NULL);
  WeftModelConfig *changed;

  g_string_printf (key, "%p", (gpointer) config);
  for (GList *name = names; name != NULL; name = name->next, i++)
    {
      g_auto (WeftValue) value = WEFT_VALUE_INIT;
      g_autofree gchar *text = NULL;

      if (!evaluate (self, json_object_get_member (changes, name->data), place, &value, error))
        return NULL;
      fields[i] = name->data;
      weft_value_append (&list, &value);
      text = weft_value_to_string (&value);
      g_string_append_printf (key, " %s=%" G_GSIZE_FORMAT ":%s", fields[i], strlen (text), text);
    }
  changed = g_hash_table_lookup (self->changed, key->str);
  if (changed != NULL)
    return changed;
  changed = weft_model_config_change (config, fields, (const WeftValue *) (gpointer) list.of.list->data);
  g_hash_table_insert (self->changed, g_strdup (key->str), changed);
  return changed;
}

/* The config that a child is evaluated on; %NULL is one too. */
static gboolean
find_config (WeftArchitectureBuilder *self, JsonObject *child, const Place *place, WeftModelConfig **config,
             GError **error)
{
  JsonNode *expression = json_object_get_member (child, "config");
  JsonObject *changes = weft_architecture_get_object (child, "set");
  g_auto (WeftValue) value = WEFT_VALUE_INIT;

  *config = place->config;
  if (expression != NULL)
    {
      if (!evaluate (self, expression, place, &value, error))
        return FALSE;
      if (value.kind != WEFT_VALUE_CONFIG && value.kind != WEFT_VALUE_NULL)
        return fail (self, place, error, "config: it is %s", weft_value_kind_get_name (value.kind));
      *config = value.kind == WEFT_VALUE_CONFIG ? WEFT_MODEL_CONFIG (value.of.config) : NULL;
      /* Keys of caches name configs by address. */
      if (*config != NULL && !g_ptr_array_find (self->configs, *config, NULL))
        g_ptr_array_add (self->configs, g_object_ref (*config));
    }
  if (changes == NULL || *config == NULL)
    return TRUE;
  *config = change_config (self, *config, changes, place, error);
  return *config != NULL;
}

/* Binds an argument `name` or `name=default` of a definition to what the child gives. */
static gboolean
bind_argument (WeftArchitectureBuilder *self, const gchar *argument, JsonObject *given, const Place *place,
               gchar **name, WeftValue *value, GError **error)
{
  const gchar *equals = strchr (argument, '=');
  JsonNode *expression;

  *name = equals != NULL ? g_strndup (argument, (gsize) (equals - argument)) : g_strdup (argument);
  expression = given != NULL ? json_object_get_member (given, *name) : NULL;
  if (expression != NULL)
    return evaluate (self, expression, place, value, error);
  if (equals != NULL)
    {
      g_autoptr (WeftExpression) fallback = weft_expression_parse (equals + 1, error);
      WeftScope nothing = { 0 };

      return fallback != NULL && weft_expression_evaluate (fallback, &nothing, value, error);
    }
  return fail (self, place, error, "argument '%s' is not given", *name);
}

static void
remember_given (WeftArchitectureBuilder *self, WeftModuleBody *body, GPtrArray *texts, const Names *names)
{
  Given *given = g_new0 (Given, 1);

  given->body = weft_module_body_ref (body);
  given->names = g_ptr_array_ref (texts);
  given->values = weft_value_list ();
  for (guint i = 0; i < names->n; i++)
    weft_value_append (&given->values, &names->values[i]);
  g_hash_table_insert (self->given, body, given);
}

/* A named definition sees its arguments and its config, and nothing of where it stands. */
static WeftModuleBody *
build_definition (WeftArchitectureBuilder *self, WeftArchitectureFile *file, JsonObject *definition,
                  WeftModelConfig *config, JsonObject *given, const Place *from, GError **error)
{
  JsonArray *arguments = weft_architecture_get_array (definition, "arguments");
  guint n = arguments != NULL ? json_array_get_length (arguments) : 0;
  WeftScope outermost = { .config = config != NULL ? G_OBJECT (config) : NULL,
                          .find_field = weft_model_config_find_field };
  Names names = names_new (n);
  g_autoptr (GPtrArray) texts = g_ptr_array_new_with_free_func (g_free);
  g_autoptr (GString) key = g_string_new (NULL);
  Place place = { file, config, &outermost };
  WeftModuleBody *body = NULL;
  gboolean is_bound = TRUE;

  g_string_printf (key, "%p %p %p %d", (gpointer) definition, (gpointer) file, (gpointer) config,
                   self->dtype);
  for (guint i = 0; i < n && is_bound; i++)
    {
      JsonNode *argument = json_array_get_element (arguments, i);
      const gchar *text = JSON_NODE_HOLDS_VALUE (argument) ? json_node_get_string (argument) : NULL;
      WeftValue value = WEFT_VALUE_INIT;
      gchar *name = NULL;
      g_autofree gchar *printed = NULL;

      is_bound = text != NULL ? bind_argument (self, text, given, from, &name, &value, error)
                              : fail (self, from, error, "arguments: expected texts");
      g_ptr_array_add (texts, name);
      place.scope = is_bound ? names_add (&names, place.scope, name, value) : place.scope;
      printed = weft_value_to_string (&value);
      g_string_append_printf (key, " %" G_GSIZE_FORMAT ":%s", strlen (printed), printed);
    }
  if (is_bound)
    body = g_hash_table_lookup (self->bodies, key->str);
  if (body == NULL && is_bound)
    {
      body = fill (self, definition, &place, error);
      if (body != NULL)
        g_hash_table_insert (self->bodies, g_strdup (key->str), body);
      if (body != NULL && n > 0)
        remember_given (self, body, texts, &names);
    }
  names_clear (&names);
  return body != NULL ? weft_module_body_ref (body) : NULL;
}

static void
note_model (WeftArchitectureBuilder *self, WeftModuleBody *body, WeftArchitectureFile *file,
            JsonObject *entry, WeftModelConfig *config)
{
  WeftBuiltModel *model;

  if (g_hash_table_contains (self->models, body))
    return;
  model = g_new0 (WeftBuiltModel, 1);
  model->body = weft_module_body_ref (body);
  model->file = file;
  model->entry = entry;
  model->class_name = g_strdup (body->class_name);
  model->config = g_object_ref (config);
  g_hash_table_insert (self->models, body, model);
}

/* Two classes may share a definition, of which one is the class that the definition names. */
static WeftModuleBody *
build_model (WeftArchitectureBuilder *self, WeftArchitectureFile *file, const gchar *class_name,
             WeftModelConfig *config, JsonObject *given, const Place *from, GError **error)
{
  const gchar *key;
  JsonObject *entry = weft_architecture_file_find_class (file, class_name, &key);
  const gchar *name = entry != NULL ? weft_architecture_get_text (entry, "module") : NULL;
  JsonObject *definition;
  WeftModuleBody *body, *own;

  if (name == NULL)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_UNSUPPORTED,
                   "%s: module '%s': the modules of the class '%s' are not known", from->file->where,
                   self->path->str, class_name);
      return NULL;
    }
  definition = weft_architecture_registry_find_module (self->registry, file, name, error);
  body = definition != NULL ? build_definition (self, file, definition, config, given, from, error) : NULL;
  if (body == NULL || strcmp (body->class_name, class_name) == 0)
    return body;
  own = weft_module_body_copy (body);
  weft_module_body_unref (body);
  weft_module_body_set_class (own, class_name,
                              find_bases (self, file, weft_architecture_get_array (entry, "bases")));
  note_model (self, own, file, entry, config);
  return own;
}

static WeftModuleBody *
build_activation (WeftArchitectureBuilder *self, JsonNode *expression, const Place *place, GError **error)
{
  g_auto (WeftValue) name = WEFT_VALUE_INIT;
  JsonObject *definition;

  if (!evaluate (self, expression, place, &name, error))
    return NULL;
  if (name.kind != WEFT_VALUE_TEXT)
    {
      fail (self, place, error, "activation: it is %s, expected a text",
            weft_value_kind_get_name (name.kind));
      return NULL;
    }
  definition = weft_architecture_registry_find_activation (self->registry, name.of.text, error);
  if (definition == NULL)
    g_prefix_error (error, "%s: module '%s': ", place->file->where, self->path->str);
  return definition != NULL ? build_definition (self, place->file, definition, NULL, NULL, place, error)
                            : NULL;
}

/* A model of the config's own family, of the class that plays a role there. */
static WeftModuleBody *
build_auto (WeftArchitectureBuilder *self, const gchar *role, WeftModelConfig *config, JsonObject *given,
            const Place *place, GError **error)
{
  WeftArchitecture *architecture = config != NULL ? weft_model_config_get_known_architecture (config) : NULL;
  g_autofree gchar *class_name = NULL;
  const gchar *model_type = config != NULL ? weft_model_config_get_model_type (config) : NULL;

  if (architecture == NULL)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_UNSUPPORTED,
                   "%s: module '%s' is a model of the type '%s', whose architecture is not known",
                   config != NULL ? weft_model_config_get_where (config) : place->file->where,
                   self->path->str, model_type != NULL ? model_type : "");
      return NULL;
    }
  class_name = weft_architecture_dup_class_of_role (architecture, role);
  if (class_name == NULL)
    {
      g_set_error (
          error, WEFT_ERROR, WEFT_ERROR_UNSUPPORTED,
          "%s: module '%s' is a model of the type '%s', of which no class for the role '%s' is known",
          weft_model_config_get_where (config), self->path->str, architecture->model_type, role);
      return NULL;
    }
  return build_model (self, architecture->file, class_name, config, given, place, error);
}

static WeftModuleBody *
build_box (WeftArchitectureBuilder *self, JsonObject *module, JsonObject *items, const Place *place,
           GError **error)
{
  const gchar *written = weft_architecture_get_text (module, "class");
  g_autofree gchar *class_name =
      weft_architecture_file_expand (place->file, written != NULL ? written : "ModuleList");
  g_autoptr (WeftModuleBody) box = weft_module_body_new (class_name, find_bases (self, place->file, NULL));

  return add_repeated (self, box, items, place, error) ? g_steal_pointer (&box) : NULL;
}

/* An inline definition on another config: it sees the names around it, and that one's fields. */
static WeftModuleBody *
fill_on_config (WeftArchitectureBuilder *self, JsonObject *definition, WeftModelConfig *config,
                const Place *place, GError **error)
{
  WeftScope outermost = { .config = config != NULL ? G_OBJECT (config) : NULL,
                          .find_field = weft_model_config_find_field };
  g_autofree WeftScope *copies = NULL;
  Place inner = { place->file, config, NULL };
  guint n = 0;

  for (const WeftScope *scope = place->scope; scope->outer != NULL; scope = scope->outer)
    n++;
  copies = g_new0 (WeftScope, n + 1);
  copies[n] = outermost;
  n = 0;
  for (const WeftScope *scope = place->scope; scope->outer != NULL; scope = scope->outer, n++)
    {
      copies[n] = *scope;
      copies[n].outer = &copies[n + 1];
    }
  inner.scope = copies;
  return fill (self, definition, &inner, error);
}

/* What stands at one name. */
static WeftModuleBody *
build_one (WeftArchitectureBuilder *self, JsonObject *child, const Place *place, GError **error)
{
  JsonNode *activation = json_object_get_member (child, "activation");
  const gchar *role = weft_architecture_get_text (child, "auto");
  const gchar *name = weft_architecture_get_text (child, "module");
  JsonObject *given = weft_architecture_get_object (child, "with");
  JsonObject *module = weft_architecture_get_object (child, "module");
  JsonObject *items = module != NULL ? weft_architecture_get_object (module, "items") : NULL;
  WeftModelConfig *config;

  if (!find_config (self, child, place, &config, error))
    return NULL;
  if (activation != NULL)
    return build_activation (self, activation, place, error);
  if (role != NULL)
    return build_auto (self, role, config, given, place, error);
  if (name != NULL)
    {
      JsonObject *definition =
          weft_architecture_registry_find_module (self->registry, place->file, name, error);

      return definition != NULL
                 ? build_definition (self, place->file, definition, config, given, place, error)
                 : NULL;
    }
  if (module == NULL)
    {
      fail (self, place, error, "a child needs 'module', 'auto' or 'activation'");
      return NULL;
    }
  if (items != NULL)
    return build_box (self, module, items, place, error);
  return config != place->config ? fill_on_config (self, module, config, place, error)
                                 : fill (self, module, place, error);
}

/* A child may say which dtype tensors have for which nothing else does. */
static WeftModuleBody *
build_as (WeftArchitectureBuilder *self, JsonObject *child, const Place *place, GError **error)
{
  const gchar *written = weft_architecture_get_text (child, "dtype");
  WeftDtype before = self->dtype;
  WeftModuleBody *body = NULL;

  self->dtype = written != NULL ? weft_dtype_from_any_name (written) : before;
  if (self->dtype == WEFT_DTYPE_INVALID)
    fail (self, place, error, "'%s' is no dtype", written);
  else
    body = build_one (self, child, place, error);
  self->dtype = before;
  return body;
}

static gint
compare_numbers (gconstpointer a, gconstpointer b)
{
  gint64 first = g_ascii_strtoll (((const WeftModuleChild *) a)->name, NULL, 10);
  gint64 second = g_ascii_strtoll (((const WeftModuleChild *) b)->name, NULL, 10);

  return (first > second) - (first < second);
}

/* One element of a list, unless its condition says no. Gives a body, or none. */
static gboolean
build_element (WeftArchitectureBuilder *self, JsonObject *child, const gchar *index, gint64 number,
               const Place *place, WeftModuleBody **body, GError **error)
{
  WeftValue value = weft_value_integer (number);
  WeftScope scope = { .outer = place->scope, .name = index, .value = &value };
  Place inner = { place->file, place->config, index != NULL ? &scope : place->scope };
  gboolean is_there;

  *body = NULL;
  if (!holds (self, child, "if", &inner, &is_there, error))
    return FALSE;
  if (!is_there)
    return TRUE;
  *body = build_as (self, child, &inner, error);
  return *body != NULL;
}

static gboolean
add_repeated (WeftArchitectureBuilder *self, WeftModuleBody *box, JsonObject *child, const Place *place,
              GError **error)
{
  JsonNode *repeat = json_object_get_member (child, "repeat");
  const gchar *index = weft_architecture_get_text (child, "index");
  gboolean is_in_order = box->children->len == 0;
  g_autoptr (WeftModuleBody) body = NULL;
  gsize length = self->path->len;
  gint64 count;

  if (repeat == NULL)
    return fail (self, place, error, "items: 'repeat' is missing");
  if (!evaluate_count (self, repeat, place, &count, error))
    return FALSE;
  self->n_elements += (guint) count;
  if (self->n_elements > MAX_ELEMENTS)
    return fail (self, place, error, "the lists of the model have more than %d elements", MAX_ELEMENTS);
  for (gint64 i = 0; i < count; i++)
    {
      g_autofree gchar *name = g_strdup_printf ("%" G_GINT64_FORMAT, i);

      g_string_append_printf (self->path, ".%s", name);
      /* Elements that do not look at their index are all alike. */
      if (index != NULL || i == 0)
        {
          g_clear_pointer (&body, weft_module_body_unref);
          if (!build_element (self, child, index, i, place, &body, error))
            return FALSE;
        }
      g_string_truncate (self->path, length);
      if (body != NULL)
        weft_module_body_set_child (box, is_in_order ? NULL : name, name, body, NULL);
    }
  if (!is_in_order)
    g_array_sort (box->children, compare_numbers);
  return TRUE;
}

/* A list of modules; several entries of its name give its elements between them. */
static gboolean
add_list (WeftArchitectureBuilder *self, WeftModuleBody *body, const gchar *name, JsonObject *child,
          const Place *place, GError **error)
{
  const WeftModuleChild *known = weft_module_body_find_child (body, name);
  const gchar *written = weft_architecture_get_text (child, "container");
  g_autofree gchar *class_name =
      weft_architecture_file_expand (place->file, written != NULL ? written : "ModuleList");
  g_autoptr (WeftModuleBody) box = NULL;
  gboolean is_there;

  if (!holds (self, child, "when", place, &is_there, error))
    return FALSE;
  if (!is_there)
    return TRUE;
  box = known != NULL ? weft_module_body_ref (known->body)
                      : weft_module_body_new (class_name, find_bases (self, place->file, NULL));
  if (known == NULL)
    weft_module_body_set_child (body, NULL, name, box, NULL);
  return add_repeated (self, box, child, place, error);
}

/* A child of a body, as the body's own, so that it can be changed; %NULL if there is none of that name. */
static WeftModuleBody *
get_own_child (WeftArchitectureBuilder *self, WeftModuleBody *body, const gchar *name)
{
  const WeftModuleChild *child = weft_module_body_find_child (body, name);
  const WeftBuiltModel *model;
  g_autoptr (WeftModuleBody) copy = NULL;

  if (child == NULL)
    return NULL;
  copy = weft_module_body_copy (child->body);
  model = weft_architecture_builder_find_model (self, child->body);
  if (model != NULL)
    note_model (self, copy, model->file, model->entry, model->config);
  weft_module_body_set_child (body, name, name, copy, NULL);
  return copy;
}

/* The module at the end of a path of names, which are changed with it. */
static WeftModuleBody *
get_own_below (WeftArchitectureBuilder *self, WeftModuleBody *body, gchar **names, guint n)
{
  for (guint i = 0; i < n && body != NULL; i++)
    body = get_own_child (self, body, names[i]);
  return body;
}

/* What stands in the place of a module that is exchanged. It sees the arguments that the other one was made with. */
static WeftModuleBody *
build_replacement (WeftArchitectureBuilder *self, WeftModuleBody *old, JsonObject *rule, const Place *place,
                   GError **error)
{
  const Given *given = g_hash_table_lookup (self->given, old);
  const gchar *name = weft_architecture_get_text (rule, "module");
  WeftScope outermost = { .find_field = weft_model_config_find_field };
  Names names = names_new (given != NULL ? given->names->len : 0);
  Place inner = { place->file, NULL, &outermost };
  JsonObject *definition = NULL;
  WeftModuleBody *body = NULL;

  for (guint i = 0; given != NULL && i < given->values.of.list->len; i++)
    inner.scope = names_add (&names, inner.scope, given->names->pdata[i],
                             weft_value_copy (&g_array_index (given->values.of.list, WeftValue, i)));
  if (name == NULL)
    fail (self, place, error, "replace: a rule needs 'module', a text");
  else
    definition = weft_architecture_registry_find_module (self->registry, place->file, name, error);
  if (definition != NULL)
    body = build_definition (self, place->file, definition, NULL, weft_architecture_get_object (rule, "with"),
                             &inner, error);
  names_clear (&names);
  return body;
}

/* Exchanges modules of a class below @body. */
static gboolean
replace_below (WeftArchitectureBuilder *self, WeftModuleBody *body, const gchar *class_name, JsonObject *rule,
               const Place *place, GError **error)
{
  for (guint i = 0; i < body->children->len; i++)
    {
      const WeftModuleChild *child = &g_array_index (body->children, WeftModuleChild, i);
      g_autofree gchar *name = g_strdup (child->name);
      g_autoptr (WeftModuleBody) replacement = NULL;

      if (strcmp (child->body->class_name, class_name) == 0)
        {
          replacement = build_replacement (self, child->body, rule, place, error);
          if (replacement == NULL)
            return FALSE;
          weft_module_body_set_child (body, name, name, replacement, NULL);
        }
      else if (!replace_below (self, get_own_child (self, body, name), class_name, rule, place, error))
        return FALSE;
    }
  return TRUE;
}

static gboolean
apply_replacements (WeftArchitectureBuilder *self, WeftModuleBody *body, const gchar *name, JsonObject *rules,
                    const Place *place, GError **error)
{
  g_autoptr (GList) classes = rules != NULL ? json_object_get_members (rules) : NULL;
  WeftModuleBody *own = classes != NULL ? get_own_child (self, body, name) : NULL;

  for (GList *written = classes; written != NULL; written = written->next)
    {
      JsonObject *rule = weft_architecture_get_object (rules, written->data);
      g_autofree gchar *class_name = weft_architecture_file_expand (place->file, written->data);
      gboolean is_asked;

      if (rule == NULL)
        return fail (self, place, error, "replace: expected objects");
      if (!holds (self, rule, "if", place, &is_asked, error)
          || (is_asked && !replace_below (self, own, class_name, rule, place, error)))
        return FALSE;
    }
  return TRUE;
}

/* A child in a body that is its parent. */
static gboolean
add_plain_child (WeftArchitectureBuilder *self, WeftModuleBody *body, const gchar *name, JsonObject *child,
                 const Place *place, GError **error)
{
  g_autoptr (WeftModuleBody) made = NULL;
  gboolean is_there;

  if (json_object_has_member (child, "repeat"))
    return add_list (self, body, name, child, place, error);
  if (!holds (self, child, "if", place, &is_there, error))
    return FALSE;
  if (!is_there)
    return TRUE;
  if (weft_architecture_get_flag (child, "remove", FALSE))
    {
      weft_module_body_remove_child (body, name);
      return TRUE;
    }
  made = build_as (self, child, place, error);
  if (made == NULL)
    return FALSE;
  weft_module_body_set_child (body, name, name, made, NULL);
  return apply_replacements (self, body, name, weft_architecture_get_object (child, "replace"), place, error);
}

/* A child in a module further down, which another definition made. */
static gboolean
add_child_at (WeftArchitectureBuilder *self, WeftModuleBody *body, const gchar *path, JsonObject *child,
              const Place *place, GError **error)
{
  g_auto (GStrv) names = g_strsplit (path, ".", -1);
  guint n = g_strv_length (names);
  gsize length = self->path->len;
  gboolean is_added;

  body = get_own_below (self, body, names, n - 1);
  if (body == NULL)
    return fail (self, place, error, "there is no module for the child '%s'", path);
  g_string_append_printf (self->path, "%s%s", length > 0 ? "." : "", path);
  is_added = add_plain_child (self, body, names[n - 1], child, place, error);
  g_string_truncate (self->path, length);
  return is_added;
}

/* `layers.*.norm`: a child in every member of a list that is there. */
static gboolean
add_child_to_each (WeftArchitectureBuilder *self, WeftModuleBody *body, const gchar *star, JsonObject *child,
                   const Place *place, GError **error)
{
  const gchar *path = weft_architecture_get_text (child, "name");
  g_autofree gchar *before = g_strndup (path, (gsize) (star - path));
  g_auto (GStrv) names = g_strsplit (before, ".", -1);
  const gchar *index = weft_architecture_get_text (child, "index");
  WeftModuleBody *box = get_own_below (self, body, names, g_strv_length (names));

  for (guint i = 0; box != NULL && i < box->children->len; i++)
    {
      const gchar *number = g_array_index (box->children, WeftModuleChild, i).name;
      WeftValue value = weft_value_integer (g_ascii_strtoll (number, NULL, 10));
      WeftScope scope = { .outer = place->scope, .name = index, .value = &value };
      Place inner = { place->file, place->config, index != NULL ? &scope : place->scope };
      g_autofree gchar *inner_path = g_strconcat (number, star + strlen (".*"), NULL);

      if (!add_child_at (self, box, inner_path, child, &inner, error))
        return FALSE;
    }
  return TRUE;
}

static gboolean
add_child (WeftArchitectureBuilder *self, WeftModuleBody *body, JsonObject *child, const Place *place,
           GError **error)
{
  const gchar *name = weft_architecture_get_text (child, "name");
  const gchar *star = name != NULL ? strstr (name, ".*.") : NULL;

  if (name == NULL || name[0] == '\0')
    return fail (self, place, error, "a child needs 'name', a text");
  return star != NULL ? add_child_to_each (self, body, star, child, place, error)
                      : add_child_at (self, body, name, child, place, error);
}

typedef gboolean (*Add) (WeftArchitectureBuilder *self, WeftModuleBody *body, JsonObject *entry,
                         const Place *place, GError **error);

static gboolean
add_each (WeftArchitectureBuilder *self, WeftModuleBody *body, JsonObject *definition, const gchar *member,
          Add add, const Place *place, GError **error)
{
  JsonArray *entries = weft_architecture_get_array (definition, member);

  for (guint i = 0; entries != NULL && i < json_array_get_length (entries); i++)
    {
      JsonNode *entry = json_array_get_element (entries, i);

      if (!JSON_NODE_HOLDS_OBJECT (entry))
        return fail (self, place, error, "%s: expected objects", member);
      if (!add (self, body, json_node_get_object (entry), place, error))
        return FALSE;
    }
  return TRUE;
}

/* Attributes are names for what follows them. */
static gboolean
add_attributes (WeftArchitectureBuilder *self, WeftModuleBody *body, JsonObject *attributes, Names *names,
                Place *place, GError **error)
{
  g_autoptr (GList) members = attributes != NULL ? json_object_get_members (attributes) : NULL;

  for (GList *name = members; name != NULL; name = name->next)
    {
      g_auto (WeftValue) value = WEFT_VALUE_INIT;
      g_autoptr (JsonNode) node = NULL;
      GVariant *variant;

      if (!evaluate (self, json_object_get_member (attributes, name->data), place, &value, error))
        return FALSE;
      node = weft_value_to_json (&value);
      variant = weft_module_value_from_json (node);
      if (variant == NULL)
        return fail (self, place, error, "attribute '%s' is %s", (const gchar *) name->data,
                     weft_value_kind_get_name (value.kind));
      weft_module_body_set_attribute (body, name->data, variant);
      place->scope = names_add (names, place->scope, name->data, weft_value_copy (&value));
    }
  return TRUE;
}

static gboolean
fill_body (WeftArchitectureBuilder *self, WeftModuleBody *body, JsonObject *definition, const Place *place,
           GError **error)
{
  JsonObject *attributes = weft_architecture_get_object (definition, "attributes");
  Names names = names_new (attributes != NULL ? json_object_get_size (attributes) : 0);
  Place inner = *place;
  gboolean is_filled = add_attributes (self, body, attributes, &names, &inner, error)
                       && add_each (self, body, definition, "tensors", add_tensor_group, &inner, error)
                       && add_each (self, body, definition, "children", add_child, &inner, error);

  names_clear (&names);
  return is_filled;
}

static WeftModuleBody *
fill (WeftArchitectureBuilder *self, JsonObject *definition, const Place *place, GError **error)
{
  const gchar *written = weft_architecture_get_text (definition, "class");
  JsonObject *entry = written != NULL && place->file->classes != NULL
                          ? weft_architecture_get_object (place->file->classes, written)
                          : NULL;
  g_autofree gchar *class_name =
      written != NULL ? weft_architecture_file_expand (place->file, written) : NULL;
  JsonArray *bases = weft_architecture_get_array (entry != NULL ? entry : definition, "bases");
  g_autoptr (WeftModuleBody) body = NULL;
  gboolean is_filled;

  if (class_name == NULL)
    {
      fail (self, place, error, "a module needs 'class', a text");
      return NULL;
    }
  if (self->depth >= WEFT_MAX_MODULE_DEPTH)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_LIMIT,
                   "%s: module '%.100s...': nested deeper than %d levels", place->file->where,
                   self->path->str, WEFT_MAX_MODULE_DEPTH);
      return NULL;
    }
  body = weft_module_body_new (class_name, find_bases (self, place->file, bases));
  self->depth++;
  is_filled = fill_body (self, body, definition, place, error);
  self->depth--;
  if (!is_filled)
    return NULL;
  if (entry != NULL && place->config != NULL)
    note_model (self, body, place->file, entry, place->config);
  return g_steal_pointer (&body);
}

WeftModuleBody *
weft_architecture_builder_build (WeftArchitectureBuilder *self, const gchar *class_name,
                                 WeftModelConfig *config, GError **error)
{
  WeftArchitecture *architecture = weft_model_config_get_known_architecture (config);
  WeftScope outermost = { .config = G_OBJECT (config), .find_field = weft_model_config_find_field };
  Place place = { architecture->file, config, &outermost };

  g_ptr_array_add (self->configs, g_object_ref (config));
  return build_model (self, architecture->file, class_name, config, NULL, &place, error);
}
