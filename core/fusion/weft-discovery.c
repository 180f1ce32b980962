/* SPDX-License-Identifier: Apache-2.0 */
#include "fusion/weft-discovery-private.h"

#include <string.h>

/* Paths longer than this are no misspelling of anything. */
#define MAX_COMPARED_LENGTH 256

static gboolean
matches_component (const gchar *pattern, const gchar *text)
{
  const gchar *star = NULL;
  const gchar *resume = NULL;

  while (*text != '\0')
    if (*pattern == '*')
      {
        star = pattern++;
        resume = text;
      }
    else if (*pattern == *text)
      {
        pattern++;
        text++;
      }
    else if (star != NULL)
      {
        pattern = star + 1;
        text = ++resume;
      }
    else
      return FALSE;
  while (*pattern == '*')
    pattern++;
  return *pattern == '\0';
}

/* As for characters within a component, with `**` as the star. */
static gboolean
matches_parts (GStrv patterns, GStrv parts)
{
  guint p = 0, i = 0, resume = 0;
  gint star = -1;

  while (parts[i] != NULL)
    if (patterns[p] != NULL && strcmp (patterns[p], "**") == 0)
      {
        star = (gint) p++;
        resume = i;
      }
    else if (patterns[p] != NULL && matches_component (patterns[p], parts[i]))
      {
        p++;
        i++;
      }
    else if (star >= 0)
      {
        p = (guint) star + 1;
        i = ++resume;
      }
    else
      return FALSE;
  while (patterns[p] != NULL && strcmp (patterns[p], "**") == 0)
    p++;
  return patterns[p] == NULL;
}

gboolean
weft_discovery_matches (const gchar *match, const gchar *fqn)
{
  g_auto (GStrv) patterns = g_strsplit (match, ".", -1);
  g_auto (GStrv) parts = g_strsplit (fqn, ".", -1);

  return matches_parts (patterns, parts);
}

/* A module under several paths is visited at each; it counts once, at its own. */
static gboolean
is_first_visit (WeftModule *module, const gchar *fqn)
{
  g_auto (GStrv) fqns = weft_module_dup_fqns (module);

  return fqns[0] == NULL || strcmp (fqns[0], fqn) == 0;
}

static GPtrArray *
compile_patterns (WeftFusionTarget *family, GError **error)
{
  g_autoptr (GPtrArray) regexes = g_ptr_array_new_with_free_func ((GDestroyNotify) g_regex_unref);
  g_auto (GStrv) patterns =
      weft_module_fusion_spec_list_target_patterns (WEFT_MODULE_FUSION_SPEC (family->feature));

  for (guint i = 0; patterns[i] != NULL; i++)
    {
      g_autoptr (GError) local_error = NULL;
      GRegex *regex = g_regex_new (patterns[i], 0, 0, &local_error);

      if (regex == NULL)
        {
          g_set_error (error, WEFT_ERROR, WEFT_ERROR_PATTERN,
                       "family '%s': target pattern '%s' is no pattern: %s", family->name, patterns[i],
                       local_error->message);
          return NULL;
        }
      g_ptr_array_add (regexes, regex);
    }
  return g_steal_pointer (&regexes);
}

static gboolean
is_hit (GPtrArray *regexes, WeftModule *module)
{
  g_auto (GStrv) fqns = weft_module_dup_fqns (module);

  for (guint i = 0; i < regexes->len; i++)
    for (guint j = 0; fqns[j] != NULL; j++)
      if (g_regex_match (regexes->pdata[i], fqns[j], 0, NULL))
        return TRUE;
  return regexes->len == 0;
}

GPtrArray *
weft_discovery_find_fusable (WeftModuleTree *tree, WeftFusionTarget *family, guint *n_candidates,
                             gchar **example, GError **error)
{
  g_autoptr (GPtrArray) regexes = compile_patterns (family, error);
  g_autoptr (GPtrArray) found = g_ptr_array_new_with_free_func (g_object_unref);

  *n_candidates = 0;
  *example = NULL;
  for (guint i = 0; regexes != NULL && i < weft_module_tree_get_n_modules (tree); i++)
    {
      g_autoptr (WeftModule) module = weft_module_tree_get_module (tree, i);
      g_autofree gchar *reason = NULL;

      if (!is_first_visit (module, weft_module_tree_get_module_fqn (tree, i)) || !is_hit (regexes, module))
        continue;
      (*n_candidates)++;
      if (!weft_fusion_target_test (family, module, &reason, error))
        {
          g_prefix_error (error, "'%s': ", weft_module_get_fqn (module));
          g_clear_pointer (example, g_free);
          return NULL;
        }
      if (reason == NULL)
        g_ptr_array_add (found, g_steal_pointer (&module));
      else if (*example == NULL && regexes->len > 0)
        *example = g_strdup_printf ("'%s': %s", weft_module_get_fqn (module), reason);
    }
  return regexes != NULL ? g_steal_pointer (&found) : NULL;
}

static gboolean
has_matching_fqn (WeftModule *module, GStrv patterns)
{
  g_auto (GStrv) fqns = weft_module_dup_fqns (module);

  for (guint i = 0; fqns[i] != NULL; i++)
    {
      g_auto (GStrv) parts = g_strsplit (fqns[i], ".", -1);

      if (matches_parts (patterns, parts))
        return TRUE;
    }
  return FALSE;
}

GPtrArray *
weft_discovery_find_matching (WeftModuleTree *tree, const gchar *match)
{
  g_auto (GStrv) patterns = g_strsplit (match, ".", -1);
  GPtrArray *found = g_ptr_array_new_with_free_func (g_object_unref);

  for (guint i = 0; i < weft_module_tree_get_n_modules (tree); i++)
    {
      g_autoptr (WeftModule) module = weft_module_tree_get_module (tree, i);

      if (is_first_visit (module, weft_module_tree_get_module_fqn (tree, i))
          && has_matching_fqn (module, patterns))
        g_ptr_array_add (found, g_steal_pointer (&module));
    }
  return found;
}

/* `model.layers.0.mlp` as `model.layers.*.mlp`. */
static gchar *
generalise (const gchar *fqn)
{
  g_auto (GStrv) parts = g_strsplit (fqn, ".", -1);

  for (guint i = 0; parts[i] != NULL; i++)
    if (parts[i][0] != '\0' && parts[i][strspn (parts[i], "0123456789")] == '\0')
      {
        g_free (parts[i]);
        parts[i] = g_strdup ("*");
      }
  return g_strjoinv (".", parts);
}

/* The number of characters to change, insert or remove; neighbours that are swapped count once. */
static guint
measure_distance (const gchar *a, const gchar *b)
{
  guint rows[3][MAX_COMPARED_LENGTH + 1];
  gsize n_a = strlen (a), n_b = strlen (b);

  if (n_a > MAX_COMPARED_LENGTH || n_b > MAX_COMPARED_LENGTH)
    return G_MAXUINT;
  for (guint j = 0; j <= n_b; j++)
    rows[0][j] = j;
  for (guint i = 1; i <= n_a; i++)
    {
      guint *row = rows[i % 3];
      const guint *above = rows[(i + 2) % 3];
      const guint *two_above = rows[(i + 1) % 3];

      row[0] = i;
      for (guint j = 1; j <= n_b; j++)
        {
          row[j] = MIN (MIN (above[j], row[j - 1]) + 1, above[j - 1] + (a[i - 1] != b[j - 1]));
          if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
            row[j] = MIN (row[j], two_above[j - 2] + 1);
        }
    }
  return rows[n_a % 3][n_b];
}

gchar *
weft_discovery_find_nearest (WeftModuleTree *tree, const gchar *match)
{
  g_autofree gchar *general_match = generalise (match);
  guint least = (guint) strlen (match) / 2 + 1;
  gchar *nearest = NULL;

  for (guint i = 0; i < weft_module_tree_get_n_modules (tree); i++)
    {
      g_autofree gchar *general = generalise (weft_module_tree_get_module_fqn (tree, i));
      guint distance = measure_distance (general_match, general);

      if (distance >= least)
        continue;
      least = distance;
      g_free (nearest);
      nearest = g_steal_pointer (&general);
    }
  return nearest;
}
