/* SPDX-License-Identifier: Apache-2.0 */
/* Plan overrides: what a file may say, what is selected, and that a plan is applied as a whole or not at all. */
#include "made-model-private.h"

/* Files: how many entries, or the message. No text: a million open brackets. */
static const struct
{
  const gchar *name;
  const gchar *text;
  guint n_entries;
  gint code;
  const gchar *message;
} files[] = {
  { "list", "- match: a.*.b\n  replace_module: {_target_: p.C}\n", 1, 0, NULL },
  { "plan-overrides", "plan_overrides:\n  - match: a\n    replace_module:\n      _target_: p.C\n", 1, 0,
    NULL },
  { "under-parallelism", "parallelism:\n  tp: 2\n  plan_overrides: []\n", 0, 0, NULL },
  { "json", "[{\"match\": \"a\", \"replace_module\": {\"_target_\": \"p.C\", \"bias\": true}}]", 1, 0, NULL },
  { "json-with-tabs", "[\n\t{\"match\": \"a\",\n\t\"replace_module\": {\"_target_\": \"p.C\"}}\n]\n", 1, 0,
    NULL },
  { "no-yaml", "- match: [\n", 0, WEFT_ERROR_FORMAT, "o.yaml:2:1: no valid YAML" },
  { "empty", "", 0, WEFT_ERROR_FORMAT, "o.yaml: the document is empty" },
  { "two-documents", "- match: a\n  replace_module: {_target_: p.C}\n---\n- match: b\n", 0, WEFT_ERROR_FORMAT,
    "o.yaml:3:1: a second document begins" },
  { "broken-second-document", "[]\n---\n- [\n", 0, WEFT_ERROR_FORMAT, "a second document begins" },
  { "end-of-document", "- match: a\n  replace_module: {_target_: p.C}\n...\n", 1, 0, NULL },
  { "key-with-nul", "- \"match\\0x\": a\n", 0, WEFT_ERROR_FORMAT, "o.yaml:1:3: a key must be a text" },
  { "byte-order-mark", "\xEF\xBB\xBF- match: a\n  replace_module: {_target_: p.C}\n", 1, 0, NULL },
  { "too-deep", NULL, 0, WEFT_ERROR_LIMIT, "o.yaml:1:65: nested deeper than 64 levels" },
  { "no-list", "match: a\n", 0, WEFT_ERROR_ARGUMENT, "o.yaml: expected a list of entries" },
  { "entry-is-a-text", "- a\n", 0, WEFT_ERROR_ARGUMENT, "o.yaml:1:3: entry 1 must be a map" },
  { "same-key-twice", "- match: a\n  match: b\n", 0, WEFT_ERROR_FORMAT,
    "o.yaml:2:3: the key is there twice: 'match'" },
  { "unknown-key", "- match: a\n  replace_module: {_target_: p.C}\n- match: b\n  replace: {_target_: p.C}\n",
    0, WEFT_ERROR_ARGUMENT,
    "o.yaml:3:3: entry 2: 'replace' is unknown, expected match, replace_module and on_mismatch" },
  { "module-type", "- match: a\n  module_type: X\n", 0, WEFT_ERROR_ARGUMENT,
    "entry 1: 'module_type' is unknown: it belongs to the target" },
  { "exact-type-in-the-target", "- match: a\n  replace_module: {_target_: p.C, exact_type: true}\n", 0,
    WEFT_ERROR_ARGUMENT, "entry 1: 'exact_type' belongs to the target" },
  { "no-match", "- replace_module: {_target_: p.C}\n", 0, WEFT_ERROR_ARGUMENT,
    "entry 1: 'match' must be a text, found nothing" },
  { "match-is-a-number", "- match: 1\n", 0, WEFT_ERROR_ARGUMENT,
    "entry 1: 'match' must be a text, found a whole number" },
  { "match-with-half-stars", "- match: a.**b\n", 0, WEFT_ERROR_PATTERN, "entry 1: match 'a.**b'" },
  { "no-target", "- match: a\n  replace_module: {}\n", 0, WEFT_ERROR_ARGUMENT,
    "entry 1: '_target_' must be a text, found nothing" },
  { "no-replacement", "- match: a\n", 0, WEFT_ERROR_ARGUMENT,
    "'replace_module' must be a map with '_target_'" },
  { "other-mismatch", "- match: a\n  on_mismatch: warn\n", 0, WEFT_ERROR_ARGUMENT,
    "'on_mismatch' takes error or skip, found 'warn'" },
  { "aliases-that-grow",
    "a: &a [x, x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a]\n"
    "c: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b]\nd: &d [*c, *c, *c, *c, *c, *c, *c, *c, *c]\n"
    "e: [*d, *d, *d, *d, *d, *d, *d, *d, *d, *d, *d, *d, *d, *d, *d]\n",
    0, WEFT_ERROR_LIMIT, "more than 100000 values" },
};

static void
test_file (gconstpointer position)
{
  guint i = GPOINTER_TO_UINT (position);
  g_autoptr (GError) error = NULL;
  g_autofree gchar *deep = g_strnfill (1000 * 1000, '[');
  g_autoptr (WeftPlanOverrides) overrides =
      made_overrides (files[i].text != NULL ? files[i].text : deep, &error);

  if (files[i].message != NULL)
    {
      g_assert_null (overrides);
      g_assert_error (error, WEFT_ERROR, files[i].code);
      made_assert_message (error, files[i].message);
      return;
    }
  g_assert_no_error (error);
  g_assert_cmpuint (weft_plan_overrides_get_n_entries (overrides), ==, files[i].n_entries);
}

#define ENTRY(match, target) "- match: '" match "'\n  replace_module:\n    _target_: " target "\n"
#define MLP "runtime.FusedMLP"

/* Plans: the modules that are selected with their targets, or the message. */
static const struct
{
  const gchar *name;
  const gchar *text;
  const gchar *selected;
  gint code;
  const gchar *message;
} plans[] = {
  { "star", ENTRY ("model.layers.*.mlp", MLP), "model.layers.0.mlp model.layers.1.mlp", 0, NULL },
  { "one-path", ENTRY ("model.layers.1.mlp", MLP), "model.layers.1.mlp", 0, NULL },
  { "two-stars", ENTRY ("**.mlp", MLP), "model.layers.0.mlp model.layers.1.mlp", 0, NULL },
  { "star-is-one-component", ENTRY ("model.*.mlp", MLP), NULL, WEFT_ERROR_MISSING,
    "o.yaml:1:3: entry 1: 'model.*.mlp' matches no module" },
  { "star-within-a-component", ENTRY ("model.layers.*.ml*", MLP), "model.layers.0.mlp model.layers.1.mlp", 0,
    NULL },
  { "family-as-target", ENTRY ("model.layers.0.mlp", "gate_up"), "model.layers.0.mlp", 0, NULL },
  { "derived-class", ENTRY ("**.mlp", "runtime.FusedGated"), "model.layers.0.mlp model.layers.1.mlp", 0,
    NULL },
  { "exact-class", ENTRY ("**.mlp", "runtime.FusedExact"), NULL, WEFT_ERROR_ARGUMENT,
    "'model.layers.0.mlp' cannot be replaced|its class is 'LlamaMLP', the target takes exactly 'GatedMLP'" },
  { "exact-class-of-several", ENTRY ("**.mlp", "runtime.FusedLeaf"), "model.layers.0.mlp model.layers.1.mlp",
    0, NULL },
  { "misspelt", ENTRY ("model.layers.*.mpl", MLP), NULL, WEFT_ERROR_MISSING,
    "entry 1|matches no module (nearest: 'model.layers.*.mlp')" },
  { "selected-twice", ENTRY ("model.layers.0.mlp", MLP) ENTRY ("model.layers.*.mlp", MLP), NULL,
    WEFT_ERROR_CONFLICT, "entry 2: 'model.layers.0.mlp' is selected twice, first by|entry 1" },
  { "descendant", ENTRY ("model.layers.0", "runtime.Any") ENTRY ("model.layers.0.mlp", MLP), NULL,
    WEFT_ERROR_CONFLICT,
    "entry 2: 'model.layers.0.mlp' is a descendant of 'model.layers.0', which is selected by|entry 1" },
  { "ancestor", ENTRY ("model.layers.0.mlp", MLP) ENTRY ("model.layers.0", "runtime.Any"), NULL,
    WEFT_ERROR_CONFLICT,
    "entry 2: 'model.layers.0' has a descendant 'model.layers.0.mlp' that is selected by|entry 1" },
  { "wrong-class", ENTRY ("model.layers.0.*", MLP), NULL, WEFT_ERROR_ARGUMENT,
    "'model.layers.0.norm' cannot be replaced by 'runtime.FusedMLP': its class is 'TinyRMSNorm'" },
  { "wrong-class-skipped",
    "- match: model.layers.0.*\n  on_mismatch: skip\n  replace_module: {_target_: " MLP "}\n",
    "model.layers.0.mlp", 0, NULL },
  { "not-fusable", "- match: '**.mlp'\n  replace_module: {_target_: " MLP ", fault: not-fusable}\n", NULL,
    WEFT_ERROR_ARGUMENT, "'model.layers.1.mlp' cannot be replaced|is_fusable of the target says no" },
  { "fusable-fails", "- match: '**.mlp'\n  replace_module: {_target_: " MLP ", fault: is-fusable-fails}\n",
    NULL, WEFT_ERROR_FAILED, "entry 1: 'model.layers.1.mlp': runtime/FusedMLP: cannot tell" },
  { "unknown-target", ENTRY ("model", "perf.Nothing"), NULL, WEFT_ERROR_MISSING,
    "entry 1: _target_ 'perf.Nothing' is unknown; known replacements: |runtime.FusedMLP|known families: |gate_up" },
  { "other-plugin", ENTRY ("model", "perf.FusedMLP"), NULL, WEFT_ERROR_MISSING,
    "'perf.FusedMLP' is unknown" },
  { "target-is-an-op", ENTRY ("model", "Concatenate"), NULL, WEFT_ERROR_ARGUMENT,
    "_target_ 'Concatenate' is an op; it takes a replacement class" },
  { "unknown-option", "- match: '**.mlp'\n  replace_module: {_target_: " MLP ", bias: auto}\n", NULL,
    WEFT_ERROR_ARGUMENT, "entry 1: runtime.FusedMLP: parameter 'bias' is unknown, expected one of: fault" },
  { "ill-typed-option", "- match: '**.mlp'\n  replace_module: {_target_: " MLP ", fault: 7}\n", NULL,
    WEFT_ERROR_ARGUMENT, "entry 1: runtime.FusedMLP: parameter 'fault' must be a string, found 7" },
};

static void
test_plan (gconstpointer position)
{
  guint i = GPOINTER_TO_UINT (position);
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftReplacementExecutor) executor = made_executor ("{}");
  g_autoptr (WeftPlanOverrides) overrides = made_overrides (plans[i].text, &error);
  g_autofree gchar *before = made_show (executor);
  g_autofree gchar *after = NULL;
  g_autoptr (WeftReplacementPlan) plan = NULL;
  g_autoptr (GString) selected = g_string_new (NULL);

  g_assert_no_error (error);
  plan = weft_replacement_executor_compile_overrides (executor, overrides, &error);
  after = made_show (executor);
  g_assert_cmpstr (after, ==, before);
  if (plans[i].message != NULL)
    {
      g_assert_null (plan);
      g_assert_error (error, WEFT_ERROR, plans[i].code);
      made_assert_message (error, plans[i].message);
      return;
    }
  g_assert_no_error (error);
  for (guint j = 0; j < weft_replacement_plan_get_n_modules (plan); j++)
    {
      g_auto (GStrv) fqns = weft_replacement_plan_list_fqns (plan, j);

      g_string_append_printf (selected, "%s%s", j > 0 ? " " : "", fqns[0]);
      g_assert_cmpstr (weft_replacement_plan_get_class (plan, j), ==, "LlamaMLP");
      g_assert_nonnull (strstr (weft_replacement_plan_get_origin (plan, j), "entry 1"));
    }
  g_assert_cmpstr (selected->str, ==, plans[i].selected);
}

static WeftReplacementPlan *
compile (WeftReplacementExecutor *executor, const gchar *text)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftPlanOverrides) overrides = made_overrides (text, &error);
  g_autoptr (WeftReplacementPlan) plan = NULL;

  g_assert_no_error (error);
  plan = weft_replacement_executor_compile_overrides (executor, overrides, &error);
  g_assert_no_error (error);
  return g_steal_pointer (&plan);
}

/* What the second of two modules does wrong: nothing is left of the first, nor of anything else. */
static const struct
{
  const gchar *fault;
  gint code;
  const gchar *message;
} faults[] = {
  { "replace-fails", WEFT_ERROR_FAILED, "runtime/FusedMLP: out of ideas" },
  { "replace-gives-nothing", WEFT_ERROR_PLUGIN_CONTRACT, "replace returned NULL without an error" },
  { "replace-gives-the-old-one", WEFT_ERROR_PLUGIN_CONTRACT, "replace gave a module that is in a tree" },
  { "changes-training", WEFT_ERROR_CONFLICT, "the replacement changes 'training'" },
  { "changes-call-protocol", WEFT_ERROR_CONFLICT, "the replacement changes 'call_protocol'" },
  { "adds-without-rules", WEFT_ERROR_UNEXPECTED, "'weight' is new, and there is no rule that makes it" },
  { "looks-alike-without-rules", WEFT_ERROR_CONFLICT,
    "'down_proj.weight' keeps its name but is another entry" },
  { "drops-a-buffer-without-rules", WEFT_ERROR_MISSING,
    "'scale' vanishes, and there is no rule that takes it anywhere" },
  { "rules-give-nothing", WEFT_ERROR_PLUGIN_CONTRACT, "make_transforms returned NULL without an error" },
  { "same-rules", WEFT_ERROR_PLUGIN_CONTRACT, "gave a rule that it gave before" },
  { "unknown-op", WEFT_ERROR_MISSING, "op 'Glue' is unknown" },
  { "no-rules", WEFT_ERROR_MISSING, "'gate_proj.weight' vanishes, and there is no rule" },
  { "absolute-pattern", WEFT_ERROR_PATTERN,
    "holds the path of the module; patterns are relative to it, as 'gate_proj.weight'" },
  { "forgets-up", WEFT_ERROR_SHAPE,
    "'gate_up_proj.weight' is BF16 (96, 32) in the replacement, the rules make BF16 (48, 32)" },
  { "claims-twice", WEFT_ERROR_CONFLICT, "'gate_proj.weight' is claimed by two rules, 1 and 2" },
  { "claims-what-stays", WEFT_ERROR_CONFLICT, "'down_proj.weight' stays, and a rule claims it" },
  { "makes-twice", WEFT_ERROR_CONFLICT, "both become 'gate_up_proj.weight'" },
  { "wrong-shape", WEFT_ERROR_SHAPE,
    "'gate_up_proj.weight' is BF16 (95, 32) in the replacement, the rules make BF16 (96, 32)" },
  { "new-tensor", WEFT_ERROR_MISSING, "'weight' is new, and no target pattern makes it" },
  { "makes-another", WEFT_ERROR_MISSING, "'gate_up_proj.weight' is new, and no target pattern makes it" },
  { "drops-down", WEFT_ERROR_MISSING, "'down_proj.weight' vanishes, and no source pattern covers it" },
  { "makes-more", WEFT_ERROR_UNEXPECTED,
    "the rules make 'other.weight', which the replacement does not have" },
  { "look-alike", WEFT_ERROR_CONFLICT, "'down_proj.weight' keeps its name but is another entry" },
  { "no-inverse", WEFT_ERROR_NOT_REVERSIBLE, "does not come back exactly" },
  { "has-no-class", WEFT_ERROR_ARGUMENT, "'LlamaMLP' needs the name of a class" },
  { "op-fails", WEFT_ERROR_FAILED, "concatenate/Concatenate: " },
};

static void
test_fault (gconstpointer position)
{
  guint i = GPOINTER_TO_UINT (position);
  g_autofree gchar *text = g_strdup_printf (
      "- match: model.layers.*.mlp\n  replace_module: {_target_: " MLP ", fault: %s}\n", faults[i].fault);
  g_autoptr (WeftReplacementExecutor) executor = made_executor ("{}");
  g_autoptr (WeftReplacementPlan) plan = compile (executor, text);
  g_autofree gchar *before = made_show (executor);
  g_autofree gchar *after = NULL;
  g_autoptr (GError) error = NULL;

  g_assert_false (weft_replacement_executor_apply (executor, plan, &error));
  g_assert_error (error, WEFT_ERROR, faults[i].code);
  made_assert_message (error, faults[i].message);
  made_assert_message (error, "o.yaml:1:3: entry 1: 'model.layers.1.mlp': ");
  after = made_show (executor);
  g_assert_cmpstr (after, ==, before);
}

static void
assert_shape (WeftModule *module, const gchar *name, const gchar *expected)
{
  WeftTensorSpec *spec = weft_module_find_tensor (module, name);
  g_autofree gchar *shape = NULL;

  g_assert_nonnull (spec);
  shape = weft_shape_to_string (weft_tensor_spec_get_shape (spec));
  g_assert_cmpstr (shape, ==, expected);
}

/* The worked example. */
static void
test_applied (void)
{
  g_autoptr (WeftReplacementExecutor) executor = made_executor ("{}");
  g_autoptr (WeftReplacementPlan) plan = compile (executor, ENTRY ("model.layers.*.mlp", MLP));
  g_autoptr (WeftModule) module = NULL;
  WeftTransformList *rules = weft_replacement_executor_get_transforms (executor);
  g_autoptr (GError) error = NULL;

  g_assert_cmpuint (weft_replacement_plan_get_n_modules (plan), ==, 2);
  weft_replacement_executor_apply (executor, plan, &error);
  g_assert_no_error (error);
  module = weft_module_tree_find_module (weft_replacement_executor_get_tree (executor), "model.layers.0.mlp");
  g_assert_cmpstr (weft_module_get_class_name (module), ==, "FusedMLP");
  assert_shape (module, "gate_up_proj.weight", "(96, 32)");
  assert_shape (module, "down_proj.weight", "(32, 48)");
  g_assert_null (weft_module_find_tensor (module, "gate_proj.weight"));
  rules = weft_replacement_executor_get_transforms (executor);
  g_assert_cmpuint (weft_transform_list_get_n_transforms (rules), ==, 2);
  for (guint i = 0; i < 2; i++)
    {
      g_autofree gchar *scope = g_strdup_printf ("model.layers.%u.mlp", i);

      g_assert_cmpstr (weft_weight_transform_get_scope_prefix (weft_transform_list_get_transform (rules, i)),
                       ==, scope);
    }
  g_assert_cmpstr (
      weft_patch_mapping_lookup (weft_replacement_executor_get_patch_mapping (executor), "LlamaMLP"), ==,
      "FusedMLP");
}

/* A replacement without rules takes the tensors over: another class holds the same entries. */
static void
test_structure_preserved (void)
{
  g_autoptr (WeftReplacementExecutor) executor = made_executor ("{}");
  g_autoptr (WeftReplacementPlan) plan = compile (executor, ENTRY ("model.layers.*.norm", "runtime.Any"));
  g_autoptr (WeftModule) old =
      weft_module_tree_find_module (weft_replacement_executor_get_tree (executor), "model.layers.1.norm");
  g_autoptr (WeftModule) new = NULL;
  g_autoptr (GError) error = NULL;

  weft_replacement_executor_apply (executor, plan, &error);
  g_assert_no_error (error);
  new = weft_module_tree_find_module (weft_replacement_executor_get_tree (executor), "model.layers.1.norm");
  g_assert_cmpstr (weft_module_get_class_name (new), ==, "Other");
  g_assert_true (weft_module_find_tensor (new, "weight") == weft_module_find_tensor (old, "weight"));
  g_assert_cmpuint (
      weft_transform_list_get_n_transforms (weft_replacement_executor_get_transforms (executor)), ==, 0);
}

/* A module that is registered twice is one: either path selects it, both are replaced, and each has its copy of the rules. */
static void
test_shared (gconstpointer match)
{
  g_autofree gchar *text = g_strdup_printf (ENTRY ("%s", "gate_up"), (const gchar *) match);
  g_autoptr (JsonNode) root = made_json (
      "{'class':'M','model_type':'m','modules':[{'fqn':'','class':'M'},{'fqn':'a','class':'MLP'},"
      "{'fqn':'a.gate_proj','class':'Linear'},{'fqn':'a.up_proj','class':'Linear'},{'fqn':'b','alias_of':'a'}],"
      "'tensors':[" MADE_TENSOR ("a.gate_proj.weight", "[6,4]") "," MADE_TENSOR ("a.up_proj.weight",
                                                                                 "[6,4]") "]}");
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftModuleTree) tree = weft_module_tree_new_from_json (root, "shared", &error);
  g_autoptr (WeftReplacementExecutor) executor = NULL;
  g_autoptr (WeftReplacementPlan) plan = NULL;
  WeftTransformList *rules;

  g_assert_no_error (error);
  executor = weft_replacement_executor_new (tree, NULL, "shared/config.json");
  plan = compile (executor, text);
  g_assert_cmpuint (weft_replacement_plan_get_n_modules (plan), ==, 1);
  weft_replacement_executor_apply (executor, plan, &error);
  g_assert_no_error (error);
  rules = weft_replacement_executor_get_transforms (executor);
  g_assert_cmpuint (weft_transform_list_get_n_transforms (rules), ==, 2);
  for (guint i = 0; i < 2; i++)
    {
      const gchar *fqn = i == 0 ? "a" : "b";
      g_autoptr (WeftModule) module =
          weft_module_tree_find_module (weft_replacement_executor_get_tree (executor), fqn);

      g_assert_cmpstr (weft_module_get_class_name (module), ==, "FusedMLP");
      assert_shape (module, "gate_up_proj.weight", "(12, 4)");
      g_assert_cmpstr (weft_weight_transform_get_scope_prefix (weft_transform_list_get_transform (rules, i)),
                       ==, fqn);
    }
}

/* What does not fit and may be skipped is told. */
static void
test_skip_is_listed (void)
{
  g_autoptr (WeftReplacementExecutor) executor = made_executor ("{}");
  g_autoptr (WeftReplacementPlan) plan = compile (
      executor, "- match: model.layers.0.*\n  on_mismatch: skip\n  replace_module: {_target_: " MLP "}\n");
  g_auto (GStrv) notes = weft_replacement_plan_list_notes (plan);

  g_assert_cmpuint (g_strv_length (notes), ==, 1);
  g_assert_nonnull (
      strstr (notes[0], "entry 1: 'model.layers.0.norm' is skipped: its class is 'TinyRMSNorm'"));
}

/* The same overrides on what is replaced already, and a plan that is older than the skeleton. */
static void
test_again (void)
{
  g_autoptr (WeftReplacementExecutor) executor = made_executor ("{}");
  g_autoptr (WeftPlanOverrides) wanted = made_overrides (ENTRY ("model.layers.*.mlp", MLP), NULL);
  g_autoptr (WeftReplacementPlan) plan = weft_replacement_executor_compile_overrides (executor, wanted, NULL);
  g_autoptr (WeftReplacementPlan) same = weft_replacement_executor_compile_overrides (executor, wanted, NULL);
  g_autoptr (JsonNode) plan_json = weft_replacement_plan_to_json (plan);
  g_autoptr (JsonNode) same_json = weft_replacement_plan_to_json (same);
  g_autoptr (WeftPlanOverrides) overrides =
      made_overrides (ENTRY ("model.layers.*.mlp", "runtime.Any"), NULL);
  g_autoptr (WeftPlanOverrides) above = made_overrides (ENTRY ("model.layers.1", "runtime.Any"), NULL);
  g_autofree gchar *before = NULL;
  g_autofree gchar *after = NULL;
  g_autoptr (GError) error = NULL;

  weft_replacement_executor_apply (executor, plan, &error);
  g_assert_no_error (error);
  before = made_show (executor);
  g_assert_null (weft_replacement_executor_compile_overrides (executor, overrides, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_CONFLICT);
  made_assert_message (error, "'model.layers.0.mlp' is replaced already, by |entry 1");
  g_clear_error (&error);
  g_assert_null (weft_replacement_executor_compile_overrides (executor, above, &error));
  made_assert_message (error, "'model.layers.1' has a module in it that is replaced already, by |entry 1");
  g_clear_error (&error);
  g_assert_false (weft_replacement_executor_apply (executor, same, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_CONFLICT);
  after = made_show (executor);
  g_assert_cmpstr (after, ==, before);
  g_assert_true (json_node_equal (plan_json, same_json));
}

/* Two models of one class: what is replaced in one is not in the other. */
static void
test_two_models (void)
{
  g_autoptr (WeftReplacementExecutor) one = made_executor ("{}");
  g_autoptr (WeftReplacementExecutor) other = made_executor ("{}");
  g_autofree gchar *before = made_show (other);
  g_autofree gchar *after = NULL;
  g_autoptr (WeftReplacementPlan) plan = compile (one, ENTRY ("model.layers.*.mlp", MLP));

  g_assert_true (weft_replacement_executor_apply (one, plan, NULL));
  after = made_show (other);
  g_assert_cmpstr (after, ==, before);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  made_register ();
  for (guint i = 0; i < G_N_ELEMENTS (files); i++)
    {
      g_autofree gchar *path = g_strdup_printf ("/overrides/file/%s", files[i].name);

      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_file);
    }
  for (guint i = 0; i < G_N_ELEMENTS (plans); i++)
    {
      g_autofree gchar *path = g_strdup_printf ("/overrides/plan/%s", plans[i].name);

      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_plan);
    }
  for (guint i = 0; i < G_N_ELEMENTS (faults); i++)
    {
      g_autofree gchar *path = g_strdup_printf ("/overrides/fault/%s", faults[i].fault);

      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_fault);
    }
  g_test_add_func ("/overrides/applied", test_applied);
  g_test_add_func ("/overrides/structure-preserved", test_structure_preserved);
  g_test_add_data_func ("/overrides/shared/first-path", "a", test_shared);
  g_test_add_data_func ("/overrides/shared/second-path", "b", test_shared);
  g_test_add_data_func ("/overrides/shared/both-paths", "*", test_shared);
  g_test_add_func ("/overrides/skip-is-listed", test_skip_is_listed);
  g_test_add_func ("/overrides/again", test_again);
  g_test_add_func ("/overrides/two-models", test_two_models);
  return g_test_run ();
}
