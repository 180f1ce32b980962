/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/weft-base-private.h"
#include "tensor/weft-cast-private.h"

#include <string.h>

guint
weft_dtype_get_unit_elements (WeftDtype dtype)
{
  switch (weft_dtype_get_bits (dtype))
    {
    case 4:
      return 2;
    case 6:
      return 4;
    default:
      return 1;
    }
}

guint
weft_dtype_get_unit_bytes (WeftDtype dtype)
{
  return weft_dtype_get_unit_elements (dtype) * weft_dtype_get_bits (dtype) / 8;
}

void
weft_base_init (WeftBase *self, WeftBaseKind kind, WeftDtype dtype, gint64 n_elements)
{
  g_atomic_ref_count_init (&self->ref_count);
  self->kind = kind;
  self->dtype = dtype;
  self->n_elements = n_elements;
}

WeftBase *
weft_base_new (WeftBaseKind kind, WeftDtype dtype, gint64 n_elements)
{
  WeftBase *self = g_new0 (WeftBase, 1);

  weft_base_init (self, kind, dtype, n_elements);
  return self;
}

/* Whether a function undoes the one that made @input, bit for bit: a cast back after a widening one, a bitcast back, a
 * second change of sign. */
static gboolean
undoes_input (const WeftBase *input, WeftPointwise function, WeftDtype dtype, gdouble operand)
{
  const WeftBase *origin;

  if (input->kind != WEFT_BASE_POINTWISE || input->pointwise.function != function)
    return FALSE;
  origin = input->pointwise.input;
  switch (function)
    {
    case WEFT_POINTWISE_CAST:
      return origin->dtype == dtype && weft_cast_is_widening (dtype, input->dtype);
    case WEFT_POINTWISE_BITCAST:
      return origin->dtype == dtype;
    case WEFT_POINTWISE_SCALE:
      return operand == -1.0 && input->pointwise.operand == -1.0 && weft_dtype_is_floating (dtype);
    case WEFT_POINTWISE_SHIFT:
    default:
      return FALSE;
    }
}

/* The same addresses (in elements) with each element passed through a function. What undoes its input gives the input's
 * own input back, which is how the proof of a round trip sees through it. */
WeftBase *
weft_base_new_pointwise (WeftBase *input, WeftPointwise function, WeftDtype dtype, gdouble operand)
{
  WeftBase *self;

  if (undoes_input (input, function, dtype, operand))
    return weft_base_ref (input->pointwise.input);
  self = weft_base_new (WEFT_BASE_POINTWISE, dtype, input->n_elements);
  self->needs_owner = input->needs_owner;
  self->depth = input->depth + 1;
  self->pointwise.input = weft_base_ref (input);
  self->pointwise.function = function;
  self->pointwise.operand = operand;
  return self;
}

WeftBase *
weft_base_ref (WeftBase *self)
{
  g_atomic_ref_count_inc (&self->ref_count);
  return self;
}

void
weft_base_unref (WeftBase *self)
{
  if (!g_atomic_ref_count_dec (&self->ref_count))
    return;
  switch ((WeftBaseKind) self->kind)
    {
    case WEFT_BASE_FILE:
      weft_file_tensors_unref (self->file.tensors);
      return;
    case WEFT_BASE_MEMORY:
      g_bytes_unref (self->bytes);
      break;
    case WEFT_BASE_POINTWISE:
      weft_base_unref (self->pointwise.input);
      break;
    case WEFT_BASE_KERNEL:
      for (guint i = 0; i < self->kernel.n_inputs; i++)
        weft_tensor_unref (self->kernel.inputs[i]);
      g_free (self->kernel.inputs);
      weft_shape_free (self->kernel.shape);
      if (self->kernel.destroy != NULL)
        self->kernel.destroy (self->kernel.params);
      break;
    case WEFT_BASE_SOURCE:
      g_object_unref (self->source);
      break;
    case WEFT_BASE_ONCE:
      weft_tensor_unref (self->once.input);
      g_mutex_clear (&self->once.mutex);
      g_clear_pointer (&self->once.bytes, g_bytes_unref);
      break;
    case WEFT_BASE_CONSTANT:
    case WEFT_BASE_UNREADABLE:
      break;
    }
  g_free (self);
}

/* Whether two bases hold the same elements for sure. Different objects that read one file extent are equal. */
gboolean
weft_base_equal (const WeftBase *a, const WeftBase *b)
{
  if (a == b)
    return TRUE;
  if (a->kind != b->kind || a->dtype != b->dtype || a->n_elements != b->n_elements)
    return FALSE;
  if (a->kind == WEFT_BASE_FILE)
    return a->file.file == b->file.file && a->file.offset == b->file.offset;
  if (a->kind == WEFT_BASE_CONSTANT)
    return memcmp (a->element, b->element, sizeof a->element) == 0;
  if (a->kind == WEFT_BASE_POINTWISE)
    return a->pointwise.function == b->pointwise.function && a->pointwise.operand == b->pointwise.operand
           && weft_base_equal (a->pointwise.input, b->pointwise.input);
  return FALSE;
}

gboolean
weft_base_check_depth (const WeftBase *self, const gchar *operation, GError **error)
{
  if (self->depth <= WEFT_MAX_DEPTH)
    return TRUE;
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_LIMIT,
               "%s: the elements are computed in more than %d steps; convert in two, with a file between",
               operation, WEFT_MAX_DEPTH);
  return FALSE;
}
