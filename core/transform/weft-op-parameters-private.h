/* SPDX-License-Identifier: Apache-2.0 */
/* How the base class of ops stores declared parameters, and how the factory sees those of any op. */
#pragma once

#include "transform/weft-op-parameters.h"

/* FALSE if @pspec is no declared parameter. */
gboolean weft_op_parameter_store (GObject *object, const GValue *value, GParamSpec *pspec);
gboolean weft_op_parameter_fetch (GObject *object, GValue *value, GParamSpec *pspec);
void weft_op_parameters_clear (GObject *object);

WeftOpParameterFlags weft_op_parameter_get_flags (GParamSpec *pspec);

/* The parameters of a class, in the order of declaration: declared ones, and the plain properties of classes written in
 * Python or JavaScript. Free with g_ptr_array_unref(). */
GPtrArray *weft_op_class_list_parameters (GObjectClass *klass);
