/* SPDX-License-Identifier: Apache-2.0 */
#include "weft-compressed-tensors-quantize.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define E4M3_MAX 448
#define E2M1_MAX 6
/* Exponents of the largest powers of two of E2M1 and E2M3, and of E4M3. */
#define SMALL_FLOAT_EXPONENT 2
#define E4M3_EXPONENT 8

/* A scale, a zero point or what they are made of: a function of one or two numbers. */
typedef enum
{
  FUNCTION_SUBTRACT_RANGE, /* (max - min) * a, of a range that holds 0 */
  FUNCTION_DIVIDE_BY,      /* x / a */
  FUNCTION_DIVIDE_RANGE,   /* x / a, or 2 y / a where x is too large for a number and y its half */
  FUNCTION_REPLACE_ZERO,   /* x; a in place of 0 */
  FUNCTION_LIMIT,          /* x, up to a */
  FUNCTION_MIN_QUOTIENT,   /* min (x, 0) / scale */
  FUNCTION_ZERO_POINT,     /* round (a - x), from a to b; 0 for the 0 / 0 of a block of zeros */
  FUNCTION_POWER,          /* the power of two of a magnitude, 2^-a times */
  FUNCTION_GLOBAL_SCALE,   /* a / x, up to b; 1 for a weight of zeros */
  FUNCTION_GROUP_SCALE,    /* global * x / a */
} Function;

typedef struct
{
  Function function;
  gfloat a, b;
} Call;

/* The magnitude is rounded up if its fraction is 3/4 or more; up to a power that no number has, before it is divided. */
static gfloat
get_power (gfloat magnitude, gfloat exponent)
{
  guint32 bits;

  memcpy (&bits, &magnitude, sizeof bits);
  return ldexpf (1, MAX ((gint) ((bits + (1u << 21)) >> 23) - (gint) exponent, 0) - 127);
}

static gfloat
call_function (const Call *call, gfloat x, gfloat y)
{
  switch (call->function)
    {
    case FUNCTION_SUBTRACT_RANGE:
      return fmaxf (x, 0) * call->a - fminf (y, 0) * call->a;
    case FUNCTION_DIVIDE_BY:
      return x / call->a;
    case FUNCTION_DIVIDE_RANGE:
      return isinf (x) ? y / (call->a / 2) : x / call->a;
    case FUNCTION_REPLACE_ZERO:
      return x == 0 ? call->a : x;
    case FUNCTION_LIMIT:
      return fminf (x, call->a);
    case FUNCTION_MIN_QUOTIENT:
      return fminf (x, 0) / y;
    case FUNCTION_ZERO_POINT:
      return isnan (x) ? 0 : rintf (fminf (fmaxf (call->a - x, call->a), call->b));
    case FUNCTION_POWER:
      return get_power (x, call->a);
    case FUNCTION_GLOBAL_SCALE:
      return x > 0 ? fminf (call->a / x, call->b) : 1;
    case FUNCTION_GROUP_SCALE:
    default:
      return y * x / call->a;
    }
}

static void
call_each (gconstpointer params, const gfloat *const *inputs, gsize n_values, gfloat *output)
{
  const Call *call = params;
  gboolean has_two = call->function == FUNCTION_SUBTRACT_RANGE || call->function == FUNCTION_DIVIDE_RANGE
                     || call->function == FUNCTION_MIN_QUOTIENT || call->function == FUNCTION_GROUP_SCALE;

  for (gsize i = 0; i < n_values; i++)
    output[i] = call_function (call, inputs[0][i], has_two ? inputs[1][i] : 0);
}

/* function (x, y), rounded to @dtype. Takes NULL for a tensor that could not be made. */
static WeftTensor *
apply (Function function, WeftTensor *x, WeftTensor *y, gfloat a, gfloat b, WeftDtype dtype, GError **error)
{
  const Call call = { function, a, b };
  WeftTensor *inputs[] = { x, y };
  g_autoptr (WeftTensor) result = NULL;

  if (x == NULL)
    return NULL;
  result = weft_tensor_compute (inputs, y != NULL ? 2 : 1, call_each, g_memdup2 (&call, sizeof call), g_free,
                                error);
  return result != NULL ? weft_tensor_cast (result, dtype, error) : NULL;
}

typedef struct
{
  const WeftCtGroup *group;
  WeftPackedWeight *weight;
  WeftTensor *dense;
  WeftDtype dtype;
  gboolean is_whole; /* one scale for the weight */
} Job;

/* What blocks are like; for blocks of many rows once. */
static WeftTensor *
reduce (const Job *job, WeftBlockStatistic statistic, GError **error)
{
  g_autoptr (WeftTensor) blocks =
      weft_tensor_reduce_blocks (job->dense, statistic, job->group->block, 2, error);

  if (blocks == NULL || job->group->block[0] == 1)
    return g_steal_pointer (&blocks);
  return weft_tensor_remember (blocks, error);
}

/* Sets a part; a single scale has one axis. */
static gboolean
set_factor (const Job *job, const gchar *role, WeftTensor *factor, GError **error)
{
  g_autoptr (WeftTensor) flat =
      job->is_whole ? weft_tensor_reshape (factor, (gint64[]){ 1 }, 1, error) : weft_tensor_ref (factor);

  if (flat != NULL)
    weft_packed_weight_set_part (job->weight, role, flat);
  return flat != NULL;
}

static gboolean
set_packed_codes (const Job *job, WeftTensor *codes, WeftDtype words, GError **error)
{
  g_autoptr (WeftTensor) packed =
      weft_tensor_pack (codes, job->group->bits, WEFT_BIT_ORDER_DENSE, -1, words, error);

  if (packed != NULL)
    weft_packed_weight_set_part (job->weight, WEFT_ROLE_CODES, packed);
  return packed != NULL;
}

/* Integers */

static gfloat
get_epsilon (WeftDtype dtype)
{
  return dtype == WEFT_DTYPE_BF16 ? 0x1p-7f : dtype == WEFT_DTYPE_F16 ? 0x1p-10f : 0x1p-23f;
}

static gfloat
get_largest (WeftDtype dtype)
{
  return dtype == WEFT_DTYPE_BF16 ? 0x1.fep127f : dtype == WEFT_DTYPE_F16 ? 65504 : FLT_MAX;
}

/* A scale that was rounded to 0 is none to divide by, and neither is one that is too large for its dtype. */
static WeftTensor *
limit_scale (const Job *job, WeftTensor *scale, GError **error)
{
  g_autoptr (WeftTensor) positive =
      apply (FUNCTION_REPLACE_ZERO, scale, NULL, get_epsilon (job->dtype), 0, WEFT_DTYPE_F32, error);

  return apply (FUNCTION_LIMIT, positive, NULL, get_largest (job->dtype), 0, job->dtype, error);
}

static WeftTensor *
make_symmetric_scale (const Job *job, gfloat range, GError **error)
{
  g_autoptr (WeftTensor) magnitude = reduce (job, WEFT_BLOCK_STATISTIC_MAGNITUDE, error);
  g_autoptr (WeftTensor) scale = apply (FUNCTION_DIVIDE_BY, magnitude, NULL, range, 0, job->dtype, error);

  return limit_scale (job, scale, error);
}

/* Scale and zero point of a range that holds 0. */
static WeftTensor *
make_asymmetric_scale (const Job *job, WeftTensor **zero_point, GError **error)
{
  const gfloat n_codes = (gfloat) (1 << job->group->bits);
  g_autoptr (WeftTensor) minimum = reduce (job, WEFT_BLOCK_STATISTIC_MINIMUM, error);
  g_autoptr (WeftTensor) maximum = minimum != NULL ? reduce (job, WEFT_BLOCK_STATISTIC_MAXIMUM, error) : NULL;
  g_autoptr (WeftTensor) range = apply (FUNCTION_SUBTRACT_RANGE, maximum, minimum, 1, 0, job->dtype, error);
  g_autoptr (WeftTensor) half =
      range != NULL ? apply (FUNCTION_SUBTRACT_RANGE, maximum, minimum, 0.5f, 0, job->dtype, error) : NULL;
  g_autoptr (WeftTensor) raw_scale =
      half != NULL ? apply (FUNCTION_DIVIDE_RANGE, range, half, n_codes - 1, 0, job->dtype, error) : NULL;
  g_autoptr (WeftTensor) scale = limit_scale (job, raw_scale, error);
  g_autoptr (WeftTensor) quotient =
      scale != NULL ? apply (FUNCTION_MIN_QUOTIENT, minimum, raw_scale, 0, 0, job->dtype, error) : NULL;

  *zero_point =
      apply (FUNCTION_ZERO_POINT, quotient, NULL, -n_codes / 2, n_codes / 2 - 1, WEFT_DTYPE_I8, error);
  return *zero_point != NULL ? g_steal_pointer (&scale) : NULL;
}

/* Codes and zero points are packed above the smallest code; zero points down the rows. */
static gboolean
pack_integers (const Job *job, WeftTensor *codes, WeftTensor *zero_point, GError **error)
{
  const gdouble offset = 1 << (job->group->bits - 1);
  const WeftShape *shape = weft_tensor_get_shape (job->dense);
  g_autoptr (WeftTensor) shifted = weft_tensor_shift (codes, offset, error);
  g_autoptr (WeftTensor) shifted_zero = NULL;
  g_autoptr (WeftTensor) packed_zero = NULL;
  g_autoptr (GBytes) dims = g_bytes_new (shape->dims, 2 * sizeof shape->dims[0]);
  g_autoptr (WeftTensor) stored_shape =
      weft_tensor_new_from_bytes (WEFT_DTYPE_I64, (gint64[]){ 2 }, 1, dims, error);

  if (shifted == NULL || stored_shape == NULL || !set_packed_codes (job, shifted, WEFT_DTYPE_I32, error))
    return FALSE;
  weft_packed_weight_set_part (job->weight, "shape", stored_shape);
  if (zero_point == NULL)
    return TRUE;
  shifted_zero = weft_tensor_shift (zero_point, offset, error);
  if (shifted_zero != NULL)
    packed_zero =
        weft_tensor_pack (shifted_zero, job->group->bits, WEFT_BIT_ORDER_DENSE, 0, WEFT_DTYPE_I32, error);
  if (packed_zero != NULL)
    weft_packed_weight_set_part (job->weight, "zero_point", packed_zero);
  return packed_zero != NULL;
}

static gboolean
quantize_integers (const Job *job, GError **error)
{
  const gfloat n_codes = (gfloat) (1 << job->group->bits);
  g_autoptr (WeftTensor) zero_point = NULL;
  g_autoptr (WeftTensor) scale = job->group->is_symmetric
                                     ? make_symmetric_scale (job, (n_codes - 1) / 2, error)
                                     : make_asymmetric_scale (job, &zero_point, error);
  g_autoptr (WeftTensor) codes = NULL;

  if (scale != NULL)
    codes = weft_tensor_quantize (job->dense, scale, zero_point, job->group->block, 2,
                                  WEFT_QUANTIZE_FLAGS_ROUND_STEPS, WEFT_DTYPE_I8, job->group->bits, error);
  if (codes == NULL || !set_factor (job, "scale", scale, error))
    return FALSE;
  if (g_str_equal (job->group->format, "pack-quantized"))
    return pack_integers (job, codes, zero_point, error);
  weft_packed_weight_set_part (job->weight, WEFT_ROLE_CODES, codes);
  return zero_point == NULL || set_factor (job, "zero_point", zero_point, error);
}

/* Floats */

static gboolean
quantize_e4m3 (const Job *job, GError **error)
{
  g_autoptr (WeftTensor) scale = make_symmetric_scale (job, E4M3_MAX, error);
  g_autoptr (WeftTensor) codes = NULL;

  if (scale != NULL)
    codes = weft_tensor_quantize (job->dense, scale, NULL, job->group->block, 2,
                                  WEFT_QUANTIZE_FLAGS_ROUND_STEPS, WEFT_DTYPE_F8_E4M3, 8, error);
  if (codes != NULL)
    weft_packed_weight_set_part (job->weight, WEFT_ROLE_CODES, codes);
  return codes != NULL && set_factor (job, "scale", scale, error);
}

static gboolean
quantize_mx (const Job *job, GError **error)
{
  const gboolean is_byte = job->group->bits == 8;
  const WeftDtype dtype = is_byte                 ? WEFT_DTYPE_F8_E4M3
                          : job->group->bits == 6 ? WEFT_DTYPE_F6_E2M3
                                                  : WEFT_DTYPE_F4;
  g_autoptr (WeftTensor) magnitude = reduce (job, WEFT_BLOCK_STATISTIC_MAGNITUDE, error);
  g_autoptr (WeftTensor) scale =
      apply (FUNCTION_POWER, magnitude, NULL, is_byte ? E4M3_EXPONENT : SMALL_FLOAT_EXPONENT, 0,
             WEFT_DTYPE_F8_E8M0, error);
  g_autoptr (WeftTensor) exponents = scale != NULL ? weft_tensor_bitcast (scale, WEFT_DTYPE_U8, error) : NULL;
  g_autoptr (WeftTensor) codes = NULL;

  if (exponents != NULL)
    codes = weft_tensor_quantize (job->dense, scale, NULL, job->group->block, 2, WEFT_QUANTIZE_FLAGS_NONE,
                                  dtype, 0, error);
  if (codes == NULL)
    return FALSE;
  weft_packed_weight_set_part (job->weight, "scale", exponents);
  if (!is_byte)
    return set_packed_codes (job, codes, WEFT_DTYPE_U8, error);
  weft_packed_weight_set_part (job->weight, WEFT_ROLE_CODES, codes);
  return TRUE;
}

/* What brings the largest magnitude of the weight to the largest product of code and scale. */
static WeftTensor *
make_global_scale (const Job *job, GError **error)
{
  g_autoptr (WeftTensor) magnitude =
      weft_tensor_reduce_blocks (job->dense, WEFT_BLOCK_STATISTIC_MAGNITUDE, (gint64[]){ 0, 0 }, 2, error);
  g_autoptr (WeftTensor) once = magnitude != NULL ? weft_tensor_remember (magnitude, error) : NULL;
  g_autoptr (WeftTensor) global = apply (FUNCTION_GLOBAL_SCALE, once, NULL, E4M3_MAX * E2M1_MAX,
                                         get_largest (job->dtype), job->dtype, error);
  g_autoptr (WeftTensor) wide = global != NULL ? weft_tensor_cast (global, WEFT_DTYPE_F32, error) : NULL;

  return wide != NULL ? weft_tensor_reshape (wide, (gint64[]){ 1 }, 1, error) : NULL;
}

static gboolean
quantize_nvfp4 (const Job *job, GError **error)
{
  g_autoptr (WeftTensor) global = make_global_scale (job, error);
  g_autoptr (WeftTensor) magnitude =
      global != NULL ? reduce (job, WEFT_BLOCK_STATISTIC_MAGNITUDE, error) : NULL;
  g_autoptr (WeftTensor) rounded =
      apply (FUNCTION_GROUP_SCALE, magnitude, global, E2M1_MAX, 0, WEFT_DTYPE_F8_E4M3, error);
  g_autoptr (WeftTensor) scale =
      apply (FUNCTION_REPLACE_ZERO, rounded, NULL, 0.125f, 0, WEFT_DTYPE_F8_E4M3, error);
  g_autoptr (WeftTensor) quotient =
      scale != NULL ? weft_tensor_divide (scale, global, NULL, 0, WEFT_DTYPE_F32, error) : NULL;
  g_autoptr (WeftTensor) codes = NULL;

  if (quotient != NULL)
    codes = weft_tensor_quantize (job->dense, quotient, NULL, job->group->block, 2, WEFT_QUANTIZE_FLAGS_NONE,
                                  WEFT_DTYPE_F4, 0, error);
  if (codes == NULL)
    return FALSE;
  weft_packed_weight_set_part (job->weight, "global_scale", global);
  weft_packed_weight_set_part (job->weight, "scale", scale);
  return set_packed_codes (job, codes, WEFT_DTYPE_U8, error);
}

gboolean
weft_ct_quantize (const WeftCtGroup *group, WeftPackedWeight *weight, GError **error)
{
  WeftTensor *dense = weft_packed_weight_get_dense (weight);
  const Job job = { group, weight, dense, weft_tensor_get_dtype (dense),
                    group->block[0] == 0 && group->block[1] == 0 };

  if (group->is_integer)
    return quantize_integers (&job, error);
  if (g_str_has_prefix (group->format, "nvfp4"))
    return quantize_nvfp4 (&job, error);
  if (g_str_has_prefix (group->format, "mxfp"))
    return quantize_mx (&job, error);
  return quantize_e4m3 (&job, error);
}
