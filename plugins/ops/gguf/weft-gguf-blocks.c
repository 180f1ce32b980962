/* SPDX-License-Identifier: Apache-2.0 */
#include "weft-gguf-blocks.h"

#include "weft-gguf-vectors.h"

#include <math.h>
#include <string.h>

/* Elements of a block, and of the super-blocks of the types whose names end in K. */
#define BLOCK_ELEMENTS 32
#define SUPER_BLOCK_ELEMENTS 256
#define F16_BYTES 2
#define F32_INFINITY 0x7f800000
#define F16_INFINITY 0x7c00
#define F16_SMALLEST_NORMAL 0x0400
#define F16_LARGEST 65504.0f

/* Numbers */

static gfloat
float_from_bits (guint32 bits)
{
  gfloat value;

  memcpy (&value, &bits, sizeof value);
  return value;
}

static guint32
bits_of_float (gfloat value)
{
  guint32 bits;

  memcpy (&bits, &value, sizeof bits);
  return bits;
}

static guint32
read_u16 (const guint8 *bytes)
{
  return (guint32) bytes[0] | (guint32) bytes[1] << 8;
}

static gfloat
read_f16 (const guint8 *bytes)
{
  guint32 code = read_u16 (bytes);
  guint32 sign = (code & 0x8000) << 16;
  guint32 magnitude = code & 0x7fff;

  if (magnitude < F16_SMALLEST_NORMAL)
    return (sign != 0 ? -0x1p-24f : 0x1p-24f) * (gfloat) magnitude;
  if (magnitude < F16_INFINITY)
    return float_from_bits (sign | ((magnitude << 13) + ((127 - 15) << 23)));
  return float_from_bits (sign | magnitude << 13 | F32_INFINITY);
}

/* To nearest, ties to even, as every cast. NaNs stay. */
static gfloat
round_to_bf16 (gfloat value)
{
  guint32 bits = bits_of_float (value);

  return isnan (value) ? value : float_from_bits ((bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff0000);
}

static gfloat
round_to_f16 (gfloat value)
{
  guint32 bits = bits_of_float (value) & 0x7fffffff;
  gfloat magnitude = float_from_bits (bits);

  /* Below 2^-14 codes are 2^-24 apart, and so are the F32 numbers from 0.5 to 1. */
  if (magnitude < 0x1p-14f)
    magnitude = (magnitude + 0.5f) - 0.5f;
  else if (bits < F32_INFINITY)
    magnitude = float_from_bits ((bits + 0xfff + ((bits >> 13) & 1)) & ~0x1fffu);
  return copysignf (magnitude >= 0x1p16f ? INFINITY : magnitude, value);
}

/* Values are computed in the dtype they will have, as the other implementations do: every step is rounded to it. */
static void
round_values (WeftDtype dtype, gfloat *values, gsize n_values)
{
  if (dtype == WEFT_DTYPE_BF16)
    for (gsize i = 0; i < n_values; i++)
      values[i] = round_to_bf16 (values[i]);
  if (dtype == WEFT_DTYPE_F16)
    for (gsize i = 0; i < n_values; i++)
      values[i] = round_to_f16 (values[i]);
}

static gfloat
round_value (WeftDtype dtype, gfloat value)
{
  round_values (dtype, &value, 1);
  return value;
}

/* A scale or a minimum. */
static gfloat
read_scale (const guint8 *bytes, WeftDtype dtype)
{
  return round_value (dtype, read_f16 (bytes));
}

/* Codes */

/* Codes of @n_bits lie in runs of @run bytes: first the lowest bits of each byte of the run, then the next, and so on. Adds
 * @n_codes of them, shifted by @shift, to @codes. */
static void
unpack (const guint8 *packed, guint n_bits, gsize run, gsize n_codes, guint shift, guint8 *codes)
{
  const gsize n_planes = 8 / n_bits;
  const guint mask = (1u << n_bits) - 1;

  for (gsize i = 0; i < n_codes / run; i++)
    {
      const guint8 *bytes = packed + i / n_planes * run;
      guint first_bit = (guint) (i % n_planes) * n_bits;

      for (gsize j = 0; j < run; j++)
        codes[i * run + j] |= (guint8) (((guint) bytes[j] >> first_bit & mask) << shift);
    }
}

/* scale * (code - zero) */
static void
scale_codes (const guint8 *codes, gsize n_codes, gfloat scale, gint zero, WeftDtype dtype, gfloat *values)
{
  for (gsize i = 0; i < n_codes; i++)
    values[i] = scale * (gfloat) (codes[i] - zero);
  round_values (dtype, values, n_codes);
}

/* scale * code + minimum */
static void
scale_codes_above (const guint8 *codes, gsize n_codes, gfloat scale, gfloat minimum, WeftDtype dtype,
                   gfloat *values)
{
  scale_codes (codes, n_codes, scale, 0, dtype, values);
  for (gsize i = 0; i < n_codes; i++)
    values[i] += minimum;
  round_values (dtype, values, n_codes);
}

/* Blocks of one element */

static void
decode_f32 (const guint8 *block, WeftDtype dtype, gfloat *values)
{
  values[0] = float_from_bits (read_u16 (block) | read_u16 (block + 2) << 16);
}

static void
decode_f16 (const guint8 *block, WeftDtype dtype, gfloat *values)
{
  values[0] = read_f16 (block);
}

static void
decode_bf16 (const guint8 *block, WeftDtype dtype, gfloat *values)
{
  values[0] = float_from_bits (read_u16 (block) << 16);
}

/* Blocks of 32: scale; minimum (_1); fifth bits, one after the other (Q5); codes. */

static void
decode_q4_0 (const guint8 *block, WeftDtype dtype, gfloat *values)
{
  guint8 codes[BLOCK_ELEMENTS] = { 0 };

  unpack (block + F16_BYTES, 4, 16, BLOCK_ELEMENTS, 0, codes);
  scale_codes (codes, BLOCK_ELEMENTS, read_scale (block, dtype), 8, dtype, values);
}

static void
decode_q4_1 (const guint8 *block, WeftDtype dtype, gfloat *values)
{
  guint8 codes[BLOCK_ELEMENTS] = { 0 };

  unpack (block + 2 * F16_BYTES, 4, 16, BLOCK_ELEMENTS, 0, codes);
  scale_codes_above (codes, BLOCK_ELEMENTS, read_scale (block, dtype), read_scale (block + F16_BYTES, dtype),
                     dtype, values);
}

static void
decode_q5_0 (const guint8 *block, WeftDtype dtype, gfloat *values)
{
  const guint8 *fifth_bits = block + F16_BYTES;
  guint8 codes[BLOCK_ELEMENTS] = { 0 };

  unpack (fifth_bits + 4, 4, 16, BLOCK_ELEMENTS, 0, codes);
  unpack (fifth_bits, 1, 1, BLOCK_ELEMENTS, 4, codes);
  scale_codes (codes, BLOCK_ELEMENTS, read_scale (block, dtype), 16, dtype, values);
}

static void
decode_q5_1 (const guint8 *block, WeftDtype dtype, gfloat *values)
{
  const guint8 *fifth_bits = block + 2 * F16_BYTES;
  guint8 codes[BLOCK_ELEMENTS] = { 0 };

  unpack (fifth_bits + 4, 4, 16, BLOCK_ELEMENTS, 0, codes);
  unpack (fifth_bits, 1, 1, BLOCK_ELEMENTS, 4, codes);
  scale_codes_above (codes, BLOCK_ELEMENTS, read_scale (block, dtype), read_scale (block + F16_BYTES, dtype),
                     dtype, values);
}

static void
scale_signed_codes (const guint8 *codes, gsize n_codes, gfloat scale, WeftDtype dtype, gfloat *values)
{
  for (gsize i = 0; i < n_codes; i++)
    values[i] = scale * (gfloat) (gint8) codes[i];
  round_values (dtype, values, n_codes);
}

static void
decode_q8_0 (const guint8 *block, WeftDtype dtype, gfloat *values)
{
  scale_signed_codes (block + F16_BYTES, BLOCK_ELEMENTS, read_scale (block, dtype), dtype, values);
}

/* A scale of F32, codes, and sums of 16 of them, which only a runtime wants. */
static void
decode_q8_k (const guint8 *block, WeftDtype dtype, gfloat *values)
{
  gfloat scale = float_from_bits (read_u16 (block) | read_u16 (block + 2) << 16);

  scale_signed_codes (block + 4, SUPER_BLOCK_ELEMENTS, round_value (dtype, scale), dtype, values);
}

/* Super-blocks of 256: groups of 16 or 32 codes, each with a small whole number that scales the scale of all. */

/* 16 scales and minima, a nibble each; codes of 2 bits; scale of scales; scale of minima. */
static void
decode_q2_k (const guint8 *block, WeftDtype dtype, gfloat *values)
{
  const guint8 *packed = block + 16;
  gfloat scale = read_scale (packed + 64, dtype);
  gfloat minimum = read_scale (packed + 64 + F16_BYTES, dtype);
  guint8 codes[SUPER_BLOCK_ELEMENTS] = { 0 };

  unpack (packed, 2, 32, SUPER_BLOCK_ELEMENTS, 0, codes);
  for (gsize group = 0; group < 16; group++)
    scale_codes_above (codes + 16 * group, 16, round_value (dtype, scale * (gfloat) (block[group] & 15)),
                       -round_value (dtype, minimum * (gfloat) (block[group] >> 4)), dtype,
                       values + 16 * group);
}

/* Third bits; codes of 2 bits; 16 scales of 6 bits, low nibbles first; scale of scales. */
static void
decode_q3_k (const guint8 *block, WeftDtype dtype, gfloat *values)
{
  const guint8 *packed = block + 32;
  const guint8 *packed_scales = packed + 64;
  gfloat scale = read_scale (packed_scales + 12, dtype);
  guint8 codes[SUPER_BLOCK_ELEMENTS] = { 0 };
  guint8 scales[16] = { 0 };

  unpack (packed, 2, 32, SUPER_BLOCK_ELEMENTS, 0, codes);
  unpack (block, 1, 32, SUPER_BLOCK_ELEMENTS, 2, codes);
  unpack (packed_scales, 4, 8, 16, 0, scales);
  unpack (packed_scales + 8, 2, 4, 16, 4, scales);
  for (gsize group = 0; group < 16; group++)
    scale_codes (codes + 16 * group, 16, round_value (dtype, scale * (gfloat) (scales[group] - 32)), 4, dtype,
                 values + 16 * group);
}

/* The 8 scales and minima of 6 bits of Q4_K and Q5_K. Of 12 bytes, 4 hold the first scales and 4 the first minima, with
 * the upper bits of the others above them; 4 hold the lower nibbles of the others. */
static void
unpack_scales_and_minima (const guint8 *packed, guint8 scales[8], guint8 minima[8])
{
  for (gsize i = 0; i < 4; i++)
    {
      scales[i] = packed[i] & 63;
      minima[i] = packed[4 + i] & 63;
      scales[4 + i] = (guint8) ((packed[8 + i] & 15) | (packed[i] >> 6) << 4);
      minima[4 + i] = (guint8) (packed[8 + i] >> 4 | (packed[4 + i] >> 6) << 4);
    }
}

/* Q4_K and Q5_K begin alike: scale of scales, scale of minima, scales and minima. */
static void
scale_8_groups (const guint8 *block, const guint8 *codes, WeftDtype dtype, gfloat *values)
{
  gfloat scale = read_scale (block, dtype);
  gfloat minimum = read_scale (block + F16_BYTES, dtype);
  guint8 scales[8], minima[8];

  unpack_scales_and_minima (block + 2 * F16_BYTES, scales, minima);
  for (gsize group = 0; group < 8; group++)
    scale_codes_above (codes + 32 * group, 32, round_value (dtype, scale * (gfloat) scales[group]),
                       -round_value (dtype, minimum * (gfloat) minima[group]), dtype, values + 32 * group);
}

static void
decode_q4_k (const guint8 *block, WeftDtype dtype, gfloat *values)
{
  guint8 codes[SUPER_BLOCK_ELEMENTS] = { 0 };

  unpack (block + 16, 4, 32, SUPER_BLOCK_ELEMENTS, 0, codes);
  scale_8_groups (block, codes, dtype, values);
}

/* With the fifth bits before the codes. */
static void
decode_q5_k (const guint8 *block, WeftDtype dtype, gfloat *values)
{
  guint8 codes[SUPER_BLOCK_ELEMENTS] = { 0 };

  unpack (block + 16 + 32, 4, 32, SUPER_BLOCK_ELEMENTS, 0, codes);
  unpack (block + 16, 1, 32, SUPER_BLOCK_ELEMENTS, 4, codes);
  scale_8_groups (block, codes, dtype, values);
}

/* Low nibbles; upper 2 bits; 16 signed scales; scale of scales. */
static void
decode_q6_k (const guint8 *block, WeftDtype dtype, gfloat *values)
{
  const guint8 *upper = block + 128;
  const gint8 *scales = (const gint8 *) upper + 64;
  gfloat scale = read_scale (upper + 64 + 16, dtype);
  guint8 codes[SUPER_BLOCK_ELEMENTS] = { 0 };

  unpack (block, 4, 64, SUPER_BLOCK_ELEMENTS, 0, codes);
  unpack (upper, 2, 32, SUPER_BLOCK_ELEMENTS, 4, codes);
  for (gsize group = 0; group < 16; group++)
    scale_codes (codes + 16 * group, 16, round_value (dtype, scale * (gfloat) scales[group]), 32, dtype,
                 values + 16 * group);
}

/* Ternary super-blocks; the scale comes last. */

/* Five digits to the base of 3 a byte, scaled so that the uppermost digit is the upper part of three times the byte. Adds
 * the digits of @n_bytes bytes, digit by digit. */
static guint8 *
unpack_digits (const guint8 *bytes, gsize n_bytes, gsize n_digits, guint8 *codes)
{
  guint8 power = 1;

  for (gsize digit = 0; digit < n_digits; digit++, power *= 3)
    for (gsize i = 0; i < n_bytes; i++)
      *codes++ = (guint8) ((guint) (guint8) (bytes[i] * power) * 3 >> 8);
  return codes;
}

static void
decode_tq1_0 (const guint8 *block, WeftDtype dtype, gfloat *values)
{
  guint8 codes[SUPER_BLOCK_ELEMENTS];
  guint8 *end = unpack_digits (block, 32, 5, codes);

  end = unpack_digits (block + 32, 16, 5, end);
  unpack_digits (block + 48, 4, 4, end);
  scale_codes (codes, SUPER_BLOCK_ELEMENTS, read_scale (block + 52, dtype), 1, dtype, values);
}

static void
decode_tq2_0 (const guint8 *block, WeftDtype dtype, gfloat *values)
{
  guint8 codes[SUPER_BLOCK_ELEMENTS] = { 0 };

  unpack (block, 2, 32, SUPER_BLOCK_ELEMENTS, 0, codes);
  scale_codes (codes, SUPER_BLOCK_ELEMENTS, read_scale (block + 64, dtype), 1, dtype, values);
}

/* Codes that stand for values of a table */

static void
scale_table_codes (const guint8 *codes, gsize n_codes, const gint8 table[16], gfloat scale, WeftDtype dtype,
                   gfloat *values)
{
  for (gsize i = 0; i < n_codes; i++)
    values[i] = scale * (gfloat) table[codes[i]];
  round_values (dtype, values, n_codes);
}

/* E2M1, doubled. */
static const gint8 e2m1_table[16] = { 0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12 };
static const gint8 iq4_table[16] = {
  -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113
};

/* An exponent; codes. Half of it, since the table is doubled. */
static void
decode_mxfp4 (const guint8 *block, WeftDtype dtype, gfloat *values)
{
  guint32 bits = block[0] < 2 ? 0x00200000u << block[0] : (guint32) (block[0] - 1) << 23;
  guint8 codes[BLOCK_ELEMENTS] = { 0 };

  unpack (block + 1, 4, 16, BLOCK_ELEMENTS, 0, codes);
  scale_table_codes (codes, BLOCK_ELEMENTS, e2m1_table, float_from_bits (bits), dtype, values);
}

/* E4M3 without a sign. Half of it, since the table is doubled. */
static gfloat
read_unsigned_e4m3 (guint8 code)
{
  gint exponent = code >> 3 & 15, fraction = code & 7;

  if (code == 0x7f)
    return 0;
  return exponent == 0 ? ldexpf ((gfloat) fraction, -10) : ldexpf ((gfloat) (8 + fraction), exponent - 11);
}

/* 4 scales; for each of them 16 codes. */
static void
decode_nvfp4 (const guint8 *block, WeftDtype dtype, gfloat *values)
{
  for (gsize group = 0; group < 4; group++)
    {
      guint8 codes[16] = { 0 };

      unpack (block + 4 + 8 * group, 4, 8, 16, 0, codes);
      scale_table_codes (codes, 16, e2m1_table, round_value (dtype, read_unsigned_e4m3 (block[group])), dtype,
                         values + 16 * group);
    }
}

static void
decode_iq4_nl (const guint8 *block, WeftDtype dtype, gfloat *values)
{
  guint8 codes[BLOCK_ELEMENTS] = { 0 };

  unpack (block + F16_BYTES, 4, 16, BLOCK_ELEMENTS, 0, codes);
  scale_table_codes (codes, BLOCK_ELEMENTS, iq4_table, read_scale (block, dtype), dtype, values);
}

/* Scale of scales; upper 2 bits of 8 scales; their low nibbles; codes. */
static void
decode_iq4_xs (const guint8 *block, WeftDtype dtype, gfloat *values)
{
  gfloat scale = read_scale (block, dtype);
  guint32 upper = read_u16 (block + F16_BYTES);

  for (gsize group = 0; group < 8; group++)
    {
      guint32 lower = block[4 + group / 2] >> (4 * (group % 2)) & 15;
      gint group_scale = (gint) (lower | (upper >> (2 * group) & 3) << 4) - 32;
      guint8 codes[BLOCK_ELEMENTS] = { 0 };

      unpack (block + 8 + 16 * group, 4, 16, BLOCK_ELEMENTS, 0, codes);
      scale_table_codes (codes, BLOCK_ELEMENTS, iq4_table, round_value (dtype, scale * (gfloat) group_scale),
                         dtype, values + BLOCK_ELEMENTS * group);
    }
}

/* Codes that stand for vectors */

static guint32
read_u32 (const guint8 *bytes)
{
  return read_u16 (bytes) | read_u16 (bytes + 2) << 16;
}

/* The sign bits of 8 elements, of which 7 are stored: their number is even. */
static guint
complete_signs (guint32 signs)
{
  guint parity = 0;

  signs &= 0x7f;
  for (guint i = 0; i < 7; i++)
    parity ^= signs >> i & 1;
  return signs | parity << 7;
}

/* scale * magnitude, with a sign where a bit of @signs is set */
static void
scale_magnitudes (const guint8 *magnitudes, gsize n, guint signs, gfloat scale, WeftDtype dtype,
                  gfloat *values)
{
  for (gsize i = 0; i < n; i++)
    values[i] = scale * (gfloat) magnitudes[i] * ((signs >> i & 1) != 0 ? -1.0f : 1.0f);
  round_values (dtype, values, n);
}

/* The 8 elements of 2 bits of a vector of IQ2. */
static void
scale_iq2_vector (guint16 vector, guint signs, gfloat scale, WeftDtype dtype, gfloat *values)
{
  static const guint8 magnitudes[4] = { 8, 25, 43, 0 };
  guint8 elements[8];

  for (gsize i = 0; i < 8; i++)
    elements[i] = magnitudes[vector >> (2 * i) & 3];
  scale_magnitudes (elements, 8, signs, scale, dtype, values);
}

/* What a nibble makes of the scale of scales. */
static gfloat
scale_iq2_group (gfloat scale, guint32 nibble, WeftDtype dtype)
{
  return round_value (dtype, scale * (0.5f + (gfloat) (nibble & 15)) * 0.25f);
}

/* Scale of scales; for each 32 elements 4 vectors of 8, then 4 times 7 signs and 4 bits of scale. */
static void
decode_iq2_xxs (const guint8 *block, WeftDtype dtype, gfloat *values)
{
  gfloat scale = read_scale (block, dtype);

  for (gsize group = 0; group < 8; group++)
    {
      const guint8 *indices = block + F16_BYTES + 8 * group;
      guint32 signs = read_u32 (indices + 4);
      gfloat group_scale = scale_iq2_group (scale, signs >> 28, dtype);

      for (gsize k = 0; k < 4; k++)
        scale_iq2_vector (iq2_xxs_vectors[indices[k]], complete_signs (signs >> (7 * k)), group_scale, dtype,
                          values + 32 * group + 8 * k);
    }
}

/* Scale of scales; 32 vectors of 8, each 9 bits of index and 7 signs; a nibble of scale for each 16 elements. */
static void
decode_iq2_xs (const guint8 *block, WeftDtype dtype, gfloat *values)
{
  const guint8 *indices = block + F16_BYTES, *scales = indices + 64;
  gfloat scale = read_scale (block, dtype);

  for (gsize k = 0; k < 32; k++)
    {
      guint32 code = read_u16 (indices + 2 * k);
      guint32 nibble = scales[k / 4] >> (4 * (k / 2 % 2));

      scale_iq2_vector (iq2_xs_vectors[code & 511], complete_signs (code >> 9),
                        scale_iq2_group (scale, nibble, dtype), dtype, values + 8 * k);
    }
}

/* Scale of scales; 32 vectors of 8, all signs, two upper bits of each index, and a nibble of scale for each 16 elements. */
static void
decode_iq2_s (const guint8 *block, WeftDtype dtype, gfloat *values)
{
  const guint8 *indices = block + F16_BYTES, *signs = indices + 32;
  const guint8 *upper_bits = signs + 32, *scales = upper_bits + 8;
  gfloat scale = read_scale (block, dtype);

  for (gsize k = 0; k < 32; k++)
    {
      guint index = indices[k] | (guint) (upper_bits[k / 4] >> (2 * (k % 4)) & 3) << 8;
      guint32 nibble = scales[k / 4] >> (4 * (k / 2 % 2));

      scale_iq2_vector (iq2_s_vectors[index], signs[k], scale_iq2_group (scale, nibble, dtype), dtype,
                        values + 8 * k);
    }
}

/* The 8 elements of a vector of IQ1, all moved up or down by an eighth. */
static void
scale_iq1_vector (guint index, gboolean is_lower, gfloat scale, WeftDtype dtype, gfloat *values)
{
  for (gsize i = 0; i < 8; i++)
    values[i] = scale * ((gfloat) (iq1_vectors[index] >> (2 * i) & 3) - 1 + (is_lower ? -0.125f : 0.125f));
  round_values (dtype, values, 8);
}

/* Scale of scales; 32 vectors of 8; for each 32 elements three upper bits of 4 indices, 3 bits of scale, the direction. */
static void
decode_iq1_s (const guint8 *block, WeftDtype dtype, gfloat *values)
{
  const guint8 *indices = block + F16_BYTES;
  gfloat scale = read_scale (block, dtype);

  for (gsize k = 0; k < 32; k++)
    {
      guint32 group = read_u16 (indices + 32 + k / 4 * 2);
      guint index = indices[k] | (group >> (3 * (k % 4)) & 7) << 8;

      scale_iq1_vector (index, (group & 0x8000) != 0,
                        round_value (dtype, scale * (gfloat) (2 * (group >> 12 & 7) + 1)), dtype,
                        values + 8 * k);
    }
}

/* 32 vectors of 8; for each a nibble: three upper bits of the index, the direction; for each 16 elements 3 bits of scale, with four
 * of the bits of the scale of scales above four of them. */
static void
decode_iq1_m (const guint8 *block, WeftDtype dtype, gfloat *values)
{
  const guint8 *nibbles = block + 32, *scales = nibbles + 16;
  guint8 packed_scale[2] = { (guint8) (scales[1] >> 4 | (scales[3] & 0xf0)),
                             (guint8) (scales[5] >> 4 | (scales[7] & 0xf0)) };
  gfloat scale = read_scale (packed_scale, dtype);

  for (gsize k = 0; k < 32; k++)
    {
      guint nibble = nibbles[k / 2] >> (4 * (k % 2)) & 15;
      guint32 group = read_u16 (scales + k / 8 * 2) >> (3 * (k / 2 % 4)) & 7;

      scale_iq1_vector (block[k] | (nibble & 7) << 8, (nibble & 8) != 0,
                        round_value (dtype, scale * (gfloat) (2 * group + 1)), dtype, values + 8 * k);
    }
}

/* Scale of scales; 64 vectors of 4; for each 32 elements 4 times 7 signs and 4 bits of scale. */
static void
decode_iq3_xxs (const guint8 *block, WeftDtype dtype, gfloat *values)
{
  static const guint8 magnitudes[8] = { 4, 12, 20, 28, 36, 44, 52, 62 };
  gfloat scale = read_scale (block, dtype);

  for (gsize group = 0; group < 8; group++)
    {
      const guint8 *indices = block + F16_BYTES + 8 * group;
      guint32 signs = read_u32 (block + F16_BYTES + 64 + 4 * group);
      gfloat group_scale = round_value (dtype, scale * (0.5f + (gfloat) (signs >> 28)) * 0.5f);

      for (gsize k = 0; k < 4; k++)
        {
          guint8 vectors[8];

          for (gsize i = 0; i < 8; i++)
            vectors[i] = magnitudes[iq3_xxs_vectors[indices[2 * k + i / 4]] >> (4 * (i % 4)) & 7];
          scale_magnitudes (vectors, 8, complete_signs (signs >> (7 * k)), group_scale, dtype,
                            values + 32 * group + 8 * k);
        }
    }
}

/* Scale of scales; 64 vectors of 4, their ninth bits, all signs, and a nibble of scale for each 32 elements. */
static void
decode_iq3_s (const guint8 *block, WeftDtype dtype, gfloat *values)
{
  const guint8 *indices = block + F16_BYTES, *ninth_bits = indices + 64;
  const guint8 *signs = ninth_bits + 8, *scales = signs + 32;
  gfloat scale = read_scale (block, dtype);

  for (gsize k = 0; k < 32; k++)
    {
      guint code = scales[k / 8] >> (4 * (k / 4 % 2)) & 15;
      gfloat group_scale = round_value (dtype, scale * (gfloat) (1 + 2 * code));
      guint8 vectors[8];

      for (gsize i = 0; i < 8; i++)
        {
          gsize at = 2 * k + i / 4;
          guint index = indices[at] | (guint) (ninth_bits[at / 8] >> at % 8 & 1) << 8;

          vectors[i] = (guint8) (2 * (iq3_s_vectors[index] >> (4 * (i % 4)) & 7) + 1);
        }
      scale_magnitudes (vectors, 8, signs[k], group_scale, dtype, values + 8 * k);
    }
}

/* Encoding: by the reference quantisers of the ggml project. A scale of 0 has a reciprocal of 0. */

static void
write_f16 (guint8 *bytes, gfloat value)
{
  guint32 bits = bits_of_float (round_to_f16 (value));
  guint32 sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
  guint32 code;

  if (magnitude >= F32_INFINITY)
    code = F16_INFINITY | (magnitude > F32_INFINITY ? 0x200 : 0);
  else if (float_from_bits (magnitude) < 0x1p-14f)
    code = (guint32) (float_from_bits (magnitude) * 0x1p24f);
  else
    code = (magnitude - ((127 - 15) << 23)) >> 13;
  bytes[0] = (guint8) (sign | code);
  bytes[1] = (guint8) ((sign | code) >> 8);
}

/* What F16 has no number for becomes its largest. */
static gfloat
limit_to_f16 (gfloat value)
{
  return CLAMP (value, -F16_LARGEST, F16_LARGEST);
}

/* So does one that is so small that there is no number for the reciprocal: in F16 it is 0. */
static gfloat
invert_scale (gfloat scale)
{
  gfloat inverse = 1 / scale;

  return isinf (inverse) ? 0 : inverse;
}

/* Halves away from zero. */
static gfloat
round_half_away (gfloat value)
{
  gfloat magnitude = fabsf (value), floored = floorf (magnitude);

  return copysignf (floored + (magnitude - floored >= 0.5f ? 1 : 0), value);
}

/* The value of the largest magnitude, the first of several. */
static gfloat
find_extreme (const gfloat *values, gsize n_values)
{
  gfloat extreme = values[0];

  for (gsize i = 1; i < n_values; i++)
    extreme = fabsf (values[i]) > fabsf (extreme) ? values[i] : extreme;
  return extreme;
}

/* The inverse of unpack(). */
static void
pack (const guint8 *codes, guint n_bits, gsize run, gsize n_codes, guint shift, guint8 *packed)
{
  const gsize n_planes = 8 / n_bits;
  const guint mask = (1u << n_bits) - 1;

  for (gsize i = 0; i < n_codes; i++)
    {
      gsize plane = i / run;

      packed[plane / n_planes * run + i % run] |=
          (guint8) ((codes[i] >> shift & mask) << (plane % n_planes * n_bits));
    }
}

static guint8
clip_code (gfloat value, gint highest)
{
  return (guint8) (value > 0 ? fminf (value, (gfloat) highest) : 0);
}

/* Codes around the extreme, which gets the lowest one: Q4_0 and Q5_0. */
static gfloat
encode_around_extreme (const gfloat *values, gint n_codes, guint8 *codes)
{
  gfloat scale = limit_to_f16 (find_extreme (values, BLOCK_ELEMENTS) / (gfloat) (-n_codes / 2));
  gfloat inverse = invert_scale (scale);

  for (gsize i = 0; i < BLOCK_ELEMENTS; i++)
    codes[i] = clip_code (values[i] * inverse + ((gfloat) (n_codes / 2) + 0.5f), n_codes - 1);
  return scale;
}

/* Codes from the minimum to the maximum: Q4_1 and Q5_1. */
static gfloat
encode_range (const gfloat *values, gint n_codes, gfloat *minimum, guint8 *codes)
{
  gfloat lowest = values[0], highest = values[0], scale, inverse;

  for (gsize i = 1; i < BLOCK_ELEMENTS; i++)
    {
      lowest = MIN (lowest, values[i]);
      highest = MAX (highest, values[i]);
    }
  lowest = limit_to_f16 (lowest);
  scale = limit_to_f16 ((highest - lowest) / (gfloat) (n_codes - 1));
  inverse = invert_scale (scale);
  for (gsize i = 0; i < BLOCK_ELEMENTS; i++)
    codes[i] = clip_code ((values[i] - lowest) * inverse + 0.5f, n_codes - 1);
  *minimum = lowest;
  return scale;
}

static void
encode_bf16 (const gfloat *values, guint8 *block)
{
  guint32 bits = bits_of_float (isnan (values[0]) ? NAN : round_to_bf16 (values[0]));

  block[0] = (guint8) (bits >> 16);
  block[1] = (guint8) (bits >> 24);
}

static void
encode_q4_0 (const gfloat *values, guint8 *block)
{
  guint8 codes[BLOCK_ELEMENTS];

  write_f16 (block, encode_around_extreme (values, 16, codes));
  pack (codes, 4, 16, BLOCK_ELEMENTS, 0, block + F16_BYTES);
}

static void
encode_q4_1 (const gfloat *values, guint8 *block)
{
  guint8 codes[BLOCK_ELEMENTS];
  gfloat minimum;

  write_f16 (block, encode_range (values, 16, &minimum, codes));
  write_f16 (block + F16_BYTES, minimum);
  pack (codes, 4, 16, BLOCK_ELEMENTS, 0, block + 2 * F16_BYTES);
}

static void
encode_q5_0 (const gfloat *values, guint8 *block)
{
  guint8 codes[BLOCK_ELEMENTS];

  write_f16 (block, encode_around_extreme (values, 32, codes));
  pack (codes, 1, 1, BLOCK_ELEMENTS, 4, block + F16_BYTES);
  pack (codes, 4, 16, BLOCK_ELEMENTS, 0, block + F16_BYTES + 4);
}

static void
encode_q5_1 (const gfloat *values, guint8 *block)
{
  guint8 codes[BLOCK_ELEMENTS];
  gfloat minimum;

  write_f16 (block, encode_range (values, 32, &minimum, codes));
  write_f16 (block + F16_BYTES, minimum);
  pack (codes, 1, 1, BLOCK_ELEMENTS, 4, block + 2 * F16_BYTES);
  pack (codes, 4, 16, BLOCK_ELEMENTS, 0, block + 2 * F16_BYTES + 4);
}

static void
encode_q8_0 (const gfloat *values, guint8 *block)
{
  gfloat scale = limit_to_f16 (fabsf (find_extreme (values, BLOCK_ELEMENTS)) / 127);
  gfloat inverse = invert_scale (scale);

  write_f16 (block, scale);
  for (gsize i = 0; i < BLOCK_ELEMENTS; i++)
    block[F16_BYTES + i] = (guint8) (gint8) CLAMP (round_half_away (values[i] * inverse), -128, 127);
}

/* -1, 0 and 1 as 0, 1 and 2; the largest magnitude is the scale. */
static gfloat
encode_ternary (const gfloat *values, guint8 *codes)
{
  gfloat scale = limit_to_f16 (fabsf (find_extreme (values, SUPER_BLOCK_ELEMENTS)));
  gfloat inverse = invert_scale (scale);

  for (gsize i = 0; i < SUPER_BLOCK_ELEMENTS; i++)
    codes[i] = (guint8) (1 + (gint) CLAMP (round_half_away (values[i] * inverse), -1, 1));
  return scale;
}

/* The inverse of unpack_digits(). */
static const guint8 *
pack_digits (const guint8 *codes, gsize n_bytes, gsize n_digits, guint8 *bytes)
{
  for (gsize i = 0; i < n_bytes; i++)
    {
      guint number = 0;

      for (gsize digit = 0; digit < 5; digit++)
        number = number * 3 + (digit < n_digits ? codes[digit * n_bytes + i] : 0);
      bytes[i] = (guint8) ((number * 256 + (243 - 1)) / 243);
    }
  return codes + n_bytes * n_digits;
}

static void
encode_tq1_0 (const gfloat *values, guint8 *block)
{
  guint8 codes[SUPER_BLOCK_ELEMENTS];
  const guint8 *rest;

  write_f16 (block + 52, encode_ternary (values, codes));
  rest = pack_digits (codes, 32, 5, block);
  rest = pack_digits (rest, 16, 5, block + 32);
  pack_digits (rest, 4, 4, block + 48);
}

static void
encode_tq2_0 (const gfloat *values, guint8 *block)
{
  guint8 codes[SUPER_BLOCK_ELEMENTS];

  write_f16 (block + 64, encode_ternary (values, codes));
  pack (codes, 2, 32, SUPER_BLOCK_ELEMENTS, 0, block);
}

/* The exponent of the largest magnitude, less that of the largest code; the nearest codes, the first of several. */
static void
encode_mxfp4 (const gfloat *values, guint8 *block)
{
  gfloat magnitude = fabsf (find_extreme (values, BLOCK_ELEMENTS)), scale;
  gint exponent = 0;
  guint8 codes[BLOCK_ELEMENTS] = { 0 };

  if (magnitude > 0 && magnitude < INFINITY)
    {
      frexpf (magnitude, &exponent);
      exponent = CLAMP (exponent - 1 - 2 + 127, 0, 254);
    }
  scale = ldexpf (0.5f, exponent - 127);
  for (gsize i = 0; i < BLOCK_ELEMENTS; i++)
    {
      gfloat least = INFINITY;

      for (guint8 code = 0; code < 16; code++)
        {
          gfloat difference = fabsf (scale * (gfloat) e2m1_table[code] - values[i]);

          codes[i] = difference < least ? code : codes[i];
          least = MIN (least, difference);
        }
    }
  block[0] = (guint8) exponent;
  pack (codes, 4, 16, BLOCK_ELEMENTS, 0, block + 1);
}

/* Types */

static const WeftGgufBlockType block_types[] = {
  { "F32", 0, 1, 4, decode_f32, NULL },
  { "F16", 1, 1, 2, decode_f16, NULL },
  { "Q4_0", 2, BLOCK_ELEMENTS, 18, decode_q4_0, encode_q4_0 },
  { "Q4_1", 3, BLOCK_ELEMENTS, 20, decode_q4_1, encode_q4_1 },
  { "Q5_0", 6, BLOCK_ELEMENTS, 22, decode_q5_0, encode_q5_0 },
  { "Q5_1", 7, BLOCK_ELEMENTS, 24, decode_q5_1, encode_q5_1 },
  { "Q8_0", 8, BLOCK_ELEMENTS, 34, decode_q8_0, encode_q8_0 },
  { "Q2_K", 10, SUPER_BLOCK_ELEMENTS, 84, decode_q2_k, NULL },
  { "Q3_K", 11, SUPER_BLOCK_ELEMENTS, 110, decode_q3_k, NULL },
  { "Q4_K", 12, SUPER_BLOCK_ELEMENTS, 144, decode_q4_k, NULL },
  { "Q5_K", 13, SUPER_BLOCK_ELEMENTS, 176, decode_q5_k, NULL },
  { "Q6_K", 14, SUPER_BLOCK_ELEMENTS, 210, decode_q6_k, NULL },
  { "Q8_K", 15, SUPER_BLOCK_ELEMENTS, 292, decode_q8_k, NULL },
  { "IQ2_XXS", 16, SUPER_BLOCK_ELEMENTS, 66, decode_iq2_xxs, NULL },
  { "IQ2_XS", 17, SUPER_BLOCK_ELEMENTS, 74, decode_iq2_xs, NULL },
  { "IQ3_XXS", 18, SUPER_BLOCK_ELEMENTS, 98, decode_iq3_xxs, NULL },
  { "IQ1_S", 19, SUPER_BLOCK_ELEMENTS, 50, decode_iq1_s, NULL },
  { "IQ4_NL", 20, BLOCK_ELEMENTS, 18, decode_iq4_nl, NULL },
  { "IQ3_S", 21, SUPER_BLOCK_ELEMENTS, 110, decode_iq3_s, NULL },
  { "IQ2_S", 22, SUPER_BLOCK_ELEMENTS, 82, decode_iq2_s, NULL },
  { "IQ4_XS", 23, SUPER_BLOCK_ELEMENTS, 136, decode_iq4_xs, NULL },
  { "IQ1_M", 29, SUPER_BLOCK_ELEMENTS, 56, decode_iq1_m, NULL },
  { "BF16", 30, 1, 2, decode_bf16, encode_bf16 },
  { "TQ1_0", 34, SUPER_BLOCK_ELEMENTS, 54, decode_tq1_0, encode_tq1_0 },
  { "TQ2_0", 35, SUPER_BLOCK_ELEMENTS, 66, decode_tq2_0, encode_tq2_0 },
  { "MXFP4", 39, BLOCK_ELEMENTS, 17, decode_mxfp4, encode_mxfp4 },
  { "NVFP4", 40, 64, 36, decode_nvfp4, NULL },
};

const WeftGgufBlockType *
weft_gguf_block_type_from_number (gint64 number)
{
  for (guint i = 0; i < G_N_ELEMENTS (block_types); i++)
    if (block_types[i].number == number)
      return &block_types[i];
  return NULL;
}

const WeftGgufBlockType *
weft_gguf_block_type_from_name (const gchar *name)
{
  for (guint i = 0; i < G_N_ELEMENTS (block_types); i++)
    if (g_str_equal (block_types[i].name, name))
      return &block_types[i];
  return NULL;
}

/* The kernel */

typedef struct
{
  const WeftGgufBlockType *type;
  WeftDtype dtype;
} DequantizeParams;

static void
get_granularity (gconstpointer params, const WeftShape *output, gint64 *block)
{
  block[output->rank - 1] = ((const DequantizeParams *) params)->type->n_elements;
}

static void
get_input_region (gconstpointer params, guint input, const WeftRegion *output, WeftRegion *region)
{
  const WeftGgufBlockType *type = ((const DequantizeParams *) params)->type;
  guint last = output->rank - 1;

  *region = *output;
  region->start[last] = output->start[last] / type->n_elements * type->n_bytes;
  region->extent[last] = output->extent[last] / type->n_elements * type->n_bytes;
}

/* Regions are whole blocks, since rows are. */
static gboolean
compute_values (gconstpointer params, const WeftKernelView *output, const WeftKernelView *inputs,
                guint n_inputs, gpointer scratch, GError **error)
{
  const WeftGgufBlockType *type = ((const DequantizeParams *) params)->type;
  const guint8 *blocks = inputs[0].elements;
  gfloat *values = output->elements;

  for (gint64 i = 0; i < output->n_elements / type->n_elements; i++)
    type->decode (blocks + i * type->n_bytes, ((const DequantizeParams *) params)->dtype,
                  values + i * type->n_elements);
  return TRUE;
}

static const WeftKernel dequantize_kernel = {
  .struct_size = sizeof (WeftKernel),
  .name = "GgufDequantize",
  .get_granularity = get_granularity,
  .get_input_region = get_input_region,
  .compute = compute_values,
};

WeftTensor *
weft_gguf_blocks_dequantize (WeftTensor *rows, const WeftGgufBlockType *type, WeftDtype dtype, GError **error)
{
  WeftShape shape = *weft_tensor_get_shape (rows);
  g_autoptr (WeftTensor) values = NULL;
  DequantizeParams *params;
  gint64 *last = shape.rank > 0 ? &shape.dims[shape.rank - 1] : NULL;

  if (weft_tensor_get_dtype (rows) != WEFT_DTYPE_U8)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_DTYPE, "blocks of %s must be U8, found %s", type->name,
                   weft_dtype_get_name (weft_tensor_get_dtype (rows)));
      return NULL;
    }
  if (last == NULL || *last % type->n_bytes != 0
      || __builtin_mul_overflow (*last / type->n_bytes, type->n_elements, last))
    {
      g_autofree gchar *text = weft_shape_to_string (weft_tensor_get_shape (rows));

      g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE,
                   "rows of shape %s are not whole blocks of %s, which have %" G_GINT64_FORMAT " bytes", text,
                   type->name, type->n_bytes);
      return NULL;
    }
  params = g_new (DequantizeParams, 1);
  *params = (DequantizeParams){ type, dtype };
  values = weft_tensor_new_from_kernel (&dequantize_kernel, params, g_free, WEFT_DTYPE_F32, shape.dims,
                                        shape.rank, &rows, 1, error);
  return values != NULL ? weft_tensor_cast (values, dtype, error) : NULL;
}

/* Encoding as a kernel */

static void
get_encoding_granularity (gconstpointer params, const WeftShape *output, gint64 *block)
{
  block[output->rank - 1] = ((const WeftGgufBlockType *) params)->n_bytes;
}

static void
get_value_region (gconstpointer params, guint input, const WeftRegion *output, WeftRegion *region)
{
  const WeftGgufBlockType *type = params;
  guint last = output->rank - 1;

  *region = *output;
  region->start[last] = output->start[last] / type->n_bytes * type->n_elements;
  region->extent[last] = output->extent[last] / type->n_bytes * type->n_elements;
}

static gboolean
compute_blocks (gconstpointer params, const WeftKernelView *output, const WeftKernelView *inputs,
                guint n_inputs, gpointer scratch, GError **error)
{
  const WeftGgufBlockType *type = params;
  const gfloat *values = inputs[0].elements;
  guint8 *blocks = output->elements;

  memset (blocks, 0, (gsize) output->n_elements);
  for (gint64 i = 0; i < output->n_elements / type->n_bytes; i++)
    type->encode (values + i * type->n_elements, blocks + i * type->n_bytes);
  return TRUE;
}

static const WeftKernel quantize_kernel = {
  .struct_size = sizeof (WeftKernel),
  .name = "GgufQuantize",
  .get_granularity = get_encoding_granularity,
  .get_input_region = get_value_region,
  .compute = compute_blocks,
};

WeftTensor *
weft_gguf_blocks_quantize (WeftTensor *values, const WeftGgufBlockType *type, GError **error)
{
  WeftShape shape = *weft_tensor_get_shape (values);
  gint64 *last = shape.rank > 0 ? &shape.dims[shape.rank - 1] : NULL;
  g_autoptr (WeftTensor) wide = NULL;

  if (type->encode == NULL)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_UNSUPPORTED, "blocks of %s are read only, not made",
                   type->name);
      return NULL;
    }
  if (last == NULL || *last % type->n_elements != 0
      || __builtin_mul_overflow (*last / type->n_elements, type->n_bytes, last))
    {
      g_autofree gchar *text = weft_shape_to_string (weft_tensor_get_shape (values));

      g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE,
                   "rows of shape %s are not whole blocks of %s, which have %" G_GINT64_FORMAT " elements",
                   text, type->name, type->n_elements);
      return NULL;
    }
  wide = weft_tensor_cast (values, WEFT_DTYPE_F32, error);
  if (wide == NULL)
    return NULL;
  return weft_tensor_new_from_kernel (&quantize_kernel, (gpointer) type, NULL, WEFT_DTYPE_U8, shape.dims,
                                      shape.rank, &wide, 1, error);
}
