/* SPDX-License-Identifier: Apache-2.0 */
#include "base/weft-dtype.h"

#include <string.h>

/* `other` is the spelling of configs ("bfloat16"), as model configs and the frameworks write it. */
static const struct
{
  const gchar *name;
  const gchar *other;
  guint bits;
  gboolean is_floating;
} dtypes[WEFT_N_DTYPES] = {
  [WEFT_DTYPE_INVALID] = { "", NULL, 0, FALSE },
  [WEFT_DTYPE_BOOL] = { "BOOL", "bool", 8, FALSE },
  [WEFT_DTYPE_F4] = { "F4", "float4_e2m1fn_x2", 4, TRUE },
  [WEFT_DTYPE_F6_E2M3] = { "F6_E2M3", NULL, 6, TRUE },
  [WEFT_DTYPE_F6_E3M2] = { "F6_E3M2", NULL, 6, TRUE },
  [WEFT_DTYPE_U8] = { "U8", "uint8", 8, FALSE },
  [WEFT_DTYPE_I8] = { "I8", "int8", 8, FALSE },
  [WEFT_DTYPE_F8_E5M2] = { "F8_E5M2", "float8_e5m2", 8, TRUE },
  [WEFT_DTYPE_F8_E4M3] = { "F8_E4M3", "float8_e4m3fn", 8, TRUE },
  [WEFT_DTYPE_F8_E8M0] = { "F8_E8M0", "float8_e8m0fnu", 8, TRUE },
  [WEFT_DTYPE_F8_E4M3FNUZ] = { "F8_E4M3FNUZ", "float8_e4m3fnuz", 8, TRUE },
  [WEFT_DTYPE_F8_E5M2FNUZ] = { "F8_E5M2FNUZ", "float8_e5m2fnuz", 8, TRUE },
  [WEFT_DTYPE_I16] = { "I16", "int16", 16, FALSE },
  [WEFT_DTYPE_U16] = { "U16", "uint16", 16, FALSE },
  [WEFT_DTYPE_F16] = { "F16", "float16", 16, TRUE },
  [WEFT_DTYPE_BF16] = { "BF16", "bfloat16", 16, TRUE },
  [WEFT_DTYPE_I32] = { "I32", "int32", 32, FALSE },
  [WEFT_DTYPE_U32] = { "U32", "uint32", 32, FALSE },
  [WEFT_DTYPE_F32] = { "F32", "float32", 32, TRUE },
  [WEFT_DTYPE_C64] = { "C64", "complex64", 64, FALSE },
  [WEFT_DTYPE_F64] = { "F64", "float64", 64, TRUE },
  [WEFT_DTYPE_I64] = { "I64", "int64", 64, FALSE },
  [WEFT_DTYPE_U64] = { "U64", "uint64", 64, FALSE },
};

/**
 * weft_dtype_get_bits:
 * @dtype: a dtype
 *
 * Returns: the width of one element in bits; 4 and 6 for the sub-byte dtypes
 * Since: 1.0
 */
guint
weft_dtype_get_bits (WeftDtype dtype)
{
  g_return_val_if_fail (dtype < WEFT_N_DTYPES, 0);
  return dtypes[dtype].bits;
}

/**
 * weft_dtype_get_name:
 * @dtype: a dtype
 *
 * Returns: the name of the safetensors format, such as `BF16`
 * Since: 1.0
 */
const gchar *
weft_dtype_get_name (WeftDtype dtype)
{
  g_return_val_if_fail (dtype < WEFT_N_DTYPES, "");
  return dtypes[dtype].name;
}

/**
 * weft_dtype_get_config_name:
 * @dtype: a dtype
 *
 * Returns: (transfer none): its name as configs of models write it, such as `bfloat16`
 * Since: 1.0
 */
const gchar *
weft_dtype_get_config_name (WeftDtype dtype)
{
  g_return_val_if_fail (dtype < WEFT_N_DTYPES, "");
  return dtypes[dtype].other != NULL ? dtypes[dtype].other : dtypes[dtype].name;
}

/**
 * weft_dtype_from_name:
 * @name: a name of the safetensors format; upper and lower case differ
 *
 * Returns: the dtype, or %WEFT_DTYPE_INVALID
 * Since: 1.0
 */
WeftDtype
weft_dtype_from_name (const gchar *name)
{
  for (guint i = WEFT_DTYPE_BOOL; i < WEFT_N_DTYPES; i++)
    if (strcmp (dtypes[i].name, name) == 0)
      return (WeftDtype) i;
  return WEFT_DTYPE_INVALID;
}

/**
 * weft_dtype_from_any_name:
 * @name: a dtype as a person or a config writes it: `BF16`, `bf16`, `bfloat16`, `torch.bfloat16`
 *
 * Returns: the dtype, or %WEFT_DTYPE_INVALID
 * Since: 1.0
 */
WeftDtype
weft_dtype_from_any_name (const gchar *name)
{
  static const struct
  {
    const gchar *name;
    WeftDtype dtype;
  } short_names[] = {
    { "half", WEFT_DTYPE_F16 },   { "fp16", WEFT_DTYPE_F16 },
    { "float", WEFT_DTYPE_F32 },  { "fp32", WEFT_DTYPE_F32 },
    { "double", WEFT_DTYPE_F64 }, { "fp64", WEFT_DTYPE_F64 },
    { "long", WEFT_DTYPE_I64 },   { "int", WEFT_DTYPE_I32 },
    { "short", WEFT_DTYPE_I16 },  { "float8_e4m3", WEFT_DTYPE_F8_E4M3 },
  };

  if (g_str_has_prefix (name, "torch."))
    name += strlen ("torch.");
  for (guint i = WEFT_DTYPE_BOOL; i < WEFT_N_DTYPES; i++)
    if (g_ascii_strcasecmp (dtypes[i].name, name) == 0 || g_strcmp0 (dtypes[i].other, name) == 0)
      return (WeftDtype) i;
  for (guint i = 0; i < G_N_ELEMENTS (short_names); i++)
    if (strcmp (short_names[i].name, name) == 0)
      return short_names[i].dtype;
  return WEFT_DTYPE_INVALID;
}

/**
 * weft_dtype_is_floating:
 * @dtype: a dtype
 *
 * Returns: %TRUE for the real floating dtypes of any width; %FALSE for integers, BOOL and C64
 * Since: 1.0
 */
gboolean
weft_dtype_is_floating (WeftDtype dtype)
{
  g_return_val_if_fail (dtype < WEFT_N_DTYPES, FALSE);
  return dtypes[dtype].is_floating;
}
