/* SPDX-License-Identifier: Apache-2.0 */
/* All plugins that were found, and the features they gave: (kind, name) -> GType. */
#pragma once

#include <gio/gio.h>

#include "plugin/weft-plugin.h"

G_BEGIN_DECLS

#define WEFT_TYPE_PLUGIN_REGISTRY (weft_plugin_registry_get_type ())

/**
 * WeftPluginRegistry:
 *
 * The plugins of this process, a #GListModel of #WeftPlugin in the order they were found, failed ones included.
 * Plugins are opened when the registry is first asked for anything. Safe to use from several threads.
 *
 * Since: 1.0
 */
WEFT_PUBLIC
G_DECLARE_FINAL_TYPE (WeftPluginRegistry, weft_plugin_registry, WEFT, PLUGIN_REGISTRY, GObject)

WEFT_PUBLIC WeftPluginRegistry *weft_plugin_registry_get_default (void);
WEFT_PUBLIC gboolean weft_plugin_registry_register (WeftPluginRegistry *self, WeftFeatureKind kind,
                                                    const gchar *name, GType type, GError **error);
WEFT_PUBLIC GType weft_plugin_registry_lookup (WeftPluginRegistry *self, WeftFeatureKind kind,
                                               const gchar *name, GError **error);
WEFT_PUBLIC GStrv weft_plugin_registry_list_names (WeftPluginRegistry *self, WeftFeatureKind kind);

/* What a type is registered as. */
WEFT_PUBLIC const gchar *weft_feature_get_name (GType type);
WEFT_PUBLIC const gchar *weft_feature_get_plugin_id (GType type);

G_END_DECLS
