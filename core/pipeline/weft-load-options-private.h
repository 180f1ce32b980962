/* SPDX-License-Identifier: Apache-2.0 */
/* What a caller said, for the stages of a plan. */
#pragma once

#include "parallel/weft-sharding-internal.h"
#include "pipeline/weft-load-options.h"

/* NULL: the whole model is wanted. */
const WeftMesh *weft_load_options_get_mesh (WeftLoadOptions *self);

/* An entry of the modules that are left dense. NULL: there are no more. */
const gchar *weft_load_options_get_dense_module (WeftLoadOptions *self, guint position);
