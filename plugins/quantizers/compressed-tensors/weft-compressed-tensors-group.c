/* SPDX-License-Identifier: Apache-2.0 */
#include "weft-compressed-tensors-group.h"

#include <string.h>

#define PATTERN_PREFIX "re:"

static void
group_free (gpointer user_data)
{
  WeftCtGroup *group = user_data;

  g_free (group->format);
  g_strfreev (group->targets);
  g_free (group);
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC (WeftCtGroup, group_free)

static const gchar *
lookup_text (JsonNode *object, const gchar *name)
{
  JsonNode *node = weft_json_lookup (object, name);

  return node != NULL && JSON_NODE_HOLDS_VALUE (node) && json_node_get_value_type (node) == G_TYPE_STRING
             ? json_node_get_string (node)
             : NULL;
}

static gint64
lookup_number (JsonNode *object, const gchar *name)
{
  JsonNode *node = weft_json_lookup (object, name);

  return node != NULL && JSON_NODE_HOLDS_VALUE (node) && json_node_get_value_type (node) == G_TYPE_INT64
             ? json_node_get_int (node)
             : 0;
}

static gboolean
lookup_boolean (JsonNode *object, const gchar *name, gboolean fallback)
{
  JsonNode *node = weft_json_lookup (object, name);

  return node != NULL && JSON_NODE_HOLDS_VALUE (node) && json_node_get_value_type (node) == G_TYPE_BOOLEAN
             ? json_node_get_boolean (node)
             : fallback;
}

static gchar **
dup_texts (JsonNode *object, const gchar *name)
{
  g_autoptr (GStrvBuilder) texts = g_strv_builder_new ();
  JsonNode *node = weft_json_lookup (object, name);
  JsonArray *array = node != NULL && JSON_NODE_HOLDS_ARRAY (node) ? json_node_get_array (node) : NULL;

  for (guint i = 0; array != NULL && i < json_array_get_length (array); i++)
    {
      JsonNode *element = json_array_get_element (array, i);

      if (JSON_NODE_HOLDS_VALUE (element) && json_node_get_value_type (element) == G_TYPE_STRING)
        g_strv_builder_add (texts, json_node_get_string (element));
    }
  return g_strv_builder_end (texts);
}

/* Rows and columns of `block_structure`. */
static gboolean
read_block_structure (JsonNode *weights, gint64 block[2])
{
  JsonNode *node = weft_json_lookup (weights, "block_structure");
  JsonArray *array = node != NULL && JSON_NODE_HOLDS_ARRAY (node) ? json_node_get_array (node) : NULL;

  if (array == NULL || json_array_get_length (array) != 2)
    return FALSE;
  for (guint i = 0; i < 2; i++)
    {
      JsonNode *element = json_array_get_element (array, i);

      block[i] = JSON_NODE_HOLDS_VALUE (element) && json_node_get_value_type (element) == G_TYPE_INT64
                     ? json_node_get_int (element)
                     : 0;
    }
  return block[0] > 0 && block[1] > 0;
}

static gboolean
read_strategy (JsonNode *weights, gint64 block[2])
{
  const gchar *strategy = lookup_text (weights, "strategy");
  gint64 group_size = lookup_number (weights, "group_size");

  block[0] = 1;
  block[1] = 0;
  /* Without a strategy a size of groups decides; -1 is a row. */
  if (strategy == NULL)
    strategy = group_size == 0 ? "tensor" : group_size < 0 ? "channel" : "group";
  if (g_str_equal (strategy, "tensor"))
    block[0] = 0;
  else if (g_str_equal (strategy, "group") || g_str_equal (strategy, "tensor_group"))
    block[1] = group_size;
  else if (g_str_equal (strategy, "block"))
    return read_block_structure (weights, block);
  else
    return g_str_equal (strategy, "channel");
  return g_str_equal (strategy, "tensor") || group_size > 0;
}

/* A pattern that cannot be read would match no module. */
static gboolean
check_targets (const gchar *name, const WeftCtGroup *group, GError **error)
{
  for (guint i = 0; group->targets[i] != NULL; i++)
    if (!weft_quantization_config_check_entry (group->targets[i], error))
      {
        g_prefix_error (error, "config group '%s': ", name);
        return FALSE;
      }
  return TRUE;
}

/* The members of `weights`, as configs have them. What is not said here of how scales were found makes no difference. */
static const struct
{
  const gchar *name;
  GType type; /* NONE: any */
} weights_members[] = {
  { "num_bits", G_TYPE_INT64 },       { "type", G_TYPE_STRING },      { "symmetric", G_TYPE_BOOLEAN },
  { "strategy", G_TYPE_STRING },      { "group_size", G_TYPE_INT64 }, { "block_structure", G_TYPE_NONE },
  { "dynamic", G_TYPE_BOOLEAN },      { "actorder", G_TYPE_NONE },    { "observer", G_TYPE_NONE },
  { "observer_kwargs", G_TYPE_NONE }, { "scale_dtype", G_TYPE_NONE }, { "zp_dtype", G_TYPE_NONE },
};

static gboolean
is_member (const gchar *name, JsonNode *node, gboolean *is_known)
{
  for (guint i = 0; i < G_N_ELEMENTS (weights_members); i++)
    if (g_str_equal (weights_members[i].name, name))
      {
        *is_known = TRUE;
        return weights_members[i].type == G_TYPE_NONE || JSON_NODE_HOLDS_NULL (node)
               || (JSON_NODE_HOLDS_VALUE (node)
                   && json_node_get_value_type (node) == weights_members[i].type);
      }
  *is_known = FALSE;
  return FALSE;
}

/* A number that is written as text would count as absent. */
static gboolean
check_types (const gchar *name, JsonNode *weights, GError **error)
{
  JsonObjectIter iter;
  const gchar *member;
  JsonNode *node;

  json_object_iter_init (&iter, json_node_get_object (weights));
  while (json_object_iter_next (&iter, &member, &node))
    {
      gboolean is_known;
      g_autofree gchar *found = NULL;

      if (is_member (member, node, &is_known) || !is_known)
        continue;
      found = weft_json_to_text (node, FALSE);
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT,
                   "config group '%s': '%s' in 'weights' is of another type than configs have it, found %s",
                   name, member, found);
      return FALSE;
    }
  return TRUE;
}

static WeftCtGroup *
group_new (const gchar *name, JsonNode *object, const gchar *format, GError **error)
{
  JsonNode *weights = weft_json_lookup (object, "weights");
  const gchar *own_format = lookup_text (object, "format");
  g_autoptr (WeftCtGroup) group = NULL;
  const gchar *type;
  gint64 bits;

  if (weights == NULL || !JSON_NODE_HOLDS_OBJECT (weights))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT, "config group '%s' has no object 'weights'", name);
      return NULL;
    }
  if (!check_types (name, weights, error))
    return NULL;
  bits = lookup_number (weights, "num_bits");
  type = lookup_text (weights, "type");
  group = g_new0 (WeftCtGroup, 1);
  group->format = g_strdup (own_format != NULL ? own_format : format != NULL ? format : "compressed");
  group->targets = dup_texts (object, "targets");
  group->bits = (guint) CLAMP (bits, 0, 64);
  group->is_integer = g_strcmp0 (type, "float") != 0;
  group->is_symmetric = lookup_boolean (weights, "symmetric", TRUE);
  if (!check_targets (name, group, error))
    return NULL;
  if (bits >= 1 && bits <= 8 && read_strategy (weights, group->block)
      && (group->is_integer || bits == 4 || bits == 6 || bits == 8))
    return g_steal_pointer (&group);
  g_set_error (
      error, WEFT_ERROR, WEFT_ERROR_UNSUPPORTED,
      "config group '%s': expected weights of 1 to 8 bits (4, 6 or 8 for floats) with a strategy of tensor, channel, "
      "group with group_size or block with block_structure, found %" G_GINT64_FORMAT " bits and strategy %s",
      name, bits, lookup_text (weights, "strategy") != NULL ? lookup_text (weights, "strategy") : "none");
  return NULL;
}

/* What a format is made of: another one would be read as what it is not. */
static const struct
{
  const gchar *name;
  gboolean is_integer;
  guint least_bits, most_bits;
  gint64 group_size; /* 0: any strategy */
} formats[] = {
  { "float-quantized", FALSE, 8, 8, 0 },       { "int-quantized", TRUE, 1, 8, 0 },
  { "pack-quantized", TRUE, 1, 8, 0 },         { "nvfp4-pack-quantized", FALSE, 4, 4, 16 },
  { "mxfp4-pack-quantized", FALSE, 4, 4, 32 }, { "mxfp6-pack-quantized", FALSE, 6, 6, 32 },
  { "mxfp8-quantized", FALSE, 8, 8, 32 },
};

static gboolean
is_known_format (const gchar *format)
{
  for (guint i = 0; i < G_N_ELEMENTS (formats); i++)
    if (g_str_equal (format, formats[i].name))
      return TRUE;
  return FALSE;
}

static gboolean
check_format (const WeftCtGroup *group, WeftError code, GError **error)
{
  g_autoptr (GString) known = g_string_new (NULL);

  for (guint i = 0; i < G_N_ELEMENTS (formats); i++)
    {
      gint64 size = formats[i].group_size;

      g_string_append_printf (known, "%s%s", i > 0 ? ", " : "", formats[i].name);
      if (!g_str_equal (group->format, formats[i].name))
        continue;
      if (group->is_integer == formats[i].is_integer && group->bits >= formats[i].least_bits
          && group->bits <= formats[i].most_bits && (group->is_integer || group->is_symmetric)
          && (size == 0 || (group->block[0] == 1 && group->block[1] == size)))
        return TRUE;
      g_set_error (error, WEFT_ERROR, code,
                   "%s has weights of type %s with %u to %u bits, %s, %s%" G_GINT64_FORMAT
                   "; 'weights' asks for others",
                   group->format, formats[i].is_integer ? "int" : "float", formats[i].least_bits,
                   formats[i].most_bits, formats[i].is_integer ? "symmetric or not" : "symmetric",
                   size == 0 ? "any strategy, and groups above " : "and groups of ", size);
      return FALSE;
    }
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT, "there is no format '%s' to write; there is %s",
               group->format, known->str);
  return FALSE;
}

/* One that nobody knows could be packed in any way. Without a name, and under the names that older files have, the tensors
 * tell. */
static gboolean
check_read_format (const gchar *name, const WeftCtGroup *group, GError **error)
{
  static const gchar *const others[] = { "compressed", "dense", "naive-quantized", "mixed-precision", NULL };

  if (g_strv_contains (others, group->format))
    return TRUE;
  if (is_known_format (group->format))
    {
      if (check_format (group, WEFT_ERROR_FORMAT, error))
        return TRUE;
      g_prefix_error (error, "config group '%s': ", name);
      return FALSE;
    }
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_UNSUPPORTED, "config group '%s': the format '%s' is not known",
               name, group->format);
  return FALSE;
}

static gboolean
check_weights (JsonNode *weights, GError **error)
{
  JsonNode *actorder = weft_json_lookup (weights, "actorder");
  const gchar *type = lookup_text (weights, "type");
  g_autoptr (GString) known = g_string_new (weights_members[0].name);
  JsonObjectIter iter;
  const gchar *name;
  JsonNode *node;

  for (guint i = 1; i < G_N_ELEMENTS (weights_members); i++)
    g_string_append_printf (known, ", %s", weights_members[i].name);
  json_object_iter_init (&iter, json_node_get_object (weights));
  while (json_object_iter_next (&iter, &name, &node))
    {
      gboolean is_known;

      if (is_member (name, node, &is_known))
        continue;
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT,
                   is_known ? "'%s' in 'weights' is of another type than configs have it (%s)"
                            : "'weights' has no '%s'; it has %s",
                   name, is_known ? weft_json_describe (node) : known->str);
      return FALSE;
    }
  if ((actorder == NULL || JSON_NODE_HOLDS_NULL (actorder))
      && (type == NULL || g_str_equal (type, "int") || g_str_equal (type, "float"))
      && !lookup_boolean (weights, "dynamic", FALSE))
    return TRUE;
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT,
               "expected 'weights' of type 'int' or 'float', not dynamic and without an actorder");
  return FALSE;
}

/* What a caller asks for is one group of all linear modules: its format is in the parameters, or in the name of the scheme. */
static WeftCtGroup *
group_new_for_scheme (WeftQuantizationConfig *config, GError **error)
{
  const gchar *scheme = weft_quantization_config_get_scheme (config);
  const gchar *slash = strchr (scheme, '/');
  JsonNode *parameters = weft_quantization_config_get_node (config);
  JsonNode *weights = weft_quantization_config_lookup (config, "weights");
  const gchar *format = weft_quantization_config_lookup_string (config, "format");
  g_autoptr (WeftCtGroup) group = NULL;

  if (parameters == NULL)
    {
      g_set_error (
          error, WEFT_ERROR, WEFT_ERROR_ARGUMENT,
          "%s needs parameters: {\"format\": ..., \"weights\": {\"num_bits\": ..., \"type\": ..., \"strategy\": ...}}",
          scheme);
      return NULL;
    }
  if (slash != NULL && format != NULL && !g_str_equal (format, slash + 1))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT,
                   "the scheme is '%s', and the parameter 'format' says '%s'", scheme, format);
      return NULL;
    }
  if (weights != NULL && JSON_NODE_HOLDS_OBJECT (weights) && !check_weights (weights, error))
    return NULL;
  group = group_new (scheme, parameters, slash != NULL ? slash + 1 : NULL, error);
  if (group == NULL || !check_format (group, WEFT_ERROR_ARGUMENT, error))
    return NULL;
  g_strfreev (group->targets);
  group->targets = g_strdupv ((gchar **) (const gchar *[]){ "Linear", NULL });
  return g_steal_pointer (&group);
}

GPtrArray *
weft_ct_groups_read (WeftQuantizationConfig *config, GError **error)
{
  g_autoptr (GPtrArray) groups = g_ptr_array_new_with_free_func (group_free);
  JsonNode *node = weft_quantization_config_lookup (config, "config_groups");
  const gchar *format = weft_quantization_config_lookup_string (config, "format");
  g_autoptr (GList) names = NULL;

  if (weft_quantization_config_get_scheme (config) != NULL)
    {
      WeftCtGroup *group = group_new_for_scheme (config, error);

      if (group == NULL)
        return NULL;
      g_ptr_array_add (groups, group);
      return g_steal_pointer (&groups);
    }
  if (node == NULL)
    return g_steal_pointer (&groups);
  if (!JSON_NODE_HOLDS_OBJECT (node))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT, "expected 'config_groups' to be an object, found %s",
                   weft_json_describe (node));
      return NULL;
    }
  names = json_object_get_members (json_node_get_object (node));
  for (GList *link = names; link != NULL; link = link->next)
    {
      JsonNode *object = json_object_get_member (json_node_get_object (node), link->data);
      WeftCtGroup *group = group_new (link->data, object, format, error);

      if (group == NULL)
        return NULL;
      g_ptr_array_add (groups, group);
      if (!check_read_format (link->data, group, error))
        return NULL;
    }
  return g_steal_pointer (&groups);
}

/* Whether a group names a module, by a pattern from its start or by its path. */
static gboolean
names_module (const WeftCtGroup *group, const gchar *module)
{
  for (guint i = 0; group->targets[i] != NULL; i++)
    {
      const gchar *target = group->targets[i];

      if (g_str_has_prefix (target, PATTERN_PREFIX)
              ? g_regex_match_simple (target + strlen (PATTERN_PREFIX), module, 0, G_REGEX_MATCH_ANCHORED)
              : g_str_equal (target, module))
        return TRUE;
    }
  return FALSE;
}

static gboolean
names_class (const WeftCtGroup *group)
{
  for (guint i = 0; group->targets[i] != NULL; i++)
    if (!g_str_has_prefix (group->targets[i], PATTERN_PREFIX) && strchr (group->targets[i], '.') == NULL)
      return TRUE;
  return FALSE;
}

const WeftCtGroup *
weft_ct_groups_find (GPtrArray *groups, const gchar *module)
{
  for (guint i = 0; i < groups->len; i++)
    if (names_module (groups->pdata[i], module))
      return groups->pdata[i];
  for (guint i = 0; i < groups->len; i++)
    if (names_class (groups->pdata[i]))
      return groups->pdata[i];
  return NULL;
}
