/* SPDX-License-Identifier: Apache-2.0 */
/* Copying elements from one layout to another. Private to the tensor room. */
#pragma once

#include <glib.h>

/* Copies a nest of @n_loops loops of elements, each @element_bytes wide: for all indices below @extents (each at least
 * 1), the element at `sum of index * source stride` goes to `sum of index * destination stride`. Strides are in
 * elements; those of the source may be 0 or negative, those of the destination keep elements apart. The order of the
 * loops does not matter. With no loops, one element is copied. Neither side need be aligned; they do not overlap. */
void weft_copy_loops (void *destination, const void *source, gsize element_bytes, guint n_loops,
                      const gint64 *extents, const gint64 *destination_strides, const gint64 *source_strides);
