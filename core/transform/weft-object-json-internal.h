/* SPDX-License-Identifier: Apache-2.0 */
/* Objects with parameters from JSON, each value checked against the declaration of its property. Internal to the library: not
 * installed. */
#pragma once

#include <json-glib/json-glib.h>

#include "base/weft-error.h"

/* An object whose writable properties are set from the members of @parameters (nullable); names are written with `_`, and a
 * member `type` is none. @place is what messages begin with. */
GObject *weft_object_new_from_json (GType type, JsonObject *parameters, const gchar *place, GError **error);
