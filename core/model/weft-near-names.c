/* SPDX-License-Identifier: Apache-2.0 */
#include "model/weft-near-names-private.h"

#include <string.h>

#define N_NEAREST 3
/* Longer names are compared by their beginnings. */
#define MAX_LENGTH 127

/* Insertions, deletions and substitutions of bytes (Levenshtein). */
static guint
measure_distance (const gchar *a, const gchar *b)
{
  guint row[MAX_LENGTH + 1];
  guint n_a = (guint) MIN (strlen (a), MAX_LENGTH), n_b = (guint) MIN (strlen (b), MAX_LENGTH);

  for (guint i = 0; i <= n_b; i++)
    row[i] = i;
  for (guint i = 0; i < n_a; i++)
    {
      guint diagonal = row[0];

      row[0] = i + 1;
      for (guint k = 0; k < n_b; k++)
        {
          guint above = row[k + 1];
          guint substituted = diagonal + (a[i] != b[k] ? 1 : 0);

          row[k + 1] = MIN (MIN (row[k], above) + 1, substituted);
          diagonal = above;
        }
    }
  return row[n_b];
}

gchar *
weft_near_names (const gchar *name, const gchar *const *names)
{
  const gchar *nearest[N_NEAREST] = { NULL };
  guint distances[N_NEAREST] = { 0 };
  g_autoptr (GString) text = g_string_new (NULL);

  for (guint i = 0; names[i] != NULL; i++)
    {
      const gchar *candidate = names[i];
      guint distance = measure_distance (name, candidate);

      for (guint k = 0; k < N_NEAREST && candidate != NULL; k++)
        if (nearest[k] == NULL || distance < distances[k])
          {
            const gchar *displaced = nearest[k];
            guint displaced_distance = distances[k];

            nearest[k] = candidate;
            distances[k] = distance;
            candidate = displaced;
            distance = displaced_distance;
          }
    }
  for (guint i = 0; i < N_NEAREST && nearest[i] != NULL; i++)
    g_string_append_printf (text, "%s'%s'", i > 0 ? ", " : "", nearest[i]);
  return g_strdup (text->str);
}
