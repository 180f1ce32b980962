/* SPDX-License-Identifier: Apache-2.0 */
/* Values of a module's attributes: a variant in C and in scripts, JSON in files. */
#pragma once

#include <json-glib/json-glib.h>

#include "base/weft-macros.h"

G_BEGIN_DECLS

/* A floating variant; %NULL if the node is none that an attribute can hold. */
GVariant *weft_module_value_from_json (JsonNode *node);
JsonNode *weft_module_value_to_json (GVariant *value);

G_END_DECLS
