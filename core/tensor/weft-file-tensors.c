/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/weft-file-tensors-internal.h"

#include "tensor/weft-tensor-private.h"

/* A tensor goes before its base, which its piece keeps. */
typedef struct
{
  WeftBase base;
  WeftLeaf leaf;
} FileTensor;

struct _WeftFileTensors
{
  /* One for each base, one for whoever adds tensors. */
  gatomicrefcount ref_count;
  WeftFile *file;
  gsize n_tensors;
  gsize n_added;
  FileTensor tensors[];
};

WeftFileTensors *
weft_file_tensors_new (WeftFile *file, gsize n_tensors)
{
  WeftFileTensors *self = g_malloc0 (sizeof *self + n_tensors * sizeof (FileTensor));

  g_atomic_ref_count_init (&self->ref_count);
  self->file = weft_file_ref (file);
  self->n_tensors = n_tensors;
  return self;
}

void
weft_file_tensors_unref (WeftFileTensors *self)
{
  if (!g_atomic_ref_count_dec (&self->ref_count))
    return;
  weft_file_unref (self->file);
  g_free (self);
}

WeftTensor *
weft_file_tensors_add (WeftFileTensors *self, WeftDtype dtype, const gint64 *dims, gsize n_dims,
                       guint64 offset, GError **error)
{
  const guint64 file_size = weft_file_get_size (self->file);
  FileTensor *added = &self->tensors[self->n_added];
  WeftShape shape;
  gint64 n_bytes;

  g_return_val_if_fail (self->n_added < self->n_tensors, NULL);
  if (!weft_tensor_check_new (dtype, dims, n_dims, &shape, &n_bytes, error))
    return NULL;
  if (offset > file_size || (guint64) n_bytes > file_size - offset)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE,
                   "%s: %" G_GINT64_FORMAT " bytes at offset %" G_GUINT64_FORMAT
                   " leave the file of %" G_GUINT64_FORMAT " bytes",
                   weft_file_get_path (self->file), n_bytes, offset, file_size);
      return NULL;
    }
  /* Without an element there is nothing in the file. */
  if (n_bytes == 0)
    return weft_tensor_new_empty (dtype, &shape);
  self->n_added++;
  g_atomic_ref_count_inc (&self->ref_count);
  weft_base_init (&added->base, WEFT_BASE_FILE, dtype, n_bytes * 8 / weft_dtype_get_bits (dtype));
  added->base.file.tensors = self;
  added->base.file.file = self->file;
  added->base.file.offset = offset;
  weft_leaf_init (&added->leaf, dtype, &shape, &added->base, 1);
  added->leaf.tensor.is_in_base = TRUE;
  return &added->leaf.tensor;
}
