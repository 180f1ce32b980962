/* SPDX-License-Identifier: Apache-2.0 */
#include "pipeline/weft-ignore-list-private.h"

GPtrArray *
weft_ignore_list_new (const gchar *const *patterns, const gchar *where, GError **error)
{
  g_autoptr (GPtrArray) list = g_ptr_array_new_with_free_func ((GDestroyNotify) g_regex_unref);

  for (guint i = 0; patterns != NULL && patterns[i] != NULL; i++)
    {
      g_autoptr (GError) cause = NULL;
      GRegex *regex = g_regex_new (patterns[i], 0, 0, &cause);

      if (regex == NULL)
        {
          g_set_error (error, WEFT_ERROR, WEFT_ERROR_PATTERN, "%s: '%s' is no pattern: %s", where,
                       patterns[i], cause->message);
          return NULL;
        }
      g_ptr_array_add (list, regex);
    }
  return g_steal_pointer (&list);
}

gboolean
weft_ignore_list_has (GPtrArray *list, const gchar *name)
{
  for (guint i = 0; i < list->len; i++)
    if (g_regex_match (list->pdata[i], name, 0, NULL))
      return TRUE;
  return FALSE;
}
