/* SPDX-License-Identifier: Apache-2.0 */
#include "model/weft-tensor-spec.h"

struct _WeftTensorSpec
{
  gatomicrefcount n_references;
  WeftDtype dtype;
  gboolean is_buffer;
  gboolean is_persistent;
  WeftShape shape;
};

G_DEFINE_BOXED_TYPE (WeftTensorSpec, weft_tensor_spec, weft_tensor_spec_ref, weft_tensor_spec_unref)

static WeftTensorSpec *
new_spec (WeftDtype dtype, const WeftShape *shape, gboolean is_buffer, gboolean is_persistent)
{
  WeftTensorSpec *self = g_new (WeftTensorSpec, 1);

  g_atomic_ref_count_init (&self->n_references);
  self->dtype = dtype;
  self->shape = *shape;
  self->is_buffer = is_buffer;
  self->is_persistent = is_persistent;
  return self;
}

/**
 * weft_tensor_spec_new: (constructor)
 * @dtype: its dtype
 * @shape: its shape
 *
 * Returns: (transfer full): the specification of a parameter
 * Since: 1.0
 */
WeftTensorSpec *
weft_tensor_spec_new (WeftDtype dtype, const WeftShape *shape)
{
  return new_spec (dtype, shape, FALSE, TRUE);
}

/**
 * weft_tensor_spec_new_buffer: (constructor)
 * @dtype: its dtype
 * @shape: its shape
 * @is_persistent: whether it is part of a checkpoint
 *
 * Returns: (transfer full): the specification of a buffer: a tensor that is no parameter
 * Since: 1.0
 */
WeftTensorSpec *
weft_tensor_spec_new_buffer (WeftDtype dtype, const WeftShape *shape, gboolean is_persistent)
{
  return new_spec (dtype, shape, TRUE, is_persistent);
}

/**
 * weft_tensor_spec_ref:
 * @self: a specification
 *
 * Returns: (transfer full): @self
 * Since: 1.0
 */
WeftTensorSpec *
weft_tensor_spec_ref (WeftTensorSpec *self)
{
  g_atomic_ref_count_inc (&self->n_references);
  return self;
}

/**
 * weft_tensor_spec_unref:
 * @self: (transfer full): a specification
 *
 * Gives up a reference.
 *
 * Since: 1.0
 */
void
weft_tensor_spec_unref (WeftTensorSpec *self)
{
  if (g_atomic_ref_count_dec (&self->n_references))
    g_free (self);
}

/**
 * weft_tensor_spec_get_dtype:
 * @self: a specification
 *
 * Returns: the dtype
 * Since: 1.0
 */
WeftDtype
weft_tensor_spec_get_dtype (WeftTensorSpec *self)
{
  return self->dtype;
}

/**
 * weft_tensor_spec_get_shape:
 * @self: a specification
 *
 * Returns: (transfer none): the shape
 * Since: 1.0
 */
const WeftShape *
weft_tensor_spec_get_shape (WeftTensorSpec *self)
{
  return &self->shape;
}

/**
 * weft_tensor_spec_is_buffer:
 * @self: a specification
 *
 * Returns: whether it is a buffer, not a parameter
 * Since: 1.0
 */
gboolean
weft_tensor_spec_is_buffer (WeftTensorSpec *self)
{
  return self->is_buffer;
}

/**
 * weft_tensor_spec_is_persistent:
 * @self: a specification
 *
 * Returns: whether it is part of a checkpoint; every parameter is
 * Since: 1.0
 */
gboolean
weft_tensor_spec_is_persistent (WeftTensorSpec *self)
{
  return self->is_persistent;
}
