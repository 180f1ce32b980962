/* SPDX-License-Identifier: Apache-2.0 */
/* Plugins that are opened by name and only when they are wanted, because of what they link: the registry does not look
 * into their folders. */
#pragma once

#include "plugin/weft-plugin.h"

G_BEGIN_DECLS

/* Opens `SUB_FOLDER/weft-ID.so` of the first folder of the plugin path that has it, with all checks of a plugin, and gives
 * the type of its one feature. It is to be called once for each id. %G_TYPE_INVALID on failure. */
GType weft_plugin_load_type (const gchar *sub_folder, const gchar *id, WeftFeatureKind kind, GError **error);

G_END_DECLS
