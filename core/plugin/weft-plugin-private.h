/* SPDX-License-Identifier: Apache-2.0 */
/* How the registry opens plugins. Private to the plugin room. */
#pragma once

#include "plugin/weft-plugin.h"

/* Opens the file, finds its descriptor and checks all that concerns this file alone. Runs no code of the plugin except
 * constructors of the shared object. Never NULL: a plugin that cannot be used says why. */
WeftPlugin *weft_plugin_open (const gchar *path);

/* The features that this process itself registers (Python, JavaScript, a program). */
WeftPlugin *weft_plugin_new_for_runtime (void);
void weft_plugin_add_runtime_feature (WeftPlugin *self, WeftFeatureKind kind, const gchar *name);

void weft_plugin_fail (WeftPlugin *self, const gchar *format, ...) G_GNUC_PRINTF (2, 3);
void weft_plugin_deny (WeftPlugin *self, const gchar *glob);
void weft_plugin_deny_feature (WeftPlugin *self, guint position);
const gchar *weft_plugin_get_feature_type_name (WeftPlugin *self, guint position);

/* Runs init and registers the types. Whether the plugin is usable. */
gboolean weft_plugin_start (WeftPlugin *self);
