/* SPDX-License-Identifier: Apache-2.0 */
#include "pipeline/weft-output-private.h"

#include <string.h>
#include <xxhash.h>

#include "pipeline/weft-fusion-stages-private.h"
#include "pipeline/weft-provenance-private.h"
#include "pipeline/weft-quantize-stage-private.h"
#include "pipeline/weft-slice-record-private.h"
#include "quantize/weft-quantization-config-internal.h"

/* The metadata of a shard, with @quantization in the place of what the header said of packed weights. */
static GHashTable *
dup_metadata (WeftShard *shard, const gchar *quantization)
{
  GHashTable *stored = weft_shard_get_metadata (shard);
  g_autoptr (GHashTable) metadata = NULL;
  GHashTableIter iter;
  gpointer name, value;

  if (quantization == NULL
      && (stored == NULL || !g_hash_table_contains (stored, WEFT_QUANTIZATION_METADATA_NAME)))
    return stored != NULL ? g_hash_table_ref (stored) : NULL;
  metadata = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  if (stored != NULL)
    {
      g_hash_table_iter_init (&iter, stored);
      while (g_hash_table_iter_next (&iter, &name, &value))
        g_hash_table_insert (metadata, g_strdup (name), g_strdup (value));
    }
  g_hash_table_remove (metadata, WEFT_QUANTIZATION_METADATA_NAME);
  if (quantization != NULL)
    g_hash_table_insert (metadata, g_strdup (WEFT_QUANTIZATION_METADATA_NAME), g_strdup (quantization));
  return g_hash_table_size (metadata) > 0 ? g_steal_pointer (&metadata) : NULL;
}

static void
metadata_free (gpointer metadata)
{
  if (metadata != NULL)
    g_hash_table_unref (metadata);
}

/* Each output goes to the shard of its first source. */
static WeftShardLayout *
lay_out_by_source (WeftLoadPlan *plan, WeftStateDict *outputs, GPtrArray *conversions,
                   const gchar *quantization, GError **error)
{
  guint n = weft_state_dict_get_n_tensors (outputs);
  guint n_shards = weft_checkpoint_get_n_shards (plan->checkpoint);
  g_autofree guint *shards = g_new0 (guint, MAX (n, 1));
  g_autoptr (GPtrArray) metadata = g_ptr_array_new_with_free_func (metadata_free);

  for (guint i = 0; i < n; i++)
    {
      WeftConversion *conversion = conversions->pdata[i];

      shards[i] = weft_load_plan_get_source_shard (
          plan, g_array_index (conversion->sources, WeftConversionSource, 0).position);
    }
  for (guint i = 0; i < n_shards; i++)
    g_ptr_array_add (metadata, dup_metadata (weft_checkpoint_get_shard (plan->checkpoint, i), quantization));
  return weft_shard_layout_new_assigned (outputs, shards, n, metadata,
                                         weft_checkpoint_get_index_metadata (plan->checkpoint), error);
}

static WeftShardLayout *
lay_out (WeftLoadPlan *plan, WeftStateDict *outputs, GPtrArray *conversions, const gchar *quantization,
         GError **error)
{
  g_autoptr (WeftShardLayout) layout = NULL;
  guint64 max_shard_bytes = weft_load_options_get_max_shard_bytes (plan->options);
  g_autoptr (GHashTable) metadata =
      weft_checkpoint_get_n_shards (plan->checkpoint) > 0
          ? dup_metadata (weft_checkpoint_get_shard (plan->checkpoint, 0), quantization)
          : NULL;

  layout = max_shard_bytes == 0
               ? lay_out_by_source (plan, outputs, conversions, quantization, error)
               : weft_shard_layout_new_by_size (outputs, max_shard_bytes, metadata,
                                                weft_checkpoint_get_index_metadata (plan->checkpoint), error);
  if (layout != NULL && plan->file_name != NULL)
    weft_shard_layout_set_single_name (layout, plan->file_name);
  return g_steal_pointer (&layout);
}

WeftShardLayout *
weft_output_lay_out_whole (WeftLoadPlan *plan, GError **error)
{
  return lay_out (plan, plan->whole, plan->whole_conversions, NULL, error);
}

/* What --resume compares: the record holds all that a plan is made of. */
static gchar *
hash_plan (GBytes *provenance)
{
  gsize n_bytes;
  gconstpointer text = g_bytes_get_data (provenance, &n_bytes);
  XXH128_hash_t hash = XXH3_128bits (text, n_bytes);

  return g_strdup_printf ("%016" G_GINT64_MODIFIER "x%016" G_GINT64_MODIFIER "x", (guint64) hash.high64,
                          (guint64) hash.low64);
}

static gboolean
replace_modelopt (WeftLoadPlan *plan, GError **error)
{
  g_autoptr (GError) local_error = NULL;
  g_autofree gchar *text = weft_quantize_stage_edit_modelopt (plan, &local_error);
  g_autoptr (GBytes) bytes = text != NULL ? g_bytes_new (text, strlen (text)) : NULL;

  if (bytes != NULL)
    weft_load_plan_replace_file (plan, WEFT_MODELOPT_FILE_NAME, bytes);
  if (local_error == NULL)
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&local_error));
  return FALSE;
}

/* The config of the output, in place of that of the source: what was fused, and how weights are packed. */
static gboolean
replace_config (WeftLoadPlan *plan, GError **error)
{
  g_autoptr (GError) local_error = NULL;
  g_autofree gchar *fused = weft_fusion_stages_edit_config (plan, &local_error);
  g_autofree gchar *packed =
      local_error == NULL ? weft_quantize_stage_edit_config (plan, fused, &local_error) : NULL;
  const gchar *text = packed != NULL ? packed : fused;
  g_autoptr (GBytes) bytes = NULL;

  if (local_error != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&local_error));
      return FALSE;
    }
  if (text != NULL)
    {
      bytes = g_bytes_new (text, strlen (text));
      weft_load_plan_replace_file (plan, "config.json", bytes);
    }
  return replace_modelopt (plan, error);
}

/* Files beside the weights that are not carried along as they are. */
static gboolean
add_replaced_files (WeftLoadPlan *plan, WeftSafetensorsSink *sink, GError **error)
{
  GHashTableIter iter;
  gpointer name, content;

  g_hash_table_iter_init (&iter, plan->replaced_files);
  while (g_hash_table_iter_next (&iter, &name, &content))
    if (!weft_safetensors_sink_add_text (sink, name, content, error))
      return FALSE;
  return TRUE;
}

/* Whether headers say how weights are packed: one file has no config beside it, and what came so stays so. */
static gboolean
is_scheme_in_header (WeftLoadPlan *plan, WeftSafetensorsSink *sink)
{
  guint n_shards = weft_checkpoint_get_n_shards (plan->checkpoint);
  WeftShard *first = n_shards > 0 ? weft_checkpoint_get_shard (plan->checkpoint, 0) : NULL;
  GHashTable *metadata = first != NULL ? weft_shard_get_metadata (first) : NULL;

  return weft_safetensors_sink_is_single_file (sink)
         || (metadata != NULL && plan->quantizer == NULL
             && g_hash_table_contains (metadata, WEFT_QUANTIZATION_METADATA_NAME));
}

static gboolean
set_layout (WeftLoadPlan *plan, WeftSafetensorsSink *sink, GError **error)
{
  g_autoptr (WeftShardLayout) layout = NULL;
  g_autoptr (GError) local_error = NULL;
  g_autofree gchar *quantization =
      is_scheme_in_header (plan, sink) ? weft_quantize_stage_dup_header_config (plan, &local_error) : NULL;

  if (local_error == NULL)
    layout = lay_out (plan, plan->outputs, plan->output_conversions, quantization, &local_error);
  if (local_error != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&local_error));
      return FALSE;
    }
  weft_safetensors_sink_set_layout (sink, layout);
  return TRUE;
}

gboolean
weft_output_prepare (WeftLoadPlan *plan, WeftSafetensorsSink *sink, GCancellable *cancellable, GError **error)
{
  g_autoptr (GBytes) provenance = NULL;
  g_autofree gchar *fingerprint = NULL;

  if (!weft_safetensors_sink_set_source (sink, plan->checkpoint, error)
      || weft_load_plan_check_values (plan, cancellable, error) == NULL || !set_layout (plan, sink, error)
      || !replace_config (plan, error))
    return FALSE;
  if (weft_load_plan_is_dequantized (plan))
    weft_safetensors_sink_leave_out (sink, WEFT_MODELOPT_FILE_NAME);
  provenance = plan->sharding != NULL ? weft_slice_record_write (plan, cancellable, error)
                                      : weft_provenance_write (plan, cancellable, error);
  if (provenance == NULL)
    return FALSE;
  fingerprint = hash_plan (provenance);
  weft_safetensors_sink_set_fingerprint (sink, fingerprint);
  return weft_safetensors_sink_is_single_file (sink)
         || (add_replaced_files (plan, sink, error)
             && weft_safetensors_sink_add_text (sink, WEFT_PROVENANCE_FILE_NAME, provenance, error));
}
