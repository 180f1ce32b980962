/* SPDX-License-Identifier: Apache-2.0 */
#include "quantize/weft-finite-private.h"

#include <string.h>

#include "tensor/weft-kernel.h"

/* All bits of the exponent are set in what is no finite number, and in nothing else. */
#define DEFINE_FIND(type, exponent)                                       \
  static gint64 find_##type##_##exponent (const type *elements, gint64 n) \
  {                                                                       \
    gboolean has_any = FALSE;                                             \
                                                                          \
    for (gint64 i = 0; i < n; i++)                                        \
      has_any |= (elements[i] & (type) exponent) == (type) exponent;      \
    for (gint64 i = 0; has_any && i < n; i++)                             \
      if ((elements[i] & (type) exponent) == (type) exponent)             \
        return i;                                                         \
    return -1;                                                            \
  }

DEFINE_FIND (guint16, 0x7c00)
DEFINE_FIND (guint16, 0x7f80)
DEFINE_FIND (guint32, 0x7f800000)
DEFINE_FIND (guint64, 0x7ff0000000000000)

/* Where the first element stands that is not finite; -1: there is none. */
static gint64
find_non_finite (const WeftKernelView *view)
{
  switch ((gint) view->dtype)
    {
    case WEFT_DTYPE_F16:
      return find_guint16_0x7c00 (view->elements, view->n_elements);
    case WEFT_DTYPE_BF16:
      return find_guint16_0x7f80 (view->elements, view->n_elements);
    case WEFT_DTYPE_F32:
      return find_guint32_0x7f800000 (view->elements, view->n_elements);
    default:
      return find_guint64_0x7ff0000000000000 (view->elements, view->n_elements);
    }
}

static gboolean
copy_finite (gconstpointer params, const WeftKernelView *output, const WeftKernelView *inputs, guint n_inputs,
             gpointer scratch, GError **error)
{
  const WeftRegion *region = &inputs[0].region;
  gint64 at = find_non_finite (&inputs[0]);
  WeftShape place = { .rank = region->rank };
  g_autofree gchar *place_text = NULL;

  memcpy (output->elements, inputs[0].elements,
          (gsize) inputs[0].n_elements * weft_dtype_get_bits (inputs[0].dtype) / 8);
  if (at < 0)
    return TRUE;
  for (guint k = region->rank; k-- > 0; at /= region->extent[k])
    place.dims[k] = region->start[k] + at % region->extent[k];
  place_text = weft_shape_to_string (&place);
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT,
               "'%s' is NaN or infinite at %s, and what is packed is finite; --keep leaves a weight dense",
               (const gchar *) params, place_text);
  return FALSE;
}

static const WeftKernel finite_kernel = {
  .struct_size = sizeof (WeftKernel),
  .name = "finite",
  .compute = copy_finite,
};

WeftTensor *
weft_finite_tensor_new (WeftTensor *tensor, const gchar *name, GError **error)
{
  const WeftShape *shape = weft_tensor_get_shape (tensor);
  WeftDtype dtype = weft_tensor_get_dtype (tensor);

  if (dtype != WEFT_DTYPE_F64 && dtype != WEFT_DTYPE_F32 && dtype != WEFT_DTYPE_F16
      && dtype != WEFT_DTYPE_BF16)
    return weft_tensor_ref (tensor);
  return weft_tensor_new_from_kernel (&finite_kernel, g_strdup (name), g_free, dtype, shape->dims,
                                      shape->rank, &tensor, 1, error);
}
