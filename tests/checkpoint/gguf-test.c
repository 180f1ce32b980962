/* SPDX-License-Identifier: Apache-2.0 */
/* GGUF files: what is read, what is refused, and that no bytes whatever do harm. Files are written as lists of fields: u32, u64,
 * bytes and texts with their lengths. */
#include "weft.h"

#include <glib/gstdio.h>
#include <stdlib.h>
#include <string.h>

#define N_MUTATIONS 3000

typedef struct
{
  gchar *folder;
  gchar *path;
} Fixture;

static void
fixture_set_up (Fixture *fixture, gconstpointer unused)
{
  g_autoptr (GError) error = NULL;

  fixture->folder = g_dir_make_tmp ("weft-gguf-XXXXXX", &error);
  g_assert_no_error (error);
  fixture->path = g_build_filename (fixture->folder, "model.gguf", NULL);
}

static void
fixture_tear_down (Fixture *fixture, gconstpointer unused)
{
  g_remove (fixture->path);
  g_rmdir (fixture->folder);
  g_free (fixture->path);
  g_free (fixture->folder);
}

static void
add_number (GByteArray *bytes, guint64 number, guint n_bytes)
{
  for (guint i = 0; i < n_bytes; i++)
    {
      guint8 byte = (guint8) (number >> (8 * i));

      g_byte_array_append (bytes, &byte, 1);
    }
}

/* Adds fields: `b1`, `w1` (two bytes), `u1` (four), `q1` (eight), `f1.5` (a float), `d1.5` (a double), `'text` (its length and it), `.`
 * (zeros up to a multiple of 32), `z5` (five bytes of 1). */
static GByteArray *
make_file (const gchar *fields)
{
  g_auto (GStrv) words = g_strsplit (fields, " ", -1);
  GByteArray *bytes = g_byte_array_new ();

  for (guint i = 0; words[i] != NULL; i++)
    {
      const gchar *value = words[i] + 1;
      guint64 number = strtoull (value, NULL, 0);
      gdouble real = g_ascii_strtod (value, NULL);
      gfloat single = (gfloat) real;
      guint32 single_bits;
      guint64 double_bits;

      memcpy (&single_bits, &single, sizeof single_bits);
      memcpy (&double_bits, &real, sizeof double_bits);
      switch (words[i][0])
        {
        case 'b':
          add_number (bytes, number, 1);
          break;
        case 'w':
          add_number (bytes, number, 2);
          break;
        case 'u':
          add_number (bytes, number, 4);
          break;
        case 'q':
          add_number (bytes, number, 8);
          break;
        case 'f':
          add_number (bytes, single_bits, 4);
          break;
        case 'd':
          add_number (bytes, double_bits, 8);
          break;
        case '\'':
          add_number (bytes, strlen (value), 8);
          g_byte_array_append (bytes, (const guint8 *) value, (guint) strlen (value));
          break;
        case '.':
          while (bytes->len % 32 != 0)
            add_number (bytes, 0, 1);
          break;
        case 'z':
          for (guint64 k = 0; k < number; k++)
            add_number (bytes, 1, 1);
          break;
        default:
          g_assert_not_reached ();
        }
    }
  return bytes;
}

static WeftGgufFile *
open_bytes (Fixture *fixture, const guint8 *bytes, gsize n_bytes, GError **error)
{
  g_autoptr (GError) write_error = NULL;

  /* What was there would keep its length. */
  g_remove (fixture->path);
  g_file_set_contents_full (fixture->path, (const gchar *) bytes, (gssize) n_bytes, G_FILE_SET_CONTENTS_NONE,
                            0600, &write_error);
  g_assert_no_error (write_error);
  return weft_gguf_file_open (fixture->path, WEFT_IO_BACKEND_PREAD, error);
}

#define MAGIC "u0x46554747 u3 "

/* Every type of value, and tensors of 2 rows of a block of Q8_0, 7 of F32, and one of I8 behind padding. */
static const gchar *const good_file = MAGIC
    "q3 q16 "
    "'a.u8 u0 b200 'a.i8 u1 b0xfd 'a.u16 u2 w60000 'a.i16 u3 w0xfed4 'a.u32 u4 u7 'a.i32 u5 u0xffffffff 'a.f32 u6 f1.5 "
    "'a.bool u7 b1 'a.text u8 'hello 'a.array u9 u8 q2 'x 'yz 'a.u64 u10 q0x8000000000000000 'a.i64 u11 q0xffffffffffffffff "
    "'a.f64 u12 d0.1 'a.nested u9 u9 q1 u5 q2 u1 u2 'a.f32s u9 u6 q2 f1.5 f-2 'a.i8s u9 u1 q2 b0xfe b3 "
    "'blocks u2 q32 q2 u8 q0 'plain u1 q7 u0 q96 'bytes u1 q3 u24 q128 . z68 . z28 . z3";

static const struct
{
  const gchar *name;
  const gchar *printed;
} values[] = {
  { "a.u8", "byte 0xc8" },
  { "a.i8", "int16 -3" },
  { "a.u16", "uint16 60000" },
  { "a.i16", "int16 -300" },
  { "a.u32", "uint32 7" },
  { "a.i32", "-1" },
  { "a.f32", "1.5" },
  { "a.bool", "true" },
  { "a.text", "'hello'" },
  { "a.array", "['x', 'yz']" },
  { "a.u64", "uint64 9223372036854775808" },
  { "a.i64", "int64 -1" },
  { "a.f64", "0.10000000000000001" },
  { "a.nested", "[<[1, 2]>]" },
  { "a.f32s", "[1.5, -2.0]" },
  { "a.i8s", "[int16 -2, 3]" },
};

static void
test_good_file (Fixture *fixture, gconstpointer unused)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GByteArray) bytes = make_file (good_file);
  g_autoptr (WeftGgufFile) file = open_bytes (fixture, bytes->data, bytes->len, &error);
  const WeftShape *shape;

  g_assert_no_error (error);
  for (guint i = 0; i < G_N_ELEMENTS (values); i++)
    {
      GVariant *value = weft_gguf_file_lookup_metadata (file, values[i].name);
      g_autofree gchar *printed = value != NULL ? g_variant_print (value, TRUE) : NULL;

      g_assert_cmpstr (weft_gguf_file_get_metadata_names (file)[i], ==, values[i].name);
      g_assert_cmpstr (printed, ==, values[i].printed);
    }
  g_assert_null (weft_gguf_file_lookup_metadata (file, "absent"));
  g_assert_cmpuint (weft_gguf_file_get_n_tensors (file), ==, 3);
  g_assert_cmpstr (weft_gguf_file_get_tensor_name (file, 0), ==, "blocks");
  g_assert_cmpstr (weft_gguf_file_get_tensor_type (file, 0), ==, "Q8_0");
  shape = weft_tensor_get_shape (weft_gguf_file_get_tensor (file, 0));
  g_assert_cmpint (shape->rank, ==, 2);
  g_assert_cmpint (shape->dims[0], ==, 2);
  g_assert_cmpint (shape->dims[1], ==, 34);
  g_assert_cmpint (weft_tensor_get_dtype (weft_gguf_file_get_tensor (file, 1)), ==, WEFT_DTYPE_F32);
  g_assert_cmpuint (weft_gguf_file_get_tensor_offset (file, 2) % 32, ==, 0);
  g_assert_cmpuint (weft_gguf_file_get_tensor_offset (file, 2) + 3, ==, bytes->len);
}

static const struct
{
  const gchar *fields;
  const gchar *message;
} refused[] = {
  { "u0x46554748 u3 q0 q0", "begins with 'GGUF'" },
  { "u0x46554747 u1 q0 q0", "version 2 or 3" },
  { "u0x46554747 u0x03000000 q0 q0", "version 2 or 3" },
  { "u0x46554747 u3 q0", "end of the file" },
  { MAGIC "q1000000 q0", "do not fit the file" },
  { MAGIC "q0 q0xffffffffffffffff", "do not fit the file" },
  { MAGIC "q0 q1 q0xffffffffffffffff z40", "end of the file" },
  { MAGIC "q0 q1 q0 u0 b1 z40", "expected a name" },
  { MAGIC "q0 q1 'a u13 b1 z40", "type of value below 13" },
  { MAGIC "q0 q1 'a u9 u4 q0x4000000000000000 z40", "does not fit the file" },
  { MAGIC "q0 q1 'a u9 u9 q1 u9 q1 u9 q1 u9 q1 u9 q1 u9 q1 u9 q1 u0 q1 b1 z99", "nest too deep" },
  { MAGIC "q0 q2 'a u0 b1 'a u0 b1 z40", "there twice" },
  { MAGIC "q0 q1 'general.alignment u4 u24 .", "power of two" },
  { MAGIC "q0 q1 'general.alignment u4 u0 .", "power of two" },
  { MAGIC "q0 q1 'general.alignment u8 'x .", "power of two" },
  { MAGIC "q1 q0 't u5 q1 q1 q1 q1 q1 u0 q0 . z4", "up to 4 dims" },
  { MAGIC "q1 q0 't u1 q0x8000000000000000 u0 q0 . z4", "below 2^63" },
  { MAGIC "q1 q0 't u2 q0x100000000 q0x100000000 u0 q0 . z4", "'t'" },
  { MAGIC "q1 q0 't u1 q1 u99 q0 . z4", "type 99 is not known" },
  { MAGIC "q1 q0 't u1 q31 u8 q0 . z34", "whole blocks of Q8_0" },
  { MAGIC "q1 q0 't u0 u8 q0 . z34", "whole blocks of Q8_0" },
  { MAGIC "q1 q0 't u1 q1 u0 q32 . z64", "offset 0, found 32" },
  { MAGIC "q2 q0 't u1 q1 u0 q0 'u u1 q1 u0 q4 . z64", "offset 32, found 4" },
  { MAGIC "q2 q0 't u1 q1 u0 q0 't u1 q1 u0 q32 . z64", "there twice" },
  { MAGIC "q1 q0 't u1 q9 u0 q0 . z35", "beyond the end" },
  { MAGIC "q1 q0 't u1 q1 u0 q0 . z64", "bytes more" },
};

static void
test_refused (Fixture *fixture, gconstpointer unused)
{
  for (guint i = 0; i < G_N_ELEMENTS (refused); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GByteArray) bytes = make_file (refused[i].fields);

      g_test_message ("%s", refused[i].fields);
      g_assert_null (open_bytes (fixture, bytes->data, bytes->len, &error));
      g_assert_nonnull (error);
      g_assert_nonnull (strstr (error->message, refused[i].message));
      g_assert_nonnull (strstr (error->message, "model.gguf"));
    }
}

/* Cut short anywhere, a file is refused; with bytes changed, it is refused or read, and what it then promises is there. */
static void
test_damaged (Fixture *fixture, gconstpointer unused)
{
  g_autoptr (GByteArray) bytes = make_file (good_file);

  for (guint length = 0; length < bytes->len; length++)
    g_assert_null (open_bytes (fixture, bytes->data, length, NULL));
  for (guint i = 0; i < N_MUTATIONS; i++)
    {
      g_autofree guint8 *damaged = g_memdup2 (bytes->data, bytes->len);
      g_autoptr (WeftGgufFile) file = NULL;

      for (gint k = g_test_rand_int_range (1, 4); k > 0; k--)
        damaged[g_test_rand_int_range (0, (gint32) bytes->len)] = (guint8) g_test_rand_int ();
      file = open_bytes (fixture, damaged, bytes->len, NULL);
      for (guint t = 0; file != NULL && t < weft_gguf_file_get_n_tensors (file); t++)
        {
          g_autoptr (GBytes) elements = weft_tensor_read (weft_gguf_file_get_tensor (file, t), NULL, NULL);

          g_assert_nonnull (elements);
        }
    }
}

static void
test_text_made_valid (Fixture *fixture, gconstpointer unused)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GByteArray) bytes = make_file (MAGIC "q0 q1 'a u8 q3 b0x61 b0 b0xff .");
  g_autoptr (WeftGgufFile) file = open_bytes (fixture, bytes->data, bytes->len, &error);

  g_assert_no_error (error);
  g_assert_true (
      g_str_has_prefix (g_variant_get_string (weft_gguf_file_lookup_metadata (file, "a"), NULL), "a"));
}

/* A checkpoint is opened by the file's name. */
static void
test_checkpoint (Fixture *fixture, gconstpointer unused)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GByteArray) bytes = make_file (good_file);
  g_autoptr (WeftGgufFile) file = open_bytes (fixture, bytes->data, bytes->len, &error);
  g_autoptr (WeftCheckpoint) checkpoint = weft_checkpoint_open (fixture->path, NULL, &error);
  g_autoptr (GBytes) header = NULL;
  g_autoptr (WeftStateDict) recorded = weft_state_dict_new ();
  WeftShard *shard;

  g_assert_no_error (error);
  g_assert_nonnull (file);
  g_assert_cmpuint (weft_state_dict_get_n_tensors (weft_checkpoint_get_state_dict (checkpoint)), ==, 3);
  shard = weft_checkpoint_get_shard (checkpoint, 0);
  g_assert_nonnull (weft_shard_get_gguf (shard));
  header = weft_shard_read_header (shard, &error);
  g_assert_no_error (error);
  g_assert_true (weft_shard_scan_recorded_header (header, "model.gguf", recorded, &error));
  g_assert_no_error (error);
  g_assert_cmpuint (weft_state_dict_get_n_tensors (recorded), ==, 3);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
#define ADD(name, function) g_test_add (name, Fixture, NULL, fixture_set_up, function, fixture_tear_down)
  ADD ("/gguf/good-file", test_good_file);
  ADD ("/gguf/refused", test_refused);
  ADD ("/gguf/damaged", test_damaged);
  ADD ("/gguf/text-made-valid", test_text_made_valid);
  ADD ("/gguf/checkpoint", test_checkpoint);
  return g_test_run ();
}
