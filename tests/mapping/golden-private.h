/* SPDX-License-Identifier: Apache-2.0 */
/* Golden files for tests: the folder of WEFT_GOLDEN, or that of the source tree. */
#pragma once

#include <weft.h>

static inline JsonObject *
load_golden (const gchar *name, JsonNode **root)
{
  g_autoptr (GError) error = NULL;
  g_autofree gchar *path = g_build_filename (g_getenv ("WEFT_GOLDEN"), name, NULL);

  *root = weft_json_load_file (path, &error);
  g_assert_no_error (error);
  return json_node_get_object (*root);
}
