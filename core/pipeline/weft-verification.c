/* SPDX-License-Identifier: Apache-2.0 */
#include "pipeline/weft-verification.h"

#include <string.h>
#include <xxhash.h>

#include "pipeline/weft-comparison.h"
#include "pipeline/weft-load-plan.h"
#include "pipeline/weft-revert-plan-private.h"
#include "pipeline/weft-tensor-pair-private.h"
#include "quantize/weft-packed-weights.h"

/* How many rows of differences one check tells. */
#define N_DIFFERENCE_ROWS 20

typedef struct
{
  const gchar *name;
  WeftCheckOutcome outcome;
  gchar *detail;
} Check;

struct _WeftVerification
{
  GObject parent_instance;

  gchar *path;
  /* NULL if its files are not sound. */
  WeftCheckpoint *checkpoint;
  /* The record, and the way back by it; NULL until they are needed. */
  WeftProvenance *record;
  WeftRevertPlan *plan;
  GArray *checks;
  WeftProgressFunc progress;
  gpointer progress_data;
  GDestroyNotify progress_destroy;
};

G_DEFINE_FINAL_TYPE (WeftVerification, weft_verification, G_TYPE_OBJECT)

static void
check_clear (gpointer user_data)
{
  g_free (((Check *) user_data)->detail);
}

static void
weft_verification_finalize (GObject *object)
{
  WeftVerification *self = WEFT_VERIFICATION (object);

  if (self->progress_destroy != NULL)
    self->progress_destroy (self->progress_data);
  g_free (self->path);
  g_clear_object (&self->checkpoint);
  g_clear_pointer (&self->record, weft_provenance_free);
  g_clear_object (&self->plan);
  g_array_unref (self->checks);
  G_OBJECT_CLASS (weft_verification_parent_class)->finalize (object);
}

static void
weft_verification_class_init (WeftVerificationClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = weft_verification_finalize;
}

static void
weft_verification_init (WeftVerification *self)
{
  self->checks = g_array_new (FALSE, FALSE, sizeof (Check));
  g_array_set_clear_func (self->checks, check_clear);
}

static void
add_check (WeftVerification *self, const gchar *name, WeftCheckOutcome outcome, const gchar *detail)
{
  Check check = { .name = name, .outcome = outcome, .detail = g_strdup (detail) };

  g_array_append_val (self->checks, check);
}

/* An error that says something of the output is the outcome of a check; being cancelled is not. */
static gboolean
take_failure (WeftVerification *self, const gchar *name, GError *failure, GError **error)
{
  if (g_error_matches (failure, WEFT_ERROR, WEFT_ERROR_CANCELLED))
    {
      g_propagate_error (error, g_error_copy (failure));
      return FALSE;
    }
  add_check (self, name, WEFT_CHECK_OUTCOME_FAILED, failure->message);
  return TRUE;
}

/* A checkpoint is refused for the first thing that is wrong: says what else is wrong with its files. */
static void
check_each_shard (WeftVerification *self, const gchar *first_message)
{
  g_autoptr (GDir) folder = g_dir_open (self->path, 0, NULL);
  const gchar *name;

  while (folder != NULL && (name = g_dir_read_name (folder)) != NULL)
    {
      g_autofree gchar *path = g_build_filename (self->path, name, NULL);
      g_autoptr (GError) failure = NULL;
      g_autoptr (WeftShard) shard = NULL;

      if (!g_str_has_suffix (name, ".safetensors"))
        continue;
      shard = weft_shard_open (path, WEFT_IO_BACKEND_PREAD, &failure);
      if (shard == NULL && strcmp (failure->message, first_message) != 0)
        add_check (self, "files", WEFT_CHECK_OUTCOME_FAILED, failure->message);
    }
}

/**
 * weft_verification_new:
 * @path: (type filename): a checkpoint folder or a safetensors file
 * @cancellable: (nullable): stops the work
 * @error: return location
 *
 * Checks the files: headers, index and shards agree, nothing is missing, nothing overlaps, sizes fit.
 *
 * Returns: (transfer full): the verification, also of files that are damaged
 * Errors: %WEFT_ERROR_IO if there is nothing at @path, %WEFT_ERROR_CANCELLED
 * Since: 1.0
 */
WeftVerification *
weft_verification_new (const gchar *path, GCancellable *cancellable, GError **error)
{
  g_autoptr (WeftVerification) self = g_object_new (WEFT_TYPE_VERIFICATION, NULL);
  g_autoptr (GError) failure = NULL;

  self->path = g_strdup (path);
  if (!g_file_test (path, G_FILE_TEST_EXISTS))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_IO, "%s: there is no such file or folder", path);
      return NULL;
    }
  self->checkpoint = weft_checkpoint_open (path, cancellable, &failure);
  if (self->checkpoint == NULL)
    {
      if (!take_failure (self, "files", failure, error))
        return NULL;
      check_each_shard (self, failure->message);
    }
  else
    {
      guint n = weft_checkpoint_get_n_shards (self->checkpoint);
      g_autofree gchar *detail =
          g_strdup_printf ("%u tensors in %u %s; headers, index and sizes agree",
                           weft_state_dict_get_n_tensors (weft_checkpoint_get_state_dict (self->checkpoint)),
                           n, n == 1 ? "file" : "files");

      add_check (self, "files", WEFT_CHECK_OUTCOME_PASSED, detail);
    }
  return g_steal_pointer (&self);
}

/**
 * weft_verification_set_progress:
 * @self: a verification
 * @progress: (nullable) (scope notified): called as bytes are checked
 * @user_data: data of @progress
 * @destroy: (nullable): frees @user_data
 *
 * Since: 1.0
 */
void
weft_verification_set_progress (WeftVerification *self, WeftProgressFunc progress, gpointer user_data,
                                GDestroyNotify destroy)
{
  if (self->progress_destroy != NULL)
    self->progress_destroy (self->progress_data);
  self->progress = progress;
  self->progress_data = user_data;
  self->progress_destroy = destroy;
}

/* Whether there are sound files to go on with; says so if there are not. */
static gboolean
can_check (WeftVerification *self, const gchar *name)
{
  if (self->checkpoint == NULL)
    add_check (self, name, WEFT_CHECK_OUTCOME_SKIPPED, "the files are not sound");
  return self->checkpoint != NULL;
}

/* Whether there is no error to hand on. */
static gboolean
pass_on (GError **failure, GError **error)
{
  if (*failure == NULL)
    return TRUE;
  g_propagate_error (error, g_steal_pointer (failure));
  return FALSE;
}

/* The record. There is none (noted under @name), it is broken (the same), or it needs an op or a Weft that is not here,
 * which is an error and no fault of the files: NULL then. */
static const WeftProvenance *
get_record (WeftVerification *self, const gchar *name, GError **error)
{
  g_autofree gchar *path = weft_provenance_find (self->checkpoint);
  g_autoptr (GError) failure = NULL;

  if (path == NULL)
    add_check (self, name, WEFT_CHECK_OUTCOME_SKIPPED,
               "there is no record (" WEFT_PROVENANCE_FILE_NAME ") beside the weights");
  else if (self->record == NULL)
    self->record = weft_provenance_load (path, &failure);
  if (g_error_matches (failure, WEFT_ERROR, WEFT_ERROR_MISSING)
      || g_error_matches (failure, WEFT_ERROR, WEFT_ERROR_UNSUPPORTED))
    g_propagate_error (error, g_steal_pointer (&failure));
  else if (failure != NULL)
    add_check (self, name, WEFT_CHECK_OUTCOME_FAILED, failure->message);
  return self->record;
}

static WeftRevertPlan *
get_plan (WeftVerification *self, GError **error)
{
  if (self->plan == NULL)
    self->plan = weft_revert_plan_new (self->checkpoint, NULL, WEFT_REVERT_FLAGS_NONE, error);
  return self->plan;
}

/* Whether a stage from @first on took in what was made before it, so that it was not written. */
static gboolean
is_taken_in (const WeftProvenance *record, guint first, const gchar *name)
{
  for (guint i = first; i < record->stages->len; i++)
    if (weft_state_dict_find (((const WeftRecordedStage *) record->stages->pdata[i])->inputs, name, NULL))
      return TRUE;
  return FALSE;
}

/* What a conversion wrote, before stage @level. An output of one that has no inverse may have been left out. */
static gchar *
compare_conversion (const WeftConversion *conversion, const WeftProvenance *record, guint level,
                    WeftStateDict *found, GHashTable *known)
{
  for (guint i = 0; i < conversion->outputs->len; i++)
    {
      const WeftConversionOutput *output = &g_array_index (conversion->outputs, WeftConversionOutput, i);
      WeftTensor *tensor = weft_state_dict_lookup (found, output->name);
      WeftDtype dtype = weft_tensor_get_dtype (output->tensor);

      if (is_taken_in (record, level, output->name))
        continue;
      g_hash_table_add (known, output->name);
      if (tensor == NULL && conversion->proof != WEFT_PROOF_LOSSY)
        return g_strdup_printf ("'%s' was written and is not there", output->name);
      /* Values of packed weights have the dtype that their method says. */
      if (tensor != NULL && weft_tensor_get_dtype (tensor) != dtype && !record->is_quantized)
        return g_strdup_printf ("'%s' was written as %s and is %s", output->name, weft_dtype_get_name (dtype),
                                weft_dtype_get_name (weft_tensor_get_dtype (tensor)));
    }
  return NULL;
}

/* The tensors with packed weights under their dense names, which is what the record of a quantized output has. */
static WeftStateDict *
find_dense_names (WeftVerification *self, GError **error)
{
  g_autoptr (GError) local_error = NULL;
  g_autoptr (WeftQuantizer) quantizer = weft_quantizer_new_for_checkpoint (self->checkpoint, &local_error);
  WeftStateDict *stored = weft_checkpoint_get_state_dict (self->checkpoint);
  g_autoptr (WeftPackedWeights) packed =
      quantizer != NULL ? weft_packed_weights_new (quantizer, stored, FALSE, &local_error) : NULL;

  if (local_error != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&local_error));
      return NULL;
    }
  return g_object_ref (packed != NULL ? weft_packed_weights_get_dense (packed) : stored);
}

/* Whether the tensors are those that were written, for a person; NULL if so. */
static gchar *
compare_written (const WeftProvenance *record, WeftStateDict *found)
{
  g_autoptr (GHashTable) known = g_hash_table_new (g_str_hash, g_str_equal);

  for (guint level = 0; level <= record->stages->len; level++)
    {
      GPtrArray *conversions =
          level == 0 ? record->conversions
                     : ((const WeftRecordedStage *) record->stages->pdata[level - 1])->conversions;

      for (guint i = 0; i < conversions->len; i++)
        {
          gchar *wrong = compare_conversion (conversions->pdata[i], record, level, found, known);

          if (wrong != NULL)
            return wrong;
        }
    }
  for (guint i = 0; i < weft_state_dict_get_n_tensors (found); i++)
    if (!g_hash_table_contains (known, weft_state_dict_get_name (found, i)))
      return g_strdup_printf ("'%s' is there and was not written", weft_state_dict_get_name (found, i));
  return NULL;
}

/* What comes back, against the headers that were recorded. Published tensors that do not come back are no fault of the
 * files: they were left out. */
static gchar *
compare_with_record (WeftRevertPlan *plan)
{
  WeftStateDict *published = weft_revert_plan_get_provenance (plan)->published;
  WeftStateDict *outputs = weft_revert_plan_get_outputs (plan);

  for (guint i = 0; i < weft_state_dict_get_n_tensors (outputs); i++)
    {
      const gchar *name = weft_state_dict_get_name (outputs, i);
      WeftTensor *found = weft_state_dict_get_tensor (outputs, i);
      WeftTensor *expected = weft_state_dict_lookup (published, name);

      if (expected != NULL
          && (weft_tensor_get_dtype (expected) != weft_tensor_get_dtype (found)
              || !weft_shape_equal (weft_tensor_get_shape (expected), weft_tensor_get_shape (found))))
        {
          g_autofree gchar *found_text = weft_tensor_describe (found);
          g_autofree gchar *expected_text = weft_tensor_describe (expected);

          return g_strdup_printf ("'%s' would come back as %s; it was %s", name, found_text, expected_text);
        }
    }
  return NULL;
}

/**
 * weft_verification_check_record:
 * @self: a verification
 * @error: return location
 *
 * Checks the files against their record, from headers alone: every tensor that was written is there with its dtype,
 * nothing else is, and each published tensor would come back with its dtype and shape.
 *
 * Returns: whether the check could be made
 * Errors: %WEFT_ERROR_MISSING or %WEFT_ERROR_UNSUPPORTED if the record needs an op or a Weft that is not here,
 *   %WEFT_ERROR_CANCELLED
 * Since: 1.0
 */
gboolean
weft_verification_check_record (WeftVerification *self, GError **error)
{
  g_autoptr (GError) failure = NULL;
  const WeftProvenance *record = can_check (self, "record") ? get_record (self, "record", &failure) : NULL;
  WeftRevertPlan *plan = NULL;
  g_autoptr (WeftStateDict) found = NULL;
  g_autofree gchar *wrong = NULL;
  g_autofree gchar *passed = NULL;

  if (record == NULL)
    return pass_on (&failure, error);
  found = record->is_quantized ? find_dense_names (self, &failure)
                               : g_object_ref (weft_checkpoint_get_state_dict (self->checkpoint));
  if (found == NULL)
    return take_failure (self, "record", failure, error);
  wrong = compare_written (record, found);
  plan = wrong == NULL ? get_plan (self, &failure) : NULL;
  if (failure != NULL && !g_error_matches (failure, WEFT_ERROR, WEFT_ERROR_NOT_REVERSIBLE))
    return take_failure (self, "record", failure, error);
  if (plan != NULL)
    wrong = compare_with_record (plan);
  passed = g_strdup_printf ("every tensor that was written is there, and nothing else%s%s",
                            failure != NULL ? "; there is no way back: " : "",
                            failure != NULL ? failure->message : "");
  add_check (self, "record", wrong != NULL ? WEFT_CHECK_OUTCOME_FAILED : WEFT_CHECK_OUTCOME_PASSED,
             wrong != NULL ? wrong : passed);
  return TRUE;
}

/* A walk through the bytes of files that are not written: what is to be read next, side by side in one buffer. */
typedef struct
{
  XXH3_state_t *state;
  guint8 *buffer;
  gsize n_used;
  GPtrArray *bands;
  GArray *transfers;
  guint64 n_done;
  guint64 n_total;
} HashWalk;

static gboolean
hash_bands (WeftVerification *self, HashWalk *walk, GCancellable *cancellable, GError **error)
{
  WeftTransferOptions options = { .struct_size = sizeof options,
                                  .n_threads = weft_transfer_get_default_n_threads () };
  const WeftTransfer *transfers = (const WeftTransfer *) (gpointer) walk->transfers->data;

  if (!weft_transfer_execute (transfers, walk->transfers->len, &options, NULL, cancellable, error))
    return FALSE;
  for (guint i = 0; i < walk->transfers->len; i++)
    {
      guint64 n_bytes = weft_tensor_get_n_bytes (transfers[i].tensor);

      XXH3_128bits_update (walk->state, transfers[i].memory, n_bytes);
      walk->n_done += n_bytes;
    }
  g_array_set_size (walk->transfers, 0);
  g_ptr_array_set_size (walk->bands, 0);
  walk->n_used = 0;
  if (self->progress != NULL)
    self->progress (walk->n_done, walk->n_total, self->progress_data);
  return TRUE;
}

static gboolean
add_bands (WeftVerification *self, HashWalk *walk, WeftTensor *tensor, const gchar *name,
           GCancellable *cancellable, GError **error)
{
  WeftDtype dtype = weft_tensor_get_dtype (tensor);
  gint64 n_elements = weft_tensor_get_n_elements (tensor), length;

  for (gint64 start = 0; start < n_elements; start += length)
    {
      WeftTransfer transfer = { .fd = -1, .memory = walk->buffer + walk->n_used, .name = name };

      length = MIN (weft_band_count_elements (dtype, WEFT_BAND_BYTES - walk->n_used), n_elements - start);
      transfer.tensor = weft_band_cut (tensor, start, length, error);
      if (transfer.tensor == NULL)
        return FALSE;
      g_ptr_array_add (walk->bands, transfer.tensor);
      g_array_append_val (walk->transfers, transfer);
      walk->n_used += (weft_tensor_get_n_bytes (transfer.tensor) + 63) & ~(gsize) 63;
      if (walk->n_used > WEFT_BAND_BYTES / 4 * 3 && !hash_bands (self, walk, cancellable, error))
        return FALSE;
    }
  return TRUE;
}

static gboolean
hash_file (WeftVerification *self, HashWalk *walk, WeftShardLayout *layout, guint file,
           GCancellable *cancellable, GError **error)
{
  WeftStateDict *outputs = weft_shard_layout_get_outputs (layout);
  gsize n_header_bytes;
  gconstpointer header = g_bytes_get_data (weft_shard_layout_get_header (layout, file), &n_header_bytes);
  guint64 length = GUINT64_TO_LE ((guint64) n_header_bytes);

  XXH3_128bits_reset (walk->state);
  XXH3_128bits_update (walk->state, &length, sizeof length);
  XXH3_128bits_update (walk->state, header, n_header_bytes);
  for (guint i = 0; i < weft_shard_layout_get_n_tensors (layout, file); i++)
    {
      guint position = weft_shard_layout_get_tensor (layout, file, i);

      if (!add_bands (self, walk, weft_state_dict_get_tensor (outputs, position),
                      weft_state_dict_get_name (outputs, position), cancellable, error))
        return FALSE;
    }
  return hash_bands (self, walk, cancellable, error);
}

static gboolean
check_hashes_of (WeftVerification *self, WeftRevertPlan *plan, HashWalk *walk, GCancellable *cancellable,
                 GError **error)
{
  const WeftProvenance *record = weft_revert_plan_get_provenance (plan);
  g_autoptr (WeftShardLayout) layout = weft_revert_plan_lay_out (plan, error);
  guint n = layout != NULL ? weft_shard_layout_get_n_files (layout) : 0;
  gboolean are_equal = TRUE;
  g_autofree gchar *summary = NULL;

  for (guint i = 0; i < n; i++)
    walk->n_total += weft_shard_layout_get_file_size (layout, i);
  for (guint i = 0; i < n; i++)
    {
      const gchar *recorded = record->hashes->pdata[i];
      g_autofree gchar *found = NULL;
      g_autofree gchar *detail = NULL;

      if (!hash_file (self, walk, layout, i, cancellable, error))
        return FALSE;
      found = weft_provenance_format_hash (walk->state);
      if (strcmp (found, recorded) == 0)
        continue;
      are_equal = FALSE;
      detail = g_strdup_printf ("%s: what comes back has hash %s, the published file had %s",
                                record->file_names[i], found, recorded);
      add_check (self, "hashes", WEFT_CHECK_OUTCOME_FAILED, detail);
    }
  summary = g_strdup_printf ("what comes back has the hash of the published %s", n == 1 ? "file" : "files");
  if (layout != NULL && are_equal)
    add_check (self, "hashes", WEFT_CHECK_OUTCOME_PASSED, summary);
  return layout != NULL;
}

static gboolean
walk_and_check (WeftVerification *self, WeftRevertPlan *plan, GCancellable *cancellable, GError **error)
{
  g_autofree guint8 *buffer = g_malloc (WEFT_BAND_BYTES);
  g_autoptr (GPtrArray) bands = g_ptr_array_new_with_free_func ((GDestroyNotify) weft_tensor_unref);
  g_autoptr (GArray) transfers = g_array_new (FALSE, FALSE, sizeof (WeftTransfer));
  HashWalk walk = { .state = XXH3_createState (), .buffer = buffer, .bands = bands, .transfers = transfers };
  gboolean ok = check_hashes_of (self, plan, &walk, cancellable, error);

  XXH3_freeState (walk.state);
  return ok;
}

static gboolean
has_hashes (WeftRevertPlan *plan)
{
  GPtrArray *hashes = weft_revert_plan_get_provenance (plan)->hashes;

  for (guint i = 0; i < hashes->len; i++)
    if (hashes->pdata[i] == NULL)
      return FALSE;
  return hashes->len > 0;
}

/**
 * weft_verification_check_hashes:
 * @self: a verification
 * @cancellable: (nullable): stops the work
 * @error: return location
 *
 * Reads every tensor once, as it would be reverted, and compares the hashes of the published files with those of the
 * record, if it has any.
 *
 * Returns: whether the check could be made
 * Errors: %WEFT_ERROR_MISSING or %WEFT_ERROR_UNSUPPORTED if the record needs an op or a Weft that is not here,
 *   %WEFT_ERROR_CANCELLED
 * Since: 1.0
 */
gboolean
weft_verification_check_hashes (WeftVerification *self, GCancellable *cancellable, GError **error)
{
  g_autoptr (GError) failure = NULL;
  const WeftProvenance *record = can_check (self, "hashes") ? get_record (self, "hashes", &failure) : NULL;
  WeftRevertPlan *plan;

  if (record == NULL)
    return pass_on (&failure, error);
  plan = get_plan (self, &failure);
  if (plan == NULL && !g_error_matches (failure, WEFT_ERROR, WEFT_ERROR_NOT_REVERSIBLE))
    return take_failure (self, "hashes", failure, error);
  if (plan == NULL || !has_hashes (plan) || !weft_revert_plan_is_complete (plan))
    {
      add_check (
          self, "hashes", WEFT_CHECK_OUTCOME_SKIPPED,
          plan != NULL && !has_hashes (plan)
              ? "none were recorded (`weft convert --hash` records them)"
              : "the published files do not come back as they were; the values can be compared with those that "
                "the source gives when it is converted again");
      return TRUE;
    }
  return walk_and_check (self, plan, cancellable, &failure) || take_failure (self, "hashes", failure, error);
}

/* Notes what a comparison found: what one side alone has, and so on. */
static void
add_comparison (WeftVerification *self, const gchar *name, WeftComparison *comparison, const gchar *passed,
                const gchar *a, const gchar *b)
{
  g_autofree gchar *text = weft_comparison_to_text (comparison, N_DIFFERENCE_ROWS);
  g_autofree gchar *detail = g_strdup_printf ("A is %s, B is %s\n%s", a, b, g_strchomp (text));

  if (weft_comparison_is_equal (comparison))
    add_check (self, name, WEFT_CHECK_OUTCOME_PASSED, passed);
  else
    add_check (self, name, WEFT_CHECK_OUTCOME_FAILED, detail);
}

static gboolean
execute (WeftVerification *self, WeftComparison *comparison, GCancellable *cancellable, GError **error)
{
  return weft_comparison_execute (comparison, self->progress, self->progress_data, cancellable, error);
}

/**
 * weft_verification_check_source:
 * @self: a verification
 * @source: what the output was converted from
 * @options: (nullable): the options that it was converted with
 * @cancellable: (nullable): stops the work
 * @error: return location
 *
 * Converts @source again, lazily, and compares names, dtypes, shapes and every value with the output.
 *
 * Returns: whether the check could be made
 * Errors: those of weft_load_plan_new() for @source, %WEFT_ERROR_CANCELLED
 * Since: 1.0
 */
gboolean
weft_verification_check_source (WeftVerification *self, WeftCheckpoint *source, WeftLoadOptions *options,
                                GCancellable *cancellable, GError **error)
{
  g_autoptr (WeftLoadPlan) plan = NULL;
  g_autoptr (WeftComparison) comparison = NULL;
  g_autoptr (GError) failure = NULL;

  if (!can_check (self, "source"))
    return TRUE;
  plan = weft_load_plan_new (source, options, error);
  if (plan == NULL || !weft_load_plan_check (plan, error))
    return FALSE;
  comparison = weft_comparison_new_of_state_dicts (weft_load_plan_get_outputs (plan),
                                                   weft_checkpoint_get_state_dict (self->checkpoint));
  if (!execute (self, comparison, cancellable, &failure))
    return take_failure (self, "source", failure, error);
  add_comparison (self, "source", comparison, "converting the source again gives the same names and bytes",
                  "the source, converted", "the output");
  return TRUE;
}

/* The source's headers and index are those of the record, so that equal tensors are equal files. */
static gchar *
compare_recorded_files (const WeftProvenance *record, WeftCheckpoint *source, GError **error)
{
  GBytes *index = weft_checkpoint_get_index (source);
  guint n = weft_checkpoint_get_n_shards (source);

  if (n != g_strv_length (record->file_names))
    return g_strdup_printf ("the record is of %u files, the source has %u",
                            g_strv_length (record->file_names), n);
  for (guint i = 0; i < n; i++)
    {
      WeftShard *shard = weft_checkpoint_get_shard (source, i);
      g_autoptr (GBytes) header = weft_shard_read_header (shard, error);

      if (header == NULL)
        return NULL;
      if (strcmp (weft_shard_get_file_name (shard), record->file_names[i]) != 0
          || !g_bytes_equal (header, record->headers->pdata[i]))
        return g_strdup_printf ("%s: its name or its header is not the recorded one",
                                weft_shard_get_file_name (shard));
    }
  if ((index == NULL) != (record->index == NULL) || (index != NULL && !g_bytes_equal (index, record->index)))
    return g_strdup ("the index is not the recorded one");
  return NULL;
}

/* Whether what comes back lies in the source's own files. */
static gboolean
check_files_come_back (WeftVerification *self, WeftRevertPlan *plan, WeftCheckpoint *source, GError **error)
{
  const WeftProvenance *record = weft_revert_plan_get_provenance (plan);
  g_autoptr (GError) failure = NULL;
  g_autofree gchar *wrong = NULL;

  if (record == NULL)
    {
      add_check (self, "round trip: files", WEFT_CHECK_OUTCOME_SKIPPED,
                 "without a record the files are laid out anew; names and values alone come back");
      return TRUE;
    }
  wrong = compare_recorded_files (record, source, &failure);
  if (failure != NULL)
    return take_failure (self, "round trip: files", failure, error);
  if (wrong == NULL && !weft_revert_plan_is_complete (plan))
    wrong = g_strdup ("not all published tensors come back, or others were added");
  if (wrong != NULL)
    add_check (self, "round trip: files", WEFT_CHECK_OUTCOME_FAILED, wrong);
  else
    add_check (self, "round trip: files", WEFT_CHECK_OUTCOME_PASSED,
               "reverting writes the source's files, with its headers and its index");
  return TRUE;
}

/**
 * weft_verification_check_round_trip:
 * @self: a verification
 * @source: what the output was converted from
 * @options: (nullable): mapping and module tree, for an output without a record
 * @with_bytes: also read and compare every value
 * @cancellable: (nullable): stops the work
 * @error: return location
 *
 * Checks from headers that reverting the output gives the names, dtypes and shapes of @source, in its files if there is a
 * record; with @with_bytes also that it gives the bytes. Nothing is written.
 *
 * Returns: whether the check could be made
 * Errors: %WEFT_ERROR_MISSING or %WEFT_ERROR_UNSUPPORTED if the record needs an op or a Weft that is not here,
 *   %WEFT_ERROR_CANCELLED
 * Since: 1.0
 */
gboolean
weft_verification_check_round_trip (WeftVerification *self, WeftCheckpoint *source, WeftLoadOptions *options,
                                    gboolean with_bytes, GCancellable *cancellable, GError **error)
{
  g_autoptr (GError) failure = NULL;
  g_autoptr (WeftRevertPlan) plan = NULL;
  g_autoptr (WeftComparison) comparison = NULL;
  const gchar *name = with_bytes ? "round trip: bytes" : "round trip: headers";
  g_autofree gchar *path = NULL;

  if (!can_check (self, name))
    return TRUE;
  path = weft_provenance_find (self->checkpoint);
  if (path != NULL && get_record (self, name, &failure) == NULL)
    return pass_on (&failure, error);
  plan = weft_revert_plan_new (self->checkpoint, options, WEFT_REVERT_FLAGS_NONE, &failure);
  if (plan == NULL)
    return take_failure (self, name, failure, error);
  comparison = weft_comparison_new_of_state_dicts (weft_checkpoint_get_state_dict (source),
                                                   weft_revert_plan_get_outputs (plan));
  if (with_bytes && !execute (self, comparison, cancellable, &failure))
    return take_failure (self, name, failure, error);
  add_comparison (self, name, comparison,
                  with_bytes ? "every tensor of the source comes back with its bytes"
                             : "every tensor of the source comes back with its name, dtype and shape",
                  "the source", "what comes back");
  return check_files_come_back (self, plan, source, error);
}

/**
 * weft_verification_has_passed:
 * @self: a verification
 *
 * Returns: whether no check failed
 * Since: 1.0
 */
gboolean
weft_verification_has_passed (WeftVerification *self)
{
  for (guint i = 0; i < self->checks->len; i++)
    if (g_array_index (self->checks, Check, i).outcome == WEFT_CHECK_OUTCOME_FAILED)
      return FALSE;
  return TRUE;
}

/**
 * weft_verification_get_n_checks:
 * @self: a verification
 *
 * Returns: how many outcomes there are
 * Since: 1.0
 */
guint
weft_verification_get_n_checks (WeftVerification *self)
{
  return self->checks->len;
}

/**
 * weft_verification_get_check_name:
 * @self: a verification
 * @check: which of the outcomes
 *
 * Returns: what was checked: `files`, `record`, `hashes`, `source`, `round trip: ...`
 * Since: 1.0
 */
const gchar *
weft_verification_get_check_name (WeftVerification *self, guint check)
{
  g_return_val_if_fail (check < self->checks->len, NULL);
  return g_array_index (self->checks, Check, check).name;
}

/**
 * weft_verification_get_check_outcome:
 * @self: a verification
 * @check: which of the outcomes
 *
 * Returns: what came of it
 * Since: 1.0
 */
WeftCheckOutcome
weft_verification_get_check_outcome (WeftVerification *self, guint check)
{
  g_return_val_if_fail (check < self->checks->len, WEFT_CHECK_OUTCOME_SKIPPED);
  return g_array_index (self->checks, Check, check).outcome;
}

/**
 * weft_verification_get_check_detail:
 * @self: a verification
 * @check: which of the outcomes
 *
 * Returns: why, for a person; may be several lines
 * Since: 1.0
 */
const gchar *
weft_verification_get_check_detail (WeftVerification *self, guint check)
{
  g_return_val_if_fail (check < self->checks->len, NULL);
  return g_array_index (self->checks, Check, check).detail;
}

/**
 * weft_verification_to_json:
 * @self: a verification
 *
 * Returns: (transfer full): an object with `passed`, and `checks`: objects with `check`, `outcome` and `detail`
 * Since: 1.0
 */
JsonNode *
weft_verification_to_json (WeftVerification *self)
{
  static const gchar *const outcomes[] = { "passed", "failed", "skipped" };
  g_autoptr (JsonBuilder) builder = json_builder_new ();

  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "passed");
  json_builder_add_boolean_value (builder, weft_verification_has_passed (self));
  json_builder_set_member_name (builder, "checks");
  json_builder_begin_array (builder);
  for (guint i = 0; i < self->checks->len; i++)
    {
      const Check *check = &g_array_index (self->checks, Check, i);

      json_builder_begin_object (builder);
      json_builder_set_member_name (builder, "check");
      json_builder_add_string_value (builder, check->name);
      json_builder_set_member_name (builder, "outcome");
      json_builder_add_string_value (builder, outcomes[check->outcome]);
      json_builder_set_member_name (builder, "detail");
      json_builder_add_string_value (builder, check->detail);
      json_builder_end_object (builder);
    }
  json_builder_end_array (builder);
  json_builder_end_object (builder);
  return json_builder_get_root (builder);
}
