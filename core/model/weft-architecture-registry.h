/* SPDX-License-Identifier: Apache-2.0 */
/* The model types whose architecture is known, by name. */
#pragma once

#include <gio/gio.h>

#include "base/weft-error.h"

G_BEGIN_DECLS

#define WEFT_TYPE_ARCHITECTURE_REGISTRY (weft_architecture_registry_get_type ())

/**
 * WeftArchitectureRegistry:
 *
 * Architecture files, as docs/architectures.md describes them: those that come with the library, and those of folders that
 * are added. A file is read when a model of its family is asked for. It may be used by several threads.
 *
 * Since: 1.0
 */
WEFT_PUBLIC
G_DECLARE_FINAL_TYPE (WeftArchitectureRegistry, weft_architecture_registry, WEFT, ARCHITECTURE_REGISTRY,
                      GObject)

WEFT_PUBLIC WeftArchitectureRegistry *weft_architecture_registry_new (GError **error);
WEFT_PUBLIC WeftArchitectureRegistry *weft_architecture_registry_new_shipped (void);
WEFT_PUBLIC gboolean weft_architecture_registry_add_folder (WeftArchitectureRegistry *self, const gchar *path,
                                                            GError **error);
WEFT_PUBLIC gboolean weft_architecture_registry_has (WeftArchitectureRegistry *self, const gchar *model_type);
WEFT_PUBLIC GStrv weft_architecture_registry_list_model_types (WeftArchitectureRegistry *self);
WEFT_PUBLIC GStrv weft_architecture_registry_list_classes (WeftArchitectureRegistry *self,
                                                           const gchar *model_type, GError **error);

G_END_DECLS
