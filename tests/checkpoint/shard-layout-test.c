/* SPDX-License-Identifier: Apache-2.0 */
/* Which file, which offset, which header bytes. */
#include "fixture-private.h"

#include <unistd.h>

static GHashTable *
metadata_new (const gchar *key, const gchar *value)
{
  GHashTable *metadata = g_hash_table_new (g_str_hash, g_str_equal);

  if (key != NULL)
    g_hash_table_insert (metadata, (gpointer) key, (gpointer) value);
  return metadata;
}

/* Files in their order, tensors in the order of their bytes: "NAME: a b | NAME: c". */
static gchar *
describe (WeftShardLayout *layout)
{
  g_autoptr (GString) text = g_string_new (NULL);

  for (guint i = 0; i < weft_shard_layout_get_n_files (layout); i++)
    {
      g_string_append_printf (text, "%s%s:", i == 0 ? "" : " | ",
                              weft_shard_layout_get_file_name (layout, i));
      for (guint j = 0; j < weft_shard_layout_get_n_tensors (layout, i); j++)
        g_string_append_printf (text, " %s",
                                weft_state_dict_get_name (weft_shard_layout_get_outputs (layout),
                                                          weft_shard_layout_get_tensor (layout, i, j)));
    }
  return g_string_free (g_steal_pointer (&text), FALSE);
}

static gchar *
header_text (WeftShardLayout *layout, guint file)
{
  gsize n_bytes;
  const gchar *json = g_bytes_get_data (weft_shard_layout_get_header (layout, file), &n_bytes);

  return g_strndup (json, n_bytes);
}

/* Headers of the format's reference writer; where padding is not written out here, it goes up to a multiple of 8. @key is a metadata key, "" for an empty map, NULL for none. */
typedef struct
{
  const gchar *name;
  const gchar *outputs;
  const gchar *key;
  const gchar *value;
  const gchar *header;
} HeaderCase;

static const HeaderCase header_cases[] = {
  { "nothing", "", NULL, NULL, "{}      " },
  { "no-padding", "F32[1,2,3] attn.0", NULL, NULL,
    "{\"attn.0\":{\"dtype\":\"F32\",\"shape\":[1,2,3],\"data_offsets\":[0,24]}}" },
  { "seven-spaces", "F32[1,1,2,3] attn0", NULL, NULL,
    "{\"attn0\":{\"dtype\":\"F32\",\"shape\":[1,1,2,3],\"data_offsets\":[0,24]}}       " },
  { "metadata-only", "", "framework", "pt", "{\"__metadata__\":{\"framework\":\"pt\"}}     " },
  { "empty-metadata", "", "", NULL, "{\"__metadata__\":{}}" },
  { "metadata-first", "U8[1] a", "format", "pt",
    "{\"__metadata__\":{\"format\":\"pt\"},\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}" },
  { "dtype-then-name", "F32[1] b, F32[2] a, I64[1] c, F32[1] B", NULL, NULL,
    "{\"c\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[0,8]},\"B\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]},"
    "\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[12,20]},\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[20,24]}}" },
  { "escapes", "U8[1] \"\\\b\t\n\v\f\r\x1f\x7f\xc3\xa9", NULL, NULL,
    "{\"\\\"\\\\\\b\\t\\n\\u000b\\f\\r\\u001f\x7f\xc3\xa9\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}" },
  { "zero-size", "F32[0,3] z, U8[2] a", NULL, NULL,
    "{\"z\":{\"dtype\":\"F32\",\"shape\":[0,3],\"data_offsets\":[0,0]},\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}" },
};

static void
test_header (gconstpointer user_data)
{
  const HeaderCase *c = user_data;
  g_autoptr (WeftStateDict) outputs = fixture_outputs (c->outputs);
  g_autoptr (GHashTable) metadata =
      c->key == NULL ? NULL : metadata_new (*c->key == '\0' ? NULL : c->key, c->value);
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftShardLayout) layout =
      weft_shard_layout_new_by_size (outputs, WEFT_DEFAULT_MAX_SHARD_BYTES, metadata, NULL, &error);
  g_autoptr (GString) expected = g_string_new (c->header);
  g_autofree gchar *header = NULL;

  g_assert_no_error (error);
  while (expected->len % 8 != 0)
    g_string_append_c (expected, ' ');
  header = header_text (layout, 0);
  g_assert_cmpstr (header, ==, expected->str);
}

/* The whole order of dtypes: descending in the format's list. */
static void
test_dtype_order (void)
{
  static const gchar *const descending[] = { "U64",     "I64",         "F64",         "C64",     "F32",
                                             "U32",     "I32",         "BF16",        "F16",     "U16",
                                             "I16",     "F8_E5M2FNUZ", "F8_E4M3FNUZ", "F8_E8M0", "F8_E4M3",
                                             "F8_E5M2", "I8",          "U8",          "F6_E3M2", "F6_E2M3",
                                             "F4",      "BOOL" };
  g_autoptr (WeftStateDict) outputs = weft_state_dict_new ();
  g_autoptr (GString) expected = g_string_new ("model.safetensors:");
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftShardLayout) layout = NULL;
  g_autofree gchar *found = NULL;

  for (guint i = WEFT_DTYPE_BOOL; i < WEFT_N_DTYPES; i++)
    {
      g_autofree guint8 *zeros = g_malloc0 (64);
      g_autoptr (GBytes) bytes = g_bytes_new (zeros, weft_dtype_get_bits ((WeftDtype) i));
      gint64 dims[] = { 8 };
      g_autoptr (WeftTensor) tensor = weft_tensor_new_from_bytes ((WeftDtype) i, dims, 1, bytes, &error);

      g_assert_no_error (error);
      weft_state_dict_add (outputs, weft_dtype_get_name ((WeftDtype) i), tensor, &error);
    }
  for (guint i = 0; i < G_N_ELEMENTS (descending); i++)
    g_string_append_printf (expected, " %s", descending[i]);
  layout = weft_shard_layout_new_by_size (outputs, WEFT_DEFAULT_MAX_SHARD_BYTES, NULL, NULL, &error);
  found = describe (layout);
  g_assert_cmpstr (found, ==, expected->str);
}

typedef struct
{
  const gchar *name;
  const gchar *outputs;
  guint64 max_bytes;
  const gchar *layout;
} SizeCase;

static const SizeCase size_cases[] = {
  { "big-before-filling", "U8[3] a, U8[20] big, U8[3] c", 10,
    "model-00001-of-00002.safetensors: big | model-00002-of-00002.safetensors: a c" },
  { "exactly-full-fits", "U8[4] a, U8[6] b", 10, "model.safetensors: a b" },
  { "one-more-does-not", "U8[4] a, U8[7] b", 10,
    "model-00001-of-00002.safetensors: a | model-00002-of-00002.safetensors: b" },
  { "exactly-the-limit", "U8[10] a, U8[10] b", 10,
    "model-00001-of-00002.safetensors: a | model-00002-of-00002.safetensors: b" },
  { "only-big", "U8[11] a, U8[12] b", 10,
    "model-00001-of-00002.safetensors: a | model-00002-of-00002.safetensors: b" },
  { "empty-tensors", "U8[0] a, U8[10] b, U8[0] c", 10, "model.safetensors: a b c" },
  { "limit-0", "U8[0] a, U8[1] b", 0,
    "model-00001-of-00002.safetensors: b | model-00002-of-00002.safetensors: a" },
  { "nothing", "", 10, "model.safetensors:" },
};

static void
test_size (gconstpointer user_data)
{
  const SizeCase *c = user_data;
  g_autoptr (WeftStateDict) outputs = fixture_outputs (c->outputs);
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftShardLayout) layout =
      weft_shard_layout_new_by_size (outputs, c->max_bytes, NULL, NULL, &error);
  g_autofree gchar *found = NULL;

  g_assert_no_error (error);
  found = describe (layout);
  g_assert_cmpstr (found, ==, c->layout);
  g_assert_cmpint (weft_shard_layout_get_index (layout) != NULL, ==,
                   weft_shard_layout_get_n_files (layout) > 1);
}

static void
test_assigned (void)
{
  const guint shards[] = { 3, 0, 3 };
  g_autoptr (WeftStateDict) outputs = fixture_outputs ("U8[3] b, U8[2] c, U8[1] a");
  g_autoptr (GHashTable) first = metadata_new ("format", "pt");
  g_autoptr (GHashTable) last = metadata_new ("format", "np");
  g_autoptr (GPtrArray) metadata = g_ptr_array_new ();
  g_autoptr (GError) error = NULL;
  g_autoptr (JsonNode) index_metadata =
      weft_json_parse ("{\"z\":[1,{\"q\":null}],\"total_size\":1.5,\"a\":\"x\"}", -1, "test", &error);
  g_autoptr (WeftShardLayout) layout = NULL;
  g_autofree gchar *found = NULL;
  g_autofree gchar *header = NULL;
  g_autofree gchar *index = NULL;

  g_ptr_array_add (metadata, first);
  g_ptr_array_add (metadata, NULL);
  g_ptr_array_add (metadata, NULL);
  g_ptr_array_add (metadata, last);
  layout = weft_shard_layout_new_assigned (outputs, shards, G_N_ELEMENTS (shards), metadata, index_metadata,
                                           &error);
  g_assert_no_error (error);
  found = describe (layout);
  g_assert_cmpstr (found, ==, "model-00001-of-00002.safetensors: c | model-00002-of-00002.safetensors: a b");
  header = header_text (layout, 1);
  g_assert_true (g_str_has_prefix (header, "{\"__metadata__\":{\"format\":\"np\"},\"a\":"));
  g_assert_cmpuint (weft_shard_layout_get_tensor_offset (layout, 1, 1), ==, 8 + strlen (header) + 1);
  g_assert_cmpuint (weft_shard_layout_get_file_size (layout, 1), ==, 8 + strlen (header) + 4);
  index = g_strndup (g_bytes_get_data (weft_shard_layout_get_index (layout), NULL),
                     g_bytes_get_size (weft_shard_layout_get_index (layout)));
  g_assert_cmpstr (weft_shard_layout_get_index_name (layout), ==, "model.safetensors.index.json");
  g_assert_cmpstr (index, ==,
                   "{\n"
                   "  \"metadata\": {\n"
                   "    \"a\": \"x\",\n"
                   "    \"total_parameters\": 6,\n"
                   "    \"total_size\": 6,\n"
                   "    \"z\": [1,{\"q\":null}]\n"
                   "  },\n"
                   "  \"weight_map\": {\n"
                   "    \"a\": \"model-00002-of-00002.safetensors\",\n"
                   "    \"b\": \"model-00002-of-00002.safetensors\",\n"
                   "    \"c\": \"model-00001-of-00002.safetensors\"\n"
                   "  }\n"
                   "}\n");
}

static void
test_index_is_ascii (void)
{
  const guint shards[] = { 0, 1 };
  g_autoptr (WeftStateDict) outputs = fixture_outputs ("U8[1] \xc3\xa9\xf0\x9f\x98\x80\", U8[1] b");
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftShardLayout) layout =
      weft_shard_layout_new_assigned (outputs, shards, 2, NULL, NULL, &error);
  g_autofree gchar *index = NULL;

  g_assert_no_error (error);
  index = g_strndup (g_bytes_get_data (weft_shard_layout_get_index (layout), NULL),
                     g_bytes_get_size (weft_shard_layout_get_index (layout)));
  g_assert_nonnull (
      strstr (index, "    \"\\u00e9\\ud83d\\ude00\\\"\": \"model-00001-of-00002.safetensors\"\n"));
}

/* F54: many tiny tensors pass the header limit long before any size limit. */
static void
test_header_limit (void)
{
  g_autofree gchar *filler = g_strnfill (1000 * 1000, 'n');
  g_autoptr (WeftStateDict) outputs = weft_state_dict_new ();
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftShardLayout) layout = NULL;
  g_autofree guint *shards = g_new0 (guint, 101);

  for (guint i = 0; i < 101; i++)
    {
      g_autofree gchar *name = g_strdup_printf ("%u.%s", i, filler);
      g_autoptr (WeftTensor) tensor = weft_tensor_new_constant (WEFT_DTYPE_U8, NULL, 0, 0, &error);

      weft_state_dict_add (outputs, name, tensor, &error);
    }
  g_assert_null (weft_shard_layout_new_assigned (outputs, shards, 101, NULL, NULL, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_LIMIT);
  g_assert_nonnull (strstr (error->message, "--max-shard-size"));
  g_clear_error (&error);
  layout = weft_shard_layout_new_by_size (outputs, WEFT_DEFAULT_MAX_SHARD_BYTES, NULL, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (weft_shard_layout_get_n_files (layout), >, 1);
  for (guint i = 0; i < weft_shard_layout_get_n_files (layout); i++)
    g_assert_cmpuint (g_bytes_get_size (weft_shard_layout_get_header (layout, i)), <=, 100000000);
}

/* A recorded header is kept to the byte, odd spacing, order and alignment included. */
#define RECORDED \
  " {\"b\": {\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}, \"a\":{\"shape\":[1],\"x\":0,\"dtype\":\"F32\",\"data_offsets\":[1,5]}}"

typedef struct
{
  const gchar *name;
  const gchar *outputs;
  const gchar *files;
  const gchar *headers[2];
  gint code;
  const gchar *message;
} VerbatimCase;

static const VerbatimCase verbatim_cases[] = {
  { "kept", "F32[1] a, U8[1] b", "x.safetensors", { RECORDED }, 0, "x.safetensors: b a" },
  { "missing",
    "F32[1] a",
    "x.safetensors",
    { RECORDED },
    WEFT_ERROR_MISSING,
    "x.safetensors: tensor 'b': expected an output of that name" },
  { "unexpected",
    "F32[1] a, U8[1] b, U8[1] c",
    "x.safetensors",
    { RECORDED },
    WEFT_ERROR_UNEXPECTED,
    "tensor 'c': expected it in one of the recorded headers" },
  { "other-shape",
    "F32[1,1] a, U8[1] b",
    "x.safetensors",
    { RECORDED },
    WEFT_ERROR_SHAPE,
    "tensor 'a': expected dtype and shape of the recorded header" },
  { "other-dtype",
    "I32[1] a, U8[1] b",
    "x.safetensors",
    { RECORDED },
    WEFT_ERROR_SHAPE,
    "found I32 of shape" },
  { "twice",
    "F32[1] a, U8[1] b",
    "x.safetensors y.safetensors",
    { RECORDED, RECORDED },
    WEFT_ERROR_CONFLICT,
    "y.safetensors: tensor 'b': expected each name in one recorded header" },
  { "bad-header", "F32[1] a, U8[1] b", "x.safetensors", { "{" }, WEFT_ERROR_FORMAT, "x.safetensors: byte 9" },
  { "path",
    "F32[1] a, U8[1] b",
    "../x.safetensors",
    { RECORDED },
    WEFT_ERROR_FORMAT,
    "found '../x.safetensors'" },
  { "same-file",
    "F32[1] a, U8[1] b",
    "x.safetensors x.safetensors",
    { RECORDED, RECORDED },
    WEFT_ERROR_FORMAT,
    "differ from each other, found 'x.safetensors'" },
};

static void
test_verbatim (gconstpointer user_data)
{
  const VerbatimCase *c = user_data;
  g_autoptr (WeftStateDict) outputs = fixture_outputs (c->outputs);
  g_auto (GStrv) files = g_strsplit (c->files, " ", -1);
  g_autoptr (GPtrArray) headers = g_ptr_array_new_with_free_func ((GDestroyNotify) g_bytes_unref);
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftShardLayout) layout = NULL;

  for (guint i = 0; files[i] != NULL; i++)
    g_ptr_array_add (headers, g_bytes_new_static (c->headers[i], strlen (c->headers[i])));
  layout =
      weft_shard_layout_new_verbatim (outputs, (const gchar *const *) files, headers, NULL, NULL, &error);
  if (c->code == 0)
    {
      g_autofree gchar *found = NULL;

      g_assert_no_error (error);
      found = describe (layout);
      g_assert_cmpstr (found, ==, c->message);
      g_assert_true (
          g_bytes_equal (weft_shard_layout_get_header (layout, 0), g_ptr_array_index (headers, 0)));
      g_assert_cmpuint (weft_shard_layout_get_tensor_offset (layout, 0, 1), ==, 8 + strlen (RECORDED) + 1);
      g_assert_cmpuint (weft_shard_layout_get_file_size (layout, 0), ==, 8 + strlen (RECORDED) + 5);
      return;
    }
  g_assert_null (layout);
  g_assert_error (error, WEFT_ERROR, c->code);
  if (strstr (error->message, c->message) == NULL)
    g_error ("expected '%s' in '%s'", c->message, error->message);
}

/* A tensor that stands in a file at @source, and the offset in its page that it gets behind a small one; -1 where the header
 * keeps the padding of the format's writer. */
typedef struct
{
  const gchar *name;
  guint64 n_bytes;
  guint64 source;
  gint page_offset;
} PageCase;

#define MIB (1024 * 1024)

static const PageCase page_cases[] = {
  { "begin-of-page", MIB, 8192, 0 },       { "end-of-page", MIB, 4088, 4088 },
  { "amid-a-page", MIB, 4096 + 904, 904 }, { "too-few-bytes", MIB - 1, 4096 + 904, -1 },
  { "source-unaligned", MIB, 4099, -1 },
};

static WeftTensor *
make_extent (const gchar *folder, guint64 n_bytes, guint64 offset)
{
  g_autofree gchar *path = g_build_filename (folder, "source", NULL);
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftFile) file = NULL;
  gint64 dims[] = { (gint64) n_bytes };
  WeftTensor *tensor;

  fixture_write (folder, "source", "", 0);
  g_assert_cmpint (truncate (path, (off_t) (offset + n_bytes)), ==, 0);
  file = weft_file_open (path, WEFT_IO_BACKEND_PREAD, &error);
  g_assert_no_error (error);
  tensor = weft_tensor_new_from_file (WEFT_DTYPE_U8, dims, 1, file, offset, &error);
  g_assert_no_error (error);
  return tensor;
}

static void
test_page_offset (gconstpointer user_data)
{
  const PageCase *c = user_data;
  g_autofree gchar *folder = fixture_folder ();
  g_autoptr (WeftTensor) tensor = make_extent (folder, c->n_bytes, c->source);
  g_autoptr (WeftStateDict) outputs = fixture_outputs ("F32[6] small");
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftShardLayout) layout = NULL;
  g_autofree gchar *header = NULL;
  guint64 first;

  weft_state_dict_add (outputs, "big", tensor, &error);
  layout = weft_shard_layout_new_by_size (outputs, WEFT_DEFAULT_MAX_SHARD_BYTES, NULL, NULL, &error);
  g_assert_no_error (error);
  header = header_text (layout, 0);
  first = weft_shard_layout_get_tensor_offset (layout, 0, 0);
  g_assert_cmpuint (first, ==, 8 + strlen (header));
  g_assert_cmpuint (first % 8, ==, 0);
  if (c->page_offset < 0)
    g_assert_cmpuint (first, <, 8 + strlen (g_strchomp (header)) + 8);
  else
    g_assert_cmpuint (weft_shard_layout_get_tensor_offset (layout, 0, 1) % 4096, ==,
                      (guint64) c->page_offset);
  fixture_remove_tree (folder);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (header_cases); i++)
    {
      g_autofree gchar *path = g_strconcat ("/shard-layout/header/", header_cases[i].name, NULL);
      g_test_add_data_func (path, &header_cases[i], test_header);
    }
  for (guint i = 0; i < G_N_ELEMENTS (size_cases); i++)
    {
      g_autofree gchar *path = g_strconcat ("/shard-layout/by-size/", size_cases[i].name, NULL);
      g_test_add_data_func (path, &size_cases[i], test_size);
    }
  for (guint i = 0; i < G_N_ELEMENTS (verbatim_cases); i++)
    {
      g_autofree gchar *path = g_strconcat ("/shard-layout/verbatim/", verbatim_cases[i].name, NULL);
      g_test_add_data_func (path, &verbatim_cases[i], test_verbatim);
    }
  for (guint i = 0; i < G_N_ELEMENTS (page_cases); i++)
    {
      g_autofree gchar *path = g_strconcat ("/shard-layout/page-offset/", page_cases[i].name, NULL);
      g_test_add_data_func (path, &page_cases[i], test_page_offset);
    }
  g_test_add_func ("/shard-layout/dtype-order", test_dtype_order);
  g_test_add_func ("/shard-layout/assigned", test_assigned);
  g_test_add_func ("/shard-layout/index-is-ascii", test_index_is_ascii);
  g_test_add_func ("/shard-layout/header-limit", test_header_limit);
  return g_test_run ();
}
