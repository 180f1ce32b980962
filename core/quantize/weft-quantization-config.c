/* SPDX-License-Identifier: Apache-2.0 */
#include "quantize/weft-quantization-config-internal.h"

#include <string.h>

#include "base/weft-json-internal.h"
#include "base/weft-json.h"

#define HEADER_ORIGIN "the header's " WEFT_QUANTIZATION_METADATA_NAME

struct _WeftQuantizationConfig
{
  GObject parent_instance;

  JsonNode *model_config;
  JsonNode *node;
  gchar *path;
  /* Where it was found, if not in config.json. */
  const gchar *origin;
  /* (nullable): of another sub-config, which says something else. */
  gchar *other_path;
  gchar *scheme;
  /* (nullable): the first value that was looked up and is of another type. */
  gchar *mistyped;
  gboolean is_checked;
  GHashTable *metadata;
  /* While the parameters of a scheme are read: the names that were asked for. */
  GPtrArray *asked;
};

G_DEFINE_FINAL_TYPE (WeftQuantizationConfig, weft_quantization_config, G_TYPE_OBJECT)

static void
weft_quantization_config_finalize (GObject *object)
{
  WeftQuantizationConfig *self = WEFT_QUANTIZATION_CONFIG (object);

  g_clear_pointer (&self->model_config, json_node_unref);
  g_clear_pointer (&self->node, json_node_unref);
  g_free (self->path);
  g_free (self->other_path);
  g_free (self->mistyped);
  g_free (self->scheme);
  g_hash_table_unref (self->metadata);
  g_clear_pointer (&self->asked, g_ptr_array_unref);
  G_OBJECT_CLASS (weft_quantization_config_parent_class)->finalize (object);
}

static void
weft_quantization_config_class_init (WeftQuantizationConfigClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = weft_quantization_config_finalize;
}

static void
weft_quantization_config_init (WeftQuantizationConfig *self)
{
  self->metadata = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
}

static JsonNode *
get_object_member (JsonNode *node, const gchar *name)
{
  JsonNode *member = json_object_get_member (json_node_get_object (node), name);

  return member != NULL && JSON_NODE_HOLDS_OBJECT (member) ? member : NULL;
}

static void
add_node (WeftQuantizationConfig *self, JsonNode *node, const gchar *prefix, const gchar *name)
{
  if (self->node == NULL)
    {
      self->node = json_node_ref (node);
      self->path = g_strconcat (prefix, name, NULL);
    }
  else if (self->other_path == NULL && !json_node_equal (self->node, node))
    self->other_path = g_strconcat (prefix, name, NULL);
}

/* The config's own, or else those of its sub-configs; MLX writes `quantization`, older files `compression_config`. */
static void
find_nodes (WeftQuantizationConfig *self, JsonNode *node, const gchar *prefix)
{
  static const gchar *const names[] = { "quantization_config", "compression_config", "quantization" };
  g_autoptr (GList) members = json_object_get_members (json_node_get_object (node));

  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      JsonNode *found = json_object_get_member (json_node_get_object (node), names[i]);

      if (found == NULL || JSON_NODE_HOLDS_NULL (found))
        continue;
      /* One that is no object is there as well, and no method will know it; but not every `quantization` is MLX's. */
      if (i == G_N_ELEMENTS (names) - 1 && !JSON_NODE_HOLDS_OBJECT (found))
        continue;
      add_node (self, found, prefix, names[i]);
      return;
    }
  for (GList *member = members; member != NULL; member = member->next)
    {
      JsonNode *inner = get_object_member (node, member->data);
      g_autofree gchar *name = weft_json_escape_name (member->data);
      g_autofree gchar *path = g_strconcat (prefix, name, ".", NULL);

      if (inner != NULL)
        find_nodes (self, inner, path);
    }
}

/**
 * weft_quantization_config_new:
 * @model_config: (nullable): what `config.json` holds
 *
 * Returns: (transfer full): what it says of quantisation; weft_quantization_config_is_there() tells whether it says
 *   anything
 * Since: 1.0
 */
WeftQuantizationConfig *
weft_quantization_config_new (JsonNode *model_config)
{
  WeftQuantizationConfig *self = g_object_new (WEFT_TYPE_QUANTIZATION_CONFIG, NULL);

  if (model_config == NULL || !JSON_NODE_HOLDS_OBJECT (model_config))
    return self;
  self->model_config = json_node_ref (model_config);
  find_nodes (self, model_config, "");
  return self;
}

/**
 * weft_quantization_config_new_for_scheme:
 * @scheme: name of a scheme, such as `fp8-block`
 * @parameters: (nullable): its parameters, an object
 * @model_config: (nullable): what `config.json` of the dense checkpoint holds
 *
 * Returns: (transfer full): what a caller asks for
 * Since: 1.0
 */
WeftQuantizationConfig *
weft_quantization_config_new_for_scheme (const gchar *scheme, JsonNode *parameters, JsonNode *model_config)
{
  WeftQuantizationConfig *self = g_object_new (WEFT_TYPE_QUANTIZATION_CONFIG, NULL);

  self->scheme = g_strdup (scheme);
  self->node = parameters != NULL ? json_node_ref (parameters) : NULL;
  self->model_config = model_config != NULL ? json_node_ref (model_config) : NULL;
  return self;
}

gboolean
weft_quantization_config_read_modelopt (WeftQuantizationConfig *self, const gchar *folder, GError **error)
{
  g_autofree gchar *path = g_build_filename (folder, WEFT_MODELOPT_FILE_NAME, NULL);
  g_autoptr (JsonNode) root = NULL;
  JsonNode *node;

  if (weft_quantization_config_is_there (self) || !g_file_test (path, G_FILE_TEST_EXISTS))
    return TRUE;
  root = weft_json_load_file (path, error);
  if (root == NULL)
    return FALSE;
  node = weft_json_lookup (root, WEFT_MODELOPT_MEMBER);
  if (node == NULL || !JSON_NODE_HOLDS_OBJECT (node))
    return TRUE;
  json_object_set_string_member (json_node_get_object (node), "quant_method", "modelopt");
  self->node = json_node_ref (node);
  self->origin = WEFT_MODELOPT_FILE_NAME;
  return TRUE;
}

gboolean
weft_quantization_config_read_text (WeftQuantizationConfig *self, const gchar *text, GError **error)
{
  g_autoptr (JsonNode) root = NULL;

  if (weft_quantization_config_is_there (self))
    return TRUE;
  root = weft_json_parse (text, -1, HEADER_ORIGIN, error);
  if (root == NULL)
    return FALSE;
  if (!JSON_NODE_HOLDS_OBJECT (root))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT, HEADER_ORIGIN ": expected an object, found %s",
                   weft_json_describe (root));
      return FALSE;
    }
  self->node = g_steal_pointer (&root);
  self->origin = HEADER_ORIGIN;
  return TRUE;
}

const gchar *
weft_quantization_config_get_origin (WeftQuantizationConfig *self)
{
  return self->path != NULL ? self->path : self->origin;
}

/**
 * weft_quantization_config_add_metadata:
 * @self: a config
 * @name: a name in the metadata of a file's header
 * @value: what stands there
 *
 * Since: 1.0
 */
void
weft_quantization_config_add_metadata (WeftQuantizationConfig *self, const gchar *name, const gchar *value)
{
  g_hash_table_insert (self->metadata, g_strdup (name), g_strdup (value));
}

/**
 * weft_quantization_config_is_there:
 * @self: a config
 *
 * Returns: whether there is a `quantization_config`, or parameters of a scheme
 * Since: 1.0
 */
gboolean
weft_quantization_config_is_there (WeftQuantizationConfig *self)
{
  return self->node != NULL;
}

/**
 * weft_quantization_config_get_path:
 * @self: a config
 *
 * Returns: (nullable): where in `config.json` it stands, such as `text_config.quantization_config`; %NULL if it does not
 *   stand there
 * Since: 1.0
 */
const gchar *
weft_quantization_config_get_path (WeftQuantizationConfig *self)
{
  return self->path;
}

/**
 * weft_quantization_config_get_method:
 * @self: a config
 *
 * Returns: (nullable): `quant_method`
 * Since: 1.0
 */
const gchar *
weft_quantization_config_get_method (WeftQuantizationConfig *self)
{
  return weft_quantization_config_lookup_string (self, "quant_method");
}

/**
 * weft_quantization_config_get_scheme:
 * @self: a config
 *
 * Returns: (nullable): what a caller wants to quantize with; %NULL for the config of a packed checkpoint
 * Since: 1.0
 */
const gchar *
weft_quantization_config_get_scheme (WeftQuantizationConfig *self)
{
  return self->scheme;
}

/**
 * weft_quantization_config_get_node:
 * @self: a config
 *
 * Returns: (transfer none) (nullable): the object itself
 * Since: 1.0
 */
JsonNode *
weft_quantization_config_get_node (WeftQuantizationConfig *self)
{
  return self->node;
}

/**
 * weft_quantization_config_get_model_config:
 * @self: a config
 *
 * Returns: (transfer none) (nullable): what `config.json` holds
 * Since: 1.0
 */
JsonNode *
weft_quantization_config_get_model_config (WeftQuantizationConfig *self)
{
  return self->model_config;
}

/**
 * weft_quantization_config_get_default_dtype:
 * @self: a config
 *
 * Returns: the floating dtype that `config.json` names for the model; %WEFT_DTYPE_BF16 if it names none
 * Since: 1.0
 */
WeftDtype
weft_quantization_config_get_default_dtype (WeftQuantizationConfig *self)
{
  static const gchar *const paths[] = { "dtype", "torch_dtype", "text_config.dtype",
                                        "text_config.torch_dtype" };

  for (guint i = 0; self->model_config != NULL && i < G_N_ELEMENTS (paths); i++)
    {
      JsonNode *node = weft_json_lookup (self->model_config, paths[i]);
      gboolean is_text =
          node != NULL && JSON_NODE_HOLDS_VALUE (node) && json_node_get_value_type (node) == G_TYPE_STRING;
      WeftDtype dtype = is_text ? weft_dtype_from_any_name (json_node_get_string (node)) : WEFT_DTYPE_INVALID;

      if (dtype == WEFT_DTYPE_F64 || dtype == WEFT_DTYPE_F32 || dtype == WEFT_DTYPE_F16
          || dtype == WEFT_DTYPE_BF16)
        return dtype;
    }
  return WEFT_DTYPE_BF16;
}

/**
 * weft_quantization_config_get_metadata:
 * @self: a config
 * @name: a name in the metadata of a file's header
 *
 * Returns: (nullable): what stands there
 * Since: 1.0
 */
const gchar *
weft_quantization_config_get_metadata (WeftQuantizationConfig *self, const gchar *name)
{
  return g_hash_table_lookup (self->metadata, name);
}

/* Notes that a member is a parameter of the scheme. */
static void
note_asked (WeftQuantizationConfig *self, const gchar *dotted_path)
{
  gchar *name = g_strndup (dotted_path, strcspn (dotted_path, "."));

  if (self->asked == NULL || g_ptr_array_find_with_equal_func (self->asked, name, g_str_equal, NULL))
    g_free (name);
  else
    g_ptr_array_add (self->asked, name);
}

/**
 * weft_quantization_config_lookup:
 * @self: a config
 * @dotted_path: where, such as `weights.num_bits`
 *
 * Returns: (transfer none) (nullable): what stands there; %NULL for nothing and for `null`
 * Since: 1.0
 */
JsonNode *
weft_quantization_config_lookup (WeftQuantizationConfig *self, const gchar *dotted_path)
{
  JsonNode *node = self->node != NULL ? weft_json_lookup (self->node, dotted_path) : NULL;

  note_asked (self, dotted_path);
  return node != NULL && !JSON_NODE_HOLDS_NULL (node) ? node : NULL;
}

static const gchar *
describe_type (GType type)
{
  return type == G_TYPE_INT64 ? "a whole number" : type == G_TYPE_BOOLEAN ? "true or false" : "a text";
}

static JsonNode *
lookup_value (WeftQuantizationConfig *self, const gchar *dotted_path, GType type)
{
  JsonNode *node = weft_quantization_config_lookup (self, dotted_path);

  if (node == NULL || (JSON_NODE_HOLDS_VALUE (node) && json_node_get_value_type (node) == type))
    return node;
  /* Taken for absent, it would have a default that nobody wrote. */
  if (!self->is_checked && self->mistyped == NULL)
    {
      g_autofree gchar *found = weft_json_to_text (node, FALSE);

      self->mistyped =
          g_strdup_printf ("expected '%s' to be %s, found %s", dotted_path, describe_type (type), found);
    }
  return NULL;
}

void
weft_quantization_config_begin_parameters (WeftQuantizationConfig *self)
{
  self->asked = g_ptr_array_new_with_free_func (g_free);
}

/* A parameter that nobody asked for. */
static const gchar *
find_unknown (WeftQuantizationConfig *self, GPtrArray *asked)
{
  g_autoptr (GList) names = json_object_get_members (json_node_get_object (self->node));

  for (GList *link = names; link != NULL; link = link->next)
    if (!g_ptr_array_find_with_equal_func (asked, link->data, g_str_equal, NULL))
      return link->data;
  return NULL;
}

gboolean
weft_quantization_config_end_parameters (WeftQuantizationConfig *self, gboolean is_configured, GError **error)
{
  g_autoptr (GPtrArray) asked = g_steal_pointer (&self->asked);
  g_autofree gchar *known = NULL;
  const gchar *unknown = is_configured && self->node != NULL ? find_unknown (self, asked) : NULL;

  if (unknown == NULL)
    return TRUE;
  g_ptr_array_add (asked, NULL);
  known = g_strjoinv (", ", (gchar **) asked->pdata);
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT, "%s has no parameter '%s'; it has %s", self->scheme,
               unknown, known[0] != '\0' ? known : "none");
  return FALSE;
}

/**
 * weft_quantization_config_check_scheme:
 * @self: a config
 * @schemes: (array zero-terminated=1): the schemes that a method quantises with
 * @error: return location
 *
 * Returns: whether the scheme is one of them; %TRUE for the config of a checkpoint, which has none
 * Errors: %WEFT_ERROR_ARGUMENT with the schemes if it is not
 * Since: 1.0
 */
gboolean
weft_quantization_config_check_scheme (WeftQuantizationConfig *self, const gchar *const *schemes,
                                       GError **error)
{
  g_autofree gchar *known = NULL;

  if (self->scheme == NULL || g_strv_contains (schemes, self->scheme))
    return TRUE;
  known = g_strjoinv (", ", (gchar **) schemes);
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT, "there is no scheme '%s'; there is %s", self->scheme,
               known);
  return FALSE;
}

/**
 * weft_quantization_config_lookup_int:
 * @self: a config
 * @dotted_path: where
 * @value: (out): the number there; untouched if there is none
 *
 * A value of another type is refused when the method has been configured: it is not for the method to guess.
 *
 * Returns: whether there is a whole number
 * Since: 1.0
 */
gboolean
weft_quantization_config_lookup_int (WeftQuantizationConfig *self, const gchar *dotted_path, gint64 *value)
{
  JsonNode *node = lookup_value (self, dotted_path, G_TYPE_INT64);

  if (node != NULL)
    *value = json_node_get_int (node);
  return node != NULL;
}

/**
 * weft_quantization_config_lookup_string:
 * @self: a config
 * @dotted_path: where
 *
 * Returns: (nullable): the text there
 * Since: 1.0
 */
const gchar *
weft_quantization_config_lookup_string (WeftQuantizationConfig *self, const gchar *dotted_path)
{
  JsonNode *node = lookup_value (self, dotted_path, G_TYPE_STRING);

  return node != NULL ? json_node_get_string (node) : NULL;
}

/**
 * weft_quantization_config_lookup_boolean:
 * @self: a config
 * @dotted_path: where
 * @fallback: what is returned if there is none
 *
 * Returns: what stands there
 * Since: 1.0
 */
gboolean
weft_quantization_config_lookup_boolean (WeftQuantizationConfig *self, const gchar *dotted_path,
                                         gboolean fallback)
{
  JsonNode *node = lookup_value (self, dotted_path, G_TYPE_BOOLEAN);

  return node != NULL ? json_node_get_boolean (node) : fallback;
}

#define REGEX_PREFIX "re:"

/* The regular expression of an entry that is one, or has a `*`. */
static GRegex *
compile_entry (const gchar *entry, GError **error)
{
  g_autoptr (GString) escaped = NULL;
  g_autofree gchar *expression = NULL;
  g_autofree gchar *text = NULL;

  if (g_str_has_prefix (entry, REGEX_PREFIX))
    {
      expression = g_strdup_printf ("^(?:%s)", entry + strlen (REGEX_PREFIX));
      return g_regex_new (expression, 0, 0, error);
    }
  text = g_regex_escape_string (entry, -1);
  escaped = g_string_new (text);
  g_string_replace (escaped, "\\*", ".*", 0);
  expression = g_strdup_printf ("(?:^|\\.)(?:%s)$|^(?:%s)(?:\\.|$)", escaped->str, escaped->str);
  return g_regex_new (expression, 0, 0, error);
}

static gboolean
is_expression (const gchar *entry)
{
  return g_str_has_prefix (entry, REGEX_PREFIX) || strchr (entry, '*') != NULL;
}

/* Whether @path is @entry, or goes on or begins before it with a dot. */
static gboolean
matches_parts (const gchar *entry, const gchar *path)
{
  gsize n_entry = strlen (entry), n_path = strlen (path);

  if (g_str_has_prefix (path, entry) && (path[n_entry] == '\0' || path[n_entry] == '.'))
    return TRUE;
  return n_path > n_entry && path[n_path - n_entry - 1] == '.' && g_str_has_suffix (path, entry);
}

/**
 * weft_quantization_config_check_entry:
 * @entry: an entry of a list of modules, as weft_quantization_config_matches_module() reads it
 * @error: return location
 *
 * Returns: whether it can be read: an entry that cannot matches nothing
 * Errors: %WEFT_ERROR_FORMAT if what follows `re:` is no regular expression
 * Since: 1.0
 */
gboolean
weft_quantization_config_check_entry (const gchar *entry, GError **error)
{
  g_autoptr (GError) cause = NULL;
  g_autoptr (GRegex) regex = NULL;

  if (!is_expression (entry))
    return TRUE;
  regex = compile_entry (entry, &cause);
  if (regex != NULL)
    return TRUE;
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT, "'%s' is no pattern of modules: %s", entry,
               cause->message);
  return FALSE;
}

/**
 * weft_quantization_config_matches_module:
 * @entry: an entry of a list of modules: a path of whole parts, with `*` for any text, or a regular expression after `re:`
 * @path: path of a module
 *
 * An entry names the modules whose path begins or ends with it, in whole parts: `lm_head` is `lm_head` and
 * `model.lm_head`, not `lm_head2`; `layers.1` is `layers.1.mlp`, not `layers.11.mlp`. A regular expression is matched
 * from the start of the path.
 *
 * Returns: whether it is one of them
 * Since: 1.0
 */
gboolean
weft_quantization_config_matches_module (const gchar *entry, const gchar *path)
{
  g_autoptr (GRegex) regex = NULL;

  if (!is_expression (entry))
    return matches_parts (entry, path);
  regex = compile_entry (entry, NULL);
  return regex != NULL && g_regex_match (regex, path, 0, NULL);
}

const gchar *const weft_quantization_config_skip_lists[] = {
  "modules_to_not_convert", "ignored_layers", "ignore", "exclude_modules", "llm_int8_skip_modules", NULL
};

typedef gboolean (*EntryPredicate) (const gchar *entry, gconstpointer argument);

/* The first entry of the skip lists for which @predicate holds, with the name of its list; NULL if there is none. */
static const gchar *
find_entry (WeftQuantizationConfig *self, EntryPredicate predicate, gconstpointer argument,
            const gchar **list_name)
{
  for (guint i = 0; weft_quantization_config_skip_lists[i] != NULL; i++)
    {
      JsonNode *node = weft_quantization_config_lookup (self, weft_quantization_config_skip_lists[i]);
      JsonArray *array = node != NULL && JSON_NODE_HOLDS_ARRAY (node) ? json_node_get_array (node) : NULL;

      *list_name = weft_quantization_config_skip_lists[i];
      for (guint k = 0; array != NULL && k < json_array_get_length (array); k++)
        {
          JsonNode *entry = json_array_get_element (array, k);

          if (JSON_NODE_HOLDS_VALUE (entry) && json_node_get_value_type (entry) == G_TYPE_STRING
              && predicate (json_node_get_string (entry), argument))
            return json_node_get_string (entry);
        }
    }
  return NULL;
}

static gboolean
has_path (const gchar *entry, gconstpointer path)
{
  return weft_quantization_config_matches_module (entry, path);
}

static gboolean
is_unreadable (const gchar *entry, gconstpointer argument)
{
  return !weft_quantization_config_check_entry (entry, NULL);
}

/**
 * weft_quantization_config_is_module_skipped:
 * @self: a config
 * @path: path of a module
 *
 * Looks into the lists of modules that are left dense, under the names that the methods have for them.
 *
 * Returns: whether the module is left dense
 * Since: 1.0
 */
gboolean
weft_quantization_config_is_module_skipped (WeftQuantizationConfig *self, const gchar *path)
{
  const gchar *list_name;

  return find_entry (self, has_path, path, &list_name) != NULL;
}

gboolean
weft_quantization_config_check_types (WeftQuantizationConfig *self, GError **error)
{
  const gchar *origin = weft_quantization_config_get_origin (self);

  self->is_checked = TRUE;
  if (self->mistyped == NULL)
    return TRUE;
  g_set_error (error, WEFT_ERROR, self->scheme != NULL ? WEFT_ERROR_ARGUMENT : WEFT_ERROR_FORMAT, "%s%s%s",
               origin != NULL ? origin : "", origin != NULL ? ": " : "", self->mistyped);
  return FALSE;
}

gboolean
weft_quantization_config_check_one (WeftQuantizationConfig *self, GError **error)
{
  if (self->other_path == NULL)
    return TRUE;
  g_set_error (
      error, WEFT_ERROR, WEFT_ERROR_UNSUPPORTED,
      "%s and %s differ: a checkpoint is read with one config of quantization. Convert the sub-models each by itself",
      self->path, self->other_path);
  return FALSE;
}

/* A list that cannot be read would leave nothing dense, and what is dense would be taken for codes that lack their scales. */
static gboolean
check_list (const gchar *name, JsonNode *node, GError **error)
{
  JsonArray *array = JSON_NODE_HOLDS_ARRAY (node) ? json_node_get_array (node) : NULL;

  for (guint i = 0; array != NULL && i < json_array_get_length (array); i++)
    {
      JsonNode *entry = json_array_get_element (array, i);

      if (!JSON_NODE_HOLDS_VALUE (entry) || json_node_get_value_type (entry) != G_TYPE_STRING)
        {
          g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT,
                       "%s[%u]: expected the name of a module, found %s", name, i,
                       json_node_type_name (entry));
          return FALSE;
        }
    }
  if (array != NULL || JSON_NODE_HOLDS_NULL (node))
    return TRUE;
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT, "%s: expected a list of names of modules, found %s",
               name, json_node_type_name (node));
  return FALSE;
}

gboolean
weft_quantization_config_check_skip_lists (WeftQuantizationConfig *self, GError **error)
{
  const gchar *list_name;
  const gchar *entry;

  for (guint i = 0; weft_quantization_config_skip_lists[i] != NULL; i++)
    {
      const gchar *name = weft_quantization_config_skip_lists[i];
      JsonNode *node = weft_quantization_config_lookup (self, name);

      if (node != NULL && !check_list (name, node, error))
        return FALSE;
    }
  entry = find_entry (self, is_unreadable, NULL, &list_name);
  if (entry == NULL)
    return TRUE;
  weft_quantization_config_check_entry (entry, error);
  g_prefix_error (error, "%s: ", list_name);
  return FALSE;
}
