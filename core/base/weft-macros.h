/* SPDX-License-Identifier: Apache-2.0 */
/* Symbol visibility and the limits that the whole library shares. */
#pragma once

#include <gio/gio.h>

/**
 * WEFT_PUBLIC:
 *
 * Marks a symbol that leaves the shared object. Every other symbol is hidden.
 *
 * Since: 1.0
 */
#define WEFT_PUBLIC __attribute__ ((visibility ("default"))) extern

/**
 * WEFT_MAX_RANK:
 *
 * The highest rank (number of axes) of a tensor.
 *
 * Since: 1.0
 */
#define WEFT_MAX_RANK 16
