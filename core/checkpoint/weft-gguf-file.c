/* SPDX-License-Identifier: Apache-2.0 */
/* The layout is that of the format's description (docs/gguf.md of the ggml project): magic, version, counts, metadata, a
 * table of tensors, and their elements, each tensor at the next multiple of the alignment after the one before. */
#include "checkpoint/weft-gguf-file.h"

#include <string.h>

#include "checkpoint/weft-gguf-reader-private.h"

#define MAGIC 0x46554747 /* "GGUF", little-endian */
#define MIN_VERSION 2
#define MAX_VERSION 3
#define DEFAULT_ALIGNMENT 32
#define MAX_ALIGNMENT 65536
#define MAX_DIMS 4
/* The least that a tensor and a value take in the table. */
#define MIN_TENSOR_BYTES 25
#define MIN_VALUE_BYTES 14

typedef struct
{
  const gchar *name;
  guint32 number;
  WeftDtype dtype; /* INVALID: blocks */
  gint64 n_elements;
  gint64 n_bytes;
} Type;

static const Type types[] = {
  { "F32", 0, WEFT_DTYPE_F32, 1, 4 },
  { "F16", 1, WEFT_DTYPE_F16, 1, 2 },
  { "Q4_0", 2, WEFT_DTYPE_INVALID, 32, 18 },
  { "Q4_1", 3, WEFT_DTYPE_INVALID, 32, 20 },
  { "Q5_0", 6, WEFT_DTYPE_INVALID, 32, 22 },
  { "Q5_1", 7, WEFT_DTYPE_INVALID, 32, 24 },
  { "Q8_0", 8, WEFT_DTYPE_INVALID, 32, 34 },
  { "Q8_1", 9, WEFT_DTYPE_INVALID, 32, 36 },
  { "Q2_K", 10, WEFT_DTYPE_INVALID, 256, 84 },
  { "Q3_K", 11, WEFT_DTYPE_INVALID, 256, 110 },
  { "Q4_K", 12, WEFT_DTYPE_INVALID, 256, 144 },
  { "Q5_K", 13, WEFT_DTYPE_INVALID, 256, 176 },
  { "Q6_K", 14, WEFT_DTYPE_INVALID, 256, 210 },
  { "Q8_K", 15, WEFT_DTYPE_INVALID, 256, 292 },
  { "IQ2_XXS", 16, WEFT_DTYPE_INVALID, 256, 66 },
  { "IQ2_XS", 17, WEFT_DTYPE_INVALID, 256, 74 },
  { "IQ3_XXS", 18, WEFT_DTYPE_INVALID, 256, 98 },
  { "IQ1_S", 19, WEFT_DTYPE_INVALID, 256, 50 },
  { "IQ4_NL", 20, WEFT_DTYPE_INVALID, 32, 18 },
  { "IQ3_S", 21, WEFT_DTYPE_INVALID, 256, 110 },
  { "IQ2_S", 22, WEFT_DTYPE_INVALID, 256, 82 },
  { "IQ4_XS", 23, WEFT_DTYPE_INVALID, 256, 136 },
  { "I8", 24, WEFT_DTYPE_I8, 1, 1 },
  { "I16", 25, WEFT_DTYPE_I16, 1, 2 },
  { "I32", 26, WEFT_DTYPE_I32, 1, 4 },
  { "I64", 27, WEFT_DTYPE_I64, 1, 8 },
  { "F64", 28, WEFT_DTYPE_F64, 1, 8 },
  { "IQ1_M", 29, WEFT_DTYPE_INVALID, 256, 56 },
  { "BF16", 30, WEFT_DTYPE_BF16, 1, 2 },
  { "TQ1_0", 34, WEFT_DTYPE_INVALID, 256, 54 },
  { "TQ2_0", 35, WEFT_DTYPE_INVALID, 256, 66 },
  { "MXFP4", 39, WEFT_DTYPE_INVALID, 32, 17 },
  { "NVFP4", 40, WEFT_DTYPE_INVALID, 64, 36 },
};

typedef struct
{
  gchar *name;
  const Type *type;
  WeftShape shape; /* of what is stored, in elements of its dtype */
  guint64 begin;   /* from the first byte of the elements of all */
  guint64 n_bytes;
  WeftTensor *tensor;
} Entry;

struct _WeftGgufFile
{
  GObject parent_instance;

  WeftFile *file;
  GHashTable *metadata;
  GPtrArray *metadata_names;
  GArray *entries;
  guint64 alignment;
  /* Where the elements of all tensors begin. */
  guint64 start;
};

G_DEFINE_FINAL_TYPE (WeftGgufFile, weft_gguf_file, G_TYPE_OBJECT)

static void
entry_clear (gpointer user_data)
{
  Entry *entry = user_data;

  g_free (entry->name);
  g_clear_pointer (&entry->tensor, weft_tensor_unref);
}

static void
weft_gguf_file_finalize (GObject *object)
{
  WeftGgufFile *self = WEFT_GGUF_FILE (object);

  g_clear_pointer (&self->file, weft_file_unref);
  g_hash_table_unref (self->metadata);
  g_ptr_array_unref (self->metadata_names);
  g_array_unref (self->entries);
  G_OBJECT_CLASS (weft_gguf_file_parent_class)->finalize (object);
}

static void
weft_gguf_file_class_init (WeftGgufFileClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = weft_gguf_file_finalize;
}

static void
weft_gguf_file_init (WeftGgufFile *self)
{
  self->metadata = g_hash_table_new_full (g_str_hash, g_str_equal, NULL, (GDestroyNotify) g_variant_unref);
  self->metadata_names = g_ptr_array_new_with_free_func (g_free);
  self->entries = g_array_new (FALSE, TRUE, sizeof (Entry));
  g_array_set_clear_func (self->entries, entry_clear);
  self->alignment = DEFAULT_ALIGNMENT;
}

static Entry *
get_entry (WeftGgufFile *self, guint position)
{
  return &g_array_index (self->entries, Entry, position);
}

static gboolean
read_counts (WeftGgufReader *reader, guint64 *n_tensors, guint64 *n_values, GError **error)
{
  guint64 size = weft_file_get_size (reader->file);
  guint32 magic, version;

  if (!weft_gguf_reader_read_u32 (reader, &magic, error)
      || !weft_gguf_reader_read_u32 (reader, &version, error))
    return FALSE;
  if (magic != MAGIC)
    return weft_gguf_reader_fail (reader, "expected a file that begins with 'GGUF'", error);
  if (version < MIN_VERSION || version > MAX_VERSION)
    return weft_gguf_reader_fail (
        reader, "expected version 2 or 3, little-endian, found %u; convert the file with a current tool",
        error, version);
  if (!weft_gguf_reader_read_u64 (reader, n_tensors, error)
      || !weft_gguf_reader_read_u64 (reader, n_values, error))
    return FALSE;
  if (*n_tensors > size / MIN_TENSOR_BYTES || *n_values > size / MIN_VALUE_BYTES)
    return weft_gguf_reader_fail (
        reader, "%" G_GUINT64_FORMAT " tensors and %" G_GUINT64_FORMAT " values do not fit the file", error,
        *n_tensors, *n_values);
  return weft_gguf_reader_count (reader, *n_tensors, error)
         && weft_gguf_reader_count (reader, *n_values, error);
}

static gboolean
read_metadata (WeftGgufFile *self, WeftGgufReader *reader, guint64 n_values, GError **error)
{
  for (guint64 i = 0; i < n_values; i++)
    {
      gchar *name = weft_gguf_reader_read_name (reader, error);
      GVariant *value;

      if (name == NULL)
        return FALSE;
      g_ptr_array_add (self->metadata_names, name);
      value = weft_gguf_reader_read_value (reader, error);
      if (value == NULL)
        {
          g_prefix_error (error, "metadata '%s': ", name);
          return FALSE;
        }
      if (!g_hash_table_insert (self->metadata, name, value))
        return weft_gguf_reader_fail (reader, "metadata '%s' is there twice", error, name);
    }
  g_ptr_array_add (self->metadata_names, NULL);
  return TRUE;
}

static gboolean
find_alignment (WeftGgufFile *self, WeftGgufReader *reader, GError **error)
{
  GVariant *value = g_hash_table_lookup (self->metadata, "general.alignment");

  if (value == NULL)
    return TRUE;
  if (g_variant_is_of_type (value, G_VARIANT_TYPE_UINT32))
    self->alignment = g_variant_get_uint32 (value);
  else
    self->alignment = 0;
  return (self->alignment > 0 && self->alignment <= MAX_ALIGNMENT
          && (self->alignment & (self->alignment - 1)) == 0)
         || weft_gguf_reader_fail (reader, "expected general.alignment to be a UINT32 power of two up to %d",
                                   error, MAX_ALIGNMENT);
}

static const Type *
find_type (guint32 number)
{
  for (guint i = 0; i < G_N_ELEMENTS (types); i++)
    if (types[i].number == number)
      return &types[i];
  return NULL;
}

/* Extents are stored fastest first. */
static gboolean
read_shape (Entry *entry, WeftGgufReader *reader, GError **error)
{
  guint64 extents[MAX_DIMS];
  guint32 n_dims, number;

  if (!weft_gguf_reader_read_u32 (reader, &n_dims, error))
    return FALSE;
  if (n_dims > MAX_DIMS)
    return weft_gguf_reader_fail (reader, "tensor '%s': expected up to %d dims, found %u", error, entry->name,
                                  MAX_DIMS, n_dims);
  for (guint i = 0; i < n_dims; i++)
    {
      if (!weft_gguf_reader_read_u64 (reader, &extents[i], error))
        return FALSE;
      if (extents[i] > G_MAXINT64)
        return weft_gguf_reader_fail (reader, "tensor '%s': expected dims below 2^63", error, entry->name);
    }
  if (!weft_gguf_reader_read_u32 (reader, &number, error))
    return FALSE;
  entry->type = find_type (number);
  if (entry->type == NULL)
    return weft_gguf_reader_fail (reader, "tensor '%s': its type %u is not known", error, entry->name,
                                  number);
  entry->shape.rank = n_dims;
  for (guint i = 0; i < n_dims; i++)
    entry->shape.dims[i] = (gint64) extents[n_dims - 1 - i];
  return TRUE;
}

/* Turns the extent of rows from elements to the bytes of their blocks. */
static gboolean
pack_rows (Entry *entry, const WeftGgufReader *reader, GError **error)
{
  gint64 *last = entry->shape.rank > 0 ? &entry->shape.dims[entry->shape.rank - 1] : NULL;

  if (entry->type->dtype != WEFT_DTYPE_INVALID)
    return TRUE;
  return (last != NULL && *last % entry->type->n_elements == 0
          && !__builtin_mul_overflow (*last / entry->type->n_elements, entry->type->n_bytes, last))
         || weft_gguf_reader_fail (
             reader,
             "tensor '%s': expected rows of whole blocks of %s, which have %" G_GINT64_FORMAT " elements",
             error, entry->name, entry->type->name, entry->type->n_elements);
}

static WeftDtype
get_stored_dtype (const Entry *entry)
{
  return entry->type->dtype != WEFT_DTYPE_INVALID ? entry->type->dtype : WEFT_DTYPE_U8;
}

static gboolean
read_entry (WeftGgufFile *self, WeftGgufReader *reader, GHashTable *names, GError **error)
{
  Entry *entry;
  gint64 n_bytes;

  g_array_set_size (self->entries, self->entries->len + 1);
  entry = get_entry (self, self->entries->len - 1);
  entry->name = weft_gguf_reader_read_name (reader, error);
  if (entry->name == NULL)
    return FALSE;
  if (!g_hash_table_add (names, entry->name))
    return weft_gguf_reader_fail (reader, "tensor '%s' is there twice", error, entry->name);
  if (!read_shape (entry, reader, error) || !weft_gguf_reader_read_u64 (reader, &entry->begin, error)
      || !pack_rows (entry, reader, error))
    return FALSE;
  if (!weft_shape_count_bytes (&entry->shape, get_stored_dtype (entry), &n_bytes, error))
    {
      g_prefix_error (error, "%s: tensor '%s': ", weft_file_get_path (self->file), entry->name);
      return FALSE;
    }
  entry->n_bytes = (guint64) n_bytes;
  return TRUE;
}

static gboolean
read_table (WeftGgufFile *self, WeftGgufReader *reader, guint64 n_tensors, GError **error)
{
  g_autoptr (GHashTable) names = g_hash_table_new (g_str_hash, g_str_equal);

  for (guint64 i = 0; i < n_tensors; i++)
    if (!read_entry (self, reader, names, error))
      return FALSE;
  return TRUE;
}

/* Up to the next multiple of the alignment; neither the file's size nor a sum of it comes near 2^64. */
static guint64
align (const WeftGgufFile *self, guint64 position)
{
  return (position + self->alignment - 1) / self->alignment * self->alignment;
}

/* Every tensor begins where the one before ends, and all of them are in the file. */
static gboolean
check_places (WeftGgufFile *self, const WeftGgufReader *reader, GError **error)
{
  guint64 size = weft_file_get_size (self->file), end = 0;

  self->start = align (self, reader->position);
  for (guint i = 0; i < self->entries->len; i++)
    {
      const Entry *entry = get_entry (self, i);

      if (entry->begin != align (self, end))
        return weft_gguf_reader_fail (reader,
                                      "tensor '%s': expected its elements at offset %" G_GUINT64_FORMAT
                                      ", found %" G_GUINT64_FORMAT,
                                      error, entry->name, align (self, end), entry->begin);
      if (self->start > size || entry->begin > size - self->start
          || entry->n_bytes > size - self->start - entry->begin)
        return weft_gguf_reader_fail (reader,
                                      "tensor '%s': its %" G_GUINT64_FORMAT
                                      " bytes at offset %" G_GUINT64_FORMAT " go beyond the end of the file",
                                      error, entry->name, entry->n_bytes, entry->begin);
      end = entry->begin + entry->n_bytes;
    }
  return size <= align (self, self->start + end)
         || weft_gguf_reader_fail (
             reader, "expected the file to end after the last tensor, found %" G_GUINT64_FORMAT " bytes more",
             error, size - self->start - end);
}

static gboolean
make_tensors (WeftGgufFile *self, GError **error)
{
  for (guint i = 0; i < self->entries->len; i++)
    {
      Entry *entry = get_entry (self, i);

      entry->tensor =
          weft_tensor_new_from_file (get_stored_dtype (entry), entry->shape.dims, entry->shape.rank,
                                     self->file, self->start + entry->begin, error);
      if (entry->tensor == NULL)
        {
          g_prefix_error (error, "%s: tensor '%s': ", weft_file_get_path (self->file), entry->name);
          return FALSE;
        }
    }
  return TRUE;
}

static gboolean
read_all (WeftGgufFile *self, WeftGgufReader *reader, GError **error)
{
  guint64 n_tensors, n_values;

  return read_counts (reader, &n_tensors, &n_values, error) && read_metadata (self, reader, n_values, error)
         && find_alignment (self, reader, error) && read_table (self, reader, n_tensors, error)
         && check_places (self, reader, error) && make_tensors (self, error);
}

/**
 * weft_gguf_file_open:
 * @path: path of a GGUF file
 * @backend: how its bytes are read
 * @error: return location
 *
 * Opens a file and checks all that comes before its elements.
 *
 * Returns: (transfer full): the open file
 * Errors: %WEFT_ERROR_IO if it cannot be read; %WEFT_ERROR_FORMAT if it is no GGUF file of version 2 or 3, or has a tensor
 *   of a type that is not known, with the position and the name; %WEFT_ERROR_LIMIT if a tensor is too large
 * Since: 1.0
 */
WeftGgufFile *
weft_gguf_file_open (const gchar *path, WeftIoBackend backend, GError **error)
{
  g_autoptr (WeftGgufFile) self = g_object_new (WEFT_TYPE_GGUF_FILE, NULL);
  WeftGgufReader reader;
  gboolean ok;

  self->file = weft_file_open (path, backend, error);
  if (self->file == NULL)
    return NULL;
  weft_gguf_reader_init (&reader, self->file);
  ok = read_all (self, &reader, error);
  weft_gguf_reader_clear (&reader);
  return ok ? g_steal_pointer (&self) : NULL;
}

/**
 * weft_gguf_file_get_file:
 * @self: a GGUF file
 *
 * Returns: (transfer none): the open file
 * Since: 1.0
 */
WeftFile *
weft_gguf_file_get_file (WeftGgufFile *self)
{
  g_return_val_if_fail (WEFT_IS_GGUF_FILE (self), NULL);
  return self->file;
}

/**
 * weft_gguf_file_get_metadata_names:
 * @self: a GGUF file
 *
 * Returns: (transfer none) (array zero-terminated=1): the names of the metadata in the order of the file, such as
 *   `general.architecture`
 * Since: 1.0
 */
const gchar *const *
weft_gguf_file_get_metadata_names (WeftGgufFile *self)
{
  g_return_val_if_fail (WEFT_IS_GGUF_FILE (self), NULL);
  return (const gchar *const *) self->metadata_names->pdata;
}

/**
 * weft_gguf_file_lookup_metadata:
 * @self: a GGUF file
 * @name: name of a value
 *
 * Integers have the variant types y, n (for INT8 too), q, i, u, x and t, FLOAT32 and FLOAT64 d, BOOL b, STRING s; an ARRAY is
 * an array of these, or of variants if it holds arrays.
 *
 * Returns: (transfer none) (nullable): the value, or %NULL if there is none of this name
 * Since: 1.0
 */
GVariant *
weft_gguf_file_lookup_metadata (WeftGgufFile *self, const gchar *name)
{
  g_return_val_if_fail (WEFT_IS_GGUF_FILE (self) && name != NULL, NULL);
  return g_hash_table_lookup (self->metadata, name);
}

/**
 * weft_gguf_file_get_n_tensors:
 * @self: a GGUF file
 *
 * Returns: the number of tensors
 * Since: 1.0
 */
guint
weft_gguf_file_get_n_tensors (WeftGgufFile *self)
{
  g_return_val_if_fail (WEFT_IS_GGUF_FILE (self), 0);
  return self->entries->len;
}

/**
 * weft_gguf_file_get_tensor_name:
 * @self: a GGUF file
 * @position: which tensor, in the order of their bytes
 *
 * Returns: the tensor's name
 * Since: 1.0
 */
const gchar *
weft_gguf_file_get_tensor_name (WeftGgufFile *self, guint position)
{
  g_return_val_if_fail (WEFT_IS_GGUF_FILE (self) && position < self->entries->len, NULL);
  return get_entry (self, position)->name;
}

/**
 * weft_gguf_file_get_tensor_type:
 * @self: a GGUF file
 * @position: which tensor, in the order of their bytes
 *
 * Returns: the name of the tensor's type, such as `Q4_K` or `F16`
 * Since: 1.0
 */
const gchar *
weft_gguf_file_get_tensor_type (WeftGgufFile *self, guint position)
{
  g_return_val_if_fail (WEFT_IS_GGUF_FILE (self) && position < self->entries->len, NULL);
  return get_entry (self, position)->type->name;
}

/**
 * weft_gguf_file_get_tensor:
 * @self: a GGUF file
 * @position: which tensor, in the order of their bytes
 *
 * Returns: (transfer none): the lazy tensor, slowest axis first; of a block type, U8 with the bytes of the blocks of a row on
 *   the last axis
 * Since: 1.0
 */
WeftTensor *
weft_gguf_file_get_tensor (WeftGgufFile *self, guint position)
{
  g_return_val_if_fail (WEFT_IS_GGUF_FILE (self) && position < self->entries->len, NULL);
  return get_entry (self, position)->tensor;
}

/**
 * weft_gguf_file_get_tensor_offset:
 * @self: a GGUF file
 * @position: which tensor, in the order of their bytes
 *
 * Returns: the offset of the tensor's first byte in the file, in bytes
 * Since: 1.0
 */
guint64
weft_gguf_file_get_tensor_offset (WeftGgufFile *self, guint position)
{
  g_return_val_if_fail (WEFT_IS_GGUF_FILE (self) && position < self->entries->len, 0);
  return self->start + get_entry (self, position)->begin;
}

/**
 * weft_gguf_type_get_block:
 * @type: name of a type, such as `Q4_K`
 * @n_elements: (out): elements of a block
 * @n_bytes: (out): bytes of a block
 *
 * Returns: whether the type is known
 * Since: 1.0
 */
gboolean
weft_gguf_type_get_block (const gchar *type, gint64 *n_elements, gint64 *n_bytes)
{
  for (guint i = 0; i < G_N_ELEMENTS (types); i++)
    if (g_str_equal (types[i].name, type))
      {
        *n_elements = types[i].n_elements;
        *n_bytes = types[i].n_bytes;
        return TRUE;
      }
  return FALSE;
}
