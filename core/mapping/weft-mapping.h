/* SPDX-License-Identifier: Apache-2.0 */
/* Conversion mappings: from and to JSON, and the list that a whole model needs. */
#pragma once

#include "mapping/weft-mapping-registry.h"
#include "model/weft-module-tree.h"

G_BEGIN_DECLS

WEFT_PUBLIC WeftTransformList *weft_mapping_load (const gchar *path, GError **error);
WEFT_PUBLIC WeftTransformList *weft_mapping_new_from_json (JsonNode *root, const gchar *name,
                                                           const gchar *where, GError **error);
WEFT_PUBLIC JsonNode *weft_mapping_to_json (WeftTransformList *list);
WEFT_PUBLIC JsonNode *weft_mapping_describe_json (WeftTransformList *list);
WEFT_PUBLIC JsonNode *weft_mapping_describe_assembled_json (WeftTransformList *list);

WEFT_PUBLIC WeftTransformList *weft_mapping_assemble (WeftMappingRegistry *registry, WeftModuleTree *tree,
                                                      WeftTransformList *key_mapping, gboolean with_legacy,
                                                      GError **error);
WEFT_PUBLIC GStrv weft_mapping_list_custom_code (WeftMappingRegistry *registry, WeftModuleTree *tree);

G_END_DECLS
