/* SPDX-License-Identifier: Apache-2.0 */
/* Golden files for tests: of the folder WEFT_GOLDEN, or else of the source tree, that has a part of them. */
#pragma once

#include <weft.h>

static inline gchar *
build_golden_path (const gchar *name)
{
  const gchar *folder = g_getenv ("WEFT_GOLDEN");

  return folder != NULL ? g_build_filename (folder, name, NULL)
                        : g_build_filename (g_getenv ("WEFT_SOURCE_ROOT"), "tests", "golden", name, NULL);
}

static inline JsonObject *
load_golden (const gchar *name, JsonNode **root)
{
  g_autoptr (GError) error = NULL;
  g_autofree gchar *path = build_golden_path (name);

  *root = weft_json_load_file (path, &error);
  g_assert_no_error (error);
  return json_node_get_object (*root);
}
