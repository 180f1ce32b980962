/* SPDX-License-Identifier: Apache-2.0 */
#include "pipeline/weft-output-private.h"

#include <xxhash.h>

#include "pipeline/weft-load-plan-private.h"
#include "pipeline/weft-provenance-private.h"

/* How much of two tensors is compared at a time, in bytes. */
#define COMPARE_BYTES (1024 * 1024)

/* Compares two tensors of one shape, a band of the first axis at a time. */
static gboolean
have_equal_values (WeftTensor *a, WeftTensor *b, gboolean *are_equal, GCancellable *cancellable,
                   GError **error)
{
  gint64 n_rows = weft_tensor_get_rank (a) > 0 ? weft_tensor_get_dim (a, 0) : 1;
  gint64 step = MAX (1, COMPARE_BYTES / MAX (1, (gint64) weft_tensor_get_n_bytes (a) / MAX (1, n_rows)));

  *are_equal = TRUE;
  for (gint64 row = 0; *are_equal && row < n_rows; row += step)
    {
      gint64 length = MIN (step, n_rows - row);
      gboolean is_scalar = weft_tensor_get_rank (a) == 0;
      g_autoptr (WeftTensor) a_band =
          is_scalar ? weft_tensor_ref (a) : weft_tensor_slice (a, 0, row, length, error);
      g_autoptr (WeftTensor) b_band = a_band == NULL ? NULL
                                      : is_scalar    ? weft_tensor_ref (b)
                                                     : weft_tensor_slice (b, 0, row, length, error);
      g_autoptr (GBytes) a_bytes = b_band != NULL ? weft_tensor_read (a_band, cancellable, error) : NULL;
      g_autoptr (GBytes) b_bytes = a_bytes != NULL ? weft_tensor_read (b_band, cancellable, error) : NULL;

      if (b_bytes == NULL)
        return FALSE;
      *are_equal = g_bytes_equal (a_bytes, b_bytes);
    }
  return TRUE;
}

/* A conversion that drops elements which should be zero gives the source back if they are: looks. */
static gboolean
check_condition (WeftLoadPlan *plan, WeftConversion *conversion, WeftOpContext *facts,
                 GCancellable *cancellable, GError **error)
{
  WeftStateDict *published = plan->published;
  g_autofree WeftTensor **runtime = g_new (WeftTensor *, conversion->outputs->len);
  g_autoptr (GPtrArray) tensors = NULL;

  for (guint i = 0; i < conversion->outputs->len; i++)
    runtime[i] = g_array_index (conversion->outputs, WeftConversionOutput, i).tensor;
  tensors = weft_conversion_invert (conversion, runtime, published, facts, error);
  for (guint i = 0; tensors != NULL && i < tensors->len; i++)
    {
      guint position = g_array_index (conversion->sources, WeftConversionSource, i).position;
      gboolean are_equal = FALSE;
      g_autofree gchar *reason = NULL;

      if (!have_equal_values (tensors->pdata[i], weft_state_dict_get_tensor (published, position), &are_equal,
                              cancellable, error))
        {
          g_prefix_error (error, "'%s': ", weft_state_dict_get_name (published, position));
          return FALSE;
        }
      if (are_equal)
        continue;
      reason = g_strdup_printf ("'%s' has other values than zero where the conversion drops elements",
                                weft_state_dict_get_name (published, position));
      weft_conversion_set_lossy (conversion, reason);
      weft_load_report_add (plan->report, WEFT_FINDING_NOT_REVERSIBLE, conversion->layer,
                            conversion->proof_reason);
      return TRUE;
    }
  return tensors != NULL;
}

static gboolean
check_conditions (WeftLoadPlan *plan, GCancellable *cancellable, GError **error)
{
  g_autoptr (WeftOpContext) facts = NULL;

  for (guint i = 0; i < plan->conversions->len; i++)
    {
      WeftConversion *conversion = plan->conversions->pdata[i];

      if (conversion->proof != WEFT_PROOF_CONDITIONAL)
        continue;
      if (facts == NULL)
        facts = weft_make_published_facts (plan->published, plan->config);
      if (!check_condition (plan, conversion, facts, cancellable, error))
        return FALSE;
    }
  return TRUE;
}

/* Each output goes to the shard of its first source. */
static WeftShardLayout *
lay_out_by_source (WeftLoadPlan *plan, GError **error)
{
  guint n = weft_state_dict_get_n_tensors (plan->outputs);
  guint n_shards = weft_checkpoint_get_n_shards (plan->checkpoint);
  g_autofree guint *shards = g_new0 (guint, MAX (n, 1));
  g_autoptr (GPtrArray) metadata = g_ptr_array_new ();

  for (guint i = 0; i < n; i++)
    {
      WeftConversion *conversion = plan->output_conversions->pdata[i];

      shards[i] = weft_load_plan_get_source_shard (
          plan, g_array_index (conversion->sources, WeftConversionSource, 0).position);
    }
  for (guint i = 0; i < n_shards; i++)
    g_ptr_array_add (metadata, weft_shard_get_metadata (weft_checkpoint_get_shard (plan->checkpoint, i)));
  return weft_shard_layout_new_assigned (plan->outputs, shards, n, metadata,
                                         weft_checkpoint_get_index_metadata (plan->checkpoint), error);
}

static WeftShardLayout *
lay_out (WeftLoadPlan *plan, GError **error)
{
  guint64 max_shard_bytes = weft_load_options_get_max_shard_bytes (plan->options);
  GHashTable *metadata = weft_checkpoint_get_n_shards (plan->checkpoint) > 0
                             ? weft_shard_get_metadata (weft_checkpoint_get_shard (plan->checkpoint, 0))
                             : NULL;

  if (max_shard_bytes == 0)
    return lay_out_by_source (plan, error);
  return weft_shard_layout_new_by_size (plan->outputs, max_shard_bytes, metadata,
                                        weft_checkpoint_get_index_metadata (plan->checkpoint), error);
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

gboolean
weft_output_prepare (WeftLoadPlan *plan, WeftSafetensorsSink *sink, GCancellable *cancellable, GError **error)
{
  g_autoptr (WeftShardLayout) layout = NULL;
  g_autoptr (GBytes) provenance = NULL;
  g_autofree gchar *fingerprint = NULL;

  if (!weft_safetensors_sink_set_source (sink, plan->checkpoint, error)
      || !check_conditions (plan, cancellable, error))
    return FALSE;
  layout = lay_out (plan, error);
  if (layout == NULL)
    return FALSE;
  weft_safetensors_sink_set_layout (sink, layout);
  provenance = weft_provenance_write (plan, cancellable, error);
  if (provenance == NULL)
    return FALSE;
  fingerprint = hash_plan (provenance);
  weft_safetensors_sink_set_fingerprint (sink, fingerprint);
  return weft_safetensors_sink_is_single_file (sink)
         || weft_safetensors_sink_add_text (sink, WEFT_PROVENANCE_FILE_NAME, provenance, error);
}
