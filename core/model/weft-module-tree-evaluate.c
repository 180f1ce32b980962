/* SPDX-License-Identifier: Apache-2.0 */
/* A module tree from a config: the modules that its architecture gives, and what their classes say of the model. */
#include <string.h>

#include "model/weft-architecture-builder-private.h"
#include "model/weft-module-tree-private.h"
#include "model/weft-near-names-private.h"

/* What a model's class and those of its sub-models say. Names are relative to it. */
typedef struct
{
  GHashTable *ties; /* target -> source */
  GHashTable *ignore_on_load_missing;
  GHashTable *ignore_on_load_unexpected;
  GHashTable *ignore_on_save;
  GHashTable *keep_in_fp32;
  GHashTable *keep_in_fp32_strict;
  GArray *plan_rules[WEFT_N_PARALLEL_KINDS]; /* of WeftTextPair, in order */
} Facts;

/* The parts of a tree that is made of a config. */
typedef struct
{
  WeftModuleTree *tree;
  WeftArchitectureRegistry *registry;
  WeftArchitectureBuilder *builder;
} Evaluation;

static void
free_pair (gpointer pointer)
{
  g_free (((WeftTextPair *) pointer)->first);
  g_free (((WeftTextPair *) pointer)->second);
}

static GHashTable *
new_set (void)
{
  return g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
}

static Facts *
facts_new (void)
{
  Facts *self = g_new0 (Facts, 1);

  self->ties = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  self->ignore_on_load_missing = new_set ();
  self->ignore_on_load_unexpected = new_set ();
  self->ignore_on_save = new_set ();
  self->keep_in_fp32 = new_set ();
  self->keep_in_fp32_strict = new_set ();
  for (guint i = 0; i < WEFT_N_PARALLEL_KINDS; i++)
    {
      self->plan_rules[i] = g_array_new (FALSE, FALSE, sizeof (WeftTextPair));
      g_array_set_clear_func (self->plan_rules[i], free_pair);
    }
  return self;
}

static void
facts_free (Facts *self)
{
  g_hash_table_unref (self->ties);
  g_hash_table_unref (self->ignore_on_load_missing);
  g_hash_table_unref (self->ignore_on_load_unexpected);
  g_hash_table_unref (self->ignore_on_save);
  g_hash_table_unref (self->keep_in_fp32);
  g_hash_table_unref (self->keep_in_fp32_strict);
  for (guint i = 0; i < WEFT_N_PARALLEL_KINDS; i++)
    g_array_unref (self->plan_rules[i]);
  g_free (self);
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC (Facts, facts_free)

/* The value of an expression of a class on the config of a model. */
static gboolean
evaluate_fact (Evaluation *evaluation, const WeftBuiltModel *model, const gchar *member, JsonNode *expression,
               WeftValue *value, GError **error)
{
  WeftScope scope = { .config = G_OBJECT (model->config), .find_field = weft_model_config_find_field };

  if (weft_architecture_registry_evaluate (evaluation->registry, expression, &scope, value, error))
    return TRUE;
  g_prefix_error (error, "%s: %s: %s: %s: ", weft_model_config_get_where (model->config), model->file->where,
                  model->class_name, member);
  return FALSE;
}

/* A fact of a class, as it is on this config: a list of objects gives alternatives, of which the first counts whose
 * condition holds. %NULL: nothing is said. */
static gboolean
find_fact (Evaluation *evaluation, const WeftBuiltModel *model, const gchar *member, JsonNode **fact,
           GError **error)
{
  JsonNode *node = json_object_get_member (model->entry, member);
  JsonArray *list = node != NULL && JSON_NODE_HOLDS_ARRAY (node) ? json_node_get_array (node) : NULL;

  *fact = node;
  for (guint i = 0; list != NULL && i < json_array_get_length (list); i++)
    {
      JsonNode *element = json_array_get_element (list, i);
      JsonNode *condition = JSON_NODE_HOLDS_OBJECT (element)
                                ? json_object_get_member (json_node_get_object (element), "if")
                                : NULL;
      g_auto (WeftValue) value = WEFT_VALUE_INIT;

      if (condition == NULL)
        return TRUE;
      *fact = NULL;
      if (!evaluate_fact (evaluation, model, member, condition, &value, error))
        return FALSE;
      if (!weft_value_is_true (&value))
        continue;
      *fact = json_object_get_member (json_node_get_object (element), "value");
      return TRUE;
    }
  return TRUE;
}

/* A list that is written, or that an expression gives. */
static gboolean
find_list_fact (Evaluation *evaluation, const WeftBuiltModel *model, const gchar *member, WeftValue *value,
                GError **error)
{
  JsonNode *fact, *expression;

  if (!find_fact (evaluation, model, member, &fact, error))
    return FALSE;
  expression = fact != NULL && JSON_NODE_HOLDS_OBJECT (fact)
                   ? json_object_get_member (json_node_get_object (fact), "expression")
                   : NULL;
  if (expression != NULL)
    return evaluate_fact (evaluation, model, member, expression, value, error);
  if (fact != NULL)
    *value = weft_value_from_json (fact);
  return TRUE;
}

/* Adds the texts of a list. */
static gboolean
add_list_fact (Evaluation *evaluation, const WeftBuiltModel *model, const gchar *member, GHashTable *set,
               GError **error)
{
  g_auto (WeftValue) value = WEFT_VALUE_INIT;

  if (!find_list_fact (evaluation, model, member, &value, error))
    return FALSE;
  for (guint i = 0; value.kind == WEFT_VALUE_LIST && i < value.of.list->len; i++)
    {
      const WeftValue *element = &g_array_index (value.of.list, WeftValue, i);

      if (element->kind == WEFT_VALUE_TEXT)
        g_hash_table_add (set, g_strdup (element->of.text));
    }
  return TRUE;
}

/* Letters, digits, `_` and `.` up to the word `weight`, or `bias` alone: such names are taken as they are, whether they
 * exist or not. */
static gboolean
is_plain_name (const gchar *name)
{
  gsize length = strspn (name, G_CSET_A_2_Z G_CSET_a_2_z G_CSET_DIGITS "_.");
  const gchar *word = g_strrstr_len (name, (gssize) length, "weight");

  return (word != NULL && word > name) || strcmp (name, "bias") == 0;
}

static gint
compare_texts (gconstpointer a, gconstpointer b)
{
  return strcmp (*(const gchar *const *) a, *(const gchar *const *) b);
}

static void
list_names (const WeftModuleBody *body, GString *path, GPtrArray *names)
{
  gsize length = path->len;

  for (guint i = 0; i < body->tensors->len; i++)
    g_ptr_array_add (names,
                     g_strconcat (path->str, g_array_index (body->tensors, WeftModuleTensor, i).name, NULL));
  for (guint i = 0; i < body->children->len; i++)
    {
      const WeftModuleChild *child = &g_array_index (body->children, WeftModuleChild, i);

      g_string_append_printf (path, "%s.", child->name);
      list_names (child->body, path, names);
      g_string_truncate (path, length);
    }
}

/* The names that a pattern finds at their beginnings; @names is sorted. */
static GPtrArray *
match_names (GPtrArray *names, const gchar *pattern, GError **error)
{
  g_autofree gchar *anchored = g_strconcat ("^", pattern, NULL);
  g_autoptr (GError) cause = NULL;
  g_autoptr (GRegex) regex = g_regex_new (anchored, 0, 0, &cause);
  GPtrArray *found;

  if (regex == NULL)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_PATTERN, "ties: '%s' is no pattern: %s", pattern,
                   cause->message);
      return NULL;
    }
  found = g_ptr_array_new ();
  for (guint i = 0; i < names->len; i++)
    if (g_regex_match (regex, names->pdata[i], 0, NULL))
      g_ptr_array_add (found, names->pdata[i]);
  return found;
}

/* The sources go round over the targets; a source that is a target itself stands for its own source. */
static gboolean
add_pattern_tie (Facts *facts, GPtrArray *names, const gchar *target, const gchar *source, GError **error)
{
  g_autoptr (GPtrArray) targets = match_names (names, target, error);
  g_autoptr (GPtrArray) sources = targets != NULL ? match_names (names, source, error) : NULL;

  if (sources == NULL)
    return FALSE;
  if (sources->len == 0 || targets->len == 0 || targets->len % sources->len != 0)
    {
      g_set_error (
          error, WEFT_ERROR, WEFT_ERROR_PATTERN,
          "ties: '%s' finds %u names and its source '%s' %u; each must find some, and one number must divide the other",
          target, targets->len, source, sources->len);
      return FALSE;
    }
  for (guint i = 0; i < targets->len; i++)
    {
      const gchar *name = sources->pdata[i % sources->len];
      const gchar *first = g_hash_table_lookup (facts->ties, name);

      g_hash_table_insert (facts->ties, g_strdup (targets->pdata[i]),
                           g_strdup (first != NULL ? first : name));
    }
  return TRUE;
}

static gboolean
are_plain_names (JsonObject *ties, GList *targets)
{
  for (GList *target = targets; target != NULL; target = target->next)
    {
      const gchar *source = weft_architecture_get_text (ties, target->data);

      if (source == NULL || !is_plain_name (source) || !is_plain_name (target->data))
        return FALSE;
    }
  return TRUE;
}

static gboolean
ties_words (WeftModelConfig *config, gboolean *result, GError **error)
{
  g_auto (WeftValue) value = WEFT_VALUE_INIT;
  g_autoptr (GError) cause = NULL;

  if (!weft_model_config_find_field (G_OBJECT (config), "tie_word_embeddings", &value, &cause)
      && cause != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&cause));
      return FALSE;
    }
  *result = weft_value_is_true (&value);
  return TRUE;
}

static gboolean
add_ties (Evaluation *evaluation, const WeftBuiltModel *model, Facts *facts, GError **error)
{
  g_autoptr (GPtrArray) names = NULL;
  g_autoptr (GString) path = g_string_new (NULL);
  g_autoptr (GList) targets = NULL;
  gboolean is_active, are_plain;
  JsonObject *ties;
  JsonNode *fact;

  if (!ties_words (model->config, &is_active, error) || !find_fact (evaluation, model, "ties", &fact, error))
    return FALSE;
  if (!is_active || fact == NULL || !JSON_NODE_HOLDS_OBJECT (fact))
    return TRUE;
  ties = json_node_get_object (fact);
  targets = json_object_get_members (ties);
  are_plain = are_plain_names (ties, targets);
  names = g_ptr_array_new_with_free_func (g_free);
  if (!are_plain)
    list_names (model->body, path, names);
  g_ptr_array_sort (names, compare_texts);
  for (GList *target = targets; target != NULL; target = target->next)
    {
      const gchar *source = weft_architecture_get_text (ties, target->data);

      if (are_plain)
        g_hash_table_insert (facts->ties, g_strdup (target->data), g_strdup (source));
      else if (!add_pattern_tie (facts, names, target->data, source != NULL ? source : "", error))
        {
          g_prefix_error (error, "%s: %s: ", model->file->where, model->class_name);
          return FALSE;
        }
    }
  return TRUE;
}

static void
set_plan_rule (GArray *rules, const gchar *prefix, const gchar *pattern, const gchar *style)
{
  g_autofree gchar *full = g_strconcat (prefix, prefix[0] != '\0' ? "." : "", pattern, NULL);
  WeftTextPair rule = { NULL, g_strdup (style) };

  for (guint i = 0; i < rules->len; i++)
    {
      WeftTextPair *known = &g_array_index (rules, WeftTextPair, i);

      if (strcmp (known->first, full) != 0)
        continue;
      g_free (known->second);
      known->second = rule.second;
      return;
    }
  rule.first = g_steal_pointer (&full);
  g_array_append_val (rules, rule);
}

static void
add_plan (GArray *rules, JsonObject *plan)
{
  g_autoptr (GList) patterns = plan != NULL ? json_object_get_members (plan) : NULL;

  for (GList *pattern = patterns; pattern != NULL; pattern = pattern->next)
    if (weft_architecture_get_text (plan, pattern->data) != NULL)
      set_plan_rule (rules, "", pattern->data, weft_architecture_get_text (plan, pattern->data));
}

static gboolean
is_embedding (const WeftModuleChild *child)
{
  const WeftModuleBody *body = child != NULL ? child->body : NULL;

  return body != NULL
         && (strcmp (body->class_name, "Embedding") == 0
             || g_strv_contains ((const gchar *const *) body->bases->pdata, "Embedding"));
}

/* A class's own rules; a base model adds those of its model type, and cuts its embeddings unless they say how. */
static void
add_plans (const WeftBuiltModel *model, Facts *facts)
{
  static const gchar *const members[WEFT_N_PARALLEL_KINDS] = { "parallel_plan", "expert_plan" };
  const gchar *prefix = weft_architecture_get_text (model->entry, "base_model_prefix");
  WeftArchitecture *architecture = weft_model_config_get_known_architecture (model->config);
  gboolean is_base = prefix == NULL || weft_module_body_find_child (model->body, prefix) == NULL;
  GArray *rules = facts->plan_rules[WEFT_PARALLEL_KIND_TENSOR];
  WeftTextPair embeddings = { NULL, NULL };

  for (guint i = 0; i < WEFT_N_PARALLEL_KINDS; i++)
    {
      add_plan (facts->plan_rules[i], weft_architecture_get_object (model->entry, members[i]));
      if (is_base && architecture != NULL)
        add_plan (facts->plan_rules[i], weft_architecture_get_object (architecture->model, members[i]));
    }
  if (!is_base || rules->len == 0
      || !is_embedding (weft_module_body_find_child (model->body, "embed_tokens")))
    return;
  for (guint i = 0; i < rules->len; i++)
    if (strcmp (g_array_index (rules, WeftTextPair, i).first, "embed_tokens") == 0)
      return;
  embeddings = (WeftTextPair){ g_strdup ("embed_tokens"), g_strdup ("embedding_rowwise") };
  g_array_prepend_val (rules, embeddings);
}

static void
unite (GHashTable *set, GHashTable *other, const gchar *prefix)
{
  GHashTableIter texts;
  gpointer text;

  g_hash_table_iter_init (&texts, other);
  while (g_hash_table_iter_next (&texts, &text, NULL))
    g_hash_table_add (set, g_strconcat (prefix, prefix[0] != '\0' ? "." : "", text, NULL));
}

/* What a child says counts for its parent; patterns are searched, so that they need no prefix. */
static void
add_facts_of_child (Facts *facts, const gchar *name, Facts *own)
{
  GHashTableIter ties;
  gpointer target, source;

  g_hash_table_iter_init (&ties, own->ties);
  while (g_hash_table_iter_next (&ties, &target, &source))
    g_hash_table_insert (facts->ties, g_strconcat (name, ".", target, NULL),
                         g_strconcat (name, ".", source, NULL));
  unite (facts->ignore_on_load_missing, own->ignore_on_load_missing, "");
  unite (facts->ignore_on_load_unexpected, own->ignore_on_load_unexpected, "");
  unite (facts->ignore_on_save, own->ignore_on_save, name);
  unite (facts->keep_in_fp32, own->keep_in_fp32, "");
  unite (facts->keep_in_fp32_strict, own->keep_in_fp32_strict, "");
  for (guint i = 0; i < WEFT_N_PARALLEL_KINDS; i++)
    for (guint k = 0; k < own->plan_rules[i]->len; k++)
      {
        const WeftTextPair *rule = &g_array_index (own->plan_rules[i], WeftTextPair, k);

        set_plan_rule (facts->plan_rules[i], name, rule->first, rule->second);
      }
}

/* Children that are models count; models further down count through those between. */
static Facts *
gather_facts (Evaluation *evaluation, const WeftBuiltModel *model, GError **error)
{
  g_autoptr (Facts) facts = facts_new ();

  if (!add_ties (evaluation, model, facts, error)
      || !add_list_fact (evaluation, model, "ignore_on_load_missing", facts->ignore_on_load_missing, error)
      || !add_list_fact (evaluation, model, "ignore_on_load_unexpected", facts->ignore_on_load_unexpected,
                         error)
      || !add_list_fact (evaluation, model, "ignore_on_save", facts->ignore_on_save, error)
      || !add_list_fact (evaluation, model, "keep_in_fp32", facts->keep_in_fp32, error)
      || !add_list_fact (evaluation, model, "keep_in_fp32_strict", facts->keep_in_fp32_strict, error))
    return NULL;
  add_plans (model, facts);
  for (guint i = 0; i < model->body->children->len; i++)
    {
      const WeftModuleChild *child = &g_array_index (model->body->children, WeftModuleChild, i);
      const WeftBuiltModel *child_model =
          weft_architecture_builder_find_model (evaluation->builder, child->body);
      g_autoptr (Facts) own = NULL;

      if (child_model == NULL || child->alias_of != NULL)
        continue;
      own = gather_facts (evaluation, child_model, error);
      if (own == NULL)
        return NULL;
      add_facts_of_child (facts, child->name, own);
    }
  return g_steal_pointer (&facts);
}

static GStrv
sort_texts (GHashTable *set)
{
  guint n;
  g_autofree gpointer *texts = g_hash_table_get_keys_as_array (set, &n);
  g_autoptr (GStrvBuilder) builder = g_strv_builder_new ();

  if (n > 0)
    qsort (texts, n, sizeof (gpointer), compare_texts);
  for (guint i = 0; i < n; i++)
    g_strv_builder_add (builder, texts[i]);
  return g_strv_builder_end (builder);
}

/* Which tensors stay in 32 bits depends on the dtype that the others have. */
static void
set_dtype_plan (WeftModuleTree *tree, Facts *facts, WeftDtype dtype)
{
  g_autoptr (GHashTable) patterns = new_set ();
  g_auto (GStrv) sorted = NULL;

  if (dtype == WEFT_DTYPE_F16)
    unite (patterns, facts->keep_in_fp32, "");
  if (dtype == WEFT_DTYPE_F16 || dtype == WEFT_DTYPE_BF16)
    unite (patterns, facts->keep_in_fp32_strict, "");
  sorted = sort_texts (patterns);
  for (guint i = 0; sorted[i] != NULL; i++)
    weft_module_tree_add_dtype_rule (tree, sorted[i], WEFT_DTYPE_F32);
}

static void
set_facts (WeftModuleTree *tree, Facts *facts, WeftDtype dtype)
{
  g_auto (GStrv) targets = sort_texts (facts->ties);

  /* A class may name tensors that its config leaves out. */
  for (guint i = 0; targets[i] != NULL; i++)
    {
      const gchar *source = g_hash_table_lookup (facts->ties, targets[i]);

      if (weft_module_tree_find_tensor (tree, targets[i], NULL)
          && weft_module_tree_find_tensor (tree, source, NULL))
        weft_module_tree_add_tie (tree, targets[i], source);
    }
  tree->ignore_on_load_missing = sort_texts (facts->ignore_on_load_missing);
  tree->ignore_on_load_unexpected = sort_texts (facts->ignore_on_load_unexpected);
  tree->ignore_on_save = sort_texts (facts->ignore_on_save);
  set_dtype_plan (tree, facts, dtype);
  for (guint i = 0; i < WEFT_N_PARALLEL_KINDS; i++)
    for (guint k = 0; k < facts->plan_rules[i]->len; k++)
      weft_module_tree_add_plan_rule (tree, i, g_array_index (facts->plan_rules[i], WeftTextPair, k).first,
                                      g_array_index (facts->plan_rules[i], WeftTextPair, k).second);
}

static const gchar *
get_prefix (const WeftBuiltModel *model)
{
  const gchar *prefix = weft_architecture_get_text (model->entry, "base_model_prefix");

  return prefix != NULL ? prefix : "";
}

static void
add_sub_models (Evaluation *evaluation)
{
  WeftModuleTree *tree = evaluation->tree;

  for (guint i = 0; i < tree->modules->len; i++)
    {
      const WeftModulePlace *place = &g_array_index (tree->modules, WeftModulePlace, i);
      const WeftBuiltModel *model = weft_architecture_builder_find_model (evaluation->builder, place->body);
      const gchar *model_type = model != NULL ? weft_model_config_get_model_type (model->config) : NULL;

      if (model != NULL)
        weft_module_tree_add_sub_model (tree, place->fqn, model->class_name,
                                        model_type != NULL ? model_type : "", get_prefix (model),
                                        model->config);
    }
}

/* A class of the family, else an error that names near ones. */
static gboolean
check_class (WeftArchitectureRegistry *registry, WeftArchitecture *architecture, const gchar *class_name,
             const gchar *where, gint code, GError **error)
{
  const gchar *key;
  g_auto (GStrv) classes = NULL;
  g_autofree gchar *near = NULL;

  if (weft_architecture_file_find_class (architecture->file, class_name, &key) != NULL)
    return TRUE;
  classes = weft_architecture_registry_list_classes (registry, architecture->model_type, NULL);
  near = weft_near_names (class_name, (const gchar *const *) classes);
  g_set_error (error, WEFT_ERROR, code,
               "%s: the class '%s' is not known for the model type '%s'; classes with near names: %s", where,
               class_name, architecture->model_type, near);
  return FALSE;
}

static WeftArchitecture *
find_architecture (WeftArchitectureRegistry *registry, WeftModelConfig *config, GError **error)
{
  const gchar *model_type = weft_model_config_get_model_type (config);
  g_autoptr (GError) cause = NULL;
  WeftArchitecture *architecture =
      model_type != NULL ? weft_architecture_registry_lookup (registry, model_type, &cause) : NULL;
  g_auto (GStrv) known = NULL;
  g_autofree gchar *near = NULL;

  if (architecture != NULL)
    return architecture;
  if (cause != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&cause));
      return NULL;
    }
  if (model_type == NULL)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_UNSUPPORTED,
                   "%s: names no model type, so that its architecture cannot be known",
                   weft_model_config_get_where (config));
      return NULL;
    }
  known = weft_architecture_registry_list_model_types (registry);
  near = weft_near_names (model_type, (const gchar *const *) known);
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_UNSUPPORTED,
               "%s: the architecture of the model type '%.100s' is not known; near names: %s",
               weft_model_config_get_where (config), model_type, near);
  return NULL;
}

/* A config that says nothing of the model but its name is a stub: to take defaults for all of it would be to guess. */
static gboolean
check_describes (WeftArchitecture *architecture, JsonObject *config, const gchar *where, GError **error)
{
  static const gchar *const sections[] = { "fields", "configs", "aliases" };

  for (guint i = 0; i < G_N_ELEMENTS (sections); i++)
    {
      JsonObject *section = weft_architecture_get_config_section (architecture, sections[i]);
      g_autoptr (GList) names = section != NULL ? json_object_get_members (section) : NULL;

      for (GList *name = names; name != NULL; name = name->next)
        if (json_object_has_member (config, name->data))
          return TRUE;
    }
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_UNSUPPORTED,
               "%s: says nothing of a model of the type '%s' but its name, so that its sizes are not known",
               where, architecture->model_type);
  return FALSE;
}

/* The class that is asked for, or that the config names, or that the model type has by default. */
static gchar *
choose_class (WeftArchitectureRegistry *registry, WeftArchitecture *architecture, WeftModelConfig *config,
              const gchar *asked, GError **error)
{
  const gchar *named = asked != NULL ? asked : weft_model_config_get_architecture (config);
  gchar *by_default;

  if (named != NULL)
    return check_class (registry, architecture, named, weft_model_config_get_where (config),
                        asked != NULL ? WEFT_ERROR_ARGUMENT : WEFT_ERROR_UNSUPPORTED, error)
               ? g_strdup (named)
               : NULL;
  by_default = weft_architecture_dup_class_of_role (architecture, "model");
  if (by_default == NULL)
    g_set_error (
        error, WEFT_ERROR, WEFT_ERROR_UNSUPPORTED,
        "%s: names no class in 'architectures', and the model type '%s' has none by default; name one",
        weft_model_config_get_where (config), architecture->model_type);
  return by_default;
}

/* Whether `auto_map` says that the class of the model comes with the checkpoint. */
static gboolean
refuse_custom_code (WeftModuleTree *tree, JsonNode *config, const gchar *where, GError **error)
{
  if (!weft_module_tree_mark_custom_code (tree, config, where, error))
    return TRUE;
  if (!weft_module_tree_is_sub_model_custom (tree, 0))
    return FALSE;
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_UNSUPPORTED,
               "%s: the class '%s' comes with the checkpoint (auto_map); its architecture is not known",
               where, tree->class_name);
  return TRUE;
}

static gboolean
evaluate_tree (Evaluation *evaluation, WeftModelConfig *config, const gchar *class_name, WeftDtype dtype,
               GError **error)
{
  WeftModuleTree *tree = evaluation->tree;
  WeftModuleBody *root = weft_architecture_builder_build (evaluation->builder, class_name, config, error);
  const WeftBuiltModel *model;
  g_autoptr (Facts) facts = NULL;

  if (root == NULL || !weft_module_tree_complete (tree, root, weft_model_config_get_where (config), error))
    return FALSE;
  model = weft_architecture_builder_find_model (evaluation->builder, root);
  facts = gather_facts (evaluation, model, error);
  if (facts == NULL)
    return FALSE;
  tree->has_tensors = TRUE;
  tree->class_name = g_strdup (class_name);
  tree->model_type = g_strdup (weft_model_config_get_model_type (config));
  tree->base_model_prefix = g_strdup (get_prefix (model));
  tree->dtype = dtype;
  add_sub_models (evaluation);
  set_facts (tree, facts, dtype);
  return TRUE;
}

/* A class of which only the models in it are known: enough to look up mappings. %NULL if more is known, or not even that. */
static JsonArray *
find_outline (WeftArchitecture *architecture, const gchar *class_name, JsonObject **entry)
{
  const gchar *key;

  *entry = weft_architecture_file_find_class (architecture->file, class_name, &key);
  return *entry != NULL && !json_object_has_member (*entry, "module")
             ? weft_architecture_get_array (*entry, "outline")
             : NULL;
}

static void
add_outlined (WeftModuleTree *tree, WeftArchitectureFile *file, JsonArray *outline)
{
  for (guint i = 0; i < json_array_get_length (outline); i++)
    {
      JsonNode *node = json_array_get_element (outline, i);
      JsonObject *model = JSON_NODE_HOLDS_OBJECT (node) ? json_node_get_object (node) : NULL;
      const gchar *path = model != NULL ? weft_architecture_get_text (model, "path") : NULL;
      const gchar *written = model != NULL ? weft_architecture_get_text (model, "class") : NULL;
      const gchar *model_type = model != NULL ? weft_architecture_get_text (model, "model_type") : NULL;
      const gchar *prefix = model != NULL ? weft_architecture_get_text (model, "base_model_prefix") : NULL;
      g_autofree gchar *class_name = written != NULL ? weft_architecture_file_expand (file, written) : NULL;

      if (path != NULL && class_name != NULL)
        weft_module_tree_add_sub_model (tree, path, class_name, model_type != NULL ? model_type : "",
                                        prefix != NULL ? prefix : "", NULL);
    }
}

static WeftModuleTree *
make_outlined (WeftModelConfig *config, const gchar *class_name, JsonObject *entry, JsonArray *outline,
               GError **error)
{
  g_autoptr (WeftModuleTree) tree = weft_module_tree_new_empty ();
  g_autoptr (Facts) nothing = facts_new ();
  const gchar *prefix = weft_architecture_get_text (entry, "base_model_prefix");
  const gchar *model_type = weft_model_config_get_model_type (config);

  tree->class_name = g_strdup (class_name);
  tree->model_type = g_strdup (model_type);
  tree->base_model_prefix = g_strdup (prefix != NULL ? prefix : "");
  if (!weft_module_tree_complete (tree, weft_module_body_new (class_name, NULL),
                                  weft_model_config_get_where (config), error))
    return NULL;
  weft_module_tree_add_sub_model (tree, "", class_name, model_type, tree->base_model_prefix, config);
  add_outlined (tree, weft_model_config_get_known_architecture (config)->file, outline);
  set_facts (tree, nothing, WEFT_DTYPE_INVALID);
  return g_steal_pointer (&tree);
}

static WeftModuleTree *
make_evaluated (WeftArchitectureRegistry *registry, WeftModelConfig *config, const gchar *class_name,
                WeftDtype dtype, GError **error)
{
  g_autoptr (WeftArchitectureBuilder) builder = NULL;
  g_autoptr (WeftModuleTree) tree = weft_module_tree_new_empty ();
  Evaluation evaluation = { .registry = registry, .tree = tree };

  if (dtype == WEFT_DTYPE_INVALID && !weft_model_config_find_dtype (config, &dtype, error))
    return NULL;
  if (dtype == WEFT_DTYPE_INVALID)
    dtype = WEFT_DTYPE_F32;
  builder = weft_architecture_builder_new (registry, dtype);
  evaluation.builder = builder;
  return evaluate_tree (&evaluation, config, class_name, dtype, error) ? g_steal_pointer (&tree) : NULL;
}

/**
 * weft_module_tree_new_for_config:
 * @registry: (nullable): what is known of architectures; %NULL for weft_architecture_registry_new()
 * @root: the content of `config.json`
 * @where: what messages call it, such as the path of the file
 * @class_name: (nullable): a class of the model's family, such as its base model or one with another head; %NULL for the first
 *   of the config's `architectures`, or the one that the model type has by default
 * @dtype: the dtype that is asked for, on which it depends what stays in 32 bits; %WEFT_DTYPE_INVALID for the config's,
 *   or 32 bits if it names none
 * @error: return location
 *
 * Makes the tree of a model that Weft knows from its config alone. Of some classes Weft knows only which models are in them:
 * such a tree has sub-models, and no tensors.
 *
 * Returns: (transfer full): the tree
 * Errors: %WEFT_ERROR_UNSUPPORTED if the model type or the config's class is not known, or comes with the checkpoint (such a
 *   model can still be converted without a tree); %WEFT_ERROR_ARGUMENT if @class_name is not known; %WEFT_ERROR_FORMAT,
 *   %WEFT_ERROR_MISSING, %WEFT_ERROR_SHAPE or %WEFT_ERROR_LIMIT if the config does not give a model
 * Since: 1.0
 */
WeftModuleTree *
weft_module_tree_new_for_config (WeftArchitectureRegistry *registry, JsonNode *root, const gchar *where,
                                 const gchar *class_name, WeftDtype dtype, GError **error)
{
  g_autoptr (WeftArchitectureRegistry) own =
      registry != NULL ? g_object_ref (registry) : weft_architecture_registry_new (error);
  g_autoptr (WeftModelConfig) plain = own != NULL ? weft_model_config_new (root, where, error) : NULL;
  g_autoptr (WeftArchitecture) architecture = plain != NULL ? find_architecture (own, plain, error) : NULL;
  g_autoptr (WeftModelConfig) config = NULL;
  g_autoptr (WeftModuleTree) tree = NULL;
  g_autofree gchar *chosen = NULL;
  JsonObject *entry;
  JsonArray *outline;

  if (architecture == NULL)
    return NULL;
  chosen = choose_class (own, architecture, plain, class_name, error);
  if (chosen == NULL || !check_describes (architecture, json_node_get_object (root), where, error))
    return NULL;
  config = weft_model_config_new_for_architecture (json_node_get_object (root), where, architecture, error);
  outline = find_outline (architecture, chosen, &entry);
  tree = outline != NULL ? make_outlined (config, chosen, entry, outline, error)
                         : make_evaluated (own, config, chosen, dtype, error);
  return tree != NULL && !refuse_custom_code (tree, root, where, error) ? g_steal_pointer (&tree) : NULL;
}
