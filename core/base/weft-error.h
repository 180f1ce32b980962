/* SPDX-License-Identifier: Apache-2.0 */
/* The one error domain of Weft. A message names what was expected, what was found and what to do. */
#pragma once

#include "base/weft-macros.h"

G_BEGIN_DECLS

/**
 * WEFT_ERROR:
 *
 * The error domain of every error that Weft itself raises; I/O errors of the system keep %G_IO_ERROR inside the
 * message and are reported as %WEFT_ERROR_IO.
 *
 * Since: 1.0
 */
#define WEFT_ERROR (weft_error_quark ())

/**
 * WeftError:
 * @WEFT_ERROR_FAILED: none of the below
 * @WEFT_ERROR_IO: a file could not be read or written
 * @WEFT_ERROR_FORMAT: bytes from outside (header, JSON, index) break their format
 * @WEFT_ERROR_SHAPE: a shape, an axis or a range does not fit
 * @WEFT_ERROR_DTYPE: a dtype is unknown or does not fit
 * @WEFT_ERROR_LIMIT: a bound of the implementation was exceeded
 * @WEFT_ERROR_ARGUMENT: an argument, an option or an op parameter is wrong
 * @WEFT_ERROR_PATTERN: a rule or its pattern is wrong
 * @WEFT_ERROR_CONFLICT: two things claim one name
 * @WEFT_ERROR_MISSING: something that is needed is absent
 * @WEFT_ERROR_UNEXPECTED: something is there that nothing expects
 * @WEFT_ERROR_EXISTS: an output exists already
 * @WEFT_ERROR_NOT_REVERSIBLE: a conversion has no exact inverse
 * @WEFT_ERROR_UNSUPPORTED: a thing that Weft does not do
 * @WEFT_ERROR_PLUGIN: a plugin cannot be used
 * @WEFT_ERROR_PLUGIN_CONTRACT: a plugin broke its contract, such as %NULL without an error
 * @WEFT_ERROR_CANCELLED: the caller cancelled
 *
 * Codes of the domain %WEFT_ERROR.
 *
 * Since: 1.0
 */
typedef enum
{
  WEFT_ERROR_FAILED,
  WEFT_ERROR_IO,
  WEFT_ERROR_FORMAT,
  WEFT_ERROR_SHAPE,
  WEFT_ERROR_DTYPE,
  WEFT_ERROR_LIMIT,
  WEFT_ERROR_ARGUMENT,
  WEFT_ERROR_PATTERN,
  WEFT_ERROR_CONFLICT,
  WEFT_ERROR_MISSING,
  WEFT_ERROR_UNEXPECTED,
  WEFT_ERROR_EXISTS,
  WEFT_ERROR_NOT_REVERSIBLE,
  WEFT_ERROR_UNSUPPORTED,
  WEFT_ERROR_PLUGIN,
  WEFT_ERROR_PLUGIN_CONTRACT,
  WEFT_ERROR_CANCELLED,
} WeftError;

WEFT_PUBLIC GQuark weft_error_quark (void);

G_END_DECLS
