/* SPDX-License-Identifier: Apache-2.0 */
#include "pipeline/weft-gguf-rules-private.h"

#include "base/weft-json.h"
#include "mapping/weft-mapping-registry-internal.h"
#include "pipeline/weft-caller-rules-private.h"

#define ARCHITECTURE "general.architecture"
#define KEY_HEADS "attention.head_count_kv"

static const gchar *
get_architecture (WeftGgufFile *file)
{
  GVariant *value = weft_gguf_file_lookup_metadata (file, ARCHITECTURE);

  return value != NULL && g_variant_is_of_type (value, G_VARIANT_TYPE_STRING)
             ? g_variant_get_string (value, NULL)
             : NULL;
}

static void
note_unknown (WeftLoadPlan *plan, WeftMappingRegistry *registry, const gchar *architecture)
{
  g_auto (GStrv) names = weft_mapping_registry_list_names (registry);
  g_autofree gchar *known = g_strjoinv (", ", names);
  g_autofree gchar *detail = g_strdup_printf (
      "no rules are known for the tensors of this architecture (known: %s): they keep their names and layout "
      "(name rules with --mapping)",
      known);

  weft_load_report_add (plan->report, WEFT_FINDING_NOTE, architecture != NULL ? architecture : ARCHITECTURE,
                        detail);
}

/* Rows are put in order by heads; with a wrong number of them the model is wrong, and nothing shows it. */
static gboolean
check_heads (WeftLoadPlan *plan, const gchar *architecture, GError **error)
{
  static const gchar *const members[] = { "num_attention_heads", "num_key_value_heads" };

  for (guint i = 0; i < G_N_ELEMENTS (members); i++)
    if (weft_json_lookup (plan->config, members[i]) == NULL)
      {
        g_set_error (
            error, WEFT_ERROR, WEFT_ERROR_MISSING,
            "%s: the rules for '%s' need one number of heads: expected %s.attention.head_count in the file, or %s "
            "in a config.json beside it, found neither",
            weft_checkpoint_get_path (plan->checkpoint), architecture, architecture, members[i]);
        return FALSE;
      }
  return TRUE;
}

WeftTransformList *
weft_gguf_rules_assemble (WeftLoadPlan *plan, WeftGgufFile *file, GError **error)
{
  const gchar *architecture = get_architecture (file);
  g_autoptr (WeftMappingRegistry) registry = weft_mapping_registry_new_gguf (error);
  g_autoptr (WeftTransformList) list =
      registry != NULL ? weft_caller_rules_assemble (plan->options, registry, FALSE, error) : NULL;
  g_autoptr (WeftTransformList) rules = NULL;
  g_autoptr (GError) cause = NULL;

  if (list == NULL)
    return NULL;
  if (architecture != NULL)
    rules = weft_mapping_registry_lookup (registry, architecture, &cause);
  if (cause != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&cause));
      return NULL;
    }
  if (rules == NULL)
    note_unknown (plan, registry, architecture);
  else if (!check_heads (plan, architecture, error))
    return NULL;
  else
    weft_transform_list_append_list (list, rules);
  return g_steal_pointer (&list);
}

static GVariant *
lookup (WeftGgufFile *file, const gchar *architecture, const gchar *ending)
{
  g_autofree gchar *name = g_strconcat (architecture, ".", ending, NULL);

  return weft_gguf_file_lookup_metadata (file, name);
}

/* Numbers are of any width, and of either sign. */
static gboolean
lookup_int (WeftGgufFile *file, const gchar *architecture, const gchar *ending, gint64 *number)
{
  GVariant *value = lookup (file, architecture, ending);
  const gchar *type = value != NULL ? g_variant_get_type_string (value) : "";

  if (*type == 'u')
    *number = g_variant_get_uint32 (value);
  else if (*type == 'i')
    *number = g_variant_get_int32 (value);
  else if (*type == 't' && g_variant_get_uint64 (value) <= G_MAXINT64)
    *number = (gint64) g_variant_get_uint64 (value);
  else
    return FALSE;
  return TRUE;
}

JsonNode *
weft_gguf_rules_dup_config (WeftGgufFile *file)
{
  static const struct
  {
    const gchar *ending;
    const gchar *member;
  } numbers[] = {
    { "embedding_length", "hidden_size" },
    { "block_count", "num_hidden_layers" },
    { "attention.head_count", "num_attention_heads" },
    { KEY_HEADS, "num_key_value_heads" },
    { "attention.key_length", "head_dim" },
  };
  const gchar *architecture = get_architecture (file);
  JsonObject *object = json_object_new ();
  JsonNode *node = json_node_new (JSON_NODE_OBJECT);

  for (guint i = 0; architecture != NULL && i < G_N_ELEMENTS (numbers); i++)
    {
      gint64 number;

      if (lookup_int (file, architecture, numbers[i].ending, &number))
        json_object_set_int_member (object, numbers[i].member, number);
    }
  /* The format's rule: keys have as many heads as queries where nothing is said of them. */
  if (json_object_has_member (object, "num_attention_heads")
      && lookup (file, architecture, KEY_HEADS) == NULL)
    json_object_set_int_member (object, "num_key_value_heads",
                                json_object_get_int_member (object, "num_attention_heads"));
  json_node_take_object (node, object);
  return node;
}
