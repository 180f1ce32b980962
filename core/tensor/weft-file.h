/* SPDX-License-Identifier: Apache-2.0 */
/* An open input file that tensors point into. It counts the bytes that are read from it. */
#pragma once

#include "base/weft-error.h"

G_BEGIN_DECLS

#define WEFT_TYPE_FILE (weft_file_get_type ())

/**
 * WeftFile:
 *
 * A regular file, open for reading, shared by the tensors that point into it and by threads.
 *
 * Since: 1.0
 */
typedef struct _WeftFile WeftFile;

/**
 * WeftIoBackend:
 * @WEFT_IO_BACKEND_PREAD: read with pread(2)
 * @WEFT_IO_BACKEND_MMAP: copy out of a mapping; a file truncated meanwhile is an error, not a signal
 * @WEFT_IO_BACKEND_DIRECT: read past the page cache, in whole blocks of the disk; short reads, and those of file systems
 *   that refuse, are as with pread
 *
 * How bytes of an input file are read. All give equal bytes.
 *
 * Since: 1.0
 */
typedef enum
{
  WEFT_IO_BACKEND_PREAD,
  WEFT_IO_BACKEND_MMAP,
  WEFT_IO_BACKEND_DIRECT,
} WeftIoBackend;

WEFT_PUBLIC GType weft_file_get_type (void);
WEFT_PUBLIC WeftFile *weft_file_open (const gchar *path, WeftIoBackend backend, GError **error);
WEFT_PUBLIC WeftFile *weft_file_ref (WeftFile *self);
WEFT_PUBLIC void weft_file_unref (WeftFile *self);
WEFT_PUBLIC const gchar *weft_file_get_path (WeftFile *self);
WEFT_PUBLIC guint64 weft_file_get_size (WeftFile *self);
WEFT_PUBLIC gint weft_file_get_fd (WeftFile *self);
WEFT_PUBLIC guint64 weft_file_get_n_bytes_read (WeftFile *self);
WEFT_PUBLIC gboolean weft_file_read (WeftFile *self, guint64 offset, gpointer buffer, gsize n_bytes,
                                     GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (WeftFile, weft_file_unref)

G_END_DECLS
