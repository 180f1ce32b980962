/* SPDX-License-Identifier: Apache-2.0 */
/* Which class takes the place of which, by name or by pattern. */
#pragma once

#include "base/weft-error.h"

G_BEGIN_DECLS

#define WEFT_TYPE_PATCH_MAPPING (weft_patch_mapping_get_type ())

/**
 * WeftPatchMapping:
 *
 * A map from class names to the classes in their place. A name that begins with `re:` is a pattern that is searched in
 * class names; every other is exact. It belongs to one model; nothing is process-wide.
 *
 * Since: 1.0
 */
WEFT_PUBLIC
G_DECLARE_FINAL_TYPE (WeftPatchMapping, weft_patch_mapping, WEFT, PATCH_MAPPING, GObject)

WEFT_PUBLIC WeftPatchMapping *weft_patch_mapping_new (void);
WEFT_PUBLIC WeftPatchMapping *weft_patch_mapping_copy (WeftPatchMapping *self);
WEFT_PUBLIC gboolean weft_patch_mapping_register (WeftPatchMapping *self, const gchar *const *names,
                                                  const gchar *const *classes, gboolean overwrite,
                                                  GError **error);
WEFT_PUBLIC gboolean weft_patch_mapping_unregister (WeftPatchMapping *self, const gchar *const *names,
                                                    GError **error);
WEFT_PUBLIC void weft_patch_mapping_clear (WeftPatchMapping *self);
WEFT_PUBLIC GStrv weft_patch_mapping_list_names (WeftPatchMapping *self);
WEFT_PUBLIC const gchar *weft_patch_mapping_lookup (WeftPatchMapping *self, const gchar *class_name);

G_END_DECLS
