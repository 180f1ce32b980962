/* SPDX-License-Identifier: Apache-2.0 */
/* Names, patterns, and which rule is for which tensor. */
#include "../pipeline/made-checkpoint-private.h"

static const struct
{
  const gchar *name;
  const gchar *pattern;
} names[] = {
  { "layers.0.q", "layers.*.q" },
  { "layers.0.1.w", "layers.*.1.w" },
  { "layers.12.q.3", "layers.*.q.*" },
  { "0.w", "0.w" },
  { "w1", "w1" },
  { "l.1x.y", "l.1x.y" },
  { "l.x1.y", "l.x1.y" },
  { "a.0.1.2.w", "a.*.1.*.w" },
  { "", "" },
};

/* The style that is found for a name; NULL: none. */
static const struct
{
  const gchar *plan;
  const gchar *name;
  const gchar *style;
} lookups[] = {
  { "{'layers.*.q':'colwise'}", "layers.3.q.weight", "colwise" },
  { "{'layers.*.q':'colwise'}", "layers.3.q.bias", "colwise" },
  { "{'layers.*.q':'colwise'}", "layers.3.q.lora.weight", NULL },
  { "{'layers.*.q':'colwise','layers.*.q.bias':'replicate'}", "layers.3.q.bias", "replicate" },
  { "{'m.w':'rowwise'}", "m.w", "rowwise" },
  { "{'m.w':'rowwise'}", "m.extra", NULL },
  { "{'q':'colwise','q':'rowwise'}", "q.weight", "rowwise" },
  { "{'q':'shard:1'}", "q.weight", "shard:1" },
  /* A rule for experts takes those of tensors away from its module, and from all below. */
  { "{'e':'ep_dispatch_experts','e.w':'packed_colwise'}", "e.w", "ep_dispatch_experts" },
  { "{'e':'ep_dispatch_experts','e.f.g':'colwise'}", "e.f.g.w", NULL },
  { "{'e.w':'grouped_gemm','e':'colwise'}", "e.w", "grouped_gemm" },
  { "{'e.w':'grouped_gemm','e':'colwise'}", "e.v", "colwise" },
  { "{'parallel_plan':{'q':'colwise'},'expert_plan':{'e':'grouped_gemm'}}", "e.w", "grouped_gemm" },
  { "{}", "q.weight", NULL },
};

static const struct
{
  const gchar *plan;
  WeftError code;
  const gchar *message;
} refused[] = {
  { "{'q':'colwize'}", WEFT_ERROR_ARGUMENT, "test: 'q': 'colwize' is no style; styles are colwise, *" },
  { "{'q':'ep_router'}", WEFT_ERROR_ARGUMENT, "*'ep_router' is no more; *'ep_dispatch_experts'*" },
  { "{'q':'shard:x'}", WEFT_ERROR_ARGUMENT, "*'shard:x' is no placement*" },
  { "{'q':1}", WEFT_ERROR_FORMAT, "test: 'q': expected the name of a style*" },
  { "[]", WEFT_ERROR_FORMAT, "test: expected an object from name patterns to styles*" },
};

static void
test_names (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      g_autofree gchar *pattern = weft_parallel_plan_generalize_name (names[i].name);

      g_assert_cmpstr (pattern, ==, names[i].pattern);
    }
}

static void
test_lookups (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (lookups); i++)
    {
      g_autoptr (JsonNode) root = made_json (lookups[i].plan);
      g_autoptr (GError) error = NULL;
      g_autoptr (WeftParallelPlan) plan = weft_parallel_plan_new_from_json (root, "test", &error);
      guint rule = 0;
      gboolean is_found;

      g_assert_no_error (error);
      is_found = weft_parallel_plan_find_rule (plan, lookups[i].name, &rule);
      g_assert_cmpstr (is_found ? weft_parallel_plan_get_style (plan, rule) : NULL, ==, lookups[i].style);
    }
}

static void
test_refused (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (refused); i++)
    {
      g_autoptr (JsonNode) root = made_json (refused[i].plan);
      g_autoptr (GError) error = NULL;

      g_assert_null (weft_parallel_plan_new_from_json (root, "test", &error));
      g_assert_error (error, WEFT_ERROR, (gint) refused[i].code);
      g_assert_true (g_pattern_match_simple (refused[i].message, error->message));
    }
}

static void
test_overrides (void)
{
  g_autoptr (WeftParallelPlan) plan = weft_parallel_plan_new ();
  g_autoptr (WeftParallelPlan) overrides = weft_parallel_plan_new ();
  g_autoptr (WeftParallelPlan) nothing = weft_parallel_plan_new ();
  g_autoptr (GError) error = NULL;

  g_assert_true (weft_parallel_plan_add_rule (plan, "q", "colwise", &error));
  g_assert_true (weft_parallel_plan_add_rule (plan, "o", "rowwise", &error));
  g_assert_true (weft_parallel_plan_add_rule (overrides, "q", "replicate", &error));
  g_assert_true (weft_parallel_plan_merge (plan, overrides, &error));
  g_assert_cmpuint (weft_parallel_plan_get_n_rules (plan), ==, 2);
  g_assert_cmpstr (weft_parallel_plan_get_pattern (plan, 0), ==, "q");
  g_assert_cmpstr (weft_parallel_plan_get_style (plan, 0), ==, "replicate");
  g_assert_cmpstr (weft_parallel_plan_get_style (plan, 1), ==, "rowwise");
  g_assert_true (weft_parallel_plan_merge (plan, nothing, &error));
  g_assert_cmpuint (weft_parallel_plan_get_n_rules (plan), ==, 0);
}

/* A rule of the caller goes before those of the model, whatever they are for. */
static void
test_given_first (void)
{
  static const struct
  {
    const gchar *given;
    const gchar *name;
    const gchar *style;
  } rules[] = {
    { "{'e':'replicate'}", "e.w", "replicate" },
    { "{'e.w':'replicate'}", "e.w", "replicate" },
    { "{'e.v':'replicate'}", "e.w", "grouped_gemm" },
    { "{'q':'grouped_gemm'}", "q.w", "grouped_gemm" },
    { "{'expert_plan':{'q':'replicate'}}", "q.w", "replicate" },
  };
  g_autoptr (WeftModuleTree) tree =
      made_model ("Made made -", "e.w: F32[4,1]\nq.w: F32[4,1]\n",
                  ",'parallel_plan':{'q':'colwise'},'expert_plan':{'e':'grouped_gemm'}");

  for (guint i = 0; i < G_N_ELEMENTS (rules); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (WeftParallelPlan) plan = weft_parallel_plan_new_for_module_tree (tree, &error);
      g_autoptr (JsonNode) root = made_json (rules[i].given);
      g_autoptr (WeftParallelPlan) given = weft_parallel_plan_new_from_json (root, "plan", &error);
      guint rule;

      g_assert_true (weft_parallel_plan_merge (plan, given, &error));
      g_assert_true (weft_parallel_plan_find_rule (plan, rules[i].name, &rule));
      g_assert_cmpstr (weft_parallel_plan_get_style (plan, rule), ==, rules[i].style);
    }
}

/* Of two rules for the same names nobody knows which was meant. */
static void
test_twice (void)
{
  g_auto (MadeFolders) folders = { 0 };
  g_autofree gchar *path = NULL;
  g_autoptr (GError) error = NULL;

  made_folders_init (&folders);
  path = g_build_filename (folders.root, "plan.json", NULL);
  fixture_write (folders.root, "plan.json", "{\"q\": \"colwise\", \"k\": \"colwise\", \"q\": \"rowwise\"}",
                 -1);
  g_assert_null (weft_parallel_plan_load (path, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT);
  made_assert_message (error, "plan.json|'q' stands twice");
}

/* Every style that ships is known. */
static void
test_styles (void)
{
  g_auto (GStrv) styles = weft_parallel_plan_list_styles ();
  g_autoptr (WeftParallelPlan) plan = weft_parallel_plan_new ();
  g_autoptr (GError) error = NULL;

  g_assert_cmpuint (g_strv_length (styles), >=, 20);
  for (guint i = 0; styles[i] != NULL; i++)
    g_assert_true (weft_parallel_plan_add_rule (plan, styles[i], styles[i], &error));
  g_assert_no_error (error);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/plan/names", test_names);
  g_test_add_func ("/plan/lookups", test_lookups);
  g_test_add_func ("/plan/refused", test_refused);
  g_test_add_func ("/plan/overrides", test_overrides);
  g_test_add_func ("/plan/given-first", test_given_first);
  g_test_add_func ("/plan/twice", test_twice);
  g_test_add_func ("/plan/styles", test_styles);
  return g_test_run ();
}
