/* SPDX-License-Identifier: Apache-2.0 */
#include "transform/weft-transform-names.h"

#include <string.h>

static gboolean
check_unique (const gchar *const *names, GError **error)
{
  g_autoptr (GHashTable) seen = g_hash_table_new (g_str_hash, g_str_equal);

  for (guint i = 0; names[i] != NULL; i++)
    if (!g_hash_table_add (seen, (gpointer) names[i]))
      {
        g_set_error (
            error, WEFT_ERROR, WEFT_ERROR_CONFLICT,
            "two outputs are named '%s'; give each target a name of its own, with a '*' where a number goes",
            names[i]);
        return FALSE;
      }
  return TRUE;
}

/**
 * weft_transform_expand_names:
 * @full_layer_name: the name built with the first target, as the renamed key has it
 * @names: (array zero-terminated=1): the names that the last op gave
 * @error: return location
 *
 * The first of @names that occurs in @full_layer_name (where each `*.` counts as `0.`) shows what stands around it; all
 * names get that text around them. If none occurs they are full names already.
 *
 * Returns: (transfer full): the full names, in the same order
 * Errors: %WEFT_ERROR_CONFLICT if two outputs have one name
 * Since: 1.0
 */
GStrv
weft_transform_expand_names (const gchar *full_layer_name, const gchar *const *names, GError **error)
{
  g_autoptr (GString) layer = g_string_new (full_layer_name);
  g_autoptr (GStrvBuilder) full_names = g_strv_builder_new ();
  const gchar *anchor = NULL;
  gsize anchor_length = 0;

  if (!check_unique (names, error))
    return NULL;
  g_string_replace (layer, "*.", "0.", 0);
  for (guint i = 0; names[i] != NULL && anchor == NULL; i++)
    {
      anchor = strstr (layer->str, names[i]);
      anchor_length = strlen (names[i]);
    }
  for (guint i = 0; names[i] != NULL; i++)
    {
      g_autofree gchar *full_name = anchor == NULL
                                        ? g_strdup (names[i])
                                        : g_strdup_printf ("%.*s%s%s", (gint) (anchor - layer->str),
                                                           layer->str, names[i], anchor + anchor_length);

      g_strv_builder_add (full_names, full_name);
    }
  return g_strv_builder_end (full_names);
}
