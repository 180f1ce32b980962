/* SPDX-License-Identifier: Apache-2.0 */
/* What headers do not tell of a plan: whether dropped elements are zero, tied tensors equal, and scales numbers. */
#include <string.h>

#include "pipeline/weft-load-plan-private.h"
#include "pipeline/weft-output-private.h"
#include "pipeline/weft-tensor-pair-private.h"

static void
note_lossy (WeftLoadPlan *plan, WeftConversion *conversion, const gchar *key)
{
  gchar *reason =
      g_strdup_printf ("'%s' has other values than zero where the conversion drops elements", key);

  g_hash_table_insert (plan->lossy_by_values, conversion, reason);
  weft_load_report_add (plan->value_report, WEFT_FINDING_NOT_REVERSIBLE, conversion->layer, reason);
}

/* A conversion that drops elements which should be zero gives the source back if they are: looks. */
static gboolean
check_condition (WeftLoadPlan *plan, WeftConversion *conversion, WeftOpContext *facts,
                 GCancellable *cancellable, GError **error)
{
  WeftStateDict *published = plan->published;
  g_autofree WeftTensor **runtime = g_new (WeftTensor *, conversion->outputs->len);
  g_autoptr (GPtrArray) tensors = NULL;
  gboolean are_equal = TRUE;

  for (guint i = 0; i < conversion->outputs->len; i++)
    runtime[i] = g_array_index (conversion->outputs, WeftConversionOutput, i).tensor;
  tensors = weft_conversion_invert (conversion, runtime, published, facts, error);
  for (guint i = 0; are_equal && tensors != NULL && i < tensors->len; i++)
    {
      guint position = g_array_index (conversion->sources, WeftConversionSource, i).position;
      const gchar *key = weft_state_dict_get_name (published, position);

      if (!weft_tensors_compare (tensors->pdata[i], weft_state_dict_get_tensor (published, position),
                                 &are_equal, cancellable, error))
        {
          g_prefix_error (error, "'%s': ", key);
          return FALSE;
        }
      if (!are_equal)
        note_lossy (plan, conversion, key);
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

/* Two names of one tensor that the checkpoint gives twice. */
static gboolean
compare_tied (WeftLoadPlan *plan, const gchar *first, const gchar *name, GCancellable *cancellable,
              GError **error)
{
  WeftTensor *a, *b;
  guint a_position, b_position;
  gboolean are_equal = FALSE;
  g_autofree gchar *detail = NULL;

  if (!weft_state_dict_find (plan->outputs, first, &a_position)
      || !weft_state_dict_find (plan->outputs, name, &b_position))
    return TRUE;
  a = weft_state_dict_get_tensor (plan->outputs, a_position);
  b = weft_state_dict_get_tensor (plan->outputs, b_position);
  if (weft_shape_equal (weft_tensor_get_shape (a), weft_tensor_get_shape (b))
      && weft_tensor_get_dtype (a) == weft_tensor_get_dtype (b)
      && !weft_tensors_compare (a, b, &are_equal, cancellable, error))
    {
      g_prefix_error (error, "'%s' and '%s': ", first, name);
      return FALSE;
    }
  if (are_equal)
    return TRUE;
  detail = g_strdup_printf ("has other values than '%s', to which the model ties it; both are kept, and a "
                            "runtime that ties them uses one",
                            first);
  weft_load_report_add (plan->value_report, WEFT_FINDING_NOTE, name, detail);
  return TRUE;
}

static gboolean
check_ties (WeftLoadPlan *plan, GCancellable *cancellable, GError **error)
{
  for (guint i = 0; plan->ties != NULL && i < weft_tied_names_get_n_groups (plan->ties); i++)
    {
      GPtrArray *group = weft_tied_names_get_group (plan->ties, i);
      const gchar *first = NULL;

      for (guint k = 0; k < group->len; k++)
        if (!weft_state_dict_find (plan->outputs, group->pdata[k], NULL))
          continue;
        else if (first == NULL)
          first = group->pdata[k];
        else if (!compare_tied (plan, first, group->pdata[k], cancellable, error))
          return FALSE;
    }
  return TRUE;
}

/* Bytes of exponents that are looked at together. */
#define EXPONENT_BYTES (1024 * 1024)
#define EXPONENT_NAN 255

static gboolean
count_nans (WeftTensor *exponents, guint64 *n_nans, GCancellable *cancellable, GError **error)
{
  const gint64 n = weft_tensor_get_n_elements (exponents);
  g_autoptr (WeftTensor) flat = weft_tensor_reshape (exponents, &n, 1, error);

  *n_nans = 0;
  for (gint64 start = 0; flat != NULL && start < n; start += EXPONENT_BYTES)
    {
      g_autoptr (WeftTensor) part =
          weft_tensor_slice (flat, 0, start, MIN (EXPONENT_BYTES, n - start), error);
      g_autoptr (GBytes) bytes = part != NULL ? weft_tensor_read (part, cancellable, error) : NULL;
      const guint8 *codes = bytes != NULL ? g_bytes_get_data (bytes, NULL) : NULL;

      if (codes == NULL)
        return FALSE;
      for (gsize i = 0; i < g_bytes_get_size (bytes); i++)
        *n_nans += codes[i] == EXPONENT_NAN;
    }
  return flat != NULL;
}

static gboolean
check_exponents (WeftLoadPlan *plan, WeftPackedWeight *weight, const gchar *role, GCancellable *cancellable,
                 GError **error)
{
  const gchar *key = weft_packed_weight_get_key (weight, role);
  g_autofree gchar *detail = NULL;
  guint64 n_nans;

  if (!count_nans (weft_packed_weight_get_tensor (weight, role), &n_nans, cancellable, error))
    {
      g_prefix_error (error, "'%s': ", key);
      return FALSE;
    }
  if (n_nans == 0)
    return TRUE;
  detail =
      g_strdup_printf ("%" G_GUINT64_FORMAT
                       " of its exponents are 255, which is no number: the values of their blocks are NaN",
                       n_nans);
  weft_load_report_add (plan->value_report, WEFT_FINDING_NOTE, key, detail);
  return TRUE;
}

/* Scales of weights that are dequantized. */
static gboolean
check_scales (WeftLoadPlan *plan, GCancellable *cancellable, GError **error)
{
  guint n = weft_load_plan_is_dequantized (plan) ? weft_state_dict_get_n_tensors (plan->published) : 0;

  for (guint i = 0; i < n; i++)
    {
      WeftPackedWeight *weight = weft_packed_weights_get_weight (plan->packed, i);

      for (guint k = 0; weight != NULL && k < weft_packed_weight_get_n_parts (weight); k++)
        {
          const gchar *role = weft_packed_weight_get_role (weight, k);

          if (weft_packed_weight_has_exponents (weight, role)
              && !check_exponents (plan, weight, role, cancellable, error))
            return FALSE;
        }
    }
  return TRUE;
}

/**
 * weft_load_plan_check_values:
 * @self: a plan
 * @cancellable: (nullable): stops the work
 * @error: return location
 *
 * Looks at values where headers do not tell enough: elements that a conversion drops because they should be zero, tensors that the
 * model ties and the checkpoint has twice, and exponents that are no numbers among scales of weights that are dequantized. A load into files does this before it writes. It is done once, and leaves the
 * plan's own report as it is.
 *
 * Returns: (transfer none) (nullable): what was found: conversions that are not reversible after all, and notes
 * Errors: %WEFT_ERROR_IO if a tensor cannot be read, %WEFT_ERROR_CANCELLED
 * Since: 1.0
 */
WeftLoadReport *
weft_load_plan_check_values (WeftLoadPlan *self, GCancellable *cancellable, GError **error)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->value_lock);

  if (self->value_report != NULL)
    return self->value_report;
  self->value_report = weft_load_report_new ();
  if (check_conditions (self, cancellable, error) && check_ties (self, cancellable, error)
      && check_scales (self, cancellable, error))
    return self->value_report;
  g_clear_object (&self->value_report);
  g_hash_table_remove_all (self->lossy_by_values);
  return NULL;
}

const gchar *
weft_load_plan_find_lossy_reason (WeftLoadPlan *self, const WeftConversion *conversion)
{
  return conversion->proof == WEFT_PROOF_LOSSY ? conversion->proof_reason
                                               : g_hash_table_lookup (self->lossy_by_values, conversion);
}
