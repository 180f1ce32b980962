/* SPDX-License-Identifier: Apache-2.0 */
/* The tables are the rules of the safetensors header, in the order in which they are checked. */
#include <string.h>

#include "base/weft-shape.h"
#include "checkpoint/weft-header-scanner-private.h"

/* A file whose length field fits its JSON, followed by @n_data bytes. */
static WeftHeader *
scan_json (const gchar *json, gsize n_json, guint64 n_data, GError **error)
{
  return weft_header_scan (json, n_json, n_data, "x.safetensors", error);
}

typedef struct
{
  const gchar *name;
  const gchar *bytes;
  gsize n_bytes;
  const gchar *message;
} LengthCase;

#define BYTES(text) text, sizeof (text) - 1

static const LengthCase length_cases[] = {
  { "empty", BYTES (""), "found a file of 0 bytes" },
  { "7-bytes", BYTES ("\0\0\0\0\0\0\0"), "found a file of 7 bytes" },
  { "size-before-length", BYTES ("\x3c\0\0\0\0\xff\xff\xff.........."),
    "at most 100000000 bytes, found a length of 18446742974197923900" },
  { "limit-is-inclusive", BYTES ("\x00\xe1\xf5\x05\0\0\0\0"),
    "expected a header of 100000000 bytes, found only 0" },
  { "above-limit", BYTES ("\x01\xe1\xf5\x05\0\0\0\0"), "found a length of 100000001" },
  { "nothing-after", BYTES ("\x3c\0\0\0\0\0\0\0"), "expected a header of 60 bytes, found only 0" },
};

static void
test_length (gconstpointer user_data)
{
  const LengthCase *c = user_data;
  g_autoptr (GError) error = NULL;
  gsize n_bytes;

  g_assert_false (
      weft_header_read_length ((const guint8 *) c->bytes, c->n_bytes, "x.safetensors", &n_bytes, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT);
  g_assert_true (g_str_has_prefix (error->message, "x.safetensors: byte 0: "));
  g_assert_nonnull (strstr (error->message, c->message));
}

typedef struct
{
  const gchar *name;
  const gchar *json;
  gsize n_json;
  guint64 n_data;
  const gchar *message;
} RefusedCase;

#define E(dtype, shape, offsets) "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"
#define ONE(dtype, shape, offsets) "{\"a\":" E (dtype, shape, offsets) "}"
#define EIGHT_BYTES E ("I32", "[2]", "[0,8]")

static const RefusedCase refused_cases[] = {
  /* 4: UTF-8 */
  { "not-utf8", BYTES ("\xff"), 0, "byte 8: expected UTF-8, found byte 0xFF" },
  { "overlong", BYTES ("{\"\xc0\xaf\":1}"), 0, "byte 10: expected UTF-8" },
  { "surrogate", BYTES ("{\"\xed\xa0\x80\":1}"), 0, "byte 10: expected UTF-8" },
  { "utf8-before-json", BYTES ("[,\0\xff"), 0, "byte 11: expected UTF-8" },
  { "cut-character", BYTES ("{\"aaaaaaaaaaaa\xe2\x82"), 0, "byte 22: expected UTF-8" },
  /* 5: grammar */
  { "brace", BYTES ("{"), 0, "byte 9: expected a name in quotes, found the end of the text" },
  { "nothing", BYTES (""), 0, "expected a JSON object, found the end of the text" },
  { "array", BYTES ("[]"), 0, "byte 8: expected a JSON object, found '['" },
  { "null", BYTES ("null"), 0, "expected a JSON object, found 'null'" },
  { "bom", BYTES ("\xef\xbb\xbf{}"), 0, "expected a JSON object, found byte 0xEF" },
  { "nul-padding", BYTES ("{}\0"), 0, "byte 10: expected nothing more after the object, found byte 0x00" },
  { "vertical-tab", BYTES ("{}\v"), 0, "expected nothing more" },
  { "second-object", BYTES ("{}{}"), 0, "expected nothing more" },
  { "trailing-comma", BYTES ("{\"a\":" EIGHT_BYTES ",}"), 8, "expected a name in quotes, found '}'" },
  { "leading-comma", BYTES ("{,\"a\":" EIGHT_BYTES "}"), 8, "expected a name in quotes, found ','" },
  { "no-colon", BYTES ("{\"a\"}"), 0, "expected ':', found '}'" },
  { "unclosed-name", BYTES ("{\"a"), 0, "the end of a text" },
  { "newline-in-name", BYTES ("{\"a\n\":1}"), 0, "byte 11: expected the end of a text" },
  { "bad-escape", BYTES ("{\"\\x\":1}"), 0, "byte 10: expected one of the escapes" },
  { "short-unicode", BYTES ("{\"\\u00g0\":1}"), 0, "four hexadecimal digits" },
  { "lone-high", BYTES ("{\"\\ud83d\":1}"), 0, "a low surrogate after the high one" },
  { "high-high", BYTES ("{\"\\ud83d\\ud83d\":1}"), 0, "a low surrogate after the high one" },
  { "lone-low", BYTES ("{\"\\ude00\":1}"), 0, "no low surrogate" },
  { "nul-in-name", BYTES ("{\"\\u0000\":1}"), 0, "without the character U+0000" },
  { "entry-is-array", BYTES ("{\"a\":[\"I32\",[1],[0,4]]}"), 4,
    "byte 13: tensor 'a': expected an object with dtype, shape and data_offsets, found '['" },
  { "entry-is-number", BYTES ("{\"a\":1}"), 0, "tensor 'a': expected an object" },
  /* 5: fields */
  { "no-dtype", BYTES ("{\"a\":{\"shape\":[],\"data_offsets\":[0,4]}}"), 4,
    "tensor 'a': expected the field dtype" },
  { "no-shape", BYTES ("{\"a\":{\"dtype\":\"I32\",\"data_offsets\":[0,4]}}"), 4,
    "tensor 'a': expected the field shape" },
  { "no-offsets", BYTES ("{\"a\":{\"dtype\":\"I32\",\"shape\":[]}}"), 4,
    "tensor 'a': expected the field data_offsets" },
  { "field-twice", BYTES ("{\"a\":{\"shape\":[],\"dtype\":\"I32\",\"shape\":[],\"data_offsets\":[0,4]}}"), 4,
    "each field once" },
  { "dtype-unknown", BYTES (ONE ("I33", "[1]", "[0,4]")), 4,
    "byte 22: tensor 'a': expected a dtype of the format, such as \"BF16\", found '\"I33'" },
  { "dtype-lower-case", BYTES (ONE ("i32", "[1]", "[0,4]")), 4, "found '\"i32'" },
  { "dtype-empty", BYTES (ONE ("", "[1]", "[0,4]")), 4, "expected a dtype" },
  { "dtype-long", BYTES (ONE ("F8_E4M3FNUZ_AND_MORE", "[1]", "[0,4]")), 4, "expected a dtype" },
  { "dtype-no-text", BYTES ("{\"a\":{\"dtype\":7}}"), 4, "expected a dtype in quotes, found '7'" },
  { "shape-no-list", BYTES (ONE ("I32", "1", "[0,4]")), 4, "expected a shape in brackets, found '1'" },
  { "dim-negative", BYTES (ONE ("I32", "[-1]", "[0,4]")), 4, "an unsigned 64-bit integer, found '-1'" },
  { "dim-fraction", BYTES (ONE ("I32", "[1.0]", "[0,4]")), 4, "an unsigned 64-bit integer, found '1.0'" },
  { "dim-exponent", BYTES (ONE ("I32", "[1e0]", "[0,4]")), 4, "an unsigned 64-bit integer, found '1e0'" },
  { "dim-minus-zero", BYTES (ONE ("I32", "[-0]", "[0,0]")), 0, "an unsigned 64-bit integer, found '-0'" },
  { "dim-2-to-64", BYTES (ONE ("I32", "[18446744073709551616]", "[0,4]")), 4, "an unsigned 64-bit integer" },
  { "dim-leading-zero", BYTES (ONE ("I32", "[01]", "[0,4]")), 4, "an unsigned 64-bit integer, found '01'" },
  { "dim-text", BYTES (ONE ("I32", "[\"1\"]", "[0,4]")), 4, "an unsigned 64-bit integer, found '\"1'" },
  { "dim-trailing-comma", BYTES (ONE ("I32", "[1,]", "[0,4]")), 4, "an unsigned 64-bit integer, found ']'" },
  { "three-offsets", BYTES (ONE ("I32", "[1]", "[0,4,4]")), 4, "']' after two offsets, found ','" },
  { "one-offset", BYTES (ONE ("I32", "[1]", "[0]")), 4, "a second offset, found ']'" },
  { "extra-not-json", BYTES ("{\"a\":{\"x\":tru}}"), 0, "expected a JSON value, found 'tru'" },
  { "extra-number", BYTES ("{\"a\":{\"x\":1.}}"), 0, "expected a JSON value, found '1.'" },
  { "extra-minus", BYTES ("{\"a\":{\"x\":-}}"), 0, "expected a JSON value, found '-'" },
  { "extra-list", BYTES ("{\"a\":{\"x\":[1 2]}}"), 0, "expected ',' or ']', found '2'" },
  /* 5: metadata */
  { "metadata-no-object", BYTES ("{\"__metadata__\":7}"), 0, "an object of texts, or null" },
  { "metadata-number", BYTES ("{\"__metadata__\":{\"a\":1}}"), 0,
    "a text as value in __metadata__, found '1'" },
  { "metadata-null-value", BYTES ("{\"__metadata__\":{\"a\":null}}"), 0, "a text as value in __metadata__" },
  { "metadata-twice", BYTES ("{\"__metadata__\":{},\"__metadata__\":{}}"), 0, "__metadata__ once" },
  { "metadata-twice-null", BYTES ("{\"__metadata__\":null,\"__met\\u0061data__\":{}}"), 0,
    "__metadata__ once" },
  { "metadata-key-twice", BYTES ("{\"__metadata__\":{\"a\":\"1\",\"a\":\"1\"}}"), 0,
    "each key of __metadata__ once" },
  /* Weft refuses duplicates of any range. */
  { "name-twice", BYTES ("{\"a\":" E ("I32", "[1]", "[0,4]") ",\"a\":" E ("I32", "[1]", "[4,8]") "}"), 8,
    "tensor 'a': expected each name once, found it at byte 9 already" },
  { "name-twice-same-range",
    BYTES ("{\"a\":" E ("I32", "[1]", "[0,4]") ",\"\\u0061\":" E ("I32", "[1]", "[0,4]") "}"), 4,
    "byte 62: tensor 'a': expected each name once" },
  /* 6: offsets */
  { "first-not-at-0", BYTES (ONE ("I32", "[1]", "[4,8]")), 8,
    "byte 9: tensor 'a': expected bytes that begin at 0, where the tensor before ends, found I32 of shape [1] at data_offsets [4, 8]" },
  { "hole", BYTES ("{\"a\":" E ("I32", "[1]", "[0,4]") ",\"b\":" E ("I32", "[1]", "[8,12]") "}"), 12,
    "tensor 'b': expected bytes that begin at 4" },
  { "overlap", BYTES ("{\"b\":" E ("I32", "[2]", "[4,12]") ",\"a\":" EIGHT_BYTES "}"), 12,
    "tensor 'b': expected bytes that begin at 8" },
  { "same-range", BYTES ("{\"a\":" E ("I32", "[4]", "[0,16]") ",\"b\":" E ("I32", "[4]", "[0,16]") "}"), 16,
    "tensor 'b': expected bytes that begin at 16" },
  { "end-before-begin", BYTES (ONE ("I32", "[1]", "[4,0]")), 4,
    "tensor 'a': expected bytes that begin at 0" },
  { "ends-before-it-begins",
    BYTES ("{\"a\":" E ("I32", "[1]", "[0,4]") ",\"b\":" E ("I32", "[1]", "[4,0]") "}"), 4,
    "tensor 'b': expected bytes that end after they begin" },
  { "empty-inside", BYTES ("{\"a\":" EIGHT_BYTES ",\"b\":" E ("I32", "[0]", "[4,4]") "}"), 8,
    "tensor 'b': expected bytes that begin at 8" },
  { "offset-before-overflow-of-second",
    BYTES ("{\"b\":" E ("I32", "[4294967296,4294967296]", "[8,12]") ",\"a\":" E ("I32", "[1]", "[4,8]") "}"),
    12, "tensor 'a': expected bytes that begin at 0" },
  /* 7: overflow */
  { "overflow-dims", BYTES (ONE ("I32", "[2,18446744073709551614]", "[0,4]")), 4,
    "tensor 'a': expected a shape with fewer than 2^64 bits" },
  { "overflow-bits", BYTES (ONE ("I32", "[2,9223372036854775807]", "[0,4]")), 4, "fewer than 2^64 bits" },
  { "overflow-before-zero", BYTES (ONE ("I32", "[9223372036854775808,4,0]", "[0,0]")), 0,
    "fewer than 2^64 bits" },
  /* 8: whole bytes */
  { "half-byte", BYTES (ONE ("F4", "[1,3]", "[0,2]")), 2,
    "tensor 'a': expected a shape that fills whole bytes" },
  { "f6", BYTES (ONE ("F6_E3M2", "[3]", "[0,2]")), 2, "fills whole bytes" },
  /* 9: size */
  { "size-before-file-length", BYTES (ONE ("I32", "[2,2]", "[0,4]")), 0,
    "tensor 'a': expected 16 bytes, as dtype and shape give" },
  /* 10: the end of the file */
  { "one-byte-more", BYTES (ONE ("I32", "[1]", "[0,4]")), 5,
    "byte 62: expected 4 bytes after the header, found 5; the file was extended" },
  { "two-bytes-less", BYTES (ONE ("I32", "[1]", "[0,4]")), 2,
    "expected 4 bytes after the header, found 2; the file was cut off" },
  { "byte-after-nothing", BYTES ("{}"), 1, "byte 10: expected 0 bytes after the header, found 1" },
};

static void
test_refused (gconstpointer user_data)
{
  const RefusedCase *c = user_data;
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftHeader) header = scan_json (c->json, c->n_json, c->n_data, &error);

  g_assert_null (header);
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT);
  g_assert_true (g_str_has_prefix (error->message, "x.safetensors: byte "));
  if (strstr (error->message, c->message) == NULL)
    g_error ("expected '%s' in '%s'", c->message, error->message);
}

/* Every prefix of a valid header is refused, and no bytes past its end are looked at. */
static void
test_every_prefix (void)
{
  static const gchar json[] =
      "{\"__metadata__\":{\"k\":\"\\ud83d\\ude00\"},\"a\\n\":{\"dtype\":\"I32\",\"x\":[{},-1.5e+3,true],"
      "\"shape\":[1],\"data_offsets\":[0,4]}}";

  for (gsize n = 0; n < sizeof json - 1; n++)
    {
      g_autofree gchar *copy = g_memdup2 (json, MAX (n, 1));
      g_autoptr (GError) error = NULL;

      g_assert_null (scan_json (copy, n, 4, &error));
      g_assert_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT);
    }
}

typedef struct
{
  const gchar *name;
  const gchar *json;
  guint64 n_data;
  const gchar *tensors;
} AcceptedCase;

static const AcceptedCase accepted_cases[] = {
  { "empty", "{}\r \t\n", 0, "" },
  { "space-before", "\t\n{}\r ", 0, "" },
  { "metadata-null", "{\"__metadata__\":null}", 0, "" },
  { "scalar", ONE ("I32", "[]", "[0,4]"), 4, "a I32 [] 0-4" },
  { "spaces", " { \"a\" : { \"shape\" : [ 1 , 2 ] , \"data_offsets\" : [ 0 , 8 ] , \"dtype\" : \"F32\" } } ",
    8, "a F32 [1,2] 0-8" },
  { "empty-name", "{\"\":" E ("U8", "[3]", "[0,3]") "}", 3, " U8 [3] 0-3" },
  { "escaped-name", "{\"\\u0061\\u00e9\\ud83d\\ude00\\/\":" E ("U8", "[3]", "[0,3]") "}", 3,
    "a\xc3\xa9\xf0\x9f\x98\x80/ U8 [3] 0-3" },
  { "raw-name", "{\"\xc3\xa9\xf0\x9f\x98\x80\":" E ("U8", "[3]", "[0,3]") "}", 3,
    "\xc3\xa9\xf0\x9f\x98\x80 U8 [3] 0-3" },
  { "extra-fields",
    "{\"a\":{\"dtype\":\"U8\",\"x\":{\"y\":[1,-2.5e-3,\"z\",null,{}]},\"shape\":[1],\"data_offsets\":[0,1],\"x\":0}}",
    1, "a U8 [1] 0-1" },
  { "order-is-free", "{\"b\":" E ("U8", "[1]", "[4,5]") ",\"a\":" E ("I32", "[1]", "[0,4]") "}", 5,
    "a I32 [1] 0-4, b U8 [1] 4-5" },
  { "empty-on-a-seam",
    "{\"b\":" E ("I32", "[1]", "[4,8]") ",\"e\":" E ("I32", "[0,7]", "[4,4]") ",\"a\":" E ("I32", "[1]",
                                                                                           "[0,4]") "}",
    8, "a I32 [1] 0-4, e I32 [0,7] 4-4, b I32 [1] 4-8" },
  { "zero-before-overflow", ONE ("I32", "[0,9223372036854775808,4]", "[0,0]"), 0,
    "a I32 [0,9223372036854775808,4] 0-0" },
  { "f4", ONE ("F4", "[1,2]", "[0,1]"), 1, "a F4 [1,2] 0-1" },
  { "f6", ONE ("F6_E2M3", "[4]", "[0,3]"), 3, "a F6_E2M3 [4] 0-3" },
  { "unaligned", "{\"a\":" E ("U8", "[1]", "[0,1]") ",\"b\":" E ("F64", "[1]", "[1,9]") "}", 9,
    "a U8 [1] 0-1, b F64 [1] 1-9" },
  { "rank-16", ONE ("U8", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "[0,1]"), 1,
    "a U8 [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1] 0-1" },
};

static gchar *
describe_tensors (const WeftHeader *header)
{
  g_autoptr (GString) text = g_string_new (NULL);

  for (guint i = 0; i < header->entries->len; i++)
    {
      const WeftHeaderEntry *entry = &g_array_index (header->entries, WeftHeaderEntry, i);

      g_string_append_printf (text, "%s%s %s [", i == 0 ? "" : ", ", entry->name,
                              weft_dtype_get_name ((WeftDtype) entry->dtype));
      for (guint j = 0; j < entry->rank; j++)
        g_string_append_printf (text, "%s%" G_GUINT64_FORMAT, j == 0 ? "" : ",",
                                g_array_index (header->dims, guint64, entry->dims_start + j));
      g_string_append_printf (text, "] %" G_GUINT64_FORMAT "-%" G_GUINT64_FORMAT, entry->begin, entry->end);
    }
  return g_string_free (g_steal_pointer (&text), FALSE);
}

static void
test_accepted (gconstpointer user_data)
{
  const AcceptedCase *c = user_data;
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftHeader) header = scan_json (c->json, strlen (c->json), c->n_data, &error);
  g_autofree gchar *tensors = NULL;

  g_assert_no_error (error);
  g_assert_nonnull (header);
  tensors = describe_tensors (header);
  g_assert_cmpstr (tensors, ==, c->tensors);
}

static void
test_every_dtype (void)
{
  for (guint i = WEFT_DTYPE_BOOL; i < WEFT_N_DTYPES; i++)
    {
      g_autofree gchar *json =
          g_strdup_printf ("{\"a\":{\"dtype\":\"%s\",\"shape\":[8],\"data_offsets\":[0,%u]}}",
                           weft_dtype_get_name ((WeftDtype) i), weft_dtype_get_bits ((WeftDtype) i));
      g_autoptr (GError) error = NULL;
      g_autoptr (WeftHeader) header =
          scan_json (json, strlen (json), weft_dtype_get_bits ((WeftDtype) i), &error);

      g_assert_no_error (error);
      g_assert_cmpuint (g_array_index (header->entries, WeftHeaderEntry, 0).dtype, ==, i);
    }
}

static void
test_metadata (void)
{
  static const gchar json[] = "{\"__metadata__\":{\"format\":\"pt\",\"a\\tb\":\"\"}}";
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftHeader) header = scan_json (json, sizeof json - 1, 0, &error);

  g_assert_no_error (error);
  g_assert_cmpuint (g_hash_table_size (header->metadata), ==, 2);
  g_assert_cmpstr (g_hash_table_lookup (header->metadata, "format"), ==, "pt");
  g_assert_cmpstr (g_hash_table_lookup (header->metadata, "a\tb"), ==, "");
}

static void
test_rank_limit (void)
{
  static const gchar json[] = ONE ("U8", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "[0,1]");
  g_autoptr (GError) error = NULL;

  g_assert_null (scan_json (json, sizeof json - 1, 1, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_LIMIT);
  g_assert_nonnull (strstr (error->message, "tensor 'a': expected a shape of at most 16 dims"));
}

static void
test_nesting (void)
{
  for (guint levels = 125; levels <= 126; levels++)
    {
      g_autofree gchar *open = g_strnfill (levels, '[');
      g_autofree gchar *close = g_strnfill (levels, ']');
      g_autofree gchar *json = g_strdup_printf (
          "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"x\":%s%s}}", open, close);
      g_autoptr (GError) error = NULL;
      g_autoptr (WeftHeader) header = scan_json (json, strlen (json), 1, &error);

      g_assert_cmpint (header != NULL, ==, levels == 125);
      if (header == NULL)
        g_assert_nonnull (strstr (error->message, "at most 127 levels"));
    }
}

/* The size of a large mixture-of-experts header. The bound is loose on purpose: it fails when scanning turns quadratic. */
static void
test_many_tensors (void)
{
  const guint n_tensors = 90000;
  g_autoptr (GString) json = g_string_new ("{");
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftHeader) header = NULL;
  gint64 start;

  for (guint i = 0; i < n_tensors; i++)
    g_string_append_printf (
        json,
        "%s\"model.layers.%u.mlp.experts.%u.gate_proj.weight\":{\"dtype\":\"BF16\",\"shape\":[2,2],"
        "\"data_offsets\":[%u,%u]}",
        i == 0 ? "" : ",", i / 256, i % 256, i * 8, i * 8 + 8);
  g_string_append_c (json, '}');
  start = g_get_monotonic_time ();
  header = scan_json (json->str, json->len, n_tensors * 8, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (header->entries->len, ==, n_tensors);
  start = g_get_monotonic_time () - start;
  g_test_message ("%u tensors in %" G_GSIZE_FORMAT " bytes: %.1f ms", n_tensors, json->len,
                  (gdouble) start / 1e3);
  g_assert_cmpint (start, <, 5 * G_USEC_PER_SEC);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (length_cases); i++)
    {
      g_autofree gchar *path = g_strconcat ("/header-scanner/length/", length_cases[i].name, NULL);
      g_test_add_data_func (path, &length_cases[i], test_length);
    }
  for (guint i = 0; i < G_N_ELEMENTS (refused_cases); i++)
    {
      g_autofree gchar *path = g_strconcat ("/header-scanner/refused/", refused_cases[i].name, NULL);
      g_test_add_data_func (path, &refused_cases[i], test_refused);
    }
  for (guint i = 0; i < G_N_ELEMENTS (accepted_cases); i++)
    {
      g_autofree gchar *path = g_strconcat ("/header-scanner/accepted/", accepted_cases[i].name, NULL);
      g_test_add_data_func (path, &accepted_cases[i], test_accepted);
    }
  g_test_add_func ("/header-scanner/every-prefix", test_every_prefix);
  g_test_add_func ("/header-scanner/every-dtype", test_every_dtype);
  g_test_add_func ("/header-scanner/metadata", test_metadata);
  g_test_add_func ("/header-scanner/rank-limit", test_rank_limit);
  g_test_add_func ("/header-scanner/nesting", test_nesting);
  g_test_add_func ("/header-scanner/many-tensors", test_many_tensors);
  return g_test_run ();
}
