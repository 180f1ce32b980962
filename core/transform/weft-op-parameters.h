/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters of ops, declared in one line each. A parameter is a GObject construct property; the base class stores it
 * at @offset of the instance and frees it, so that an op has no property code. JSON, help, documentation and the
 * conformance suite read the same declarations. */
#pragma once

#include "transform/weft-conversion-ops.h"

G_BEGIN_DECLS

/**
 * WeftOpParameterFlags:
 * @WEFT_OP_PARAMETER_FLAGS_NONE: has a default and is always written
 * @WEFT_OP_PARAMETER_FLAGS_REQUIRED: has no default; making an op by name without it is an error
 * @WEFT_OP_PARAMETER_FLAGS_EXTENSION: unknown to the other implementations of the op, so that it is written to JSON
 *   only if it is not at its default
 *
 * How a parameter is read and written.
 *
 * Since: 1.0
 */
typedef enum /*< flags >*/
{
  WEFT_OP_PARAMETER_FLAGS_NONE = 0,
  WEFT_OP_PARAMETER_FLAGS_REQUIRED = 1 << 0,
  WEFT_OP_PARAMETER_FLAGS_EXTENSION = 1 << 1,
} WeftOpParameterFlags;

/* The type of the member at @offset is given behind each. */
WEFT_PUBLIC void weft_op_class_add_int (WeftConversionOpsBaseClass *klass, const gchar *name,
                                        const gchar *nick, const gchar *blurb, gint64 minimum, gint64 maximum,
                                        gint64 default_value, gsize offset); /* gint64 */
WEFT_PUBLIC void weft_op_class_add_double (WeftConversionOpsBaseClass *klass, const gchar *name,
                                           const gchar *nick, const gchar *blurb, gdouble minimum,
                                           gdouble maximum, gdouble default_value,
                                           gsize offset); /* gdouble */
WEFT_PUBLIC void weft_op_class_add_boolean (WeftConversionOpsBaseClass *klass, const gchar *name,
                                            const gchar *nick, const gchar *blurb, gboolean default_value,
                                            gsize offset); /* gboolean */
WEFT_PUBLIC void weft_op_class_add_string (WeftConversionOpsBaseClass *klass, const gchar *name,
                                           const gchar *nick, const gchar *blurb, const gchar *default_value,
                                           gsize offset); /* gchar * */
WEFT_PUBLIC void weft_op_class_add_strings (WeftConversionOpsBaseClass *klass, const gchar *name,
                                            const gchar *nick, const gchar *blurb, gsize offset); /* GStrv */
WEFT_PUBLIC void weft_op_class_add_dtype (WeftConversionOpsBaseClass *klass, const gchar *name,
                                          const gchar *nick, const gchar *blurb, WeftDtype default_value,
                                          gsize offset); /* WeftDtype */
WEFT_PUBLIC void weft_op_class_add_variant (WeftConversionOpsBaseClass *klass, const gchar *name,
                                            const gchar *nick, const gchar *blurb, const gchar *type_string,
                                            const gchar *default_value, gsize offset); /* GVariant * */
WEFT_PUBLIC void weft_op_class_set_parameter_flags (WeftConversionOpsBaseClass *klass, const gchar *name,
                                                    WeftOpParameterFlags flags);

G_END_DECLS
