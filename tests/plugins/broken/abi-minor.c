/* SPDX-License-Identifier: Apache-2.0 */
/* Built for a newer minor version than this library. */
#include "weft.h"

WEFT_PUBLIC const WeftPluginDescriptor weft_plugin_descriptor;
const WeftPluginDescriptor weft_plugin_descriptor = {
  .struct_size = sizeof (WeftPluginDescriptor),
  .abi_major = WEFT_PLUGIN_ABI_MAJOR,
  .abi_minor = WEFT_PLUGIN_ABI_MINOR + 1,
  .id = "abi-minor",
};
