/* SPDX-License-Identifier: Apache-2.0 */
/* Ternary weights as BitNet checkpoints pack them: four rows a byte. With n packed rows, row r of the weight is bits
 * 2k and 2k + 1 of packed row r - kn, k = r / n, and the value is the code minus one. */
#include "weft.h"

typedef struct
{
  WeftConversionOpsBase parent_instance;
} WeftBitnetDeserialize;

WEFT_DEFINE_OP (WeftBitnetDeserialize, weft_bitnet_deserialize)

#define CODES_PER_BYTE 4
#define CODE_BITS 2
#define CODE_MASK 3

/* The kernel makes (code in the byte, packed row, column) of (packed row, column), which is the weight reshaped. */

static void
get_input_region (gconstpointer params, guint input, const WeftRegion *output, WeftRegion *region)
{
  region->rank = output->rank - 1;
  for (guint i = 0; i < region->rank; i++)
    {
      region->start[i] = output->start[i + 1];
      region->extent[i] = output->extent[i + 1];
    }
}

static gboolean
compute_codes (gconstpointer params, const WeftKernelView *output, const WeftKernelView *inputs,
               guint n_inputs, gpointer scratch, GError **error)
{
  const guint8 *bytes = inputs[0].elements;
  gint8 *values = output->elements;

  for (gint64 plane = 0; plane < output->region.extent[0]; plane++)
    {
      gint shift = (gint) (output->region.start[0] + plane) * CODE_BITS;

      for (gint64 i = 0; i < inputs[0].n_elements; i++)
        *values++ = (gint8) (((bytes[i] >> shift) & CODE_MASK) - 1);
    }
  return TRUE;
}

static const WeftKernel deserialize_kernel = {
  .struct_size = sizeof (WeftKernel),
  .name = "BitNetDeserialize",
  .get_input_region = get_input_region,
  .compute = compute_codes,
};

/* The shape of the weight that @packed holds. */
static gboolean
get_weight_shape (const WeftShape *packed, WeftShape *weight, GError **error)
{
  *weight = *packed;
  if (packed->rank >= 1 && packed->rank < WEFT_MAX_RANK
      && !__builtin_mul_overflow (packed->dims[0], CODES_PER_BYTE, &weight->dims[0]))
    return TRUE;
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE,
               "packed ternary codes need rows, and not too many of them");
  return FALSE;
}

static WeftTensor *
unpack (WeftTensor *packed, const WeftShape *weight, WeftDtype dtype, GError **error)
{
  const WeftShape *rows = weft_tensor_get_shape (packed);
  WeftShape planes = { .rank = rows->rank + 1, .dims = { CODES_PER_BYTE } };
  g_autoptr (WeftTensor) codes = NULL;
  g_autoptr (WeftTensor) values = NULL;

  for (guint i = 0; i < rows->rank; i++)
    planes.dims[i + 1] = rows->dims[i];
  codes = weft_tensor_new_from_kernel (&deserialize_kernel, NULL, NULL, WEFT_DTYPE_I8, planes.dims,
                                       planes.rank, &packed, 1, error);
  values = codes != NULL ? weft_tensor_reshape (codes, weight->dims, weight->rank, error) : NULL;
  return values != NULL ? weft_tensor_cast (values, dtype, error) : NULL;
}

/* The dtype of the model's parameter; these checkpoints are BF16 where nothing is known of the model. */
static WeftDtype
get_dtype (WeftOpContext *context, const gchar *full_name)
{
  WeftDtype dtype =
      full_name != NULL ? weft_op_context_get_parameter_dtype (context, full_name) : WEFT_DTYPE_INVALID;

  return weft_dtype_is_floating (dtype) ? dtype : WEFT_DTYPE_BF16;
}

/* @tensor unpacked if it is packed: bytes, a fourth of the rows that the model's parameter has. */
static WeftTensor *
deserialize (WeftTensor *tensor, WeftOpContext *context, GError **error)
{
  const gchar *full_name = weft_op_context_get_full_layer_name (context);
  const WeftShape *found = weft_tensor_get_shape (tensor);
  g_autoptr (WeftShape) expected =
      full_name != NULL ? weft_op_context_get_parameter_shape (context, full_name) : NULL;
  WeftShape weight;

  if (weft_tensor_get_dtype (tensor) != WEFT_DTYPE_U8
      || (expected != NULL && weft_shape_equal (expected, found)))
    return weft_tensor_ref (tensor);
  if (!get_weight_shape (found, &weight, error))
    return NULL;
  if (expected != NULL && !weft_shape_equal (expected, &weight))
    {
      g_autofree gchar *found_text = weft_shape_to_string (found);
      g_autofree gchar *expected_text = weft_shape_to_string (expected);

      g_set_error (
          error, WEFT_ERROR, WEFT_ERROR_SHAPE,
          "'%s' has shape %s, which is neither the %s of the model's parameter nor a fourth of its rows",
          full_name, found_text, expected_text);
      return NULL;
    }
  return unpack (tensor, &weight, get_dtype (context, full_name), error);
}

static WeftTensorGroups *
weft_bitnet_deserialize_convert (WeftConversionOpsBase *base, WeftTensorGroups *inputs,
                                 WeftOpContext *context, GError **error)
{
  WeftTensor *tensor = weft_op_get_only_tensor (inputs, error);
  g_autoptr (WeftTensor) weight = tensor != NULL ? deserialize (tensor, context, error) : NULL;

  return weight != NULL ? weft_op_new_output (weft_op_context_get_target_pattern (context, 0), weight) : NULL;
}

static void
weft_bitnet_deserialize_class_init (WeftBitnetDeserializeClass *klass)
{
  klass->parent_class.convert = weft_bitnet_deserialize_convert;
  klass->parent_class.traits = WEFT_OP_TRAITS_NEEDS_VALUES;
  klass->parent_class.thread_policy = WEFT_THREAD_POLICY_ANY;
}

WEFT_PLUGIN_DEFINE ("bitnet", "Unpacks ternary weights", NULL, PACKAGE_VERSION, "Apache-2.0", PACKAGE_ORIGIN,
                    WEFT_PLUGIN_OP ("BitNetDeserialize", WeftBitnetDeserialize, weft_bitnet_deserialize));
