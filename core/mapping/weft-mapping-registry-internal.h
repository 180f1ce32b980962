/* SPDX-License-Identifier: Apache-2.0 */
/* Rules for the tensors of GGUF files. Internal to the library: not installed. */
#pragma once

#include "mapping/weft-mapping-registry.h"

/* A registry whose names are those of `general.architecture`: of what comes with the library, and of folders `gguf` on the
 * data path. */
WeftMappingRegistry *weft_mapping_registry_new_gguf (GError **error);
