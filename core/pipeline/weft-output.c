/* SPDX-License-Identifier: Apache-2.0 */
#include "pipeline/weft-output-private.h"

#include <string.h>
#include <xxhash.h>

#include "pipeline/weft-fusion-stages-private.h"
#include "pipeline/weft-provenance-private.h"
#include "pipeline/weft-quantize-stage-private.h"
#include "pipeline/weft-slice-record-private.h"
#include "quantize/weft-quantization-config-internal.h"

/* Each output goes to the shard of its first source. */
static WeftShardLayout *
lay_out_by_source (WeftLoadPlan *plan, WeftStateDict *outputs, GPtrArray *conversions, GError **error)
{
  guint n = weft_state_dict_get_n_tensors (outputs);
  guint n_shards = weft_checkpoint_get_n_shards (plan->checkpoint);
  g_autofree guint *shards = g_new0 (guint, MAX (n, 1));
  g_autoptr (GPtrArray) metadata = g_ptr_array_new ();

  for (guint i = 0; i < n; i++)
    {
      WeftConversion *conversion = conversions->pdata[i];

      shards[i] = weft_load_plan_get_source_shard (
          plan, g_array_index (conversion->sources, WeftConversionSource, 0).position);
    }
  for (guint i = 0; i < n_shards; i++)
    g_ptr_array_add (metadata, weft_shard_get_metadata (weft_checkpoint_get_shard (plan->checkpoint, i)));
  return weft_shard_layout_new_assigned (outputs, shards, n, metadata,
                                         weft_checkpoint_get_index_metadata (plan->checkpoint), error);
}

static WeftShardLayout *
lay_out (WeftLoadPlan *plan, WeftStateDict *outputs, GPtrArray *conversions, GError **error)
{
  g_autoptr (WeftShardLayout) layout = NULL;
  guint64 max_shard_bytes = weft_load_options_get_max_shard_bytes (plan->options);
  GHashTable *metadata = weft_checkpoint_get_n_shards (plan->checkpoint) > 0
                             ? weft_shard_get_metadata (weft_checkpoint_get_shard (plan->checkpoint, 0))
                             : NULL;

  layout = max_shard_bytes == 0
               ? lay_out_by_source (plan, outputs, conversions, error)
               : weft_shard_layout_new_by_size (outputs, max_shard_bytes, metadata,
                                                weft_checkpoint_get_index_metadata (plan->checkpoint), error);
  if (layout != NULL && plan->file_name != NULL)
    weft_shard_layout_set_single_name (layout, plan->file_name);
  return g_steal_pointer (&layout);
}

WeftShardLayout *
weft_output_lay_out_whole (WeftLoadPlan *plan, GError **error)
{
  return lay_out (plan, plan->whole, plan->whole_conversions, error);
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

gboolean
weft_output_prepare (WeftLoadPlan *plan, WeftSafetensorsSink *sink, GCancellable *cancellable, GError **error)
{
  g_autoptr (WeftShardLayout) layout = NULL;
  g_autoptr (GBytes) provenance = NULL;
  g_autofree gchar *fingerprint = NULL;

  if (!weft_safetensors_sink_set_source (sink, plan->checkpoint, error)
      || weft_load_plan_check_values (plan, cancellable, error) == NULL)
    return FALSE;
  layout = lay_out (plan, plan->outputs, plan->output_conversions, error);
  if (layout == NULL)
    return FALSE;
  weft_safetensors_sink_set_layout (sink, layout);
  if (!replace_config (plan, error))
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
