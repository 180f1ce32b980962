/* SPDX-License-Identifier: Apache-2.0 */
#include "model/weft-model-config.h"

#include <string.h>

#include "base/weft-json.h"
#include "model/weft-model-config-private.h"

/* Defaults that depend on each other, and configs in configs. */
#define MAX_DEPTH 32

struct _WeftModelConfig
{
  GObject parent_instance;

  gchar *where;
  JsonObject *object;
  WeftArchitecture *architecture; /* (nullable) */
  gboolean is_raw;                /* what the file says, and nothing for what it does not say */
  GHashTable *changes;            /* (nullable): field -> WeftValue, in place of what the file says */
  GRecMutex lock;
  GHashTable *values; /* field -> WeftValue, found before */
  GPtrArray *asked;   /* names of fields that are being found */
};

G_DEFINE_FINAL_TYPE (WeftModelConfig, weft_model_config, G_TYPE_OBJECT)

static void
free_value (gpointer value)
{
  weft_value_clear (value);
  g_free (value);
}

static GHashTable *
new_value_table (void)
{
  return g_hash_table_new_full (g_str_hash, g_str_equal, g_free, free_value);
}

static void
put_value (GHashTable *table, const gchar *name, const WeftValue *value)
{
  WeftValue *copy = g_new (WeftValue, 1);

  *copy = weft_value_copy (value);
  g_hash_table_insert (table, g_strdup (name), copy);
}

static void
weft_model_config_init (WeftModelConfig *self)
{
  g_rec_mutex_init (&self->lock);
  self->values = new_value_table ();
  self->asked = g_ptr_array_new_with_free_func (g_free);
}

static void
weft_model_config_finalize (GObject *object)
{
  WeftModelConfig *self = WEFT_MODEL_CONFIG (object);

  g_free (self->where);
  json_object_unref (self->object);
  g_clear_pointer (&self->architecture, weft_architecture_unref);
  g_clear_pointer (&self->changes, g_hash_table_unref);
  g_hash_table_unref (self->values);
  g_ptr_array_unref (self->asked);
  g_rec_mutex_clear (&self->lock);
  G_OBJECT_CLASS (weft_model_config_parent_class)->finalize (object);
}

static void
weft_model_config_class_init (WeftModelConfigClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = weft_model_config_finalize;
}

static gboolean
refuse (GError **error, const gchar *where, const gchar *field, const gchar *expected, JsonNode *found)
{
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT, "%s: %s: expected %s, found %s", where, field, expected,
               weft_json_describe (found));
  return FALSE;
}

static gboolean
is_text (JsonNode *node)
{
  return JSON_NODE_HOLDS_VALUE (node) && json_node_get_value_type (node) == G_TYPE_STRING;
}

/* What every config has, where it has it. */
static gboolean
check_fields (JsonObject *object, const gchar *where, GError **error)
{
  static const gchar *const texts[] = { "model_type", "dtype", "torch_dtype" };
  JsonNode *architectures = json_object_get_member (object, "architectures");

  for (guint i = 0; i < G_N_ELEMENTS (texts); i++)
    {
      JsonNode *text = json_object_get_member (object, texts[i]);

      if (text != NULL && !JSON_NODE_HOLDS_NULL (text) && !is_text (text))
        return refuse (error, where, texts[i], "a text", text);
    }
  if (architectures == NULL || JSON_NODE_HOLDS_NULL (architectures))
    return TRUE;
  if (!JSON_NODE_HOLDS_ARRAY (architectures))
    return refuse (error, where, "architectures", "a list of class names", architectures);
  for (guint i = 0; i < json_array_get_length (json_node_get_array (architectures)); i++)
    {
      JsonNode *name = json_array_get_element (json_node_get_array (architectures), i);

      if (!is_text (name))
        return refuse (error, where, "architectures", "a list of class names", name);
    }
  return TRUE;
}

WeftModelConfig *
weft_model_config_new_for_architecture (JsonObject *object, const gchar *where,
                                        WeftArchitecture *architecture, GError **error)
{
  WeftModelConfig *self;

  if (!check_fields (object, where, error))
    return NULL;
  self = g_object_new (WEFT_TYPE_MODEL_CONFIG, NULL);
  self->where = g_strdup (where);
  self->object = json_object_ref (object);
  self->architecture = architecture != NULL ? weft_architecture_ref (architecture) : NULL;
  return self;
}

WeftArchitecture *
weft_model_config_get_known_architecture (WeftModelConfig *self)
{
  return self->architecture;
}

/**
 * weft_model_config_new:
 * @root: the content of a `config.json`
 * @where: what messages call it, such as the path of the file
 * @error: return location
 *
 * Returns: (transfer full): the config as it is written, without defaults
 * Errors: %WEFT_ERROR_FORMAT if it is no object, or if its model type or its architectures are no texts
 * Since: 1.0
 */
WeftModelConfig *
weft_model_config_new (JsonNode *root, const gchar *where, GError **error)
{
  if (JSON_NODE_HOLDS_OBJECT (root))
    return weft_model_config_new_for_architecture (json_node_get_object (root), where, NULL, error);
  refuse (error, where, "the config", "an object", root);
  return NULL;
}

/**
 * weft_model_config_load:
 * @path: path of a `config.json`
 * @error: return location
 *
 * Returns: (transfer full): the config as it is written, without defaults
 * Errors: those of weft_json_load_file() and of weft_model_config_new()
 * Since: 1.0
 */
WeftModelConfig *
weft_model_config_load (const gchar *path, GError **error)
{
  g_autoptr (JsonNode) root = weft_json_load_file (path, error);

  return root != NULL ? weft_model_config_new (root, path, error) : NULL;
}

/**
 * weft_model_config_get_where:
 * @self: a config
 *
 * Returns: (transfer none): what messages call it
 * Since: 1.0
 */
const gchar *
weft_model_config_get_where (WeftModelConfig *self)
{
  return self->where;
}

/**
 * weft_model_config_get_model_type:
 * @self: a config
 *
 * Returns: (transfer none) (nullable): its model type; %NULL if the file does not say
 * Since: 1.0
 */
const gchar *
weft_model_config_get_model_type (WeftModelConfig *self)
{
  JsonNode *node = json_object_get_member (self->object, "model_type");

  if (node != NULL && is_text (node))
    return json_node_get_string (node);
  return self->architecture != NULL ? weft_architecture_get_model_type (self->architecture) : NULL;
}

/**
 * weft_model_config_get_architecture:
 * @self: a config
 *
 * Returns: (transfer none) (nullable): the first of its `architectures`: the class whose weights the checkpoint holds; %NULL if
 *   the file does not say
 * Since: 1.0
 */
const gchar *
weft_model_config_get_architecture (WeftModelConfig *self)
{
  JsonArray *architectures = weft_architecture_get_array (self->object, "architectures");

  return architectures != NULL && json_array_get_length (architectures) > 0
             ? json_array_get_string_element (architectures, 0)
             : NULL;
}

/* NULL: the config names none. */
static const gchar *
get_dtype_name (WeftModelConfig *self)
{
  const gchar *name = weft_architecture_get_text (self->object, "dtype");

  return name != NULL ? name : weft_architecture_get_text (self->object, "torch_dtype");
}

gboolean
weft_model_config_read_dtype (const gchar *name, const gchar *where, WeftDtype *dtype, GError **error)
{
  *dtype = strcmp (name, "auto") == 0 ? WEFT_DTYPE_INVALID : weft_dtype_from_any_name (name);
  if (strcmp (name, "auto") == 0 || (*dtype != WEFT_DTYPE_INVALID && weft_dtype_is_floating (*dtype)))
    return TRUE;
  g_set_error (
      error, WEFT_ERROR, WEFT_ERROR_FORMAT,
      "%s: dtype: expected a floating dtype such as \"bfloat16\", found \"%s\"; correct it, leave it out, or ask "
      "for a dtype by name",
      where, name);
  return FALSE;
}

gboolean
weft_model_config_find_dtype (WeftModelConfig *self, WeftDtype *dtype, GError **error)
{
  const gchar *name = get_dtype_name (self);

  *dtype = WEFT_DTYPE_INVALID;
  return name == NULL || weft_model_config_read_dtype (name, self->where, dtype, error);
}

/**
 * weft_model_config_get_dtype:
 * @self: a config
 *
 * Returns: its `dtype`, or `torch_dtype` as older files write it; %WEFT_DTYPE_INVALID if the file names none that is known
 * Since: 1.0
 */
WeftDtype
weft_model_config_get_dtype (WeftModelConfig *self)
{
  const gchar *name = get_dtype_name (self);

  return name != NULL ? weft_dtype_from_any_name (name) : WEFT_DTYPE_INVALID;
}

/**
 * weft_model_config_to_json:
 * @self: a config
 *
 * Returns: (transfer full): what the file says, without defaults
 * Since: 1.0
 */
JsonNode *
weft_model_config_to_json (WeftModelConfig *self)
{
  return json_node_init_object (json_node_alloc (), self->object);
}

/* The field's own name, where a config may use another one. */
static const gchar *
find_own_name (WeftModelConfig *self, const gchar *name)
{
  JsonObject *aliases = self->architecture != NULL
                            ? weft_architecture_get_config_section (self->architecture, "aliases")
                            : NULL;
  const gchar *own = aliases != NULL ? weft_architecture_get_text (aliases, name) : NULL;

  return own != NULL ? own : name;
}

/* The same config with other values for some fields. */
WeftModelConfig *
weft_model_config_change (WeftModelConfig *self, const gchar *const *names, const WeftValue *values)
{
  WeftModelConfig *changed = g_object_new (WEFT_TYPE_MODEL_CONFIG, NULL);
  GHashTableIter earlier;
  gpointer name, value;

  changed->where = g_strdup (self->where);
  changed->object = json_object_ref (self->object);
  changed->architecture = self->architecture != NULL ? weft_architecture_ref (self->architecture) : NULL;
  changed->changes = new_value_table ();
  if (self->changes != NULL)
    {
      g_hash_table_iter_init (&earlier, self->changes);
      while (g_hash_table_iter_next (&earlier, &name, &value))
        put_value (changed->changes, name, value);
    }
  for (guint i = 0; names[i] != NULL; i++)
    put_value (changed->changes, find_own_name (self, names[i]), &values[i]);
  return changed;
}

/* What the file says, under the field's own name or another one. */
static JsonNode *
find_written (WeftModelConfig *self, const gchar *own_name)
{
  JsonNode *node = json_object_get_member (self->object, own_name);
  JsonObject *aliases = self->architecture != NULL
                            ? weft_architecture_get_config_section (self->architecture, "aliases")
                            : NULL;
  g_autoptr (GList) names = NULL;

  if (node != NULL || aliases == NULL)
    return node;
  names = json_object_get_members (aliases);
  for (GList *name = names; name != NULL && node == NULL; name = name->next)
    if (g_strcmp0 (weft_architecture_get_text (aliases, name->data), own_name) == 0)
      node = json_object_get_member (self->object, name->data);
  return node;
}

static gboolean
make_nested (WeftModelConfig *self, const gchar *name, JsonObject *object, const gchar *model_type,
             WeftValue *value, GError **error)
{
  g_autofree gchar *where = g_strconcat (self->where, ": ", name, NULL);
  g_autoptr (WeftArchitecture) architecture = NULL;
  g_autoptr (WeftModelConfig) nested = NULL;
  g_autoptr (GError) cause = NULL;

  if (model_type != NULL)
    architecture = weft_architecture_registry_lookup (self->architecture->registry, model_type, &cause);
  if (cause != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&cause));
      return FALSE;
    }
  nested = weft_model_config_new_for_architecture (object, where, architecture, error);
  if (nested == NULL)
    return FALSE;
  *value = weft_value_config (G_OBJECT (nested));
  return TRUE;
}

/* What the file says, with the defaults of the rule for what it leaves out. */
static JsonObject *
merge_defaults (JsonObject *written, JsonObject *defaults)
{
  JsonObject *merged = json_object_new ();
  JsonObject *const sources[] = { defaults, written };

  for (guint i = 0; i < G_N_ELEMENTS (sources); i++)
    {
      g_autoptr (GList) names = json_object_get_members (sources[i]);

      for (GList *name = names; name != NULL; name = name->next)
        json_object_set_member (merged, name->data, json_object_dup_member (sources[i], name->data));
    }
  return merged;
}

/* The fields of this config that may be those of one that would be nested in it: published configs of some types are flat. */
static JsonObject *
take_flat_fields (WeftModelConfig *self)
{
  JsonObject *configs = weft_architecture_get_config_section (self->architecture, "configs");
  g_autoptr (GList) names = json_object_get_members (self->object);
  JsonObject *fields = json_object_new ();

  for (GList *name = names; name != NULL; name = name->next)
    if (!json_object_has_member (configs, name->data) && strcmp (name->data, "model_type") != 0
        && strcmp (name->data, "architectures") != 0)
      json_object_set_member (fields, name->data, json_object_dup_member (self->object, name->data));
  return fields;
}

/* What a config is made of that is absent. */
static JsonObject *
make_absent (WeftModelConfig *self, JsonObject *rule)
{
  JsonObject *fallback = weft_architecture_get_object (rule, "default");
  g_autoptr (JsonObject) defaults = fallback != NULL ? json_object_ref (fallback) : json_object_new ();
  g_autoptr (JsonObject) fields = NULL;

  if (!weft_architecture_get_flag (rule, "flat", FALSE))
    return g_steal_pointer (&defaults);
  fields = take_flat_fields (self);
  return merge_defaults (fields, defaults);
}

/* A config in this one. The rule says of which model type it is, whether the file may name another, and what an absent one is. */
static gboolean
find_nested (WeftModelConfig *self, const gchar *name, JsonObject *rule, WeftValue *value, GError **error)
{
  JsonNode *written = find_written (self, name);
  const gchar *model_type = weft_architecture_get_text (rule, "model_type");
  JsonObject *fallback = weft_architecture_get_object (rule, "default");
  g_autoptr (JsonObject) object = NULL;

  if (weft_architecture_get_flag (rule, "derived", FALSE))
    return written != NULL || make_nested (self, name, self->object, model_type, value, error);
  if (written == NULL || JSON_NODE_HOLDS_NULL (written))
    {
      if (weft_architecture_get_flag (rule, "null", FALSE))
        return TRUE;
      object = make_absent (self, rule);
      return make_nested (self, name, object, model_type, value, error);
    }
  if (!JSON_NODE_HOLDS_OBJECT (written))
    return refuse (error, self->where, name, "an object", written);
  if (weft_architecture_get_flag (rule, "auto", FALSE)
      && weft_architecture_get_text (json_node_get_object (written), "model_type") != NULL)
    model_type = weft_architecture_get_text (json_node_get_object (written), "model_type");
  object = fallback != NULL && weft_architecture_get_flag (rule, "merge", FALSE)
               ? merge_defaults (json_node_get_object (written), fallback)
               : json_object_ref (json_node_get_object (written));
  return make_nested (self, name, object, model_type, value, error);
}

/* What rules call `raw`. */
static void
make_raw (WeftModelConfig *self, WeftValue *value)
{
  g_autoptr (WeftModelConfig) raw = g_object_new (WEFT_TYPE_MODEL_CONFIG, NULL);

  raw->where = g_strdup (self->where);
  raw->object = json_object_ref (self->object);
  raw->architecture = weft_architecture_ref (self->architecture);
  raw->is_raw = TRUE;
  *value = weft_value_config (G_OBJECT (raw));
}

/* @given: (nullable): what the expression calls `given` */
static gboolean
evaluate (WeftModelConfig *self, JsonNode *expression, const WeftValue *given, WeftValue *value,
          GError **error)
{
  WeftScope outermost = { .config = G_OBJECT (self), .find_field = weft_model_config_find_field };
  WeftScope scope = { .outer = &outermost, .name = "given", .value = given };

  return weft_architecture_registry_evaluate (self->architecture->registry, expression,
                                              given != NULL ? &scope : &outermost, value, error);
}

/* A rule is a default, or an object that says when an expression stands for the field: `always`, which may look at what is
 * `given`; `expression`: where it is absent or null; `absent`: where it is absent. A `default` is what an absent one is then;
 * `literal` wraps a default that is an object. */
static gboolean
apply_rule (WeftModelConfig *self, JsonNode *written, JsonNode *rule, WeftValue *value, GError **error)
{
  JsonObject *object = rule != NULL && JSON_NODE_HOLDS_OBJECT (rule) ? json_node_get_object (rule) : NULL;
  JsonNode *always = object != NULL ? json_object_get_member (object, "always") : NULL;
  JsonNode *expression = object != NULL ? json_object_get_member (object, "expression") : NULL;
  JsonNode *absent = object != NULL ? json_object_get_member (object, "absent") : NULL;
  JsonNode *fallback = object != NULL ? json_object_get_member (object, "default") : NULL;
  JsonNode *literal = object != NULL ? json_object_get_member (object, "literal") : NULL;
  g_auto (WeftValue) given = weft_value_from_json (written != NULL ? written : fallback);

  if (always != NULL)
    return evaluate (self, always, &given, value, error);
  if (written != NULL && (!JSON_NODE_HOLDS_NULL (written) || expression == NULL))
    *value = weft_value_from_json (written);
  else if (written == NULL && fallback != NULL && (expression != NULL || absent != NULL))
    *value = weft_value_from_json (fallback);
  else if (expression != NULL || absent != NULL)
    return evaluate (self, expression != NULL ? expression : absent, NULL, value, error);
  else
    *value = weft_value_from_json (literal != NULL ? literal : rule);
  return TRUE;
}

/* Fields that a config puts into one that is nested in it. */
static gboolean
put_fields (WeftModelConfig *self, JsonObject *fields, WeftValue *value, GError **error)
{
  g_autoptr (GList) names = json_object_get_members (fields);
  g_autofree const gchar **texts = g_new0 (const gchar *, json_object_get_size (fields) + 1);
  g_auto (WeftValue) list = weft_value_list ();
  g_autoptr (WeftModelConfig) changed = NULL;
  guint i = 0;

  for (GList *name = names; name != NULL; name = name->next)
    {
      g_auto (WeftValue) field = WEFT_VALUE_INIT;

      if (!evaluate (self, json_object_get_member (fields, name->data), NULL, &field, error))
        return FALSE;
      texts[i++] = name->data;
      weft_value_append (&list, &field);
    }
  changed = weft_model_config_change (WEFT_MODEL_CONFIG (value->of.config), texts,
                                      (const WeftValue *) (gpointer) list.of.list->data);
  weft_value_clear (value);
  *value = weft_value_config (G_OBJECT (changed));
  return TRUE;
}

static gboolean
find_set_nested (WeftModelConfig *self, const gchar *name, JsonObject *rule, WeftValue *value, GError **error)
{
  JsonObject *fields = weft_architecture_get_object (rule, "set");

  return find_nested (self, name, rule, value, error)
         && (fields == NULL || value->kind != WEFT_VALUE_CONFIG || put_fields (self, fields, value, error));
}

/* FALSE without an error: there is no such field. */
static gboolean
find_value (WeftModelConfig *self, const gchar *name, WeftValue *value, GError **error)
{
  JsonNode *written = find_written (self, name);
  JsonObject *fields, *configs;
  JsonNode *rule = NULL;

  if (self->is_raw)
    {
      *value = weft_value_from_json (written);
      return TRUE;
    }
  if (strcmp (name, "raw") == 0 && self->architecture != NULL)
    {
      make_raw (self, value);
      return TRUE;
    }
  if (strcmp (name, "model_type") == 0 && weft_model_config_get_model_type (self) != NULL)
    {
      *value = weft_value_text (weft_model_config_get_model_type (self), -1);
      return TRUE;
    }
  if (self->architecture != NULL)
    {
      configs = weft_architecture_get_config_section (self->architecture, "configs");
      fields = weft_architecture_get_config_section (self->architecture, "fields");
      if (configs != NULL && weft_architecture_get_object (configs, name) != NULL)
        return find_set_nested (self, name, weft_architecture_get_object (configs, name), value, error);
      rule = fields != NULL ? json_object_get_member (fields, name) : NULL;
      if (rule == NULL)
        rule = weft_architecture_registry_find_common_field (self->architecture->registry, name, error);
    }
  if (written == NULL && rule == NULL)
    return FALSE;
  return apply_rule (self, written, rule, value, error);
}

static gboolean
check_not_asked (WeftModelConfig *self, const gchar *name, GError **error)
{
  for (guint i = 0; i < self->asked->len; i++)
    if (strcmp (self->asked->pdata[i], name) == 0 || self->asked->len > MAX_DEPTH)
      {
        g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT, "%s: %s: its default depends on %s", self->where,
                     name, self->asked->len > MAX_DEPTH ? "too many others" : "itself");
        return FALSE;
      }
  return TRUE;
}

gboolean
weft_model_config_find_field (GObject *config, const gchar *name, WeftValue *value, GError **error)
{
  WeftModelConfig *self = WEFT_MODEL_CONFIG (config);
  const gchar *own_name = find_own_name (self, name);
  const WeftValue *known = self->changes != NULL ? g_hash_table_lookup (self->changes, own_name) : NULL;
  g_auto (WeftValue) found = WEFT_VALUE_INIT;
  gboolean is_found;

  g_rec_mutex_lock (&self->lock);
  if (known == NULL)
    known = g_hash_table_lookup (self->values, own_name);
  is_found = known != NULL;
  if (known == NULL && check_not_asked (self, own_name, error))
    {
      g_ptr_array_add (self->asked, g_strdup (own_name));
      is_found = find_value (self, own_name, &found, error);
      g_ptr_array_remove_index (self->asked, self->asked->len - 1);
      if (is_found)
        put_value (self->values, own_name, &found);
    }
  if (is_found)
    *value = weft_value_copy (known != NULL ? known : &found);
  g_rec_mutex_unlock (&self->lock);
  return is_found;
}

/**
 * weft_model_config_get_nested:
 * @self: a config
 * @name: the name of a config in it, such as `vision_config`
 * @error: return location
 *
 * Returns: (transfer full) (nullable): that config, with the defaults of its own model type; %NULL if there is none (no error
 *   is set then)
 * Errors: %WEFT_ERROR_FORMAT if the field is no object
 * Since: 1.0
 */
WeftModelConfig *
weft_model_config_get_nested (WeftModelConfig *self, const gchar *name, GError **error)
{
  g_auto (WeftValue) value = WEFT_VALUE_INIT;
  g_autoptr (GError) cause = NULL;
  g_autofree gchar *where = g_strconcat (self->where, ": ", name, NULL);

  if (!weft_model_config_find_field (G_OBJECT (self), name, &value, &cause))
    {
      if (cause != NULL)
        g_propagate_error (error, g_steal_pointer (&cause));
      return NULL;
    }
  if (value.kind == WEFT_VALUE_CONFIG)
    return g_object_ref (WEFT_MODEL_CONFIG (value.of.config));
  if (value.kind == WEFT_VALUE_OBJECT)
    return weft_model_config_new_for_architecture (value.of.object, where, NULL, error);
  if (value.kind != WEFT_VALUE_NULL)
    g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT, "%s: expected an object, found %s", where,
                 weft_value_kind_get_name (value.kind));
  return NULL;
}

/**
 * weft_model_config_lookup:
 * @self: a config
 * @path: names joined by dots, such as `vision_config.patch_size`
 * @error: return location
 *
 * Returns: (transfer full) (nullable): the value of a field: what the file says, or the default; %NULL if there is no such field
 *   (no error is set then)
 * Errors: %WEFT_ERROR_FORMAT if a default cannot be had from what the file says
 * Since: 1.0
 */
JsonNode *
weft_model_config_lookup (WeftModelConfig *self, const gchar *path, GError **error)
{
  const gchar *dot = strchr (path, '.');
  g_autofree gchar *name = dot != NULL ? g_strndup (path, (gsize) (dot - path)) : g_strdup (path);
  g_autoptr (WeftModelConfig) nested = NULL;
  g_auto (WeftValue) value = WEFT_VALUE_INIT;
  g_autoptr (GError) cause = NULL;

  if (dot != NULL)
    {
      nested = weft_model_config_get_nested (self, name, error);
      return nested != NULL ? weft_model_config_lookup (nested, dot + 1, error) : NULL;
    }
  if (weft_model_config_find_field (G_OBJECT (self), name, &value, &cause))
    return value.kind == WEFT_VALUE_CONFIG ? weft_model_config_to_json (WEFT_MODEL_CONFIG (value.of.config))
                                           : weft_value_to_json (&value);
  if (cause != NULL)
    g_propagate_error (error, g_steal_pointer (&cause));
  return NULL;
}

/**
 * weft_model_config_get_int:
 * @self: a config
 * @path: names joined by dots, such as `vision_config.patch_size`
 * @value: (out): the value
 * @error: return location
 *
 * Returns: whether the field is there, or has a default, and is a whole number
 * Errors: %WEFT_ERROR_MISSING if there is no such field, %WEFT_ERROR_FORMAT if it is something else; both name the file
 * Since: 1.0
 */
gboolean
weft_model_config_get_int (WeftModelConfig *self, const gchar *path, gint64 *value, GError **error)
{
  g_autoptr (GError) cause = NULL;
  g_autoptr (JsonNode) node = weft_model_config_lookup (self, path, &cause);

  if (cause != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&cause));
      return FALSE;
    }
  if (node == NULL)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_MISSING, "%s: has no field '%s'; it is needed", self->where,
                   path);
      return FALSE;
    }
  if (!JSON_NODE_HOLDS_VALUE (node) || json_node_get_value_type (node) != G_TYPE_INT64)
    return refuse (error, self->where, path, "a whole number", node);
  *value = json_node_get_int (node);
  return TRUE;
}
