/* SPDX-License-Identifier: Apache-2.0 */
#include "pipeline/weft-provenance-private.h"

#include <string.h>
#include <xxhash.h>

#include "base/weft-json.h"
#include "checkpoint/weft-shard.h"
#include "mapping/weft-mapping.h"
#include "pipeline/weft-load-plan-private.h"
#include "transform/weft-stage-internal.h"

#define HASH_BUFFER_BYTES (1024 * 1024)

/* Written as text: a document tree would cost more memory than all lazy tensors together. */
static void
append_text (GString *json, const gchar *text)
{
  weft_json_append_text (json, text, FALSE);
}

static void
append_optional_text (GString *json, const gchar *text)
{
  if (text != NULL)
    append_text (json, text);
  else
    g_string_append (json, "null");
}

static void
append_texts (GString *json, GStrv texts)
{
  g_string_append_c (json, '[');
  for (guint i = 0; texts[i] != NULL; i++)
    {
      if (i > 0)
        g_string_append_c (json, ',');
      append_text (json, texts[i]);
    }
  g_string_append_c (json, ']');
}

gchar *
weft_provenance_format_hash (gconstpointer state)
{
  GString *text = g_string_new ("xxh3-128:");
  XXH128_canonical_t digest;

  XXH128_canonicalFromHash (&digest, XXH3_128bits_digest (state));
  for (guint i = 0; i < sizeof digest.digest; i++)
    g_string_append_printf (text, "%02x", digest.digest[i]);
  return g_string_free (text, FALSE);
}

gchar *
weft_provenance_hash_file (WeftFile *file, GCancellable *cancellable, GError **error)
{
  XXH3_state_t *state = XXH3_createState ();
  g_autofree guint8 *buffer = g_malloc (HASH_BUFFER_BYTES);
  guint64 size = weft_file_get_size (file);
  g_autofree gchar *text = NULL;
  gboolean ok = TRUE;

  XXH3_128bits_reset (state);
  for (guint64 offset = 0; ok && offset < size; offset += HASH_BUFFER_BYTES)
    {
      gsize n_bytes = MIN (HASH_BUFFER_BYTES, size - offset);

      ok = !g_cancellable_is_cancelled (cancellable);
      if (!ok)
        g_set_error_literal (error, WEFT_ERROR, WEFT_ERROR_CANCELLED, "cancelled");
      ok = ok && weft_file_read (file, offset, buffer, n_bytes, error);
      if (ok)
        XXH3_128bits_update (state, buffer, n_bytes);
    }
  text = weft_provenance_format_hash (state);
  XXH3_freeState (state);
  return ok ? g_steal_pointer (&text) : NULL;
}

/* A GGUF file is never written: what comes back of its tensors is in a safetensors file. */
static void
append_file_name (GString *json, WeftShard *shard)
{
  const gchar *name = weft_shard_get_file_name (shard);
  g_autofree gchar *written =
      weft_shard_get_gguf (shard) != NULL ? g_strconcat (name, ".safetensors", NULL) : g_strdup (name);

  append_text (json, written);
}

static gboolean
append_files (GString *json, WeftLoadPlan *plan, GCancellable *cancellable, GError **error)
{
  WeftCheckpoint *checkpoint = plan->checkpoint;

  for (guint i = 0; i < weft_checkpoint_get_n_shards (checkpoint); i++)
    {
      WeftShard *shard = weft_checkpoint_get_shard (checkpoint, i);
      g_autoptr (GBytes) header = weft_shard_read_header (shard, error);
      g_autofree gchar *text = NULL;
      g_autofree gchar *hash = NULL;

      if (header == NULL)
        return FALSE;
      text = g_strndup (g_bytes_get_data (header, NULL), g_bytes_get_size (header));
      if (weft_load_options_get_is_hashed (plan->options))
        {
          hash = weft_provenance_hash_file (weft_shard_get_file (shard), cancellable, error);
          if (hash == NULL)
            return FALSE;
        }
      g_string_append (json, i > 0 ? ",\n    {\"name\": " : "\n    {\"name\": ");
      append_file_name (json, shard);
      if (hash != NULL)
        g_string_append_printf (json, ", \"hash\": \"%s\"", hash);
      g_string_append (json, ", \"header\": ");
      append_text (json, text);
      g_string_append_c (json, '}');
    }
  return TRUE;
}

static void
append_rules (GString *json, WeftTransformList *transforms)
{
  g_autoptr (JsonNode) rules = weft_mapping_to_json (transforms);
  JsonArray *array = json_node_get_array (rules);

  for (guint i = 0; i < json_array_get_length (array); i++)
    {
      WeftWeightTransform *transform = weft_transform_list_get_transform (transforms, i);
      g_autofree gchar *text = weft_json_to_text (json_array_get_element (array, i), FALSE);

      g_string_append (json, i > 0 ? ",\n    {\"origin\": " : "\n    {\"origin\": ");
      append_optional_text (json, weft_weight_transform_get_origin (transform));
      g_string_append_printf (json, ", \"used\": %s, \"scope_prefix\": ",
                              weft_weight_transform_get_used (transform) ? "true" : "false");
      append_optional_text (json, weft_weight_transform_get_scope_prefix (transform));
      g_string_append (json, ", \"base_model_prefix\": ");
      append_optional_text (json, weft_weight_transform_get_base_model_prefix (transform));
      g_string_append_printf (json, ", \"rule\": %s}", text);
    }
}

/* How a companion followed its weights. */
static const gchar *const carry_names[] = { "none", "renamed", "grid", "channels", "shared" };

/* A renaming is [source, "output", "dtype"]; a converter an object. Sources count in the natural order of the names that
 * the headers list, or, with @positions, in the order that it gives. */
static void
append_conversion (GString *json, WeftLoadPlan *plan, const WeftConversion *conversion,
                   const guint *positions)
{
  const gchar *lossy = weft_load_plan_find_lossy_reason (plan, conversion);
  const WeftConversionOutput *outputs = (const WeftConversionOutput *) (gpointer) conversion->outputs->data;
  const WeftConversionSource *sources = (const WeftConversionSource *) (gpointer) conversion->sources->data;

  if (conversion->converter == NULL && conversion->proof == WEFT_PROOF_EXACT)
    {
      g_string_append_printf (json, "[%u,",
                              positions != NULL ? positions[sources[0].position] : sources[0].position);
      append_text (json, outputs[0].name);
      g_string_append_printf (json, ",\"%s\"]",
                              weft_dtype_get_name (weft_tensor_get_dtype (outputs[0].tensor)));
      return;
    }
  g_string_append_printf (json, "{\"rule\": %d, \"layer\": ", conversion->rule);
  append_text (json, conversion->layer);
  if (lossy != NULL)
    {
      g_string_append (json, ", \"lossy\": ");
      append_text (json, lossy);
    }
  if (conversion->carry > WEFT_CARRY_RENAMED)
    g_string_append_printf (json, ", \"carry\": [\"%s\",%u]", carry_names[conversion->carry],
                            conversion->output_rank);
  if (conversion->converter != NULL)
    {
      g_string_append (json, ", \"targets\": ");
      append_texts (json, conversion->target_patterns);
    }
  g_string_append (json, ", \"outputs\": [");
  for (guint i = 0; i < conversion->outputs->len; i++)
    {
      g_string_append_printf (json, "%s[%u,%" G_GINT64_FORMAT ",", i > 0 ? "," : "", outputs[i].pattern,
                              outputs[i].number);
      append_text (json, outputs[i].name);
      g_string_append_printf (json, ",\"%s\"]",
                              weft_dtype_get_name (weft_tensor_get_dtype (outputs[i].tensor)));
    }
  g_string_append (json, "], \"sources\": [");
  for (guint i = 0; i < conversion->sources->len; i++)
    g_string_append_printf (json, "%s%u,%u,%" G_GINT64_FORMAT, i > 0 ? "," : "",
                            positions != NULL ? positions[sources[i].position] : sources[i].position,
                            sources[i].pattern, sources[i].number);
  g_string_append (json, "]}");
}

/* A tensor that a stage took in is ["name", "dtype", [dims]]. */
static void
append_input (GString *json, WeftStage *stage, guint position, gboolean is_first)
{
  WeftTensor *tensor = weft_state_dict_get_tensor (stage->inputs, position);
  const WeftShape *shape = weft_tensor_get_shape (tensor);

  g_string_append (json, is_first ? "\n      [" : ",\n      [");
  append_text (json, weft_state_dict_get_name (stage->inputs, position));
  g_string_append_printf (json, ",\"%s\",[", weft_dtype_get_name (weft_tensor_get_dtype (tensor)));
  for (guint i = 0; i < shape->rank; i++)
    g_string_append_printf (json, "%s%" G_GINT64_FORMAT, i > 0 ? "," : "", shape->dims[i]);
  g_string_append (json, "]]");
}

/* The tensors that a conversion of the stage met; @positions gets for each its place in this list. */
static void
append_inputs (GString *json, WeftStage *stage, guint *positions)
{
  guint n = 0;

  for (guint i = 0; i < stage->conversions->len; i++)
    {
      const WeftConversion *conversion = stage->conversions->pdata[i];

      for (guint j = 0; j < conversion->sources->len; j++, n++)
        {
          guint position = g_array_index (conversion->sources, WeftConversionSource, j).position;

          positions[position] = n;
          append_input (json, stage, position, n == 0);
        }
    }
}

static void
append_stage (GString *json, WeftLoadPlan *plan, WeftStage *stage)
{
  g_autofree guint *positions = g_new0 (guint, weft_state_dict_get_n_tensors (stage->inputs) + 1);

  g_string_append (json, "{\"rules\": [");
  append_rules (json, stage->rules);
  g_string_append (json, "], \"inputs\": [");
  append_inputs (json, stage, positions);
  g_string_append (json, "], \"conversions\": [");
  for (guint i = 0; i < stage->conversions->len; i++)
    {
      g_string_append (json, i == 0 ? "\n      " : ",\n      ");
      append_conversion (json, plan, stage->conversions->pdata[i], positions);
    }
  g_string_append (json, "]}");
}

static gboolean
has_written_output (WeftLoadPlan *plan, const WeftConversion *conversion)
{
  for (guint i = 0; i < conversion->outputs->len; i++)
    if (!g_hash_table_contains (plan->left_out,
                                g_array_index (conversion->outputs, WeftConversionOutput, i).name))
      return TRUE;
  return FALSE;
}

/* Dequantized weights stand in no header: [name, dtype, shape] of all tensors that conversions count. */
static void
append_dense (GString *json, WeftLoadPlan *plan)
{
  g_string_append (json, ",\n  \"dense\": [");
  for (guint i = 0; i < weft_state_dict_get_n_tensors (plan->published); i++)
    {
      WeftTensor *tensor = weft_state_dict_get_tensor (plan->published, i);

      g_string_append (json, i > 0 ? ",\n    [" : "\n    [");
      append_text (json, weft_state_dict_get_name (plan->published, i));
      g_string_append_printf (json, ",\"%s\"", weft_dtype_get_name (weft_tensor_get_dtype (tensor)));
      for (guint k = 0; k < weft_tensor_get_rank (tensor); k++)
        g_string_append_printf (json, ",%" G_GINT64_FORMAT, weft_tensor_get_dim (tensor, (gint) k));
      g_string_append_c (json, ']');
    }
  g_string_append_c (json, ']');
}

gchar *
weft_provenance_find (WeftCheckpoint *checkpoint)
{
  const gchar *folder = weft_checkpoint_get_folder (checkpoint);
  g_autofree gchar *path = folder != NULL ? g_build_filename (folder, WEFT_PROVENANCE_FILE_NAME, NULL) : NULL;

  return path != NULL && g_file_test (path, G_FILE_TEST_IS_REGULAR) ? g_steal_pointer (&path) : NULL;
}

/* What was converted may itself be the output of a conversion: its record is kept, so that it can be reverted further. */
static gboolean
append_previous (GString *json, WeftCheckpoint *checkpoint, GError **error)
{
  g_autofree gchar *path = weft_provenance_find (checkpoint);
  g_autofree gchar *text = NULL;
  g_autoptr (GError) local_error = NULL;

  if (path == NULL)
    return TRUE;
  if (!g_file_get_contents (path, &text, NULL, &local_error) || !g_utf8_validate (text, -1, NULL))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_IO, "%s: cannot be read: %s", path,
                   local_error != NULL ? local_error->message : "it is no UTF-8 text");
      return FALSE;
    }
  g_string_append (json, "  \"previous\": ");
  append_text (json, text);
  g_string_append (json, ",\n");
  return TRUE;
}

/* Files beside the weights that the output has in another form: their text, so that it comes back. */
static gboolean
append_replaced_files (GString *json, WeftLoadPlan *plan, GError **error)
{
  const gchar *folder = weft_checkpoint_get_folder (plan->checkpoint);
  g_autoptr (GList) names = g_hash_table_get_keys (plan->replaced_files);
  gboolean is_first = TRUE;

  if (names == NULL || folder == NULL)
    return TRUE;
  names = g_list_sort (names, (GCompareFunc) strcmp);
  g_string_append (json, "  \"replaced_files\": {");
  for (GList *name = names; name != NULL; name = name->next)
    {
      g_autofree gchar *path = g_build_filename (folder, name->data, NULL);
      g_autofree gchar *text = NULL;
      g_autoptr (GError) local_error = NULL;

      /* One that only the output has. */
      if (!g_file_test (path, G_FILE_TEST_EXISTS))
        continue;
      if (!g_file_get_contents (path, &text, NULL, &local_error) || !g_utf8_validate (text, -1, NULL))
        {
          g_set_error (error, WEFT_ERROR, WEFT_ERROR_IO, "%s: cannot be read: %s", path,
                       local_error != NULL ? local_error->message : "it is no UTF-8 text");
          return FALSE;
        }
      g_string_append (json, is_first ? "" : ", ");
      is_first = FALSE;
      append_text (json, name->data);
      g_string_append (json, ": ");
      append_text (json, text);
    }
  g_string_append (json, "},\n");
  return TRUE;
}

GBytes *
weft_provenance_write (WeftLoadPlan *plan, GCancellable *cancellable, GError **error)
{
  g_autoptr (GString) json = g_string_new ("{\"format\": \"weft-provenance\", \"version\": ");
  GBytes *index = weft_checkpoint_get_index (plan->checkpoint);
  gboolean is_first = TRUE;

  g_string_append_printf (json, "%d, \"weft\": \"%s\", \"dtype\": \"%s\",\n", WEFT_PROVENANCE_VERSION,
                          WEFT_VERSION, weft_load_options_get_dtype (plan->options));
  if (!append_previous (json, plan->checkpoint, error) || !append_replaced_files (json, plan, error))
    return NULL;
  if (plan->quantizer != NULL)
    g_string_append (json, "  \"quantized\": true,\n");
  g_string_append (json, "  \"source_index\": ");
  if (index != NULL)
    {
      g_autofree gchar *text = g_strndup (g_bytes_get_data (index, NULL), g_bytes_get_size (index));

      g_string_append (json, "{\"name\": ");
      append_text (json, weft_checkpoint_get_index_name (plan->checkpoint));
      g_string_append (json, ", \"text\": ");
      append_text (json, text);
      g_string_append_c (json, '}');
    }
  else
    g_string_append (json, "null");
  g_string_append (json, ",\n  \"source_files\": [");
  if (!append_files (json, plan, cancellable, error))
    return NULL;
  g_string_append_c (json, ']');
  if (weft_load_plan_is_dequantized (plan))
    append_dense (json, plan);
  g_string_append (json, ",\n  \"rules\": [");
  append_rules (json, plan->transforms);
  g_string_append (json, "],\n  \"conversions\": [");
  for (guint i = 0; i < plan->conversions->len; i++)
    {
      const WeftConversion *conversion = plan->conversions->pdata[i];

      if (!has_written_output (plan, conversion))
        continue;
      g_string_append (json, is_first ? "\n    " : ",\n    ");
      is_first = FALSE;
      append_conversion (json, plan, conversion, NULL);
    }
  g_string_append (json, "],\n  \"stages\": [");
  for (guint i = 0; i < plan->stages->len; i++)
    {
      g_string_append (json, i == 0 ? "\n    " : ",\n    ");
      append_stage (json, plan, plan->stages->pdata[i]);
    }
  g_string_append (json, "]}\n");
  return g_string_free_to_bytes (g_steal_pointer (&json));
}

void
weft_provenance_free (WeftProvenance *self)
{
  g_clear_object (&self->published);
  g_strfreev (self->file_names);
  g_clear_pointer (&self->headers, g_ptr_array_unref);
  g_clear_pointer (&self->hashes, g_ptr_array_unref);
  g_free (self->index_name);
  g_clear_pointer (&self->replaced_files, g_hash_table_unref);
  g_free (self->previous);
  g_free (self->checksum);
  g_clear_pointer (&self->index, g_bytes_unref);
  g_clear_pointer (&self->conversions, g_ptr_array_unref);
  g_clear_pointer (&self->stages, g_ptr_array_unref);
  g_free (self);
}

static void
recorded_stage_free (gpointer pointer)
{
  WeftRecordedStage *stage = pointer;

  g_clear_object (&stage->inputs);
  g_clear_pointer (&stage->conversions, g_ptr_array_unref);
  g_free (stage);
}

static gboolean
refuse (const gchar *path, const gchar *what, GError **error)
{
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT,
               "%s: %s; this is no record that Weft wrote (remove it to revert by the model's mapping alone)",
               path, what);
  return FALSE;
}

static JsonArray *
get_array (JsonNode *root, const gchar *name)
{
  JsonNode *node = weft_json_lookup (root, name);

  return node != NULL && JSON_NODE_HOLDS_ARRAY (node) ? json_node_get_array (node) : NULL;
}

static const gchar *
get_text (JsonNode *root, const gchar *name)
{
  JsonNode *node = weft_json_lookup (root, name);

  return node != NULL && JSON_NODE_HOLDS_VALUE (node) && json_node_get_value_type (node) == G_TYPE_STRING
             ? json_node_get_string (node)
             : NULL;
}

/* A checkpoint of one file has none. */
static gboolean
read_index (WeftProvenance *self, JsonNode *root, const gchar *path, GError **error)
{
  JsonNode *index = weft_json_lookup (root, "source_index");
  const gchar *name = get_text (index, "name");
  const gchar *text = get_text (index, "text");

  if (index != NULL && JSON_NODE_HOLDS_NULL (index))
    return TRUE;
  if (name == NULL || text == NULL)
    return refuse (path, "'source_index' has no name or no text", error);
  self->index_name = g_strdup (name);
  self->index = g_bytes_new (text, strlen (text));
  return TRUE;
}

static gboolean
read_files (WeftProvenance *self, JsonNode *root, const gchar *path, GError **error)
{
  JsonArray *files = get_array (root, "source_files");
  g_autoptr (GStrvBuilder) names = g_strv_builder_new ();

  self->headers = g_ptr_array_new_with_free_func ((GDestroyNotify) g_bytes_unref);
  self->hashes = g_ptr_array_new_with_free_func (g_free);
  self->published = weft_state_dict_new ();
  if (files == NULL)
    return refuse (path, "'source_files' is no list", error);
  if (json_array_get_length (files) == 0)
    return refuse (path, "'source_files' names no source file", error);
  for (guint i = 0; i < json_array_get_length (files); i++)
    {
      JsonNode *file = json_array_get_element (files, i);
      const gchar *name = get_text (file, "name");
      const gchar *header = get_text (file, "header");
      GBytes *bytes;

      if (name == NULL || header == NULL)
        return refuse (path, "a source file has no name or no header", error);
      bytes = g_bytes_new (header, strlen (header));
      g_ptr_array_add (self->headers, bytes);
      g_ptr_array_add (self->hashes, g_strdup (get_text (file, "hash")));
      g_strv_builder_add (names, name);
      if (!weft_shard_scan_recorded_header (bytes, name, self->published, error))
        {
          g_prefix_error (error, "%s: ", path);
          return FALSE;
        }
    }
  weft_state_dict_sort_natural (self->published);
  self->file_names = g_strv_builder_end (names);
  return TRUE;
}

static gint64
read_int (JsonNode *node)
{
  return node != NULL && JSON_NODE_HOLDS_VALUE (node) && json_node_get_value_type (node) == G_TYPE_INT64
             ? json_node_get_int (node)
             : G_MININT64;
}

static gint64
get_int (JsonArray *array, guint i)
{
  return read_int (i < json_array_get_length (array) ? json_array_get_element (array, i) : NULL);
}

static const gchar *
get_string (JsonArray *array, guint i)
{
  JsonNode *node = i < json_array_get_length (array) ? json_array_get_element (array, i) : NULL;

  return node != NULL && JSON_NODE_HOLDS_VALUE (node) && json_node_get_value_type (node) == G_TYPE_STRING
             ? json_node_get_string (node)
             : NULL;
}

static WeftTensor *
read_dense_tensor (JsonArray *entry)
{
  const gchar *dtype = get_string (entry, 1);
  guint rank = json_array_get_length (entry) - 2;
  gint64 dims[WEFT_MAX_RANK];

  if (get_string (entry, 0) == NULL || dtype == NULL || weft_dtype_from_name (dtype) == WEFT_DTYPE_INVALID
      || rank > WEFT_MAX_RANK)
    return NULL;
  for (guint i = 0; i < rank; i++)
    dims[i] = get_int (entry, i + 2);
  return weft_tensor_new_unreadable (weft_dtype_from_name (dtype), dims, rank, NULL);
}

/* The tensors that conversions count, where they are not those of the headers. */
static gboolean
read_dense (WeftProvenance *self, JsonNode *root, const gchar *path, GError **error)
{
  JsonArray *array = get_array (root, "dense");

  if (array == NULL)
    return TRUE;
  self->is_dequantized = TRUE;
  g_clear_object (&self->published);
  self->published = weft_state_dict_new ();
  for (guint i = 0; i < json_array_get_length (array); i++)
    {
      JsonNode *element = json_array_get_element (array, i);
      JsonArray *entry = JSON_NODE_HOLDS_ARRAY (element) ? json_node_get_array (element) : NULL;
      g_autoptr (WeftTensor) tensor =
          entry != NULL && json_array_get_length (entry) >= 2 ? read_dense_tensor (entry) : NULL;

      if (tensor == NULL)
        return refuse (path, "'dense' holds something else than [name, dtype, extents]", error);
      if (!weft_state_dict_add (self->published, get_string (entry, 0), tensor, error))
        return FALSE;
    }
  return TRUE;
}

/* Renamings leave a NULL. */
static void
free_rule (gpointer rule)
{
  if (rule != NULL)
    g_object_unref (rule);
}

/* Only converters are needed on the way back: which key a renaming met is recorded by name. */
static gboolean
read_rules (JsonNode *root, GPtrArray *rules, const gchar *path, GError **error)
{
  JsonArray *array = get_array (root, "rules");

  if (array == NULL)
    return refuse (path, "'rules' is no list", error);
  for (guint i = 0; i < json_array_get_length (array); i++)
    {
      JsonNode *element = json_array_get_element (array, i);
      JsonNode *rule = weft_json_lookup (element, "rule");
      g_autofree gchar *where = g_strdup_printf ("%s: rules[%u]", path, i);
      WeftWeightTransform *transform = NULL;

      if (rule == NULL || !JSON_NODE_HOLDS_OBJECT (rule))
        return refuse (path, "a rule is no object", error);
      if (g_strcmp0 (get_text (rule, "type"), "WeightConverter") == 0)
        {
          transform = weft_weight_transform_new_from_json (json_node_get_object (rule), where, error);
          if (transform == NULL || !weft_weight_transform_prepare (transform, error))
            {
              g_clear_object (&transform);
              return FALSE;
            }
          weft_weight_transform_set_scope (transform, get_text (element, "scope_prefix"),
                                           get_text (element, "base_model_prefix"));
          weft_weight_transform_set_origin (
              transform, get_text (element, "origin") != NULL ? get_text (element, "origin") : "record", i);
        }
      g_ptr_array_add (rules, transform);
    }
  return TRUE;
}

/* The recorded dtype of an output is kept as a header-only tensor of no elements. */
static gboolean
read_output (WeftConversion *conversion, JsonArray *output, guint first, guint pattern, gint64 number)
{
  static const gint64 no_elements[] = { 0 };
  const gchar *name = get_string (output, first);
  const gchar *dtype = get_string (output, first + 1);
  g_autoptr (WeftTensor) tensor = NULL;

  if (name == NULL || dtype == NULL || weft_dtype_from_name (dtype) == WEFT_DTYPE_INVALID)
    return FALSE;
  tensor = weft_tensor_new_unreadable (weft_dtype_from_name (dtype), no_elements, 1, NULL);
  weft_conversion_add_output (conversion, name, pattern, number, tensor);
  return TRUE;
}

static WeftConversion *
read_renaming (JsonArray *array, guint n_published)
{
  const gchar *name = get_string (array, 1);
  gint64 position = get_int (array, 0);
  g_autoptr (WeftConversion) conversion = NULL;

  if (name == NULL || position < 0 || position >= n_published)
    return NULL;
  conversion = weft_conversion_new (name, NULL, -1);
  weft_conversion_add_source (conversion, (guint) position, 0, -1);
  return read_output (conversion, array, 1, 0, -1) ? g_steal_pointer (&conversion) : NULL;
}

static GStrv
read_strings (JsonArray *array)
{
  g_autoptr (GStrvBuilder) builder = g_strv_builder_new ();

  for (guint i = 0; array != NULL && i < json_array_get_length (array); i++)
    {
      if (get_string (array, i) == NULL)
        return NULL;
      g_strv_builder_add (builder, get_string (array, i));
    }
  return g_strv_builder_end (builder);
}

static gboolean
read_carry (WeftConversion *self, JsonArray *carry)
{
  const gchar *name = carry != NULL ? get_string (carry, 0) : NULL;
  gint64 rank = carry != NULL ? get_int (carry, 1) : 0;

  if (carry == NULL)
    return TRUE;
  for (guint i = WEFT_CARRY_GRID; i < G_N_ELEMENTS (carry_names); i++)
    if (g_strcmp0 (name, carry_names[i]) == 0)
      self->carry = i;
  self->output_rank = (guint) CLAMP (rank, 0, WEFT_MAX_RANK);
  return self->carry != WEFT_CARRY_NONE && rank >= 0 && rank <= WEFT_MAX_RANK;
}

static WeftConversion *
read_converter (JsonNode *node, GPtrArray *rules, guint n_published)
{
  JsonArray *outputs = get_array (node, "outputs");
  JsonArray *sources = get_array (node, "sources");
  const gchar *layer = get_text (node, "layer");
  const gchar *lossy = get_text (node, "lossy");
  gint64 rule = read_int (weft_json_lookup (node, "rule"));
  WeftWeightConverter *converter = NULL;
  g_autoptr (WeftConversion) self = NULL;
  guint n_sources, n_targets;

  if (outputs == NULL || sources == NULL || layer == NULL || rule < -1 || rule >= (gint64) rules->len)
    return NULL;
  if (rule >= 0)
    converter = rules->pdata[rule];
  if (rule >= 0 && converter == NULL)
    return NULL;
  self = weft_conversion_new (layer, converter, (gint) rule);
  self->proof = lossy != NULL ? WEFT_PROOF_LOSSY : WEFT_PROOF_EXACT;
  self->proof_reason = g_strdup (lossy);
  if (!read_carry (self, get_array (node, "carry")))
    return NULL;
  if (converter != NULL)
    {
      self->source_patterns =
          g_strdupv ((GStrv) weft_weight_transform_get_source_patterns (WEFT_WEIGHT_TRANSFORM (converter)));
      self->target_patterns = read_strings (get_array (node, "targets"));
      if (self->target_patterns == NULL)
        return NULL;
    }
  n_sources = converter != NULL ? g_strv_length (self->source_patterns) : 1;
  n_targets = converter != NULL ? g_strv_length (self->target_patterns) : 1;
  for (guint i = 0; i < json_array_get_length (outputs); i++)
    {
      JsonNode *element = json_array_get_element (outputs, i);
      JsonArray *output = JSON_NODE_HOLDS_ARRAY (element) ? json_node_get_array (element) : NULL;
      gint64 pattern = output != NULL ? get_int (output, 0) : -1;

      if (pattern < 0 || pattern >= n_targets
          || !read_output (self, output, 2, (guint) pattern, get_int (output, 1)))
        return NULL;
    }
  for (guint i = 0; i + 2 < json_array_get_length (sources); i += 3)
    {
      gint64 position = get_int (sources, i);
      gint64 pattern = get_int (sources, i + 1);

      if (position < 0 || position >= n_published || pattern < 0 || pattern >= n_sources)
        return NULL;
      weft_conversion_add_source (self, (guint) position, (guint) pattern, get_int (sources, i + 2));
    }
  if (self->sources->len == 0 || self->outputs->len == 0)
    return NULL;
  /* A renaming has one of each. */
  return converter != NULL || (self->sources->len == 1 && self->outputs->len == 1) ? g_steal_pointer (&self)
                                                                                   : NULL;
}

/* The conversions of @root, over @n_sources tensors, by its own rules. */
static GPtrArray *
read_conversions (JsonNode *root, guint n_sources, const gchar *path, GError **error)
{
  JsonArray *array = get_array (root, "conversions");
  g_autoptr (GPtrArray) rules = g_ptr_array_new_with_free_func (free_rule);
  g_autoptr (GPtrArray) conversions = g_ptr_array_new_with_free_func ((GDestroyNotify) weft_conversion_free);

  if (array == NULL)
    {
      refuse (path, "'conversions' is no list", error);
      return NULL;
    }
  if (!read_rules (root, rules, path, error))
    return NULL;
  for (guint i = 0; i < json_array_get_length (array); i++)
    {
      JsonNode *element = json_array_get_element (array, i);
      WeftConversion *conversion =
          JSON_NODE_HOLDS_ARRAY (element)    ? read_renaming (json_node_get_array (element), n_sources)
          : JSON_NODE_HOLDS_OBJECT (element) ? read_converter (element, rules, n_sources)
                                             : NULL;

      if (conversion == NULL)
        {
          g_autofree gchar *what = g_strdup_printf ("conversions[%u] is malformed", i);

          refuse (path, what, error);
          return NULL;
        }
      g_ptr_array_add (conversions, conversion);
    }
  return g_steal_pointer (&conversions);
}

static WeftTensor *
read_input (JsonArray *input)
{
  const gchar *dtype = get_string (input, 1);
  JsonNode *shape = json_array_get_length (input) == 3 ? json_array_get_element (input, 2) : NULL;
  JsonArray *array = shape != NULL && JSON_NODE_HOLDS_ARRAY (shape) ? json_node_get_array (shape) : NULL;
  gint64 dims[WEFT_MAX_RANK] = { 0 };

  if (array == NULL || dtype == NULL || weft_dtype_from_name (dtype) == WEFT_DTYPE_INVALID
      || json_array_get_length (array) > WEFT_MAX_RANK)
    return NULL;
  for (guint i = 0; i < json_array_get_length (array); i++)
    dims[i] = get_int (array, i);
  return weft_tensor_new_unreadable (weft_dtype_from_name (dtype), dims, json_array_get_length (array), NULL);
}

static gboolean
read_inputs (WeftRecordedStage *stage, JsonNode *root)
{
  JsonArray *array = get_array (root, "inputs");

  for (guint i = 0; array != NULL && i < json_array_get_length (array); i++)
    {
      JsonNode *element = json_array_get_element (array, i);
      JsonArray *input = JSON_NODE_HOLDS_ARRAY (element) ? json_node_get_array (element) : NULL;
      g_autoptr (WeftTensor) tensor = input != NULL ? read_input (input) : NULL;

      if (tensor == NULL || get_string (input, 0) == NULL
          || !weft_state_dict_add (stage->inputs, get_string (input, 0), tensor, NULL))
        return FALSE;
    }
  return array != NULL;
}

/* A conversion without fusions has none. */
static gboolean
read_stages (WeftProvenance *self, JsonNode *root, const gchar *path, GError **error)
{
  JsonArray *array = get_array (root, "stages");

  self->stages = g_ptr_array_new_with_free_func (recorded_stage_free);
  for (guint i = 0; array != NULL && i < json_array_get_length (array); i++)
    {
      JsonNode *element = json_array_get_element (array, i);
      WeftRecordedStage *stage = g_new0 (WeftRecordedStage, 1);

      g_ptr_array_add (self->stages, stage);
      stage->inputs = weft_state_dict_new ();
      if (!read_inputs (stage, element))
        return refuse (path, "'inputs' of a stage is malformed", error);
      stage->conversions =
          read_conversions (element, weft_state_dict_get_n_tensors (stage->inputs), path, error);
      if (stage->conversions == NULL)
        return FALSE;
    }
  return TRUE;
}

/* Files that were written in another form, by name. */
static gboolean
read_replaced_files (WeftProvenance *self, JsonNode *root, const gchar *path, GError **error)
{
  JsonNode *node = weft_json_lookup (root, "replaced_files");
  JsonObjectIter iter;
  const gchar *name;
  JsonNode *text;

  self->replaced_files =
      g_hash_table_new_full (g_str_hash, g_str_equal, g_free, (GDestroyNotify) g_bytes_unref);
  if (node == NULL)
    return TRUE;
  if (!JSON_NODE_HOLDS_OBJECT (node))
    return refuse (path, "'replaced_files' is no object", error);
  json_object_iter_init (&iter, json_node_get_object (node));
  while (json_object_iter_next (&iter, &name, &text))
    {
      const gchar *content = JSON_NODE_HOLDS_VALUE (text) ? json_node_get_string (text) : NULL;

      if (content == NULL)
        return refuse (path, "'replaced_files' has a member that is no text", error);
      g_hash_table_insert (self->replaced_files, g_strdup (name), g_bytes_new (content, strlen (content)));
    }
  return TRUE;
}

WeftProvenance *
weft_provenance_load (const gchar *path, GError **error)
{
  g_autoptr (WeftProvenance) self = g_new0 (WeftProvenance, 1);
  g_autoptr (JsonNode) root = NULL;
  g_autoptr (GError) local_error = NULL;
  g_autofree gchar *text = NULL;
  gsize n_bytes;
  JsonNode *version;

  if (!g_file_get_contents (path, &text, &n_bytes, &local_error))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_IO, "%s: cannot be read: %s", path, local_error->message);
      return NULL;
    }
  self->checksum = g_compute_checksum_for_string (G_CHECKSUM_SHA256, text, (gssize) n_bytes);
  root = weft_json_parse (text, (gssize) n_bytes, path, error);
  if (root == NULL)
    return NULL;
  version = weft_json_lookup (root, "version");
  if (g_strcmp0 (get_text (root, "format"), WEFT_SLICE_FORMAT) == 0)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_UNSUPPORTED,
                   "%s: the folder holds what one rank of several does; join them first (`weft gather`)",
                   path);
      return NULL;
    }
  if (g_strcmp0 (get_text (root, "format"), "weft-provenance") != 0 || version == NULL
      || !JSON_NODE_HOLDS_VALUE (version))
    {
      refuse (path, "'format' is not weft-provenance", error);
      return NULL;
    }
  if (json_node_get_int (version) != WEFT_PROVENANCE_VERSION)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_UNSUPPORTED,
                   "%s: the record has version %" G_GINT64_FORMAT
                   ", this Weft reads version %d; use the Weft that wrote it",
                   path, json_node_get_int (version), WEFT_PROVENANCE_VERSION);
      return NULL;
    }
  self->previous = g_strdup (get_text (root, "previous"));
  self->is_quantized = weft_json_lookup (root, "quantized") != NULL;
  if (!read_replaced_files (self, root, path, error) || !read_index (self, root, path, error)
      || !read_files (self, root, path, error) || !read_dense (self, root, path, error)
      || !read_stages (self, root, path, error))
    return NULL;
  self->conversions = read_conversions (root, weft_state_dict_get_n_tensors (self->published), path, error);
  return self->conversions != NULL ? g_steal_pointer (&self) : NULL;
}
