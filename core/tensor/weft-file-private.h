/* SPDX-License-Identifier: Apache-2.0 */
/* Scattered reads. Private to the tensor room. */
#pragma once

#include <sys/uio.h>

#include "tensor/weft-file.h"

/* The widest hole that is read through. */
#define WEFT_HOLE_BYTES 4096

/* Reads consecutive bytes into several buffers, at most IOV_MAX of them; @vectors is used up. One without memory is a hole, of
 * less than WEFT_HOLE_BYTES, whose bytes nobody wants: a mapping steps over it, a file is read through it. Adds to @n_bytes_read
 * what came from the file, which may be more. */
gboolean weft_file_read_vectors (WeftFile *self, guint64 offset, struct iovec *vectors, guint n_vectors,
                                 guint64 *n_bytes_read, GError **error);
void weft_file_count_bytes_read (WeftFile *self, guint64 n_bytes);
