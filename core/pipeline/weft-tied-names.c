/* SPDX-License-Identifier: Apache-2.0 */
#include "pipeline/weft-tied-names-private.h"

#include <string.h>

#include "base/weft-json.h"

struct _WeftTiedNames
{
  /* GPtrArray of names that the tree owns. */
  GPtrArray *groups;
  /* Name -> its group. */
  GHashTable *by_name;
};

void
weft_tied_names_free (WeftTiedNames *self)
{
  g_ptr_array_unref (self->groups);
  g_hash_table_unref (self->by_name);
  g_free (self);
}

typedef enum
{
  SAYS_NOTHING,
  SAYS_FALSE,
  SAYS_TRUE,
} TyingChoice;

/* What a config says of itself, or, if it does not say true, what a config inside of it says. */
static TyingChoice
find_choice (JsonNode *config)
{
  JsonNode *own = weft_json_lookup (config, "tie_word_embeddings");
  TyingChoice choice = SAYS_NOTHING;
  g_autoptr (GList) members = NULL;

  if (own != NULL && JSON_NODE_HOLDS_VALUE (own) && json_node_get_value_type (own) == G_TYPE_BOOLEAN)
    choice = json_node_get_boolean (own) ? SAYS_TRUE : SAYS_FALSE;
  members = json_object_get_values (json_node_get_object (config));
  for (GList *member = members; member != NULL && choice != SAYS_TRUE; member = member->next)
    if (JSON_NODE_HOLDS_OBJECT ((JsonNode *) member->data) && find_choice (member->data) == SAYS_TRUE)
      choice = SAYS_TRUE;
  return choice;
}

static GPtrArray *
get_or_add_group (WeftTiedNames *self, const gchar *name)
{
  GPtrArray *group = g_hash_table_lookup (self->by_name, name);

  if (group != NULL)
    return group;
  group = g_ptr_array_new ();
  g_ptr_array_add (group, (gpointer) name);
  g_ptr_array_add (self->groups, group);
  g_hash_table_insert (self->by_name, (gpointer) name, group);
  return group;
}

/* Moves the names of @from to the end of @into. */
static void
join_groups (WeftTiedNames *self, GPtrArray *into, GPtrArray *from)
{
  if (into == from)
    return;
  for (guint i = 0; i < from->len; i++)
    {
      g_ptr_array_add (into, from->pdata[i]);
      g_hash_table_insert (self->by_name, from->pdata[i], into);
    }
  g_ptr_array_remove (self->groups, from);
}

WeftTiedNames *
weft_tied_names_new (WeftModuleTree *tree, JsonNode *config)
{
  WeftTiedNames *self = g_new0 (WeftTiedNames, 1);
  gboolean is_tying =
      config == NULL || !JSON_NODE_HOLDS_OBJECT (config) || find_choice (config) != SAYS_FALSE;

  self->groups = g_ptr_array_new_with_free_func ((GDestroyNotify) g_ptr_array_unref);
  self->by_name = g_hash_table_new (g_str_hash, g_str_equal);
  for (guint i = 0; is_tying && i < weft_module_tree_get_n_ties (tree); i++)
    {
      GPtrArray *source = get_or_add_group (self, weft_module_tree_get_tie_source (tree, i));

      join_groups (self, source, get_or_add_group (self, weft_module_tree_get_tie_target (tree, i)));
    }
  return self;
}

GPtrArray *
weft_tied_names_find (WeftTiedNames *self, const gchar *name)
{
  return g_hash_table_lookup (self->by_name, name);
}

guint
weft_tied_names_get_n_groups (WeftTiedNames *self)
{
  return self->groups->len;
}

GPtrArray *
weft_tied_names_get_group (WeftTiedNames *self, guint position)
{
  return self->groups->pdata[position];
}
