/* SPDX-License-Identifier: Apache-2.0 */
/* Names under which a model has one tensor: where one of them is given, none of them is missing. */
#pragma once

#include "model/weft-module-tree.h"

typedef struct _WeftTiedNames WeftTiedNames;

/* The ties of @tree, unless @config (nullable) says that nothing is tied. */
WeftTiedNames *weft_tied_names_new (WeftModuleTree *tree, JsonNode *config);
void weft_tied_names_free (WeftTiedNames *self);

/* All names that share the tensor of @name, itself included, in the order in which a runtime looks for a source: the declared
 * sources, then their targets. NULL if @name is not tied. */
GPtrArray *weft_tied_names_find (WeftTiedNames *self, const gchar *name);
guint weft_tied_names_get_n_groups (WeftTiedNames *self);
GPtrArray *weft_tied_names_get_group (WeftTiedNames *self, guint position);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (WeftTiedNames, weft_tied_names_free)
