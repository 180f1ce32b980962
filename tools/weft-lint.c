/* SPDX-License-Identifier: Apache-2.0 */
/* `weft lint`: what is doubtful about a mapping, each with a name that shows it. */
#include <string.h>

#include "mapping/weft-mapping-lint.h"
#include "mapping/weft-mapping.h"
#include "model/weft-architecture-registry.h"
#include "weft-command-load.h"
#include "weft-command-output.h"

typedef struct
{
  gboolean takes_all;
  gboolean is_counted_only;
  gboolean takes_known;
  gchar **module_trees;
} LintOptions;

static const GOptionEntry lint_options[] = {
  { "all", 'a', 0, G_OPTION_ARG_NONE, WEFT_COMMAND_OPTION (LintOptions, takes_all),
    "Every mapping of the registry", NULL },
  { "summary", 's', 0, G_OPTION_ARG_NONE, WEFT_COMMAND_OPTION (LintOptions, is_counted_only),
    "Count the findings of each kind, and list none", NULL },
  { "known", 'k', 0, G_OPTION_ARG_NONE, WEFT_COMMAND_OPTION (LintOptions, takes_known),
    "Find idle rules by the models that Weft knows, as their configs are by default", NULL },
  { "module-tree", 't', 0, G_OPTION_ARG_FILENAME_ARRAY, WEFT_COMMAND_OPTION (LintOptions, module_trees),
    "A model to find idle rules by; may be given several times", "FILE" },
  G_OPTION_ENTRY_NULL,
};

static const WeftCommandExample lint_examples[] = {
  { "A mapping that you write", "weft lint my-model.json" },
  { "A mapping that is shipped", "weft lint mixtral" },
  { "The rules of a model, tried on the names of its checkpoint", "weft lint Mixtral-8x7B" },
  { "Which rules does no model need that Weft knows?", "weft lint mixtral --known" },
  { "Everything that is shipped, for a script", "weft lint --all --json" },
  { NULL, NULL },
};

/* What is looked at: rules, the names to try them on (NULL: made from the patterns) and those to find idle rules by. */
typedef struct
{
  gchar *name;
  gchar *alias_of; /* (nullable): nothing but another name for that mapping */
  WeftTransformList *list;
  GStrv keys;
  GStrv known;
  GPtrArray *findings;
} Subject;

static void
subject_free (gpointer user_data)
{
  Subject *subject = user_data;

  g_free (subject->name);
  g_free (subject->alias_of);
  g_clear_object (&subject->list);
  g_strfreev (subject->keys);
  g_strfreev (subject->known);
  g_clear_pointer (&subject->findings, g_ptr_array_unref);
  g_free (subject);
}

static Subject *
subject_new (GPtrArray *subjects, const gchar *name)
{
  Subject *subject = g_new0 (Subject, 1);

  subject->name = g_strdup (name);
  g_ptr_array_add (subjects, subject);
  return subject;
}

static GStrv
list_names (WeftStateDict *state_dict)
{
  g_autoptr (GStrvBuilder) builder = g_strv_builder_new ();

  for (guint i = 0; i < weft_state_dict_get_n_tensors (state_dict); i++)
    g_strv_builder_add (builder, weft_state_dict_get_name (state_dict, i));
  return g_strv_builder_end (builder);
}

/* Rules for names of old are no part of the model's mapping, and idle in most checkpoints. */
static void
remove_legacy (WeftTransformList *list)
{
  for (guint i = weft_transform_list_get_n_transforms (list); i > 0; i--)
    if (g_strcmp0 (weft_weight_transform_get_origin (weft_transform_list_get_transform (list, i - 1)),
                   "legacy")
        == 0)
      weft_transform_list_remove (list, i - 1);
}

/* The rules of the model that a checkpoint's config names, and the checkpoint's own names to try them on. */
static gboolean
take_checkpoint (Subject *subject, const gchar *path, WeftMappingRegistry *registry, WeftCommandCall *call,
                 GError **error)
{
  g_autoptr (WeftCheckpoint) checkpoint = weft_checkpoint_open (path, call->cancellable, error);
  g_autoptr (WeftLoadOptions) options = weft_load_options_new ();

  if (checkpoint == NULL)
    return FALSE;
  if (weft_checkpoint_get_config (checkpoint) == NULL)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_MISSING, "%s: there is no config.json that names a model",
                   path);
      return FALSE;
    }
  weft_load_options_set_registry (options, registry);
  subject->list = weft_load_options_assemble (options, weft_checkpoint_get_config (checkpoint), path, error);
  if (subject->list == NULL)
    return FALSE;
  remove_legacy (subject->list);
  subject->keys = list_names (weft_checkpoint_get_state_dict (checkpoint));
  subject->known = g_strdupv (subject->keys);
  return TRUE;
}

/* Names of the tensors below one sub-model: as its mapping sees them, as the whole model does, and with the prefix that a
 * base model's names have in a model with a head. */
static void
add_names_below (GStrvBuilder *builder, WeftModuleTree *tree, guint sub_model)
{
  const gchar *fqn = weft_module_tree_get_sub_model_fqn (tree, sub_model);
  const gchar *base = weft_module_tree_get_sub_model_base_model_prefix (tree, sub_model);
  g_autofree gchar *prefix = *fqn != '\0' ? g_strconcat (fqn, ".", NULL) : g_strdup ("");

  for (guint i = 0; i < weft_module_tree_get_n_tensors (tree); i++)
    {
      const gchar *name = weft_module_tree_get_tensor_name (tree, i);
      g_autofree gchar *longer = NULL;

      if (!g_str_has_prefix (name, prefix))
        continue;
      longer = g_strdup_printf ("%s.%s", base != NULL ? base : "", name + strlen (prefix));
      g_strv_builder_add_many (builder, name, name + strlen (prefix), longer, NULL);
    }
}

/* Of each sub-model of that class or type. */
static gboolean
add_runtime_names (GStrvBuilder *builder, WeftModuleTree *tree, const gchar *name)
{
  gboolean has_any = FALSE;

  for (guint i = 0; i < weft_module_tree_get_n_sub_models (tree); i++)
    if (g_strcmp0 (weft_module_tree_get_sub_model_class (tree, i), name) == 0
        || g_strcmp0 (weft_module_tree_get_sub_model_type (tree, i), name) == 0)
      {
        add_names_below (builder, tree, i);
        has_any = TRUE;
      }
  return has_any;
}

/* Published names that the trees of @model (a type or a class) lead to; NULL stays if there is none of it. */
static gboolean
find_known (Subject *subject, const gchar *model, GPtrArray *trees, GError **error)
{
  g_autoptr (GStrvBuilder) builder = g_strv_builder_new ();
  g_auto (GStrv) names = NULL;
  gboolean has_any = FALSE;

  for (guint i = 0; i < trees->len; i++)
    has_any |= add_runtime_names (builder, trees->pdata[i], model);
  if (!has_any)
    return TRUE;
  names = g_strv_builder_end (builder);
  subject->known = weft_mapping_guess_published (subject->list, (const gchar *const *) names, error);
  return subject->known != NULL;
}

static gboolean
take_mapping (Subject *subject, const gchar *name, WeftMappingRegistry *registry, GPtrArray *trees,
              GError **error)
{
  g_autoptr (GError) local_error = NULL;

  subject->list = weft_mapping_registry_lookup (registry, name, &local_error);
  if (subject->list == NULL && local_error == NULL)
    g_set_error (error, WEFT_ERROR, WEFT_ERROR_MISSING,
                 "'%s' is no mapping, no mapping file and no checkpoint; `weft mappings` lists the mappings",
                 name);
  if (local_error != NULL)
    g_propagate_error (error, g_steal_pointer (&local_error));
  return subject->list != NULL && find_known (subject, name, trees, error);
}

/* A file is named after the model that it is for. */
static gboolean
take_file (Subject *subject, const gchar *path, GPtrArray *trees, GError **error)
{
  g_autofree gchar *name = g_path_get_basename (path);

  name[strlen (name) - strlen (".json")] = '\0';
  subject->list = weft_mapping_load (path, error);
  return subject->list != NULL && find_known (subject, name, trees, error);
}

/* The model that the defaults of its config make. A config that says nothing of the model is refused, so it says what
 * changes no name. */
static WeftModuleTree *
make_known_tree (WeftArchitectureRegistry *architectures, const gchar *model_type, const gchar *class_name,
                 GError **error)
{
  g_autoptr (JsonNode) config = json_node_new (JSON_NODE_OBJECT);
  g_autoptr (JsonObject) object = json_object_new ();

  json_object_set_string_member (object, "model_type", model_type);
  json_object_set_int_member (object, "vocab_size", 32000);
  json_object_set_int_member (object, "num_channels", 3);
  json_object_set_object_member (object, "text_config", json_object_new ());
  json_object_set_object_member (object, "vision_config", json_object_new ());
  json_node_set_object (config, object);
  return weft_module_tree_new_for_config (architectures, config, model_type, class_name, WEFT_DTYPE_INVALID,
                                          error);
}

/* All classes of a model type: one without a head lacks the names of the head. A model that its defaults alone do not make
 * is passed over; @subject's own is told. */
static gboolean
add_known_trees_of_type (GPtrArray *trees, WeftArchitectureRegistry *architectures, const gchar *model_type,
                         const gchar *subject, WeftCommandCall *call, guint *n_passed_over, GError **error)
{
  g_auto (GStrv) classes = weft_architecture_registry_list_classes (architectures, model_type, error);

  for (guint i = 0; classes != NULL && classes[i] != NULL; i++)
    {
      g_autoptr (GError) reason = NULL;
      WeftModuleTree *tree = make_known_tree (architectures, model_type, classes[i], &reason);

      if (tree != NULL)
        g_ptr_array_add (trees, tree);
      else if (g_strcmp0 (subject, model_type) == 0 || g_strcmp0 (subject, classes[i]) == 0)
        weft_command_note (call, "%s", reason->message);
      else
        (*n_passed_over)++;
    }
  return classes != NULL;
}

static gboolean
add_known_trees (GPtrArray *trees, WeftCommandCall *call, GError **error)
{
  g_autoptr (WeftArchitectureRegistry) architectures = weft_architecture_registry_new (error);
  g_auto (GStrv) types = NULL;
  guint n_passed_over = 0;

  if (architectures == NULL)
    return FALSE;
  types = weft_architecture_registry_list_model_types (architectures);
  for (guint i = 0; types[i] != NULL; i++)
    if (!add_known_trees_of_type (trees, architectures, types[i], call->arguments[0], call, &n_passed_over,
                                  error))
      return FALSE;
  if (n_passed_over > 0)
    weft_command_note (
        call, "%u other classes are not made by the defaults of their configs alone, and are passed over",
        n_passed_over);
  return TRUE;
}

static GPtrArray *
load_trees (const LintOptions *options, WeftCommandCall *call, GError **error)
{
  g_autoptr (GPtrArray) trees = g_ptr_array_new_with_free_func (g_object_unref);

  for (guint i = 0; options->module_trees != NULL && options->module_trees[i] != NULL; i++)
    {
      WeftModuleTree *tree = weft_module_tree_load (options->module_trees[i], error);

      if (tree == NULL)
        return NULL;
      g_ptr_array_add (trees, tree);
    }
  if (options->takes_known && !add_known_trees (trees, call, error))
    return NULL;
  return g_steal_pointer (&trees);
}

static gboolean
take_all (GPtrArray *subjects, WeftMappingRegistry *registry, GPtrArray *trees, GError **error)
{
  g_auto (GStrv) names = weft_mapping_registry_list_names (registry);

  for (guint i = 0; names[i] != NULL; i++)
    {
      Subject *subject = subject_new (subjects, names[i]);

      if (!take_mapping (subject, names[i], registry, trees, error))
        return FALSE;
      subject->alias_of = weft_mapping_registry_dup_alias (registry, names[i], NULL);
    }
  return TRUE;
}

static gboolean
take_one (GPtrArray *subjects, const gchar *argument, WeftMappingRegistry *registry, GPtrArray *trees,
          WeftCommandCall *call, GError **error)
{
  Subject *subject = subject_new (subjects, argument);

  if (weft_mapping_registry_has (registry, argument))
    return take_mapping (subject, argument, registry, trees, error);
  if (g_str_has_suffix (argument, ".json") && g_file_test (argument, G_FILE_TEST_IS_REGULAR))
    return take_file (subject, argument, trees, error);
  if (g_file_test (argument, G_FILE_TEST_EXISTS))
    return take_checkpoint (subject, argument, registry, call, error);
  return take_mapping (subject, argument, registry, trees, error);
}

static void
add_all (GPtrArray *findings, GPtrArray *others)
{
  for (guint i = 0; i < others->len; i++)
    g_ptr_array_add (findings, weft_lint_finding_copy (others->pdata[i]));
}

static gboolean
lint (Subject *subject, WeftCommandCall *call, GError **error)
{
  g_autoptr (GPtrArray) idle = NULL;

  if (subject->alias_of != NULL)
    {
      subject->findings = g_ptr_array_new ();
      return TRUE;
    }
  subject->findings =
      weft_mapping_lint (subject->list, (const gchar *const *) subject->keys, call->cancellable, error);
  if (subject->findings == NULL || subject->known == NULL)
    return subject->findings != NULL;
  idle =
      weft_mapping_lint_idle (subject->list, (const gchar *const *) subject->known, call->cancellable, error);
  if (idle != NULL)
    add_all (subject->findings, idle);
  return idle != NULL;
}

static gchar *
describe_rule (Subject *subject, guint rule)
{
  WeftWeightTransform *transform = weft_transform_list_get_transform (subject->list, rule);
  g_autofree gchar *sources =
      g_strjoinv ("', '", (GStrv) weft_weight_transform_get_written_sources (transform));
  g_autofree gchar *targets =
      g_strjoinv ("', '", (GStrv) weft_weight_transform_get_written_targets (transform));

  return g_strdup_printf ("%s[%u] '%s' -> '%s'", weft_weight_transform_get_origin (transform),
                          weft_weight_transform_get_origin_index (transform), sources, targets);
}

static void
print_finding (Subject *subject, const WeftLintFinding *finding)
{
  g_autofree gchar *rule = describe_rule (subject, finding->rule);

  weft_command_print ("%s  rule %u: %s\n", weft_lint_kind_get_name (finding->kind), finding->rule, rule);
  if (finding->other >= 0)
    {
      g_autofree gchar *other = describe_rule (subject, (guint) finding->other);

      weft_command_print ("    with rule %d: %s\n", finding->other, other);
    }
  if (*finding->key != '\0')
    weft_command_print ("    example: %s\n", finding->key);
  weft_command_print ("    %s\n", finding->detail);
}

/* Each kind that was found, once: why it matters, what to do. */
static void
print_kinds (GPtrArray *subjects, gboolean with_counts)
{
  for (guint kind = WEFT_LINT_KIND_OVERLAP; kind <= WEFT_LINT_KIND_LOOSE_DOT; kind++)
    {
      guint n = 0;

      for (guint i = 0; i < subjects->len; i++)
        for (guint k = 0; k < ((Subject *) subjects->pdata[i])->findings->len; k++)
          n += ((WeftLintFinding *) ((Subject *) subjects->pdata[i])->findings->pdata[k])->kind == kind;
      if (n == 0)
        continue;
      if (with_counts)
        weft_command_print ("%u ", n);
      weft_command_print ("%s: %s; %s\n", weft_lint_kind_get_name (kind), weft_lint_kind_get_reason (kind),
                          weft_lint_kind_get_advice (kind));
    }
}

static void
print_text (GPtrArray *subjects, const LintOptions *options)
{
  for (guint i = 0; i < subjects->len && !options->is_counted_only; i++)
    {
      Subject *subject = subjects->pdata[i];

      if (subject->findings->len > 0 && subjects->len > 1)
        weft_command_print ("# %s\n", subject->name);
      for (guint k = 0; k < subject->findings->len; k++)
        print_finding (subject, subject->findings->pdata[k]);
    }
  print_kinds (subjects, options->is_counted_only);
}

static void
add_text (JsonBuilder *builder, const gchar *name, const gchar *text)
{
  json_builder_set_member_name (builder, name);
  if (text != NULL && *text != '\0')
    json_builder_add_string_value (builder, text);
  else
    json_builder_add_null_value (builder);
}

static void
add_finding (JsonBuilder *builder, Subject *subject, const WeftLintFinding *finding)
{
  g_autofree gchar *rule = describe_rule (subject, finding->rule);
  g_autofree gchar *other = finding->other >= 0 ? describe_rule (subject, (guint) finding->other) : NULL;

  json_builder_begin_object (builder);
  add_text (builder, "mapping", subject->name);
  add_text (builder, "kind", weft_lint_kind_get_name (finding->kind));
  json_builder_set_member_name (builder, "rule");
  json_builder_add_int_value (builder, finding->rule);
  add_text (builder, "rule_text", rule);
  json_builder_set_member_name (builder, "other");
  json_builder_add_int_value (builder, finding->other);
  add_text (builder, "other_text", other);
  add_text (builder, "pattern", finding->pattern);
  add_text (builder, "key", finding->key);
  add_text (builder, "detail", finding->detail);
  add_text (builder, "reason", weft_lint_kind_get_reason (finding->kind));
  add_text (builder, "advice", weft_lint_kind_get_advice (finding->kind));
  json_builder_end_object (builder);
}

static void
print_json (GPtrArray *subjects)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  g_autoptr (JsonNode) root = NULL;

  json_builder_begin_array (builder);
  for (guint i = 0; i < subjects->len; i++)
    {
      Subject *subject = subjects->pdata[i];

      for (guint k = 0; k < subject->findings->len; k++)
        add_finding (builder, subject, subject->findings->pdata[k]);
    }
  json_builder_end_array (builder);
  root = json_builder_get_root (builder);
  weft_command_print_json (root);
}

static GPtrArray *
collect_subjects (WeftCommandCall *call, GError **error)
{
  const LintOptions *options = call->options;
  g_autoptr (GPtrArray) subjects = g_ptr_array_new_with_free_func (subject_free);
  g_autoptr (WeftMappingRegistry) registry = NULL;
  g_autoptr (GPtrArray) trees = NULL;
  gboolean ok;

  if (options->takes_all == (call->n_arguments > 0))
    {
      weft_command_set_usage_error (error, "name one mapping, mapping file or checkpoint, or give --all");
      return NULL;
    }
  registry = weft_mapping_registry_new (error);
  trees = registry != NULL ? load_trees (options, call, error) : NULL;
  if (trees == NULL)
    return NULL;
  ok = options->takes_all ? take_all (subjects, registry, trees, error)
                          : take_one (subjects, call->arguments[0], registry, trees, call, error);
  return ok ? g_steal_pointer (&subjects) : NULL;
}

static gint
run_lint (WeftCommandCall *call, GError **error)
{
  g_autoptr (GPtrArray) subjects = collect_subjects (call, error);
  guint n_findings = 0;

  if (subjects == NULL)
    return WEFT_COMMAND_FAILED;
  for (guint i = 0; i < subjects->len; i++)
    {
      Subject *subject = subjects->pdata[i];

      if (!lint (subject, call, error))
        return WEFT_COMMAND_FAILED;
      n_findings += subject->findings->len;
    }
  if (call->is_json)
    print_json (subjects);
  else
    print_text (subjects, call->options);
  weft_command_note (call, "%u %s in %u %s", n_findings, n_findings == 1 ? "finding" : "findings",
                     subjects->len, subjects->len == 1 ? "mapping" : "mappings");
  return n_findings > 0 ? WEFT_COMMAND_DIFFERS : WEFT_COMMAND_DONE;
}

const WeftCommandEntry weft_lint_command = {
  .name = "lint",
  .arguments = "[MAPPING|MODEL]",
  .summary = "Find what is doubtful about a mapping, with a name that shows it",
  .description =
      "Takes a mapping of the registry, a mapping file or a checkpoint folder (the rules of its model, tried on its own names). A "
      "mapping is tried on names that are made from its patterns. Found are: converters that overlap, rules that others shadow, "
      "renamings whose order matters, patterns that do not reverse, renamings of what a converter makes, unescaped dots that match "
      "something else; and, where names are known (a checkpoint, or models by --known or --module-tree), rules that match none of them.\n\n"
      "Each finding comes with a name that shows it, and was tried: what is said is what the rules do. A finding is not always a "
      "mistake: two rules may stand in their order on purpose. docs/lint.md lists those of the shipped mappings with their reasons. "
      "An alias has the findings of the mapping that it stands for, which are listed once.",
  .differs = "something was found",
  .min_arguments = 0,
  .max_arguments = 1,
  .options = lint_options,
  .options_size = sizeof (LintOptions),
  .examples = lint_examples,
  .run = run_lint,
};
