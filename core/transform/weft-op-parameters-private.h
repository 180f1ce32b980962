/* SPDX-License-Identifier: Apache-2.0 */
/* How the base class of ops stores declared parameters, and how the factory sees those of any op. */
#pragma once

#include "transform/weft-op-parameters.h"

/* Frees what the declared parameters of an op hold. */
void weft_op_parameters_clear (GObject *object);

WeftOpParameterFlags weft_op_parameter_get_flags (GParamSpec *pspec);

/* The parameters of a class, in the order of declaration: declared ones, and the plain properties of classes written in
 * Python or JavaScript. Free with g_ptr_array_unref(). */
GPtrArray *weft_op_class_list_parameters (GObjectClass *klass);
