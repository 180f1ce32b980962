/* SPDX-License-Identifier: Apache-2.0 */
/* What takes the place of modules: a family or a replacement, with its options. The executor sees no difference. */
#pragma once

#include "fusion/weft-module-fusion-spec.h"
#include "fusion/weft-module-replacement.h"

typedef struct
{
  /* As the user wrote it. */
  gchar *name;
  /* A WeftModuleFusionSpec or a WeftModuleReplacement. */
  GObject *feature;
  JsonObject *options;
} WeftFusionTarget;

/* A family by its name. @options (nullable) are checked against the properties of its class. @where is what messages begin with. */
WeftFusionTarget *weft_fusion_target_new_family (const gchar *name, JsonObject *options, const gchar *where,
                                                 GError **error);
/* A replacement named `PLUGIN.CLASS`, or a family. */
WeftFusionTarget *weft_fusion_target_new (const gchar *name, JsonObject *options, const gchar *where,
                                          GError **error);
WeftFusionTarget *weft_fusion_target_copy (const WeftFusionTarget *self);
void weft_fusion_target_free (WeftFusionTarget *self);

/* Whether it takes the place of @module; if not, @reason (transfer full) says which test failed. */
gboolean weft_fusion_target_test (WeftFusionTarget *self, WeftModule *module, gchar **reason, GError **error);
WeftModule *weft_fusion_target_replace (WeftFusionTarget *self, WeftFusionContext *context, GError **error);
WeftTransformList *weft_fusion_target_make_transforms (WeftFusionTarget *self, WeftModule *replacement,
                                                       WeftFusionContext *context, GError **error);
/* Styles of the new tensors, `a{ss}`, or NULL. */
GVariant *weft_fusion_target_list_parallel_styles (WeftFusionTarget *self, WeftFusionContext *context);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (WeftFusionTarget, weft_fusion_target_free)
