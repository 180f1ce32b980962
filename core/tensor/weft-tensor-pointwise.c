/* SPDX-License-Identifier: Apache-2.0 */
/* The pointwise operations of WeftTensor: they pass each element through a function and keep its address. */
#include "tensor/weft-tensor-private.h"
#include "tensor/weft-arithmetic-private.h"
#include "tensor/weft-cast-private.h"

/* Rewrites a piece from units of one dtype to units of another: first to elements, then to the new units. */
static gboolean
convert_units (WeftPiece *piece, WeftDtype from, WeftDtype to)
{
  gint64 old_unit = weft_dtype_get_unit_elements (from);
  gint64 new_unit = weft_dtype_get_unit_elements (to);

  if (old_unit == new_unit)
    return TRUE;
  piece->destination *= old_unit;
  piece->source *= old_unit;
  for (guint i = 0; i < piece->n_loops; i++)
    {
      piece->loops[i].destination *= old_unit;
      piece->loops[i].source *= old_unit;
    }
  if (old_unit > 1)
    {
      if (piece->n_loops + 1 >= WEFT_MAX_LOOPS)
        return FALSE;
      piece->loops[piece->n_loops++] = (WeftLoop){ old_unit, 1, 1 };
      weft_piece_normalise (piece);
    }
  if (new_unit == 1)
    return TRUE;
  /* The innermost loop must run through whole new units, everything else stand on their borders. */
  if (piece->n_loops == 0 || piece->destination % new_unit != 0 || piece->source % new_unit != 0)
    return FALSE;
  for (guint i = 0; i < piece->n_loops; i++)
    {
      WeftLoop *loop = &piece->loops[i];

      if (i + 1 == piece->n_loops)
        {
          if (loop->destination != 1 || loop->source != 1 || loop->extent % new_unit != 0)
            return FALSE;
          loop->extent /= new_unit;
        }
      else
        {
          if (loop->destination % new_unit != 0 || loop->source % new_unit != 0)
            return FALSE;
          loop->destination /= new_unit;
          loop->source /= new_unit;
        }
    }
  piece->destination /= new_unit;
  piece->source /= new_unit;
  return TRUE;
}

static WeftTensor *
map_bases (WeftTensor *self, WeftPointwise function, WeftDtype dtype, gdouble operand, const gchar *operation,
           GError **error)
{
  g_autoptr (WeftBase) mapped = NULL;
  WeftBase *last = NULL;
  WeftLayoutBuilder builder;
  gint64 n_bytes;

  if (!weft_shape_count_bytes (&self->shape, dtype, &n_bytes, error))
    return NULL;
  weft_layout_builder_init (&builder, operation);
  for (guint i = 0; i < self->layout.n_pieces; i++)
    {
      WeftPiece piece;

      weft_layout_get_piece (&self->layout, i, &piece);
      /* Pieces over one base stand together as a rule, and share the mapped one. */
      if (piece.base != last)
        {
          last = piece.base;
          g_clear_pointer (&mapped, weft_base_unref);
          mapped = weft_base_new_pointwise (piece.base, function, dtype, operand);
        }
      piece.base = mapped;
      if (!weft_base_check_depth (mapped, operation, error))
        {
          weft_layout_builder_clear (&builder);
          return NULL;
        }
      if (!convert_units (&piece, self->dtype, dtype))
        {
          g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE,
                       "%s: a piece of the layout does not fill whole bytes of %s", operation,
                       weft_dtype_get_name (dtype));
          weft_layout_builder_clear (&builder);
          return NULL;
        }
      if (!weft_layout_builder_add (&builder, &piece, error))
        {
          weft_layout_builder_clear (&builder);
          return NULL;
        }
    }
  return weft_tensor_new_from_builder (dtype, &self->shape, &builder);
}

/**
 * weft_tensor_cast:
 * @self: a tensor
 * @dtype: element type wanted
 * @error: return location
 *
 * Converts values: to nearest, ties to even; F8_E4M3 saturates at 448. A widening cast that is cast back cancels.
 *
 * Returns: (transfer full): a tensor of the same shape
 * Errors: %WEFT_ERROR_DTYPE if there is no such conversion, %WEFT_ERROR_SHAPE for sub-byte elements that share bytes,
 *   %WEFT_ERROR_LIMIT if too many computations stand on one another
 * Since: 1.0
 */
WeftTensor *
weft_tensor_cast (WeftTensor *self, WeftDtype dtype, GError **error)
{
  if (self->dtype == dtype)
    return weft_tensor_ref (self);
  if (dtype <= WEFT_DTYPE_INVALID || dtype >= WEFT_N_DTYPES || weft_cast_lookup (self->dtype, dtype) == NULL)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_DTYPE, "cast: there is no conversion from %s to %s",
                   weft_dtype_get_name (self->dtype),
                   dtype < WEFT_N_DTYPES ? weft_dtype_get_name (dtype) : "?");
      return NULL;
    }
  return map_bases (self, WEFT_POINTWISE_CAST, dtype, 0, "cast", error);
}

/**
 * weft_tensor_bitcast:
 * @self: a tensor
 * @dtype: a dtype of as many bits an element
 * @error: return location
 *
 * Returns: (transfer full): the same bits under another dtype
 * Errors: %WEFT_ERROR_DTYPE if the width differs, %WEFT_ERROR_LIMIT if too many computations stand on one another
 * Since: 1.0
 */
WeftTensor *
weft_tensor_bitcast (WeftTensor *self, WeftDtype dtype, GError **error)
{
  if (self->dtype == dtype)
    return weft_tensor_ref (self);
  if (dtype <= WEFT_DTYPE_INVALID || dtype >= WEFT_N_DTYPES
      || weft_dtype_get_bits (dtype) != weft_dtype_get_bits (self->dtype))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_DTYPE, "bitcast: %s and %s have not the same width",
                   weft_dtype_get_name (self->dtype),
                   dtype < WEFT_N_DTYPES ? weft_dtype_get_name (dtype) : "?");
      return NULL;
    }
  return map_bases (self, WEFT_POINTWISE_BITCAST, dtype, 0, "bitcast", error);
}

static WeftTensor *
arithmetic (WeftTensor *self, WeftPointwise function, gdouble operand, const gchar *operation, GError **error)
{
  guint8 probe[16] = { 0 };
  guint8 result[16];
  gboolean ok =
      weft_dtype_get_unit_elements (self->dtype) == 1
      && (function == WEFT_POINTWISE_SCALE ? weft_scale_elements (self->dtype, probe, result, 1, operand)
                                           : weft_shift_elements (self->dtype, probe, result, 1, operand));

  if (!ok)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_DTYPE, "%s: no such arithmetic for %s and %g", operation,
                   weft_dtype_get_name (self->dtype), operand);
      return NULL;
    }
  return map_bases (self, function, self->dtype, operand, operation, error);
}

/**
 * weft_tensor_scale:
 * @self: a tensor of a real dtype
 * @factor: what each element is multiplied by
 * @error: return location
 *
 * Computes in F32 (F64 for F64) and rounds once.
 *
 * Returns: (transfer full): a tensor of the same dtype and shape
 * Errors: %WEFT_ERROR_DTYPE if the dtype has no such arithmetic, %WEFT_ERROR_LIMIT if too many computations stand on one
 *   another
 * Since: 1.0
 */
WeftTensor *
weft_tensor_scale (WeftTensor *self, gdouble factor, GError **error)
{
  return arithmetic (self, WEFT_POINTWISE_SCALE, factor, "scale", error);
}

/**
 * weft_tensor_shift:
 * @self: a tensor of a real dtype
 * @summand: what is added to each element
 * @error: return location
 *
 * Computes in F32 (F64 for F64) and rounds once.
 *
 * Returns: (transfer full): a tensor of the same dtype and shape
 * Errors: %WEFT_ERROR_DTYPE if the dtype has no such arithmetic, %WEFT_ERROR_LIMIT if too many computations stand on one
 *   another
 * Since: 1.0
 */
WeftTensor *
weft_tensor_shift (WeftTensor *self, gdouble summand, GError **error)
{
  return arithmetic (self, WEFT_POINTWISE_SHIFT, summand, "shift", error);
}
