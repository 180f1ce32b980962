/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/weft-module-body-private.h"
#include "model/weft-module.h"

G_BEGIN_DECLS

WeftModule *weft_module_new_in_tree (WeftModuleTree *tree, guint position);
WeftModuleBody *weft_module_get_body (WeftModule *self);

G_END_DECLS
