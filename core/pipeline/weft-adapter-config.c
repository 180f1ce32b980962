/* SPDX-License-Identifier: Apache-2.0 */
#include "pipeline/weft-adapter-config-private.h"

#include <math.h>
#include <string.h>

#include "base/weft-json.h"

/* A fused parameter: what its name ends with, and the modules whose weights it is made of. */
typedef struct
{
  gchar *parameter;
  GStrv modules;
} FusedParameter;

static void
fused_parameter_clear (gpointer user_data)
{
  FusedParameter *fused = user_data;

  g_free (fused->parameter);
  g_strfreev (fused->modules);
}

/* The module of `.experts.*.w1\.lora_A\.default\.weight` is w1. */
static gchar *
find_module (const gchar *source)
{
  const gchar *lora = strstr (source, "\\.lora_");
  g_autofree gchar *path = g_strndup (source, (gsize) (lora - source));
  const gchar *dot = strrchr (path, '.');

  return g_strdup (dot != NULL ? dot + 1 : path);
}

/* The parameter of `.experts.base_layer.lora_A.default.weight` is experts.gate_up_proj, that of `.experts.lora_A...`
 * experts.down_proj. */
static gchar *
find_parameter (const gchar *target)
{
  const gchar *lora = strstr (target, ".lora_");
  g_autofree gchar *path = g_strndup (target, (gsize) (lora - target));
  gboolean is_gate_up = g_str_has_suffix (path, ".base_layer");
  const gchar *dot;

  if (is_gate_up)
    path[strlen (path) - strlen (".base_layer")] = '\0';
  dot = strrchr (path, '.');
  return g_strconcat (dot != NULL ? dot + 1 : path, is_gate_up ? ".gate_up_proj" : ".down_proj", NULL);
}

/* The fused parameters that the adapter has weights for: one for each used converter of the matrix A. */
static GArray *
find_fused (WeftTransformList *rules)
{
  GArray *all = g_array_new (FALSE, FALSE, sizeof (FusedParameter));

  g_array_set_clear_func (all, fused_parameter_clear);
  for (guint i = 0; i < weft_transform_list_get_n_transforms (rules); i++)
    {
      WeftWeightTransform *rule = weft_transform_list_get_transform (rules, i);
      const gchar *const *sources = weft_weight_transform_get_written_sources (rule);
      g_autoptr (GStrvBuilder) modules = g_strv_builder_new ();
      FusedParameter fused;

      if (!weft_transform_list_is_converter (rules, i) || !weft_weight_transform_get_used (rule)
          || strstr (sources[0], "\\.lora_A\\.") == NULL)
        continue;
      for (guint k = 0; sources[k] != NULL; k++)
        {
          g_autofree gchar *module = find_module (sources[k]);

          g_strv_builder_add (modules, module);
        }
      fused.modules = g_strv_builder_end (modules);
      fused.parameter = find_parameter (weft_weight_transform_get_written_targets (rule)[0]);
      g_array_append_val (all, fused);
    }
  return all;
}

/* Whether an entry of target_modules is for a module of that name. */
static gboolean
names_module (const gchar *entry, const gchar *module)
{
  const gchar *dot = strrchr (entry, '.');

  return strcmp (dot != NULL ? dot + 1 : entry, module) == 0;
}

static gboolean
has_module (JsonArray *target_modules, const gchar *module)
{
  for (guint i = 0; i < json_array_get_length (target_modules); i++)
    if (names_module (json_array_get_string_element (target_modules, i), module))
      return TRUE;
  return FALSE;
}

/* All of what a parameter is made of, or none of it, may be named. */
static gboolean
check_all_named (const FusedParameter *fused, JsonArray *target_modules, const gchar *where, GError **error)
{
  const gchar *named = NULL;
  const gchar *absent = NULL;

  for (guint i = 0; fused->modules[i] != NULL; i++)
    if (has_module (target_modules, fused->modules[i]))
      named = fused->modules[i];
    else
      absent = fused->modules[i];
  if (named == NULL || absent == NULL)
    return TRUE;
  g_set_error (
      error, WEFT_ERROR, WEFT_ERROR_CONFLICT,
      "%s: target_modules names '%s' and not '%s', and the runtime has both in one, '%s'; an adapter of one of them alone "
      "cannot be fused",
      where, named, absent, fused->parameter);
  return FALSE;
}

/* Whether something that was not fused is still for a module of that name. */
static gboolean
is_still_needed (WeftStateDict *outputs, const gchar *module)
{
  g_autofree gchar *infix = g_strdup_printf (".%s.lora_", module);

  for (guint i = 0; i < weft_state_dict_get_n_tensors (outputs); i++)
    if (strstr (weft_state_dict_get_name (outputs, i), infix) != NULL)
      return TRUE;
  return FALSE;
}

static JsonArray *
copy_array (JsonArray *array)
{
  JsonArray *copy = json_array_new ();

  for (guint i = 0; array != NULL && i < json_array_get_length (array); i++)
    json_array_add_element (copy, json_node_copy (json_array_get_element (array, i)));
  return copy;
}

/* target_modules without what is fused everywhere. */
static void
set_target_modules (JsonObject *config, GArray *all, JsonArray *target_modules, WeftStateDict *outputs)
{
  JsonArray *kept = json_array_new ();

  for (guint i = 0; i < json_array_get_length (target_modules); i++)
    {
      const gchar *entry = json_array_get_string_element (target_modules, i);
      gboolean is_fused = FALSE;

      for (guint k = 0; k < all->len; k++)
        for (GStrv module = g_array_index (all, FusedParameter, k).modules; *module != NULL; module++)
          is_fused = is_fused || (names_module (entry, *module) && !is_still_needed (outputs, *module));
      if (!is_fused)
        json_array_add_string_element (kept, entry);
    }
  json_object_set_array_member (config, "target_modules", kept);
}

static void
set_target_parameters (JsonObject *config, GArray *all)
{
  JsonNode *given = json_object_get_member (config, "target_parameters");
  JsonArray *parameters =
      copy_array (given != NULL && JSON_NODE_HOLDS_ARRAY (given) ? json_node_get_array (given) : NULL);

  for (guint i = 0; i < all->len; i++)
    json_array_add_string_element (parameters, g_array_index (all, FusedParameter, i).parameter);
  json_object_set_array_member (config, "target_parameters", parameters);
}

/* A whole number is written as one. */
static JsonNode *
make_number (gdouble value)
{
  JsonNode *node = json_node_alloc ();

  return value == floor (value) && fabs (value) < G_MAXINT32 ? json_node_init_int (node, (gint64) value)
                                                             : json_node_init_double (node, value);
}

/* The member of @config, an object of numbers by pattern, with one more. */
static void
add_to_pattern (JsonObject *config, const gchar *member, const gchar *parameter, gdouble value)
{
  JsonNode *given = json_object_get_member (config, member);
  JsonObject *pattern = given != NULL && JSON_NODE_HOLDS_OBJECT (given)
                            ? json_object_ref (json_node_get_object (given))
                            : json_object_new ();
  g_autofree gchar *escaped = g_regex_escape_string (parameter, -1);
  g_autofree gchar *key = g_strconcat (".*\\.", escaped, NULL);

  json_object_set_member (pattern, key, make_number (value));
  json_object_set_object_member (config, member, pattern);
}

/* One pattern for a part, such as a rank of its own, has no place in the fused parameter. */
static gboolean
check_pattern (JsonObject *config, const gchar *member, GArray *all, const gchar *where, GError **error)
{
  JsonNode *given = json_object_get_member (config, member);
  g_autoptr (GList) keys = NULL;

  if (given == NULL || JSON_NODE_HOLDS_NULL (given))
    return TRUE;
  if (!JSON_NODE_HOLDS_OBJECT (given))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT, "%s: %s: expected an object of numbers", where,
                   member);
      return FALSE;
    }
  keys = json_object_get_members (json_node_get_object (given));
  for (GList *key = keys; key != NULL; key = key->next)
    for (guint i = 0; i < all->len; i++)
      for (GStrv module = g_array_index (all, FusedParameter, i).modules; *module != NULL; module++)
        if (names_module (key->data, *module))
          {
            g_set_error (error, WEFT_ERROR, WEFT_ERROR_CONFLICT,
                         "%s: %s has a value for '%s', which the runtime has as a part of '%s'", where,
                         member, (const gchar *) key->data, g_array_index (all, FusedParameter, i).parameter);
            return FALSE;
          }
  return TRUE;
}

static gboolean
read_number (JsonObject *config, const gchar *member, const gchar *where, gdouble *value, GError **error)
{
  JsonNode *node = json_object_get_member (config, member);

  if (node != NULL && JSON_NODE_HOLDS_VALUE (node)
      && (json_node_get_value_type (node) == G_TYPE_INT64
          || json_node_get_value_type (node) == G_TYPE_DOUBLE))
    {
      *value = json_node_get_double (node);
      if (*value > 0 && *value < G_MAXINT32)
        return TRUE;
    }
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT, "%s: %s: expected a number above 0", where, member);
  return FALSE;
}

static gboolean
read_flag (JsonObject *config, const gchar *member, const gchar *where, gboolean *flag, GError **error)
{
  JsonNode *node = json_object_get_member (config, member);
  gboolean is_absent = node == NULL || JSON_NODE_HOLDS_NULL (node);

  if (!is_absent && (!JSON_NODE_HOLDS_VALUE (node) || json_node_get_value_type (node) != G_TYPE_BOOLEAN))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT, "%s: %s: expected true or false", where, member);
      return FALSE;
    }
  *flag = !is_absent && json_node_get_boolean (node);
  return TRUE;
}

/* A parameter of n parts has n times the rank, and keeps the scale of its parts: alpha by rank, or by the root of it. */
static gboolean
set_ranks (JsonObject *config, GArray *all, const gchar *where, GError **error)
{
  gboolean by_root;
  gdouble rank, alpha;

  if (!read_flag (config, "use_rslora", where, &by_root, error)
      || !read_number (config, "r", where, &rank, error)
      || !read_number (config, "lora_alpha", where, &alpha, error)
      || !check_pattern (config, "rank_pattern", all, where, error)
      || !check_pattern (config, "alpha_pattern", all, where, error))
    return FALSE;
  for (guint i = 0; i < all->len; i++)
    {
      const FusedParameter *fused = &g_array_index (all, FusedParameter, i);
      guint n = g_strv_length (fused->modules);

      if (n == 1)
        continue;
      add_to_pattern (config, "rank_pattern", fused->parameter, rank * n);
      add_to_pattern (config, "alpha_pattern", fused->parameter, alpha * (by_root ? sqrt (n) : n));
    }
  return TRUE;
}

static gboolean
holds_strings (JsonNode *node)
{
  if (node == NULL || !JSON_NODE_HOLDS_ARRAY (node))
    return FALSE;
  for (guint i = 0; i < json_array_get_length (json_node_get_array (node)); i++)
    {
      JsonNode *element = json_array_get_element (json_node_get_array (node), i);

      if (!JSON_NODE_HOLDS_VALUE (element) || json_node_get_value_type (element) != G_TYPE_STRING)
        return FALSE;
    }
  return TRUE;
}

static gboolean
check_kind (JsonNode *root, const gchar *where, GError **error)
{
  JsonNode *kind = weft_json_lookup (root, "peft_type");
  gboolean is_text =
      kind != NULL && JSON_NODE_HOLDS_VALUE (kind) && json_node_get_value_type (kind) == G_TYPE_STRING;

  if (is_text && strcmp (json_node_get_string (kind), "LORA") == 0)
    return TRUE;
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT, "%s: peft_type: expected \"LORA\", found %s%s%s", where,
               is_text ? "\"" : "", is_text ? json_node_get_string (kind) : "nothing of the kind",
               is_text ? "\"" : "");
  return FALSE;
}

static gboolean
convert_members (JsonObject *config, GArray *all, const gchar *where, WeftStateDict *outputs, GError **error)
{
  JsonNode *target_modules = json_object_get_member (config, "target_modules");

  if (!holds_strings (target_modules))
    {
      g_set_error (
          error, WEFT_ERROR, WEFT_ERROR_FORMAT,
          "%s: target_modules: expected a list of names, which says which experts' modules are meant; a pattern cannot be "
          "taken over",
          where);
      return FALSE;
    }
  for (guint i = 0; i < all->len; i++)
    if (!check_all_named (&g_array_index (all, FusedParameter, i), json_node_get_array (target_modules),
                          where, error))
      return FALSE;
  if (!set_ranks (config, all, where, error))
    return FALSE;
  set_target_parameters (config, all);
  set_target_modules (config, all, json_node_get_array (target_modules), outputs);
  return TRUE;
}

gchar *
weft_adapter_convert_config (JsonNode *config, const gchar *where, WeftTransformList *rules,
                             WeftStateDict *outputs, GError **error)
{
  g_autoptr (GArray) all = find_fused (rules);

  if (!check_kind (config, where, error)
      || (all->len > 0 && !convert_members (json_node_get_object (config), all, where, outputs, error)))
    return NULL;
  return weft_json_to_text (config, TRUE);
}
