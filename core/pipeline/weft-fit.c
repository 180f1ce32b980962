/* SPDX-License-Identifier: Apache-2.0 */
#include "pipeline/weft-fit-private.h"

#include <string.h>

#include "transform/weft-transform-list.h"

/* Under one in so many, what matches does so by chance. */
#define TOO_SMALL 20
/* How many leading parts of a name are tried as a prefix that the model lacks. */
#define MAX_PREFIX_PARTS 4
/* Names that differ by numbers alone count once; a checkpoint has some hundred of them at most. */
#define MAX_SAMPLES 1000
/* Mappings that could be meant. */
#define N_NAMED_MAPPINGS 3
/* Fractions of a score count too. */
#define SCORE_SCALE 1000

gboolean
weft_fit_is_chance (guint n_matching, guint n_all)
{
  return (guint64) n_matching * TOO_SMALL < n_all;
}

/* @name without the parts that are numbers. */
static gchar *
make_shape (const gchar *name)
{
  GString *shape = g_string_new (NULL);

  for (const gchar *part = name; *part != '\0';)
    {
      gsize length = strcspn (part, ".");

      if (strspn (part, "0123456789") != length)
        g_string_append_len (shape, part, (gssize) length);
      g_string_append_c (shape, '.');
      part += length + (part[length] == '.');
    }
  return g_string_free (shape, FALSE);
}

/* One name of each shape: numbers do not count. */
static GPtrArray *
sample_names (WeftStateDict *published)
{
  GPtrArray *names = g_ptr_array_new ();
  g_autoptr (GHashTable) seen = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  guint n = weft_state_dict_get_n_tensors (published);

  for (guint i = 0; i < n && names->len < MAX_SAMPLES; i++)
    {
      const gchar *name = weft_state_dict_get_name (published, i);

      if (g_hash_table_add (seen, make_shape (name)))
        g_ptr_array_add (names, (gpointer) name);
    }
  return names;
}

static void
count_vote (GHashTable *votes, gchar *prefix)
{
  guint n = GPOINTER_TO_UINT (g_hash_table_lookup (votes, prefix));

  g_hash_table_replace (votes, prefix, GUINT_TO_POINTER (n + 1));
}

/* The entry with most votes, if they are more than half of @n. */
static const gchar *
find_winner (GHashTable *votes, guint n, guint *n_votes)
{
  GHashTableIter iter;
  gpointer prefix, count;
  const gchar *winner = NULL;

  *n_votes = n / 2;
  g_hash_table_iter_init (&iter, votes);
  while (g_hash_table_iter_next (&iter, &prefix, &count))
    if (GPOINTER_TO_UINT (count) > *n_votes)
      {
        winner = prefix;
        *n_votes = GPOINTER_TO_UINT (count);
      }
  return winner;
}

/* Names that are the model's without their first parts. */
static gchar *
describe_prefix_too_much (GPtrArray *names, GHashTable *model_keys)
{
  g_autoptr (GHashTable) votes = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  const gchar *winner;
  g_autofree gchar *escaped = NULL;
  guint n_votes;

  for (guint i = 0; i < names->len; i++)
    {
      const gchar *name = names->pdata[i];
      const gchar *dot = strchr (name, '.');

      for (guint part = 0; dot != NULL && part < MAX_PREFIX_PARTS; part++, dot = strchr (dot + 1, '.'))
        if (g_hash_table_contains (model_keys, dot + 1))
          count_vote (votes, g_strndup (name, (gsize) (dot + 1 - name)));
    }
  winner = find_winner (votes, names->len, &n_votes);
  if (winner == NULL)
    return NULL;
  escaped = g_regex_escape_string (winner, -1);
  return g_strdup_printf ("%u of %u kinds of names are the model's without their '%s' (--key-mapping '^%s=')",
                          n_votes, names->len, winner, escaped);
}

/* Names that are those of a sub-model. */
static gchar *
describe_sub_model (GPtrArray *names, GHashTable *model_keys, WeftModuleTree *tree)
{
  guint n_most = names->len / 2;
  guint winner = 0;

  for (guint i = 1; i < weft_module_tree_get_n_sub_models (tree); i++)
    {
      guint n = 0;

      for (guint k = 0; k < names->len; k++)
        {
          g_autofree gchar *longer = g_strconcat (weft_module_tree_get_sub_model_fqn (tree, i), ".",
                                                  (const gchar *) names->pdata[k], NULL);

          n += g_hash_table_contains (model_keys, longer);
        }
      if (n > n_most)
        {
          n_most = n;
          winner = i;
        }
    }
  if (winner == 0)
    return NULL;
  return g_strdup_printf ("%u of %u kinds of names are those of its part '%s' (%s; --key-mapping '^=%s.' "
                          "--allow-missing)",
                          n_most, names->len, weft_module_tree_get_sub_model_fqn (tree, winner),
                          weft_module_tree_get_sub_model_class (tree, winner),
                          weft_module_tree_get_sub_model_fqn (tree, winner));
}

/* How many of the rules of a mapping the names meet, converters counting most: they name what is special of a model. */
static guint64
score_mapping (WeftTransformList *rules, GPtrArray *names, guint *n_used)
{
  guint n_rules = weft_transform_list_get_n_transforms (rules);
  guint64 score = 0;

  *n_used = 0;
  for (guint i = 0; i < names->len; i++)
    {
      g_autoptr (WeftRenamedKey) renamed G_GNUC_UNUSED =
          weft_transform_list_rename_key (rules, names->pdata[i], NULL, NULL, NULL);
    }
  for (guint i = 0; i < n_rules; i++)
    if (weft_weight_transform_get_used (weft_transform_list_get_transform (rules, i)))
      {
        (*n_used)++;
        score += weft_transform_list_is_converter (rules, i) ? 3 : 1;
      }
  /* Rules that are not met count twice against it; a mapping that is met half is no likely one. */
  return *n_used * 2 > n_rules ? score * *n_used * *n_used * SCORE_SCALE / ((guint64) n_rules * n_rules) : 0;
}

typedef struct
{
  const gchar *name;
  guint64 score;
  guint n_used;
  guint n_rules;
} Candidate;

/* The best first; equal ones in the order of their names. */
static gint
compare_candidates (gconstpointer a, gconstpointer b)
{
  const Candidate *candidate_a = a;
  const Candidate *candidate_b = b;

  if (candidate_a->score != candidate_b->score)
    return candidate_a->score < candidate_b->score ? 1 : -1;
  return strcmp (candidate_a->name, candidate_b->name);
}

static GArray *
find_candidates (GPtrArray *names, WeftMappingRegistry *registry, GStrv entries, const gchar *own_type)
{
  GArray *candidates = g_array_new (FALSE, FALSE, sizeof (Candidate));

  for (guint i = 0; entries[i] != NULL; i++)
    {
      g_autofree gchar *alias = weft_mapping_registry_dup_alias (registry, entries[i], NULL);
      g_autoptr (WeftTransformList) rules = NULL;
      Candidate candidate = { .name = entries[i] };

      if (alias != NULL || strcmp (entries[i], "legacy") == 0 || g_strcmp0 (entries[i], own_type) == 0)
        continue;
      rules = weft_mapping_registry_lookup (registry, entries[i], NULL);
      if (rules == NULL)
        continue;
      candidate.n_rules = weft_transform_list_get_n_transforms (rules);
      candidate.score = score_mapping (rules, names, &candidate.n_used);
      if (candidate.score > 0)
        g_array_append_val (candidates, candidate);
    }
  g_array_sort (candidates, compare_candidates);
  return candidates;
}

static gchar *
describe_mappings (GPtrArray *names, WeftMappingRegistry *registry, const gchar *own_type)
{
  g_auto (GStrv) entries = weft_mapping_registry_list_names (registry);
  g_autoptr (GArray) candidates = find_candidates (names, registry, entries, own_type);
  g_autoptr (GString) text = g_string_new ("the mapping");

  for (guint i = 0; i < MIN (candidates->len, N_NAMED_MAPPINGS); i++)
    {
      const Candidate *candidate = &g_array_index (candidates, Candidate, i);

      /* One that fits half as well as the best is not meant. */
      if (candidate->score * 2 < g_array_index (candidates, Candidate, 0).score)
        break;
      g_string_append_printf (text, "%s'%s' (%u of its %u rules match)", i == 0 ? " " : " or ",
                              candidate->name, candidate->n_used, candidate->n_rules);
    }
  return candidates->len > 0 ? g_string_free (g_steal_pointer (&text), FALSE) : NULL;
}

gchar *
weft_fit_describe_nearest (WeftStateDict *published, WeftModuleTree *tree, WeftMappingRegistry *registry)
{
  g_autoptr (GPtrArray) names = sample_names (published);
  GHashTable *model_keys = weft_module_tree_get_model_keys (tree);
  gchar *sentence = describe_prefix_too_much (names, model_keys);

  if (sentence == NULL)
    sentence = describe_sub_model (names, model_keys, tree);
  if (sentence == NULL)
    sentence = describe_mappings (names, registry, weft_module_tree_get_model_type (tree));
  return sentence;
}
