/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/weft-shard.h"

#include "base/weft-json.h"
#include "checkpoint/weft-header-scanner-private.h"
#include "tensor/weft-file-tensors-internal.h"

struct _WeftShard
{
  GObject parent_instance;

  gchar *file_name;
  WeftFile *file;
  /* Either of a safetensors file... */
  WeftHeader *header;
  gsize n_header_bytes;
  GPtrArray *tensors;
  /* ... or this. */
  WeftGgufFile *gguf;
};

G_DEFINE_FINAL_TYPE (WeftShard, weft_shard, G_TYPE_OBJECT)

static void
weft_shard_finalize (GObject *object)
{
  WeftShard *self = WEFT_SHARD (object);

  g_free (self->file_name);
  g_clear_pointer (&self->tensors, g_ptr_array_unref);
  g_clear_pointer (&self->header, weft_header_free);
  g_clear_object (&self->gguf);
  g_clear_pointer (&self->file, weft_file_unref);
  G_OBJECT_CLASS (weft_shard_parent_class)->finalize (object);
}

static void
weft_shard_class_init (WeftShardClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = weft_shard_finalize;
}

static void
weft_shard_init (WeftShard *self)
{
  self->tensors = g_ptr_array_new_with_free_func ((GDestroyNotify) weft_tensor_unref);
}

static const WeftHeaderEntry *
get_entry (WeftShard *self, guint position)
{
  return &g_array_index (self->header->entries, WeftHeaderEntry, position);
}

static gboolean
read_header (WeftShard *self, GError **error)
{
  const gchar *path = weft_file_get_path (self->file);
  guint64 file_size = weft_file_get_size (self->file);
  guint8 length[WEFT_HEADER_LENGTH_BYTES] = { 0 };
  g_autofree gchar *json = NULL;

  if (file_size >= sizeof length && !weft_file_read (self->file, 0, length, sizeof length, error))
    return FALSE;
  if (!weft_header_read_length (length, file_size, path, &self->n_header_bytes, error))
    return FALSE;
  json = g_malloc (MAX (self->n_header_bytes, 1));
  if (!weft_file_read (self->file, WEFT_HEADER_LENGTH_BYTES, json, self->n_header_bytes, error))
    return FALSE;
  self->header = weft_header_scan (json, self->n_header_bytes,
                                   file_size - WEFT_HEADER_LENGTH_BYTES - self->n_header_bytes, path, error);
  return self->header != NULL;
}

/* The format counts extents up to 2^64 - 1 where another one is 0; a tensor of ours up to 2^63 - 1. */
static gboolean
read_dims (const WeftHeader *header, const WeftHeaderEntry *entry, const gchar *where,
           gint64 dims[WEFT_MAX_RANK], GError **error)
{
  for (guint i = 0; i < entry->rank; i++)
    {
      guint64 dim = g_array_index (header->dims, guint64, entry->dims_start + i);

      if (dim > G_MAXINT64)
        {
          g_set_error (error, WEFT_ERROR, WEFT_ERROR_LIMIT,
                       "%s: byte %" G_GUINT64_FORMAT
                       ": tensor '%s': expected dims below 2^63, found %" G_GUINT64_FORMAT,
                       where, (guint64) WEFT_HEADER_LENGTH_BYTES + entry->position, entry->name, dim);
          return FALSE;
        }
      dims[i] = (gint64) dim;
    }
  return TRUE;
}

static gboolean
make_tensors (WeftShard *self, GError **error)
{
  g_autoptr (WeftFileTensors) tensors = weft_file_tensors_new (self->file, self->header->entries->len);

  for (guint i = 0; i < self->header->entries->len; i++)
    {
      const WeftHeaderEntry *entry = get_entry (self, i);
      gint64 dims[WEFT_MAX_RANK];
      WeftTensor *tensor;

      if (!read_dims (self->header, entry, weft_file_get_path (self->file), dims, error))
        return FALSE;
      tensor = weft_file_tensors_add (tensors, (WeftDtype) entry->dtype, dims, entry->rank,
                                      weft_shard_get_tensor_offset (self, i), error);
      if (tensor == NULL)
        {
          g_prefix_error (error, "%s: tensor '%s': ", weft_file_get_path (self->file), entry->name);
          return FALSE;
        }
      g_ptr_array_add (self->tensors, tensor);
    }
  /* The tensors have their shapes now. */
  g_array_set_size (self->header->dims, 0);
  return TRUE;
}

static gboolean
open_gguf (WeftShard *self, const gchar *path, WeftIoBackend backend, GError **error)
{
  self->gguf = weft_gguf_file_open (path, backend, error);
  if (self->gguf == NULL)
    return FALSE;
  self->file = weft_file_ref (weft_gguf_file_get_file (self->gguf));
  return TRUE;
}

static gboolean
open_safetensors (WeftShard *self, const gchar *path, WeftIoBackend backend, GError **error)
{
  self->file = weft_file_open (path, backend, error);
  return self->file != NULL && read_header (self, error) && make_tensors (self, error);
}

/**
 * weft_shard_open:
 * @path: path of a safetensors file, or of a GGUF file if its name ends in `.gguf`
 * @backend: how its bytes are read
 * @error: return location
 *
 * Opens a file and checks its header whole, by the rules of the safetensors format. Duplicate names and entries in
 * array form, which the format's reference reader takes, are refused. A GGUF file is opened as weft_gguf_file_open() does.
 *
 * Returns: (transfer full): the open file
 * Errors: %WEFT_ERROR_IO if it cannot be read; %WEFT_ERROR_FORMAT if it is no safetensors file, with the byte position,
 *   the tensor, what was expected and what was found; %WEFT_ERROR_LIMIT if a shape has more than 16 dims
 * Since: 1.0
 */
WeftShard *
weft_shard_open (const gchar *path, WeftIoBackend backend, GError **error)
{
  g_autoptr (WeftShard) self = g_object_new (WEFT_TYPE_SHARD, NULL);

  self->file_name = g_path_get_basename (path);
  if (g_str_has_suffix (path, ".gguf") ? !open_gguf (self, path, backend, error)
                                       : !open_safetensors (self, path, backend, error))
    return NULL;
  return g_steal_pointer (&self);
}

/**
 * weft_shard_get_file_name:
 * @self: a shard
 *
 * Returns: the name of the file, without its folder
 * Since: 1.0
 */
const gchar *
weft_shard_get_file_name (WeftShard *self)
{
  g_return_val_if_fail (WEFT_IS_SHARD (self), NULL);
  return self->file_name;
}

/**
 * weft_shard_get_file:
 * @self: a shard
 *
 * Returns: (transfer none): the open file, which knows its path and counts the bytes read from it
 * Since: 1.0
 */
WeftFile *
weft_shard_get_file (WeftShard *self)
{
  g_return_val_if_fail (WEFT_IS_SHARD (self), NULL);
  return self->file;
}

/**
 * weft_shard_get_metadata:
 * @self: a shard
 *
 * Returns: (transfer none) (nullable) (element-type utf8 utf8): the texts of `__metadata__`, or %NULL if the file has none
 * Since: 1.0
 */
GHashTable *
weft_shard_get_metadata (WeftShard *self)
{
  g_return_val_if_fail (WEFT_IS_SHARD (self), NULL);
  return self->header != NULL ? self->header->metadata : NULL;
}

/**
 * weft_shard_get_gguf:
 * @self: a shard
 *
 * Returns: (transfer none) (nullable): the GGUF file that the shard is, with its metadata and the types of its tensors, or %NULL
 *   if it is a safetensors file
 * Since: 1.0
 */
WeftGgufFile *
weft_shard_get_gguf (WeftShard *self)
{
  g_return_val_if_fail (WEFT_IS_SHARD (self), NULL);
  return self->gguf;
}

/* The header of a safetensors file that holds what a GGUF file does, in its order. */
static GBytes *
make_header (WeftGgufFile *gguf)
{
  g_autoptr (GString) json = g_string_new ("{");
  guint64 end = 0;

  for (guint i = 0; i < weft_gguf_file_get_n_tensors (gguf); i++)
    {
      WeftTensor *tensor = weft_gguf_file_get_tensor (gguf, i);
      const WeftShape *shape = weft_tensor_get_shape (tensor);
      guint64 begin = end;

      end += weft_tensor_get_n_bytes (tensor);
      g_string_append (json, i > 0 ? "," : "");
      weft_json_append_text (json, weft_gguf_file_get_tensor_name (gguf, i), FALSE);
      g_string_append_printf (json, ":{\"dtype\":\"%s\",\"shape\":[",
                              weft_dtype_get_name (weft_tensor_get_dtype (tensor)));
      for (guint k = 0; k < shape->rank; k++)
        g_string_append_printf (json, "%s%" G_GINT64_FORMAT, k > 0 ? "," : "", shape->dims[k]);
      g_string_append_printf (json, "],\"data_offsets\":[%" G_GUINT64_FORMAT ",%" G_GUINT64_FORMAT "]}",
                              begin, end);
    }
  g_string_append_c (json, '}');
  return g_string_free_to_bytes (g_steal_pointer (&json));
}

/**
 * weft_shard_read_header:
 * @self: a shard
 * @error: return location
 *
 * Reads the JSON of the header again: it is not kept in memory. For a GGUF file it is made: that of a safetensors file with
 * the same tensors.
 *
 * Returns: (transfer full): the JSON with its padding, without the length field before it
 * Errors: %WEFT_ERROR_IO if it cannot be read
 * Since: 1.0
 */
GBytes *
weft_shard_read_header (WeftShard *self, GError **error)
{
  g_autofree gchar *json = NULL;

  g_return_val_if_fail (WEFT_IS_SHARD (self), NULL);
  if (self->gguf != NULL)
    return make_header (self->gguf);
  json = g_malloc (MAX (self->n_header_bytes, 1));
  if (!weft_file_read (self->file, WEFT_HEADER_LENGTH_BYTES, json, self->n_header_bytes, error))
    return NULL;
  return g_bytes_new_take (g_steal_pointer (&json), self->n_header_bytes);
}

/**
 * weft_shard_get_n_tensors:
 * @self: a shard
 *
 * Returns: the number of tensors in the file
 * Since: 1.0
 */
guint
weft_shard_get_n_tensors (WeftShard *self)
{
  g_return_val_if_fail (WEFT_IS_SHARD (self), 0);
  return self->gguf != NULL ? weft_gguf_file_get_n_tensors (self->gguf) : self->tensors->len;
}

/**
 * weft_shard_get_tensor_name:
 * @self: a shard
 * @position: which tensor, in the order of their bytes
 *
 * Returns: the tensor's name
 * Since: 1.0
 */
const gchar *
weft_shard_get_tensor_name (WeftShard *self, guint position)
{
  g_return_val_if_fail (WEFT_IS_SHARD (self) && position < weft_shard_get_n_tensors (self), NULL);
  return self->gguf != NULL ? weft_gguf_file_get_tensor_name (self->gguf, position)
                            : get_entry (self, position)->name;
}

/**
 * weft_shard_get_tensor:
 * @self: a shard
 * @position: which tensor, in the order of their bytes
 *
 * Returns: (transfer none): the lazy tensor
 * Since: 1.0
 */
WeftTensor *
weft_shard_get_tensor (WeftShard *self, guint position)
{
  g_return_val_if_fail (WEFT_IS_SHARD (self) && position < weft_shard_get_n_tensors (self), NULL);
  return self->gguf != NULL ? weft_gguf_file_get_tensor (self->gguf, position)
                            : g_ptr_array_index (self->tensors, position);
}

/**
 * weft_shard_get_tensor_offset:
 * @self: a shard
 * @position: which tensor, in the order of their bytes
 *
 * Returns: the offset of the tensor's first byte in the file, in bytes
 * Since: 1.0
 */
guint64
weft_shard_get_tensor_offset (WeftShard *self, guint position)
{
  if (WEFT_IS_SHARD (self) && self->gguf != NULL)
    return weft_gguf_file_get_tensor_offset (self->gguf, position);
  g_return_val_if_fail (WEFT_IS_SHARD (self) && position < self->header->entries->len, 0);
  return WEFT_HEADER_LENGTH_BYTES + self->n_header_bytes + get_entry (self, position)->begin;
}

/**
 * weft_shard_scan_recorded_header:
 * @header: the JSON of a header, as weft_shard_read_header() gives it
 * @file_name: what messages call the file
 * @tensors: where its tensors are added, known by their header only
 * @error: return location
 *
 * Reads a header whose file is not there.
 *
 * Returns: whether the header is valid
 * Errors: as weft_shard_open(); %WEFT_ERROR_CONFLICT if @tensors has one of the names already
 * Since: 1.0
 */
gboolean
weft_shard_scan_recorded_header (GBytes *header, const gchar *file_name, WeftStateDict *tensors,
                                 GError **error)
{
  gsize n_bytes = 0;
  const gchar *json = g_bytes_get_data (header, &n_bytes);
  g_autoptr (WeftHeader) scanned =
      weft_header_scan (json == NULL ? "" : json, n_bytes, WEFT_HEADER_ANY_SIZE, file_name, error);

  if (scanned == NULL)
    return FALSE;
  for (guint i = 0; i < scanned->entries->len; i++)
    {
      const WeftHeaderEntry *entry = &g_array_index (scanned->entries, WeftHeaderEntry, i);
      g_autoptr (WeftTensor) tensor = NULL;
      gint64 dims[WEFT_MAX_RANK];

      if (!read_dims (scanned, entry, file_name, dims, error))
        return FALSE;
      tensor = weft_tensor_new_unreadable ((WeftDtype) entry->dtype, dims, entry->rank, error);
      if (tensor == NULL || !weft_state_dict_add (tensors, entry->name, tensor, error))
        {
          g_prefix_error (error, "%s: ", file_name);
          return FALSE;
        }
    }
  return TRUE;
}
