/* SPDX-License-Identifier: Apache-2.0 */
#include "quantize/weft-packed-weights.h"

struct _WeftPackedWeights
{
  GObject parent_instance;

  WeftQuantizer *quantizer;
  WeftStateDict *stored;
  WeftStateDict *dense;
  /* Dense name -> WeftPackedWeight, in the order of the stored state dict. */
  GHashTable *by_name;
  GPtrArray *weights;
  /* For each dense tensor its weight, or NULL for a plain one. */
  GPtrArray *packed;
  GArray *stored_positions;
  guint n_packed;
};

G_DEFINE_FINAL_TYPE (WeftPackedWeights, weft_packed_weights, G_TYPE_OBJECT)

static void
weft_packed_weights_finalize (GObject *object)
{
  WeftPackedWeights *self = WEFT_PACKED_WEIGHTS (object);

  g_clear_object (&self->quantizer);
  g_clear_object (&self->stored);
  g_clear_object (&self->dense);
  g_hash_table_unref (self->by_name);
  g_ptr_array_unref (self->weights);
  g_ptr_array_unref (self->packed);
  g_array_unref (self->stored_positions);
  G_OBJECT_CLASS (weft_packed_weights_parent_class)->finalize (object);
}

static void
weft_packed_weights_class_init (WeftPackedWeightsClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = weft_packed_weights_finalize;
}

static void
weft_packed_weights_init (WeftPackedWeights *self)
{
  self->dense = weft_state_dict_new ();
  self->by_name = g_hash_table_new (g_str_hash, g_str_equal);
  self->weights = g_ptr_array_new_with_free_func (g_object_unref);
  self->packed = g_ptr_array_new ();
  self->stored_positions = g_array_new (FALSE, FALSE, sizeof (guint));
}

static gboolean
collect_part (WeftPackedWeights *self, guint position, GError **error)
{
  const gchar *key = weft_state_dict_get_name (self->stored, position);
  const gchar *role = NULL;
  g_autofree gchar *name = weft_quantizer_find_part (self->quantizer, key, &role);
  WeftPackedWeight *weight;

  if (name == NULL)
    return TRUE;
  weight = g_hash_table_lookup (self->by_name, name);
  if (weight == NULL)
    {
      weight = weft_packed_weight_new (name);
      g_ptr_array_add (self->weights, weight);
      g_hash_table_insert (self->by_name, (gpointer) weft_packed_weight_get_name (weight), weight);
    }
  return weft_packed_weight_add_stored_part (weight, role, key, position,
                                             weft_state_dict_get_tensor (self->stored, position), error);
}

/* Where a stored tensor goes: one that is codes of a packed weight stands for it, its companions go with it. */
static gboolean
add_stored (WeftPackedWeights *self, guint position, gboolean is_dequantised, GError **error)
{
  const gchar *key = weft_state_dict_get_name (self->stored, position);
  const gchar *role = NULL;
  g_autofree gchar *name = weft_quantizer_find_part (self->quantizer, key, &role);
  WeftPackedWeight *weight = name != NULL ? g_hash_table_lookup (self->by_name, name) : NULL;
  g_autoptr (WeftTensor) dense = NULL;
  guint codes_position;

  if (weight == NULL || !weft_packed_weight_is_packed (weight))
    {
      if (is_dequantised && weft_quantizer_is_runtime_tensor (self->quantizer, key))
        return TRUE;
      return weft_state_dict_add (self->dense, key, weft_state_dict_get_tensor (self->stored, position),
                                  error);
    }
  if (!weft_packed_weight_get_position (weight, WEFT_ROLE_CODES, &codes_position)
      || codes_position != position)
    return TRUE;
  dense = weft_tensor_new_unreadable (weft_packed_weight_get_dtype (weight),
                                      weft_packed_weight_get_shape (weight)->dims,
                                      weft_packed_weight_get_shape (weight)->rank, error);
  if (dense == NULL)
    return FALSE;
  self->n_packed++;
  return weft_state_dict_add (self->dense, name, dense, error);
}

/* What the config lists as left dense, and what has no companions, is plain, whatever its elements are. */
static gboolean
is_left_dense (WeftPackedWeights *self, WeftPackedWeight *weight)
{
  WeftDtype dtype = weft_tensor_get_dtype (weft_packed_weight_get_tensor (weight, WEFT_ROLE_CODES));
  g_autofree gchar *path = weft_packed_weight_dup_module_path (weight);

  return weft_packed_weight_get_n_parts (weight) == 1
         && !(weft_dtype_is_floating (dtype) && weft_dtype_get_bits (dtype) > 8)
         && weft_quantization_config_is_module_skipped (weft_quantizer_get_config (self->quantizer), path);
}

/* In the order of names, which is that of every checkpoint. */
static void
sort (WeftPackedWeights *self)
{
  weft_state_dict_sort_natural (self->dense);
  for (guint i = 0; i < weft_state_dict_get_n_tensors (self->dense); i++)
    {
      const gchar *name = weft_state_dict_get_name (self->dense, i);
      WeftPackedWeight *weight = g_hash_table_lookup (self->by_name, name);
      guint position = 0;

      if (weight != NULL && !weft_packed_weight_is_packed (weight))
        weight = NULL;
      if (weight != NULL)
        weft_packed_weight_get_position (weight, WEFT_ROLE_CODES, &position);
      else
        weft_state_dict_find (self->stored, name, &position);
      g_ptr_array_add (self->packed, weight);
      g_array_append_val (self->stored_positions, position);
    }
}

/**
 * weft_packed_weights_new:
 * @quantizer: the method of the checkpoint, configured
 * @stored: its tensors
 * @is_dequantised: whether the dense weights are wanted, so that tensors which only a packed runtime uses are left out
 * @error: return location
 *
 * Returns: (transfer full): the weights
 * Errors: %WEFT_ERROR_CONFLICT if two tensors claim one role; those of weft_quantizer_describe()
 * Since: 1.0
 */
WeftPackedWeights *
weft_packed_weights_new (WeftQuantizer *quantizer, WeftStateDict *stored, gboolean is_dequantised,
                         GError **error)
{
  g_autoptr (WeftPackedWeights) self = g_object_new (WEFT_TYPE_PACKED_WEIGHTS, NULL);
  guint n = weft_state_dict_get_n_tensors (stored);

  self->quantizer = g_object_ref (quantizer);
  self->stored = g_object_ref (stored);
  for (guint i = 0; i < n; i++)
    if (!collect_part (self, i, error))
      return NULL;
  for (guint i = 0; i < self->weights->len; i++)
    if (weft_packed_weight_get_tensor (self->weights->pdata[i], WEFT_ROLE_CODES) != NULL
        && !is_left_dense (self, self->weights->pdata[i])
        && !weft_quantizer_describe (quantizer, self->weights->pdata[i], error))
      return NULL;
  for (guint i = 0; i < n; i++)
    if (!add_stored (self, i, is_dequantised, error))
      return NULL;
  sort (self);
  return g_steal_pointer (&self);
}

/**
 * weft_packed_weights_get_quantizer:
 * @self: weights
 *
 * Returns: (transfer none): their method
 * Since: 1.0
 */
WeftQuantizer *
weft_packed_weights_get_quantizer (WeftPackedWeights *self)
{
  return self->quantizer;
}

/**
 * weft_packed_weights_get_dense:
 * @self: weights
 *
 * Returns: (transfer none): all tensors under dense names; packed ones have dtype and shape only
 * Since: 1.0
 */
WeftStateDict *
weft_packed_weights_get_dense (WeftPackedWeights *self)
{
  return self->dense;
}

/**
 * weft_packed_weights_get_n_packed:
 * @self: weights
 *
 * Returns: how many are packed
 * Since: 1.0
 */
guint
weft_packed_weights_get_n_packed (WeftPackedWeights *self)
{
  return self->n_packed;
}

/**
 * weft_packed_weights_get_weight:
 * @self: weights
 * @position: position in weft_packed_weights_get_dense()
 *
 * Returns: (transfer none) (nullable): the packed weight there; %NULL for a plain tensor
 * Since: 1.0
 */
WeftPackedWeight *
weft_packed_weights_get_weight (WeftPackedWeights *self, guint position)
{
  g_return_val_if_fail (position < self->packed->len, NULL);
  return self->packed->pdata[position];
}

/**
 * weft_packed_weights_get_stored_position:
 * @self: weights
 * @position: position in weft_packed_weights_get_dense()
 *
 * Returns: where the tensor, or the codes of the weight, stand in the stored state dict
 * Since: 1.0
 */
guint
weft_packed_weights_get_stored_position (WeftPackedWeights *self, guint position)
{
  g_return_val_if_fail (position < self->stored_positions->len, 0);
  return g_array_index (self->stored_positions, guint, position);
}

/**
 * weft_packed_weights_dequantize:
 * @self: weights
 * @dtype: dtype of those that were packed; %WEFT_DTYPE_INVALID: the one that each says
 * @error: return location
 *
 * Returns: (transfer full): all tensors under dense names with their values, lazy, at the positions of
 *   weft_packed_weights_get_dense()
 * Errors: those of weft_quantizer_dequantize()
 * Since: 1.0
 */
WeftStateDict *
weft_packed_weights_dequantize (WeftPackedWeights *self, WeftDtype dtype, GError **error)
{
  g_autoptr (WeftStateDict) values = weft_state_dict_new ();

  for (guint i = 0; i < weft_state_dict_get_n_tensors (self->dense); i++)
    {
      WeftPackedWeight *weight = self->packed->pdata[i];
      g_autoptr (WeftTensor) tensor = NULL;

      if (weight == NULL)
        tensor = weft_tensor_ref (weft_state_dict_get_tensor (self->dense, i));
      else
        tensor = weft_quantizer_dequantize (
            self->quantizer, weight,
            dtype != WEFT_DTYPE_INVALID ? dtype : weft_packed_weight_get_dtype (weight), error);
      if (tensor == NULL
          || !weft_state_dict_add (values, weft_state_dict_get_name (self->dense, i), tensor, error))
        return NULL;
    }
  return g_steal_pointer (&values);
}
