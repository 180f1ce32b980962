/* SPDX-License-Identifier: Apache-2.0 */
/* The conversion mappings by name: shipped ones, those of folders on the data path, and registered ones. */
#pragma once

#include "transform/weft-transform-list.h"

G_BEGIN_DECLS

#define WEFT_TYPE_MAPPING_REGISTRY (weft_mapping_registry_get_type ())

/**
 * WeftMappingRegistry:
 *
 * Conversion mappings by the name of a model type (`mixtral`) or of a model class (`LlavaModel`). Mappings are read when
 * they are asked for. What is looked up is a copy, so that no load changes what another one does. Safe to use from
 * several threads.
 *
 * Since: 1.0
 */
WEFT_PUBLIC
G_DECLARE_FINAL_TYPE (WeftMappingRegistry, weft_mapping_registry, WEFT, MAPPING_REGISTRY, GObject)

WEFT_PUBLIC WeftMappingRegistry *weft_mapping_registry_new (GError **error);
WEFT_PUBLIC WeftMappingRegistry *weft_mapping_registry_new_shipped (void);
WEFT_PUBLIC gboolean weft_mapping_registry_add_folder (WeftMappingRegistry *self, const gchar *path,
                                                       GError **error);
WEFT_PUBLIC gboolean weft_mapping_registry_add_file (WeftMappingRegistry *self, const gchar *path,
                                                     GError **error);
WEFT_PUBLIC gboolean weft_mapping_registry_register (WeftMappingRegistry *self, const gchar *name,
                                                     WeftTransformList *list, gboolean overwrite,
                                                     GError **error);

WEFT_PUBLIC WeftTransformList *weft_mapping_registry_lookup (WeftMappingRegistry *self, const gchar *name,
                                                             GError **error);
WEFT_PUBLIC gboolean weft_mapping_registry_has (WeftMappingRegistry *self, const gchar *name);
WEFT_PUBLIC gchar *weft_mapping_registry_dup_alias (WeftMappingRegistry *self, const gchar *name,
                                                    GError **error);
WEFT_PUBLIC gboolean weft_mapping_registry_is_user_registered (WeftMappingRegistry *self, const gchar *name);
WEFT_PUBLIC GStrv weft_mapping_registry_list_names (WeftMappingRegistry *self);

G_END_DECLS
