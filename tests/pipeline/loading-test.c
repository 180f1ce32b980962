/* SPDX-License-Identifier: Apache-2.0 */
/* Loads: gaps, conflicts, rules that match nothing, dtypes, and what stops before anything is written. */
#include "made-checkpoint-private.h"

#define MERGE OP_DIM ("MergeModulelist", 0)
#define JOIN OP_DIM ("Concatenate", 1)
#define EXPERT_RULE CONVERT ("'e.*.w1','e.*.w3'", "'gate_up'", MERGE "," JOIN)
#define PAIR_RULE CONVERT ("'a','b'", "'t'", OP_DIM ("Concatenate", 0))

static WeftLoadOptions *
make_options (const gchar *mapping, const gchar *model_tensors, const gchar *dtype, WeftLoadFlags flags)
{
  WeftLoadOptions *options = made_options (mapping, "TestModel test model", model_tensors, NULL);
  g_autoptr (GError) error = NULL;

  if (dtype != NULL)
    weft_load_options_set_dtype (options, dtype, &error);
  g_assert_no_error (error);
  weft_load_options_set_flags (options, flags);
  return options;
}

/* Incomplete sets: never a silent shift of experts, always the gap by its name. */
static const struct
{
  const gchar *name;
  const gchar *mapping;
  const gchar *model;
  const gchar *published;
  const gchar *message;
} gap_rows[] = {
  { "one-source-of-one-expert", EXPERT_RULE, "gate_up: F32[3,2,2]",
    "e.0.w1: F32[1,2]\ne.0.w3: F32[1,2]\ne.1.w1: F32[1,2]\ne.2.w1: F32[1,2]\ne.2.w3: F32[1,2]",
    "gate_up|needs numbers 0-2 for 'e.*.w3'|found 0 and 2|1 is missing" },
  { "one-expert", EXPERT_RULE, "gate_up: F32[3,2,2]",
    "e.0.w1: F32[1,2]\ne.0.w3: F32[1,2]\ne.2.w1: F32[1,2]\ne.2.w3: F32[1,2]",
    "gate_up|needs numbers 0-2 for 'e.*.w1'|found 0 and 2|1 is missing" },
  { "one-expert-and-a-model-that-hides-it", EXPERT_RULE, "gate_up: F32[2,2,2]",
    "e.0.w1: F32[1,2]\ne.0.w3: F32[1,2]\ne.2.w1: F32[1,2]\ne.2.w3: F32[1,2]",
    "'e.*.w1'|found 0 and 2|1 is missing" },
  { "first-expert", EXPERT_RULE, NULL, "e.1.w1: F32[1,2]\ne.1.w3: F32[1,2]",
    "needs numbers 0-1|found 1 (0 is missing)" },
  { "last-of-one-source", EXPERT_RULE, NULL, "e.0.w1: F32[1,2]\ne.1.w1: F32[1,2]\ne.0.w3: F32[1,2]",
    "needs numbers 0-1 for 'e.*.w3'|found 0 (1 is missing)" },
  { "a-whole-source", EXPERT_RULE, NULL, "e.0.w1: F32[1,2]\ne.1.w1: F32[1,2]",
    "needs a tensor for 'e.*.w3'|the checkpoint has none" },
  { "one-of-a-pair", PAIR_RULE, "t: F32[2]", "a: F32[2]",
    "'t' needs a tensor for 'b'|the checkpoint has none" },
  { "number-beyond-all-numbers", EXPERT_RULE, NULL,
    "e.0.w1: F32[1]\ne.0.w3: F32[1]\ne.9223372036854775807.w1: F32[1]\ne.9223372036854775807.w3: F32[1]",
    "1 is missing" },
  { "number-beyond-64-bits", EXPERT_RULE, NULL,
    "e.0.w1: F32[1]\ne.0.w3: F32[1]\ne.99999999999999999999999.w1: F32[1]\ne.99999999999999999999999.w3: F32[1]",
    "1 is missing" },
  { "one-number-twice", EXPERT_RULE, NULL,
    "e.1.w1: F32[1]\ne.01.w1: F32[1]\ne.0.w1: F32[1]\ne.0.w3: F32[1]\ne.1.w3: F32[1]",
    "number 1 twice for 'e.*.w1'" },
};

static void
test_gap (gconstpointer position)
{
  guint i = GPOINTER_TO_UINT (position);
  g_autoptr (WeftLoadOptions) options =
      make_options (gap_rows[i].mapping, gap_rows[i].model, NULL, WEFT_LOAD_FLAGS_NONE);
  g_autofree gchar *parts = g_strconcat (gap_rows[i].message, "|cannot be converted", NULL);

  made_assert_refused (NULL, gap_rows[i].published, options, WEFT_ERROR_FAILED, parts);
}

/* What stops a load, which option lets it go on, and what is written then. */
static const struct
{
  const gchar *name;
  const gchar *mapping;
  const gchar *model;
  const gchar *published;
  gint code;
  const gchar *message;
  WeftLoadFlags flags;
  const gchar *runtime;
} stop_rows[] = {
  { "two-renamings-on-one-target", RENAME ("^old", "new"), NULL, "new.w: F32[1] 1\nold.w: F32[1] 2",
    WEFT_ERROR_CONFLICT, "'new.w' and 'old.w' both become 'new.w'|a renaming|key mapping", 0, NULL },
  { "two-rules-on-one-target", RENAME ("^a", "c") "," RENAME ("^b", "c"), NULL, "a.w: F32[1]\nb.w: F32[1]",
    WEFT_ERROR_CONFLICT, "'a.w' and 'b.w' both become 'c.w'", 0, NULL },
  { "a-plain-tensor-in-a-converter's-bucket", EXPERT_RULE, NULL,
    "e.0.w1: F32[1,2]\ne.0.w3: F32[1,2]\ngate_up: F32[1,2,2]", WEFT_ERROR_CONFLICT,
    "'e.0.w1' and 'gate_up' both become 'gate_up'|WeightConverter", 0, NULL },
  { "mapping-of-another-model", EXPERT_RULE, NULL, "model.w: F32[1]", WEFT_ERROR_MISSING,
    "no rule of the mapping|1 tensors|another model", 0, NULL },
  { "mapping-beside-rules-for-old-names", EXPERT_RULE, NULL, "a.LayerNorm.gamma: F32[1]", WEFT_ERROR_MISSING,
    "no rule of the mapping|1 tensors|another model", 0, NULL },
  { "checkpoint-of-another-model", NULL, "layers.0.w: F32[1]", "blocks.0.w: F32[1]\nblocks.1.w: F32[1]",
    WEFT_ERROR_MISSING, "this config does not fit this checkpoint: none of the 2 tensors|the 1 of TestModel",
    0, NULL },
  { "missing", NULL, "a: F32[1]\nb: F32[1]\nc: F32[2]", "a: F32[1] 5", WEFT_ERROR_MISSING,
    "'b' and 1 more is missing|--allow-missing", WEFT_LOAD_FLAGS_ALLOW_MISSING, "a: F32[1] 5\n" },
  { "mismatched", NULL, "a: F32[1]\nb: F32[3]", "a: F32[1] 5\nb: F32[2]", WEFT_ERROR_SHAPE,
    "'b' has another shape|--ignore-mismatched-sizes|the checkpoint gives (2,), the model has (3,)",
    WEFT_LOAD_FLAGS_IGNORE_MISMATCHED_SIZES, "a: F32[1] 5\n" },
  { "same-count-other-shape", NULL, "a: F32[1]\nb: F32[4]", "a: F32[1] 5\nb: F32[2,2]", WEFT_ERROR_SHAPE,
    "(2, 2)|(4,)", WEFT_LOAD_FLAGS_IGNORE_MISMATCHED_SIZES, "a: F32[1] 5\n" },
  { "failed", PAIR_RULE, "t: F32[3]\nc: F32[1]", "a: F32[1,2]\nb: F32[2]\nc: F32[1]", WEFT_ERROR_FAILED,
    "'t' cannot be converted|WeightConverter|Concatenate", 0, NULL },
};

static void
test_stop (gconstpointer position)
{
  guint i = GPOINTER_TO_UINT (position);
  g_autoptr (WeftLoadOptions) options =
      make_options (stop_rows[i].mapping, stop_rows[i].model, NULL, WEFT_LOAD_FLAGS_NONE);
  g_auto (MadeFolders) folders = { 0 };
  g_autoptr (GError) error = NULL;
  g_autofree gchar *found = NULL;

  made_assert_refused (NULL, stop_rows[i].published, options, stop_rows[i].code, stop_rows[i].message);
  made_folders_init (&folders);
  if (stop_rows[i].runtime == NULL)
    return;
  weft_load_options_set_flags (options, stop_rows[i].flags);
  made_write (folders.published, NULL, stop_rows[i].published);
  made_convert (folders.published, folders.runtime, options, &error);
  g_assert_no_error (error);
  found = made_show_folder (folders.runtime);
  g_assert_cmpstr (found, ==, stop_rows[i].runtime);
}

/* What was left out does not come back, and the plan says so; the rest does. */
static const struct
{
  const gchar *name;
  const gchar *mapping;
  const gchar *model;
  WeftLoadFlags flags;
  const gchar *published;
  const gchar *runtime;
  /* What reverting refuses with, or NULL. */
  const gchar *message;
  const gchar *back;
} left_out_rows[] = {
  { "mismatched", NULL, "a: F32[1]\nb: F32[3]", WEFT_LOAD_FLAGS_IGNORE_MISMATCHED_SIZES,
    "a: F32[1] 1\nb: F32[1] 2", "a: F32[1] 1\n", NULL, "a: F32[1] 1\n" },
  { "unexpected", NULL, "a: F32[1]", WEFT_LOAD_FLAGS_DROP_UNEXPECTED, "a: F32[1] 1\nb: F32[1] 2",
    "a: F32[1] 1\n", NULL, "a: F32[1] 1\n" },
  { "half-of-a-converter", CONVERT ("'qk'", "'q','k'", OP_DIM ("Chunk", 0)), "q: F32[1]\na: F32[1]",
    WEFT_LOAD_FLAGS_DROP_UNEXPECTED, "a: F32[1] 1\nqk: F32[2] 3", "a: F32[1] 1\nq: F32[1] 3\n",
    "'q' has no exact inverse: 'k' is left out|--lossy", "a: F32[1] 1\nq: F32[1] 3\n" },
};

/* The partner of a tied tensor that is left out is not missing. */
static void
test_tied_to_left_out (void)
{
  g_autoptr (WeftModuleTree) tree =
      made_model ("TestModel test -", "embed: F32[3]\nhead: F32[3]\nw: F32[1]", ",'tied':{'head':'embed'}");
  g_autoptr (WeftLoadOptions) options =
      make_options (NULL, NULL, NULL, WEFT_LOAD_FLAGS_IGNORE_MISMATCHED_SIZES);
  g_auto (MadeFolders) folders = { 0 };
  g_autoptr (GError) error = NULL;

  weft_load_options_set_module_tree (options, tree);
  made_folders_init (&folders);
  made_write (folders.published, NULL, "embed: F32[2]\nw: F32[1]");
  made_convert (folders.published, folders.runtime, options, &error);
  g_assert_no_error (error);
}

static void
test_left_out (gconstpointer position)
{
  guint i = GPOINTER_TO_UINT (position);
  g_autoptr (WeftLoadOptions) options =
      make_options (left_out_rows[i].mapping, left_out_rows[i].model, NULL, left_out_rows[i].flags);
  g_auto (MadeFolders) folders = { 0 };
  g_autoptr (WeftCheckpoint) checkpoint = NULL;
  g_autoptr (WeftLoadPlan) plan = NULL;
  g_autoptr (GError) error = NULL;
  g_autofree gchar *runtime = NULL;
  g_autofree gchar *back = NULL;

  made_folders_init (&folders);
  made_write (folders.published, NULL, left_out_rows[i].published);
  checkpoint = made_open (folders.published);
  plan = weft_load_plan_new (checkpoint, options, &error);
  g_assert_no_error (error);
  g_assert_false (weft_load_plan_is_reversible (plan));
  made_convert (folders.published, folders.runtime, options, &error);
  g_assert_no_error (error);
  runtime = made_show_folder (folders.runtime);
  g_assert_cmpstr (runtime, ==, left_out_rows[i].runtime);
  if (left_out_rows[i].message != NULL)
    {
      g_autoptr (GError) refusal = NULL;

      g_assert_false (made_revert (folders.runtime, folders.back, NULL, WEFT_REVERT_FLAGS_NONE, &refusal));
      g_assert_error (refusal, WEFT_ERROR, WEFT_ERROR_NOT_REVERSIBLE);
      made_assert_message (refusal, left_out_rows[i].message);
    }
  made_revert (folders.runtime, folders.back, NULL, WEFT_REVERT_FLAGS_ALLOW_LOSSY, &error);
  g_assert_no_error (error);
  back = made_show_folder (folders.back);
  g_assert_cmpstr (back, ==, left_out_rows[i].back);
}

/* Failed conversions stop, whatever else is allowed. */
static void
test_failed_is_never_allowed (void)
{
  g_autoptr (WeftLoadOptions) options =
      make_options (PAIR_RULE, "t: F32[3]", NULL,
                    WEFT_LOAD_FLAGS_ALLOW_MISSING | WEFT_LOAD_FLAGS_IGNORE_MISMATCHED_SIZES
                        | WEFT_LOAD_FLAGS_DROP_UNEXPECTED);

  made_assert_refused (NULL, "a: F32[1,2]\nb: F32[2]", options, WEFT_ERROR_FAILED, "'t' cannot be converted");
}

static void
test_key_mapping (void)
{
  g_autoptr (WeftLoadOptions) options = weft_load_options_new ();
  g_autoptr (GError) error = NULL;

  weft_load_options_add_key_mapping (options, "^encoder\\.", "model.", &error);
  g_assert_no_error (error);
  made_assert_round_trip (NULL, "encoder.w: F32[1] 4\nx: F32[1] 5\n", options,
                          "model.w: F32[1] 4\nx: F32[1] 5\n");
  weft_load_options_add_key_mapping (options, "^decoder\\.", "model.", &error);
  g_assert_no_error (error);
  made_assert_refused (NULL, "encoder.w: F32[1]\nx: F32[1]", options, WEFT_ERROR_MISSING,
                       "key mapping 2 ('^decoder\\.' -> 'model.') matches no tensor|weft inspect");
}

/* With a model's own mapping as without one. */
static void
test_key_mapping_of_a_model (void)
{
  g_autoptr (WeftLoadOptions) options = weft_load_options_new ();
  g_autoptr (GError) error = NULL;

  weft_load_options_add_key_mapping (options, "^decoder\\.", "model.", &error);
  g_assert_no_error (error);
  made_assert_refused ("{'model_type':'llama'}", "model.w: F32[1]", options, WEFT_ERROR_MISSING,
                       "key mapping 1|matches no tensor");
}

/* Open mode cannot tell a fused checkpoint from one of another model; it says so. */
static void
test_model_unmatched (void)
{
  static const gchar *const published[] = { "model.layers.0.mlp.gate.weight: F32[1]",
                                            "h.0.attn.c_attn.weight: F32[1]" };

  for (guint i = 0; i < G_N_ELEMENTS (published); i++)
    {
      g_auto (MadeFolders) folders = { 0 };
      g_autoptr (WeftCheckpoint) checkpoint = NULL;
      g_autoptr (WeftLoadPlan) plan = NULL;
      g_autoptr (GError) error = NULL;

      made_folders_init (&folders);
      made_write (folders.published, "{'model_type':'mixtral'}", published[i]);
      checkpoint = made_open (folders.published);
      plan = weft_load_plan_new (checkpoint, NULL, &error);
      g_assert_no_error (error);
      g_assert_cmpstr (weft_load_report_get_name (weft_load_plan_get_report (plan), WEFT_FINDING_NOTE, 0), ==,
                       "mapping");
    }
}

/* Of a key mapping, the caller's rules come before the model's. */
static void
test_key_mapping_before_mapping (void)
{
  g_autoptr (WeftLoadOptions) options = make_options (RENAME ("^b", "c"), NULL, NULL, WEFT_LOAD_FLAGS_NONE);
  g_autoptr (GError) error = NULL;

  weft_load_options_add_key_mapping (options, "^a", "b", &error);
  made_assert_round_trip (NULL, "a.w: F32[1] 4\n", options, "c.w: F32[1] 4\n");
}

/* The dtype of a read: the model's own tensors, the dtype that is asked for, the plan; `keep` keeps. */
static const struct
{
  const gchar *name;
  const gchar *model_dtype;
  const gchar *dtype_plan;
  const gchar *parameter;
  const gchar *file;
  const gchar *request;
  const gchar *read_as;
} dtype_rows[] = {
  { "request", "bfloat16", "", "BF16", "F32", "BF16", "BF16" },
  { "the-parameter-differs", "bfloat16", "", "F32", "F16", "BF16", "F32" },
  { "no-float-in-the-file", "float32", "", "F32", "I32", "F32", "F32" },
  { "no-float-in-the-model", "float32", "", "I64", "F32", "F32", "I64" },
  { "planned", "bfloat16", ",'dtype_plan':{'x':'float32'}", "BF16", "BF16", "BF16", "F32" },
  { "planned-with-star", "bfloat16", ",'dtype_plan':{'m*w':'float32'}", "BF16", "BF16", "BF16", "F32" },
  { "planned-elsewhere", "bfloat16", ",'dtype_plan':{'y':'float32'}", "BF16", "BF16", "BF16", "BF16" },
  { "auto", "bfloat16", "", "BF16", "F32", "auto", "BF16" },
  { "auto-other-parameter", "bfloat16", "", "F32", "F16", "auto", "F32" },
  { "keep", "bfloat16", ",'dtype_plan':{'x':'float32'}", "BF16", "F16", "keep", "F16" },
  { "nothing-asked", "bfloat16", "", "F32", "F16", NULL, "F16" },
};

static void
test_dtype (gconstpointer position)
{
  guint i = GPOINTER_TO_UINT (position);
  g_autofree gchar *tensors = g_strdup_printf ("m.x.w: %s[2]", dtype_rows[i].parameter);
  g_autofree gchar *members =
      g_strdup_printf (",'dtype':'%s'%s", dtype_rows[i].model_dtype, dtype_rows[i].dtype_plan);
  g_autofree gchar *published = g_strdup_printf ("m.x.w: %s[2] 3", dtype_rows[i].file);
  g_autofree gchar *expected = g_strdup_printf ("m.x.w: %s[2] 3 4\n", dtype_rows[i].read_as);
  g_autoptr (WeftModuleTree) tree = made_model ("TestModel test -", tensors, members);
  g_autoptr (WeftLoadOptions) options =
      make_options (NULL, NULL, dtype_rows[i].request, WEFT_LOAD_FLAGS_NONE);
  g_auto (MadeFolders) folders = { 0 };
  g_autoptr (WeftCheckpoint) checkpoint = NULL;
  g_autoptr (WeftLoadPlan) plan = NULL;
  g_autoptr (GError) error = NULL;
  g_autofree gchar *found = NULL;

  made_folders_init (&folders);
  weft_load_options_set_module_tree (options, tree);
  made_write (folders.published, NULL, published);
  checkpoint = made_open (folders.published);
  plan = weft_load_plan_new (checkpoint, options, &error);
  g_assert_no_error (error);
  found = made_show (weft_load_plan_get_outputs (plan));
  g_assert_cmpstr (found, ==, expected);
}

static void
test_dtype_of_integers_is_refused (void)
{
  static const gchar *const names[] = { "I64", "int8", "bool", "U8" };

  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      g_autoptr (WeftLoadOptions) options = weft_load_options_new ();
      g_autoptr (GError) error = NULL;

      g_assert_false (weft_load_options_set_dtype (options, names[i], &error));
      g_assert_nonnull (strstr (error->message, names[i]));
    }
}

/* A converter reads in the dtype of its first target, for all of its targets. */
static void
test_dtype_of_a_converter (void)
{
  g_autoptr (WeftModuleTree) tree = made_model ("TestModel test -", "q: F32[1]\nk: BF16[1]",
                                                ",'dtype':'bfloat16','dtype_plan':{'q':'float32'}");
  g_autoptr (WeftLoadOptions) options =
      make_options (CONVERT ("'qk'", "'q','k'", OP_DIM ("Chunk", 0)), NULL, "auto", WEFT_LOAD_FLAGS_NONE);

  weft_load_options_set_module_tree (options, tree);
  made_assert_round_trip (NULL, "qk: BF16[2] 3\n", options, "k: F32[1] 4\nq: F32[1] 3\n");
}

static guint
count (WeftLoadPlan *plan, WeftFinding kind)
{
  return weft_load_report_count (weft_load_plan_get_report (plan), kind);
}

/* What the model does not know is listed, carried along under its own name, and comes back. */
static void
test_unexpected (void)
{
  const gchar *published = "layers.0.w: F32[1] 1\nmtp.0.w: F32[1] 2\nepoch: I64[] 3\n";
  g_autoptr (WeftLoadOptions) options = make_options (NULL, "layers.0.w: F32[1]", NULL, WEFT_LOAD_FLAGS_NONE);
  g_auto (MadeFolders) folders = { 0 };
  g_autoptr (WeftCheckpoint) checkpoint = NULL;
  g_autoptr (WeftLoadPlan) plan = NULL;
  g_autoptr (GError) error = NULL;
  g_autofree gchar *found = NULL;

  made_assert_round_trip (NULL, published, options,
                          "epoch: I64[] 3\nlayers.0.w: F32[1] 1\nmtp.0.w: F32[1] 2\n");
  made_folders_init (&folders);
  made_write (folders.published, NULL, published);
  checkpoint = made_open (folders.published);
  plan = weft_load_plan_new (checkpoint, options, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (count (plan, WEFT_FINDING_UNEXPECTED), ==, 2);
  g_assert_cmpstr (weft_load_report_get_name (weft_load_plan_get_report (plan), WEFT_FINDING_UNEXPECTED, 0),
                   ==, "epoch");
  g_assert_cmpstr (weft_load_report_get_name (weft_load_plan_get_report (plan), WEFT_FINDING_UNEXPECTED, 1),
                   ==, "mtp.0.w");
  weft_load_options_set_flags (options, WEFT_LOAD_FLAGS_DROP_UNEXPECTED);
  made_convert (folders.published, folders.runtime, options, &error);
  g_assert_no_error (error);
  found = made_show_folder (folders.runtime);
  g_assert_cmpstr (found, ==, "layers.0.w: F32[1] 1\n");
}

/* What the model says may be ignored is not in the report, and is carried along all the same. */
static void
test_ignored (void)
{
  g_autoptr (WeftModuleTree) tree =
      made_model ("TestModel test -", "w: F32[1]\nhead: F32[1]",
                  ",'ignore_on_load_unexpected':['inv_freq'],'ignore_on_load_missing':['^head']");
  g_autoptr (WeftLoadOptions) options = make_options (NULL, NULL, NULL, WEFT_LOAD_FLAGS_NONE);
  g_auto (MadeFolders) folders = { 0 };
  g_autoptr (WeftCheckpoint) checkpoint = NULL;
  g_autoptr (WeftLoadPlan) plan = NULL;
  g_autoptr (GError) error = NULL;

  weft_load_options_set_module_tree (options, tree);
  made_assert_round_trip (NULL, "w: F32[1] 1\nrotary.inv_freq: F32[1] 2\n", options,
                          "rotary.inv_freq: F32[1] 2\nw: F32[1] 1\n");
  made_folders_init (&folders);
  made_write (folders.published, NULL, "w: F32[1] 1\nrotary.inv_freq: F32[1] 2\n");
  checkpoint = made_open (folders.published);
  plan = weft_load_plan_new (checkpoint, options, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (count (plan, WEFT_FINDING_UNEXPECTED), ==, 0);
  g_assert_cmpuint (count (plan, WEFT_FINDING_MISSING), ==, 0);
}

/* A converter's second target that the model lacks is listed, not a crash, and comes back. */
static void
test_unexpected_target (void)
{
  g_autoptr (WeftLoadOptions) options = make_options (CONVERT ("'qk'", "'q','k'", OP_DIM ("Chunk", 0)),
                                                      "q: F32[1]", NULL, WEFT_LOAD_FLAGS_NONE);
  g_auto (MadeFolders) folders = { 0 };
  g_autoptr (WeftCheckpoint) checkpoint = NULL;
  g_autoptr (WeftLoadPlan) plan = NULL;
  g_autoptr (GError) error = NULL;

  made_assert_round_trip (NULL, "qk: F32[2] 3\n", options, "k: F32[1] 4\nq: F32[1] 3\n");
  made_folders_init (&folders);
  made_write (folders.published, NULL, "qk: F32[2] 3\n");
  checkpoint = made_open (folders.published);
  plan = weft_load_plan_new (checkpoint, options, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (count (plan, WEFT_FINDING_UNEXPECTED), ==, 1);
  g_assert_cmpstr (weft_load_report_get_name (weft_load_plan_get_report (plan), WEFT_FINDING_UNEXPECTED, 0),
                   ==, "k");
}

/* A key that is a model key as it stands is kept, although a rule would rename it, and the rule does not count as used. */
static void
test_fallback (void)
{
  g_autoptr (WeftLoadOptions) options =
      make_options (RENAME ("^decoder", "encoder") "," RENAME ("^y", "z"), "decoder.w: F32[1]\nz: F32[1]",
                    NULL, WEFT_LOAD_FLAGS_NONE);

  made_assert_round_trip (NULL, "decoder.w: F32[1] 1\ny: F32[1] 2\n", options,
                          "decoder.w: F32[1] 1\nz: F32[1] 2\n");
}

/* Of several numbers in a name the last one counts, whether what follows it is text or an expression. */
static void
test_last_number (void)
{
  static const gchar *const sources[] = { "e.*.w1", "e.*.w[1]" };

  for (guint i = 0; i < G_N_ELEMENTS (sources); i++)
    {
      g_autofree gchar *rule = g_strdup_printf (CONVERT ("'%s'", "'t'", MERGE), sources[i]);
      g_autoptr (WeftLoadOptions) options = make_options (rule, NULL, NULL, WEFT_LOAD_FLAGS_NONE);

      made_assert_round_trip (NULL, "e.0.w1.0.w1: F32[1] 1\ne.0.w1.1.w1: F32[1] 2\n", options,
                              "t: F32[2,1] 1 2\n");
    }
}

/* Converters of equal pattern text in two scopes keep their own ops. */
static void
test_converters_of_equal_text (void)
{
  g_autoptr (WeftLoadOptions) options = weft_load_options_new ();
  g_autoptr (WeftTransformList) list = made_mapping (CONVERT (
      "'w.orig'", "'w.new'", OP ("Transpose")) "," CONVERT ("'w.orig'", "'w.new'", OP_DIM ("Interleave", 0)));

  weft_weight_transform_set_scope (weft_transform_list_get_transform (list, 0), "vision", "");
  weft_weight_transform_set_scope (weft_transform_list_get_transform (list, 1), "text", "");
  weft_load_options_set_mapping (options, list);
  made_assert_round_trip (NULL, "text.w.orig: F32[2,2] 0\nvision.w.orig: F32[2,2] 0\n", options,
                          "text.w.new: F32[2,2] 0 1 2 3\nvision.w.new: F32[2,2] 0 2 1 3\n");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (gap_rows); i++)
    {
      g_autofree gchar *path = g_strdup_printf ("/loading/gap/%s", gap_rows[i].name);
      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_gap);
    }
  for (guint i = 0; i < G_N_ELEMENTS (stop_rows); i++)
    {
      g_autofree gchar *path = g_strdup_printf ("/loading/stop/%s", stop_rows[i].name);
      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_stop);
    }
  for (guint i = 0; i < G_N_ELEMENTS (left_out_rows); i++)
    {
      g_autofree gchar *path = g_strdup_printf ("/loading/left-out/%s", left_out_rows[i].name);
      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_left_out);
    }
  for (guint i = 0; i < G_N_ELEMENTS (dtype_rows); i++)
    {
      g_autofree gchar *path = g_strdup_printf ("/loading/dtype/%s", dtype_rows[i].name);
      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_dtype);
    }
  g_test_add_func ("/loading/dtype/integers-are-refused", test_dtype_of_integers_is_refused);
  g_test_add_func ("/loading/dtype/converter", test_dtype_of_a_converter);
  g_test_add_func ("/loading/failed-is-never-allowed", test_failed_is_never_allowed);
  g_test_add_func ("/loading/tied-to-left-out", test_tied_to_left_out);
  g_test_add_func ("/loading/key-mapping", test_key_mapping);
  g_test_add_func ("/loading/key-mapping-before-mapping", test_key_mapping_before_mapping);
  g_test_add_func ("/loading/key-mapping-of-a-model", test_key_mapping_of_a_model);
  g_test_add_func ("/loading/model-unmatched", test_model_unmatched);
  g_test_add_func ("/loading/unexpected", test_unexpected);
  g_test_add_func ("/loading/ignored", test_ignored);
  g_test_add_func ("/loading/unexpected-target", test_unexpected_target);
  g_test_add_func ("/loading/fallback", test_fallback);
  g_test_add_func ("/loading/last-number", test_last_number);
  g_test_add_func ("/loading/converters-of-equal-text", test_converters_of_equal_text);
  return g_test_run ();
}
