/* SPDX-License-Identifier: Apache-2.0 */
#include "parallel/weft-parallel-plan-private.h"

#include <string.h>

#include "base/weft-json.h"
#include "parallel/weft-parallel-plan-internal.h"

#define TENSOR_MEMBER "parallel_plan"
#define EXPERT_MEMBER "expert_plan"

struct _WeftParallelPlan
{
  GObject parent_instance;

  GPtrArray *rules; /* of WeftParallelRule, in the order they were given */
  /* Pattern -> WeftParallelRule. */
  GHashTable *by_pattern[WEFT_N_PARALLEL_KINDS];
};

G_DEFINE_FINAL_TYPE (WeftParallelPlan, weft_parallel_plan, G_TYPE_OBJECT)

static void
rule_free (gpointer pointer)
{
  WeftParallelRule *rule = pointer;

  g_clear_pointer (&rule->placement, weft_placement_free);
  g_free (rule->pattern);
  g_free (rule->text);
  g_free (rule);
}

static void
weft_parallel_plan_finalize (GObject *object)
{
  WeftParallelPlan *self = WEFT_PARALLEL_PLAN (object);

  for (guint i = 0; i < WEFT_N_PARALLEL_KINDS; i++)
    g_hash_table_unref (self->by_pattern[i]);
  g_ptr_array_unref (self->rules);
  G_OBJECT_CLASS (weft_parallel_plan_parent_class)->finalize (object);
}

static void
weft_parallel_plan_class_init (WeftParallelPlanClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = weft_parallel_plan_finalize;
}

static void
weft_parallel_plan_init (WeftParallelPlan *self)
{
  self->rules = g_ptr_array_new_with_free_func (rule_free);
  for (guint i = 0; i < WEFT_N_PARALLEL_KINDS; i++)
    self->by_pattern[i] = g_hash_table_new (g_str_hash, g_str_equal);
}

/**
 * weft_parallel_plan_new:
 *
 * Returns: (transfer full): a plan without rules
 * Since: 1.0
 */
WeftParallelPlan *
weft_parallel_plan_new (void)
{
  return g_object_new (WEFT_TYPE_PARALLEL_PLAN, NULL);
}

/* A later rule for the same names takes the place of an earlier one. */
static void
take_rule (WeftParallelPlan *self, WeftParallelRule *rule)
{
  WeftParallelRule *old = g_hash_table_lookup (self->by_pattern[rule->kind], rule->pattern);
  guint position = 0;

  g_hash_table_replace (self->by_pattern[rule->kind], rule->pattern, rule);
  if (old == NULL || !g_ptr_array_find (self->rules, old, &position))
    {
      g_ptr_array_add (self->rules, rule);
      return;
    }
  rule_free (old);
  self->rules->pdata[position] = rule;
}

/* @style is a name of the table or a placement. */
static WeftParallelRule *
rule_new (const gchar *pattern, const gchar *style, GError **error)
{
  gboolean is_placement = strchr (style, ':') != NULL;
  const WeftParallelStyle *named = !is_placement ? weft_parallel_style_find (style, error) : NULL;
  WeftPlacement *placement = is_placement ? weft_placement_new (style, error) : NULL;
  WeftParallelRule *rule;

  if (named == NULL && placement == NULL)
    {
      g_prefix_error (error, "'%s': ", pattern);
      return NULL;
    }
  rule = g_new0 (WeftParallelRule, 1);
  rule->pattern = g_strdup (pattern);
  rule->text = g_strdup (style);
  rule->style = named;
  rule->placement = placement;
  rule->kind = named != NULL ? weft_parallel_style_get_kind (named) : WEFT_PARALLEL_KIND_TENSOR;
  return rule;
}

/* A rule of the caller. A style of experts is one wherever it stands; others are of the kind of the list that they stand in. */
static gboolean
add_given (WeftParallelPlan *self, WeftParallelKind kind, const gchar *pattern, const gchar *style,
           GError **error)
{
  WeftParallelRule *rule = rule_new (pattern, style, error);

  if (rule == NULL)
    return FALSE;
  if (kind == WEFT_PARALLEL_KIND_EXPERT)
    rule->kind = kind;
  take_rule (self, rule);
  return TRUE;
}

/**
 * weft_parallel_plan_add_rule:
 * @self: a plan
 * @pattern: the name of a module or of a tensor, with `*` for a number between dots
 * @style: a style, or a placement as weft_placement_new() reads it
 * @error: return location
 *
 * Adds a rule, in place of one for the same names. That it matches nothing is an error where the plan is used.
 *
 * Returns: whether there is such a style
 * Errors: %WEFT_ERROR_ARGUMENT if there is none
 * Since: 1.0
 */
gboolean
weft_parallel_plan_add_rule (WeftParallelPlan *self, const gchar *pattern, const gchar *style, GError **error)
{
  return add_given (self, WEFT_PARALLEL_KIND_TENSOR, pattern, style, error);
}

static gboolean
add_member (WeftParallelPlan *self, WeftParallelKind kind, const gchar *pattern, JsonNode *style,
            const gchar *where, GError **error)
{
  if (!JSON_NODE_HOLDS_VALUE (style) || json_node_get_value_type (style) != G_TYPE_STRING)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT,
                   "%s: '%s': expected the name of a style, found a value of another kind", where, pattern);
      return FALSE;
    }
  if (add_given (self, kind, pattern, json_node_get_string (style), error))
    return TRUE;
  g_prefix_error (error, "%s: ", where);
  return FALSE;
}

static gboolean
add_members (WeftParallelPlan *self, WeftParallelKind kind, JsonNode *node, const gchar *where,
             GError **error)
{
  JsonObjectIter iter;
  const gchar *pattern;
  JsonNode *style;

  if (!JSON_NODE_HOLDS_OBJECT (node))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT,
                   "%s: expected an object from name patterns to styles, as in "
                   "{\"layers.*.self_attn.q_proj\": \"colwise\"}",
                   where);
      return FALSE;
    }
  json_object_iter_init_ordered (&iter, json_node_get_object (node));
  while (json_object_iter_next_ordered (&iter, &pattern, &style))
    if (!add_member (self, kind, pattern, style, where, error))
      return FALSE;
  return TRUE;
}

/**
 * weft_parallel_plan_new_from_json:
 * @root: an object from name patterns to styles; or one with such objects as `parallel_plan` and `expert_plan`, as a module tree has
 *   them
 * @where: what messages call it
 * @error: return location
 *
 * Returns: (transfer full): the plan
 * Errors: %WEFT_ERROR_FORMAT if @root is something else, %WEFT_ERROR_ARGUMENT if a style is unknown
 * Since: 1.0
 */
WeftParallelPlan *
weft_parallel_plan_new_from_json (JsonNode *root, const gchar *where, GError **error)
{
  static const gchar *const members[WEFT_N_PARALLEL_KINDS] = {
    [WEFT_PARALLEL_KIND_TENSOR] = TENSOR_MEMBER, [WEFT_PARALLEL_KIND_EXPERT] = EXPERT_MEMBER
  };
  g_autoptr (WeftParallelPlan) self = weft_parallel_plan_new ();
  JsonObject *object = JSON_NODE_HOLDS_OBJECT (root) ? json_node_get_object (root) : NULL;
  gboolean is_flat = TRUE;

  for (guint i = 0; object != NULL && i < G_N_ELEMENTS (members); i++)
    {
      JsonNode *node = json_object_get_member (object, members[i]);

      if (node == NULL || !JSON_NODE_HOLDS_OBJECT (node))
        continue;
      is_flat = FALSE;
      if (!add_members (self, i, node, where, error))
        return NULL;
    }
  if (is_flat && !add_members (self, WEFT_PARALLEL_KIND_TENSOR, root, where, error))
    return NULL;
  return g_steal_pointer (&self);
}

/* The members of a document while it is read. */
typedef struct
{
  GHashTable *seen;
  gchar *twice; /* (nullable): the first name that an object has twice */
} Members;

static void
note_member (G_GNUC_UNUSED JsonParser *parser, JsonObject *object, const gchar *name, gpointer user_data)
{
  Members *members = user_data;

  if (!g_hash_table_add (members->seen, g_strdup_printf ("%p %s", (gpointer) object, name))
      && members->twice == NULL)
    members->twice = g_strdup (name);
}

/* Of two rules for the same names a reader keeps one, and nobody knows which was meant. @path: a document that is JSON. */
static gboolean
check_members (const gchar *path, GError **error)
{
  g_autoptr (GHashTable) seen = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  Members members = { seen, NULL };
  g_autoptr (JsonParser) parser = json_parser_new ();
  g_autofree gchar *twice = NULL;
  g_autoptr (GError) local_error = NULL;

  g_signal_connect (parser, "object-member", G_CALLBACK (note_member), &members);
  if (!json_parser_load_from_file (parser, path, &local_error))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_IO, "%s: cannot be read: %s", path, local_error->message);
      return FALSE;
    }
  twice = members.twice;
  if (twice == NULL)
    return TRUE;
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT,
               "%s: '%s' stands twice in one object; leave one of them out", path, twice);
  return FALSE;
}

/**
 * weft_parallel_plan_load:
 * @path: (type filename): a JSON file, see weft_parallel_plan_new_from_json()
 * @error: return location
 *
 * Returns: (transfer full): the plan
 * Errors: %WEFT_ERROR_IO; %WEFT_ERROR_FORMAT if a name stands twice; those of weft_parallel_plan_new_from_json()
 * Since: 1.0
 */
WeftParallelPlan *
weft_parallel_plan_load (const gchar *path, GError **error)
{
  g_autoptr (JsonNode) root = weft_json_load_file (path, error);

  return root != NULL && check_members (path, error) ? weft_parallel_plan_new_from_json (root, path, error)
                                                     : NULL;
}

static gboolean
add_shipped (WeftParallelPlan *self, WeftParallelKind kind, const gchar *pattern, const gchar *style,
             GError **error)
{
  WeftParallelRule *rule = rule_new (pattern, style, error);

  if (rule == NULL)
    return FALSE;
  rule->kind = kind;
  rule->is_shipped = TRUE;
  take_rule (self, rule);
  return TRUE;
}

gboolean
weft_parallel_plan_add_styles (WeftParallelPlan *self, GVariant *styles, GError **error)
{
  GVariantIter iter;
  const gchar *name, *style;

  g_variant_iter_init (&iter, styles);
  while (g_variant_iter_next (&iter, "{&s&s}", &name, &style))
    {
      g_autofree gchar *pattern = weft_parallel_plan_generalize_name (name);

      if (!add_shipped (self, WEFT_PARALLEL_KIND_TENSOR, pattern, style, error))
        return FALSE;
    }
  return TRUE;
}

/**
 * weft_parallel_plan_new_for_module_tree:
 * @tree: a model
 * @error: return location
 *
 * Returns: (transfer full): the plans that come with the model; without rules if none does
 * Errors: %WEFT_ERROR_ARGUMENT if a style is unknown
 * Since: 1.0
 */
WeftParallelPlan *
weft_parallel_plan_new_for_module_tree (WeftModuleTree *tree, GError **error)
{
  g_autoptr (WeftParallelPlan) self = weft_parallel_plan_new ();

  for (guint kind = 0; kind < WEFT_N_PARALLEL_KINDS; kind++)
    for (guint i = 0; i < weft_module_tree_get_n_plan_rules (tree, kind); i++)
      if (!add_shipped (self, kind, weft_module_tree_get_plan_rule_pattern (tree, kind, i),
                        weft_module_tree_get_plan_rule_style (tree, kind, i), error))
        {
          g_prefix_error (error, "the plan of %s: ", weft_module_tree_get_class (tree));
          return NULL;
        }
  return g_steal_pointer (&self);
}

/**
 * weft_parallel_plan_merge:
 * @self: a plan
 * @overrides: rules that are tried before all that came with a model; a plan without rules clears all
 * @error: return location
 *
 * Returns: whether that went well
 * Errors: those of weft_parallel_plan_add_rule()
 * Since: 1.0
 */
gboolean
weft_parallel_plan_merge (WeftParallelPlan *self, WeftParallelPlan *overrides, GError **error)
{
  if (overrides->rules->len == 0)
    {
      for (guint i = 0; i < WEFT_N_PARALLEL_KINDS; i++)
        g_hash_table_remove_all (self->by_pattern[i]);
      g_ptr_array_set_size (self->rules, 0);
    }
  for (guint i = 0; i < overrides->rules->len; i++)
    {
      const WeftParallelRule *given = overrides->rules->pdata[i];

      if (!add_given (self, given->kind, given->pattern, given->text, error))
        return FALSE;
    }
  return TRUE;
}

/**
 * weft_parallel_plan_get_n_rules:
 * @self: a plan
 *
 * Returns: how many rules it has
 * Since: 1.0
 */
guint
weft_parallel_plan_get_n_rules (WeftParallelPlan *self)
{
  return self->rules->len;
}

const WeftParallelRule *
weft_parallel_plan_get_rule (WeftParallelPlan *self, guint rule)
{
  g_return_val_if_fail (rule < self->rules->len, NULL);
  return self->rules->pdata[rule];
}

/**
 * weft_parallel_plan_get_pattern:
 * @self: a plan
 * @rule: position of a rule
 *
 * Returns: (transfer none): the names that it is for
 * Since: 1.0
 */
const gchar *
weft_parallel_plan_get_pattern (WeftParallelPlan *self, guint rule)
{
  return weft_parallel_plan_get_rule (self, rule)->pattern;
}

/**
 * weft_parallel_plan_get_style:
 * @self: a plan
 * @rule: position of a rule
 *
 * Returns: (transfer none): its style, or the placement that it was given
 * Since: 1.0
 */
const gchar *
weft_parallel_plan_get_style (WeftParallelPlan *self, guint rule)
{
  return weft_parallel_plan_get_rule (self, rule)->text;
}

/**
 * weft_parallel_plan_generalize_name:
 * @name: a name
 *
 * Returns: (transfer full): the name with `*` for each number between dots, as rules write it. Of two numbers side by side the
 *   second stays: `layers.0.1.w` gives `layers.*.1.w`.
 * Since: 1.0
 */
gchar *
weft_parallel_plan_generalize_name (const gchar *name)
{
  GString *pattern = g_string_sized_new (strlen (name));

  while (*name != '\0')
    {
      gsize n_digits = *name == '.' ? strspn (name + 1, "0123456789") : 0;
      gchar end = name[n_digits + 1];

      if (n_digits > 0 && (end == '.' || end == '\0'))
        {
          g_string_append (pattern, end == '.' ? ".*." : ".*");
          name += n_digits + 1 + (end == '.');
        }
      else
        g_string_append_c (pattern, *name++);
    }
  return g_string_free (pattern, FALSE);
}

/* The module around a module or tensor, generalised; NULL at the top. */
static gchar *
generalize_parent (const gchar *name)
{
  const gchar *dot = strrchr (name, '.');
  g_autofree gchar *parent = dot != NULL ? g_strndup (name, (gsize) (dot - name)) : NULL;

  return parent != NULL ? weft_parallel_plan_generalize_name (parent) : NULL;
}

/* Whether experts' rules are for a module that a tensors' rule is for, or is in: then that rule does not count. Those that came with the
 * model do not take a rule of the caller. */
static gboolean
is_taken_by_experts (WeftParallelPlan *self, const WeftParallelRule *taken)
{
  GHashTableIter iter;
  gpointer module, rule;

  g_hash_table_iter_init (&iter, self->by_pattern[WEFT_PARALLEL_KIND_EXPERT]);
  while (g_hash_table_iter_next (&iter, &module, &rule))
    {
      gsize n = strlen (module);

      if (strncmp (taken->pattern, module, n) == 0 && (taken->pattern[n] == '\0' || taken->pattern[n] == '.')
          && (taken->is_shipped || !((const WeftParallelRule *) rule)->is_shipped))
        return TRUE;
    }
  return FALSE;
}

static const WeftParallelRule *
find_own_rule (WeftParallelPlan *self, WeftParallelKind kind, gboolean is_shipped, const gchar *pattern)
{
  const WeftParallelRule *rule =
      pattern != NULL ? g_hash_table_lookup (self->by_pattern[kind], pattern) : NULL;

  return rule != NULL && rule->is_shipped == is_shipped ? rule : NULL;
}

static const WeftParallelRule *
find_rule (WeftParallelPlan *self, WeftParallelKind kind, gboolean is_shipped, const gchar *pattern,
           const gchar *parent, gboolean *is_own)
{
  const WeftParallelRule *rule = find_own_rule (self, kind, is_shipped, pattern);

  *is_own = rule != NULL;
  return rule == NULL ? find_own_rule (self, kind, is_shipped, parent) : rule;
}

const WeftParallelRule *
weft_parallel_plan_lookup (WeftParallelPlan *self, gboolean with_experts, const gchar *name, gboolean *is_own)
{
  g_autofree gchar *pattern = weft_parallel_plan_generalize_name (name);
  g_autofree gchar *parent = generalize_parent (name);

  for (guint is_shipped = FALSE; is_shipped <= TRUE; is_shipped++)
    {
      const WeftParallelRule *rule =
          with_experts ? find_rule (self, WEFT_PARALLEL_KIND_EXPERT, is_shipped, pattern, parent, is_own)
                       : NULL;

      if (rule != NULL)
        return rule;
      rule = find_rule (self, WEFT_PARALLEL_KIND_TENSOR, is_shipped, pattern, parent, is_own);
      if (rule != NULL && !(with_experts && is_taken_by_experts (self, rule)))
        return rule;
    }
  return NULL;
}

/**
 * weft_parallel_plan_find_rule:
 * @self: a plan
 * @name: the name of a tensor
 * @rule: (out) (optional): position of the rule for it
 *
 * Looks up the rule for a tensor: that of its own name, or else that of the module that it is in; of experts' rules
 * first. Rules that came with a model are looked at last.
 *
 * Returns: whether there is one
 * Since: 1.0
 */
gboolean
weft_parallel_plan_find_rule (WeftParallelPlan *self, const gchar *name, guint *rule)
{
  gboolean is_own;
  const WeftParallelRule *found = weft_parallel_plan_lookup (self, TRUE, name, &is_own);

  return found != NULL && g_ptr_array_find (self->rules, found, rule);
}

/**
 * weft_parallel_plan_list_styles:
 *
 * Returns: (transfer full): the names of all styles
 * Since: 1.0
 */
GStrv
weft_parallel_plan_list_styles (void)
{
  return weft_parallel_style_list_names ();
}

/**
 * weft_rank_folder_name:
 * @rank: a rank, from 0 on
 * @world_size: how many there are
 *
 * Returns: (transfer full): the name of the folder that holds what the rank has, beside those of the others:
 *   `rank-00000-of-00004`
 * Since: 1.0
 */
gchar *
weft_rank_folder_name (guint rank, guint world_size)
{
  return g_strdup_printf ("rank-%05u-of-%05u", rank, world_size);
}
