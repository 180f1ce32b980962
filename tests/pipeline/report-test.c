/* SPDX-License-Identifier: Apache-2.0 */
/* What a plan reports: rows, ties, rules without a use, what --strict stops at, and checkpoints of other models. */
#include "made-checkpoint-private.h"

/* Names (split at spaces) and the rows that they become. */
static const gchar *const row_rows[][2] = {
  { "a.0.q a.1.q a.3.q", "a.{0, 1, 3}.q 3" },
  { "0.a 1.a", "0.a 1|1.a 1" },
  { "a.0.1 a.0.2", "a.0.{1, 2} 2" },
  { "a.7.w", "a.7.w 1" },
  { "l.0.e.0.w l.0.e.1.w l.1.e.0.w l.1.e.1.w b", "l.{0, 1}.e.{0, 1}.w 4|b 1" },
  { "x.0 x.1 x.2 x.3 x.4 x.5 x.6 x.7 x.8 x.9", "x.{0, 1, 2, 3, 4, 5, 6, 7, 8, 9} 10" },
  { "x.0 x.1 x.2 x.3 x.4 x.5 x.6 x.7 x.8 x.9 x.10", "x.{0...10} 11" },
  /* A word with digits is no number, and no number is that long. */
  { "a.norm0.w a.norm1.w", "a.norm0.w 1|a.norm1.w 1" },
  { "a.12345678901234567890.w", "a.12345678901234567890.w 1" },
  { "", "" },
};

static void
test_rows (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (row_rows); i++)
    {
      g_auto (GStrv) names = g_strsplit (row_rows[i][0], " ", -1);
      g_autoptr (GPtrArray) rows = NULL;
      g_autoptr (GString) text = g_string_new (NULL);

      if (*row_rows[i][0] == '\0')
        g_clear_pointer (&names[0], g_free);
      rows = weft_report_rows_new ((const gchar *const *) names, NULL);
      for (guint k = 0; k < rows->len; k++)
        g_string_append_printf (text, "%s%s %u", k > 0 ? "|" : "",
                                ((WeftReportRow *) rows->pdata[k])->pattern,
                                ((WeftReportRow *) rows->pdata[k])->n_names);
      g_assert_cmpstr (text->str, ==, row_rows[i][1]);
    }
}

/* All findings of a kind, by name, joined by spaces. */
static gchar *
list_findings (WeftLoadReport *report, WeftFinding kind)
{
  GString *text = g_string_new (NULL);

  for (guint i = 0; i < weft_load_report_count (report, kind); i++)
    g_string_append_printf (text, "%s%s", i > 0 ? " " : "", weft_load_report_get_name (report, kind, i));
  return g_string_free (text, FALSE);
}

static WeftLoadPlan *
make_plan (MadeFolders *folders, const gchar *config, const gchar *published, WeftLoadOptions *options)
{
  g_autoptr (WeftCheckpoint) checkpoint = NULL;
  g_autoptr (GError) error = NULL;
  WeftLoadPlan *plan;

  made_folders_init (folders);
  made_write (folders->published, config, published);
  checkpoint = made_open (folders->published);
  plan = weft_load_plan_new (checkpoint, options, &error);
  g_assert_no_error (error);
  return plan;
}

#define TIED_MODEL "embed: F32[2]\nhead: F32[2]\nw: F32[1]"
#define CHAIN_MODEL "shared: F32[2]\nenc: F32[2]\ndec: F32[2]\nhead: F32[2]"
#define CHAIN ",'tied':{'enc':'shared','dec':'enc','head':'shared'}"
#define TYING "{'tie_word_embeddings':true}"
#define NOT_TYING "{'tie_word_embeddings':false}"

/* Ties are said by the model, by the files and by the config. What is written is what was there; @values: what shows when
 * values are looked at. */
static const struct
{
  const gchar *name;
  const gchar *model;
  const gchar *ties;
  const gchar *config;
  const gchar *published;
  const gchar *missing;
  const gchar *tied;
  const gchar *values;
} tie_rows[] = {
  { "source", TIED_MODEL, ",'tied':{'head':'embed'}", NULL, "embed: F32[2] 1 2\nw: F32[1] 3\n", "", "head",
    "" },
  { "source/config-says-so", TIED_MODEL, ",'tied':{'head':'embed'}", TYING,
    "embed: F32[2] 1 2\nw: F32[1] 3\n", "", "head", "" },
  { "source/config-says-no", TIED_MODEL, ",'tied':{'head':'embed'}", NOT_TYING,
    "embed: F32[2] 1 2\nw: F32[1] 3\n", "head", "", "" },
  { "source/an-inner-config-says-so", TIED_MODEL, ",'tied':{'head':'embed'}",
    "{'tie_word_embeddings':false,'decoder':{'tie_word_embeddings':true}}",
    "embed: F32[2] 1 2\nw: F32[1] 3\n", "", "head", "" },
  { "source/nothing-declared", TIED_MODEL, "", TYING, "embed: F32[2] 1 2\nw: F32[1] 3\n", "head", "", "" },
  { "target", TIED_MODEL, ",'tied':{'head':'embed'}", NULL, "head: F32[2] 1 2\nw: F32[1] 3\n", "", "embed",
    "" },
  { "target/config-says-no", TIED_MODEL, ",'tied':{'head':'embed'}", NOT_TYING,
    "head: F32[2] 1 2\nw: F32[1] 3\n", "embed", "", "" },
  { "both-equal", TIED_MODEL, ",'tied':{'head':'embed'}", NULL,
    "embed: F32[2] 1 2\nhead: F32[2] 1 2\nw: F32[1] 3\n", "", "head", "" },
  { "both-different", TIED_MODEL, ",'tied':{'head':'embed'}", TYING,
    "embed: F32[2] 1 2\nhead: F32[2] 5 6\nw: F32[1] 3\n", "", "head", "head" },
  { "both-different/config-says-no", TIED_MODEL, ",'tied':{'head':'embed'}", NOT_TYING,
    "embed: F32[2] 1 2\nhead: F32[2] 5 6\nw: F32[1] 3\n", "", "", "" },
  { "both-of-other-dtypes", TIED_MODEL, ",'tied':{'head':'embed'}", NULL,
    "embed: F32[2] 1 2\nhead: BF16[2] 1 2\nw: F32[1] 3\n", "", "head", "head" },
  { "neither", TIED_MODEL, ",'tied':{'head':'embed'}", NULL, "w: F32[1] 3\n", "embed head", "", "" },
  { "chain/last-of-it", CHAIN_MODEL, CHAIN, NULL, "head: F32[2] 1 2\n", "", "dec enc shared", "" },
  { "chain/middle-of-it", CHAIN_MODEL, CHAIN, NULL, "dec: F32[2] 1 2\nhead: F32[2] 1 2\n", "",
    "enc head shared", "" },
  /* The first one in the order of the declarations counts, not a distinct head. */
  { "chain/distinct-head", CHAIN_MODEL, CHAIN, NULL, "dec: F32[2] 1 2\nhead: F32[2] 7 8\n", "",
    "enc head shared", "head" },
  /* A name that the model does not have is no tensor of it. */
  { "a-name-that-is-not-there", TIED_MODEL, ",'tied':{'nowhere':'embed','head':'embed'}", NULL,
    "embed: F32[2] 1 2\nw: F32[1] 3\n", "", "head", "" },
};

static void
test_ties (gconstpointer position)
{
  guint i = GPOINTER_TO_UINT (position);
  g_autoptr (WeftModuleTree) tree = made_model ("TestModel test -", tie_rows[i].model, tie_rows[i].ties);
  g_autoptr (WeftLoadOptions) options = weft_load_options_new ();
  g_auto (MadeFolders) folders = { 0 };
  g_autoptr (WeftLoadPlan) plan = NULL;
  g_autoptr (GError) error = NULL;
  g_autofree gchar *missing = NULL;
  g_autofree gchar *tied = NULL;
  g_autofree gchar *values = NULL;

  weft_load_options_set_module_tree (options, tree);
  plan = make_plan (&folders, tie_rows[i].config, tie_rows[i].published, options);
  missing = list_findings (weft_load_plan_get_report (plan), WEFT_FINDING_MISSING);
  tied = list_findings (weft_load_plan_get_report (plan), WEFT_FINDING_TIED);
  g_assert_cmpstr (missing, ==, tie_rows[i].missing);
  g_assert_cmpstr (tied, ==, tie_rows[i].tied);
  values = list_findings (weft_load_plan_check_values (plan, NULL, &error), WEFT_FINDING_NOTE);
  g_assert_no_error (error);
  g_assert_cmpstr (values, ==, tie_rows[i].values);
  weft_load_options_set_flags (options, WEFT_LOAD_FLAGS_ALLOW_MISSING);
  made_assert_round_trip (tie_rows[i].config, tie_rows[i].published, options, tie_rows[i].published);
}

/* From which name the others get their tensor. */
static void
test_tie_detail (void)
{
  g_autoptr (WeftModuleTree) tree = made_model ("TestModel test -", CHAIN_MODEL, CHAIN);
  g_autoptr (WeftLoadOptions) options = weft_load_options_new ();
  g_auto (MadeFolders) folders = { 0 };
  g_autoptr (WeftLoadPlan) plan = NULL;

  weft_load_options_set_module_tree (options, tree);
  plan = make_plan (&folders, NULL, "dec: F32[2] 1\nhead: F32[2] 7\n", options);
  g_assert_cmpstr (weft_load_report_get_detail (weft_load_plan_get_report (plan), WEFT_FINDING_TIED, 0), ==,
                   "is not in the checkpoint; the model ties it to 'dec'");
  g_assert_cmpstr (weft_load_report_get_detail (weft_load_plan_get_report (plan), WEFT_FINDING_TIED, 1), ==,
                   "is in the checkpoint beside 'dec', to which the model ties it; both are kept");
}

/* What each flag stops at, and what the message names. */
static const struct
{
  WeftLoadFlags flags;
  gint code;
  const gchar *message;
} strict_rows[] = {
  { WEFT_LOAD_FLAGS_REFUSE_UNEXPECTED, WEFT_ERROR_CONFLICT,
    "'extra.0' and 2 more is no tensor of the model" },
  { WEFT_LOAD_FLAGS_REFUSE_IGNORED, WEFT_ERROR_CONFLICT, "'inv_freq' is on one side only" },
  { WEFT_LOAD_FLAGS_REFUSE_UNUSED, WEFT_ERROR_CONFLICT, "'^idle'|matches no tensor" },
  { WEFT_LOAD_FLAGS_REFUSE_NOT_REVERSIBLE, WEFT_ERROR_NOT_REVERSIBLE,
    "'extra.0' and 3 more has no exact inverse" },
};

static void
test_strict (void)
{
  const gchar *published = "extra.0: F32[1]\nextra.1: F32[1]\ninv_freq: F32[1]\nqk: F32[2]\nw: F32[1]\n";
  g_autoptr (WeftModuleTree) tree =
      made_model ("TestModel test -", "k: F32[1]\nw: F32[1]", ",'ignore_on_load_unexpected':['inv_freq']");
  g_autoptr (WeftTransformList) mapping =
      made_mapping (CONVERT ("'qk'", "'k','q'", OP_DIM ("Chunk", 0)) "," RENAME ("^idle", "busy"));
  g_autoptr (WeftLoadOptions) options = weft_load_options_new ();
  g_auto (MadeFolders) folders = { 0 };
  g_autoptr (WeftLoadPlan) plan = NULL;
  g_autofree gchar *unused = NULL;

  weft_load_options_set_module_tree (options, tree);
  weft_load_options_set_mapping (options, mapping);
  weft_load_options_set_flags (options, WEFT_LOAD_FLAGS_DROP_UNEXPECTED);
  plan = make_plan (&folders, NULL, published, options);
  unused = list_findings (weft_load_plan_get_report (plan), WEFT_FINDING_UNUSED);
  g_assert_nonnull (strstr (unused, "'^idle'"));
  for (guint i = 0; i < G_N_ELEMENTS (strict_rows); i++)
    {
      weft_load_options_set_flags (options, WEFT_LOAD_FLAGS_DROP_UNEXPECTED | strict_rows[i].flags);
      made_assert_refused (NULL, published, options, strict_rows[i].code, strict_rows[i].message);
    }
}

static void
test_strict_about_open_mode (void)
{
  g_autoptr (WeftLoadOptions) options = weft_load_options_new ();

  weft_load_options_set_flags (options, WEFT_LOAD_FLAGS_REFUSE_OPEN);
  made_assert_refused (NULL, "w: F32[1]", options, WEFT_ERROR_MISSING, "not known|--module-tree");
}

#define MODEL_OF_PARTS \
  "lm_head: F32[1]\nmodel.text.layers.0.w: F32[1]\nmodel.text.layers.1.w: F32[1]\nmodel.vision.a: F32[1]"
#define PARTS                                                                                     \
  ",'sub_models':[{'fqn':'','class':'RootForB','model_type':'root','base_model_prefix':'model'}," \
  "{'fqn':'model.text','class':'TextModel','model_type':'made_text','base_model_prefix':''},"     \
  "{'fqn':'model.vision','class':'VisionModel','model_type':'made_vision','base_model_prefix':''}]"

/* A checkpoint that is not what its config says: what it is instead. */
static const struct
{
  const gchar *name;
  const gchar *published;
  const gchar *message;
} fit_rows[] = {
  { "another-prefix",
    "module.model.text.layers.0.w: F32[1]\nmodule.model.vision.a: F32[1]\nmodule.lm_head: F32[1]",
    "none of the 3 tensors|the 4 of RootForB|without their 'module.' (--key-mapping '^module\\.=')" },
  { "a-part", "layers.0.w: F32[1]\nlayers.1.w: F32[1]",
    "part 'model.text' (TextModel|--key-mapping '^=model.text.'" },
  { "another-mapping",
    "model.layers.0.block_sparse_moe.experts.0.w1.weight: F32[1]\nmodel.layers.0.block_sparse_moe.experts.0.w2.weight: F32[1]\n"
    "model.layers.0.block_sparse_moe.experts.0.w3.weight: F32[1]\nmodel.layers.0.block_sparse_moe.gate.weight: F32[1]",
    "nearest: the mapping|'mixtral' (3 of its 3 rules match)" },
};

static void
test_fit (gconstpointer position)
{
  guint i = GPOINTER_TO_UINT (position);
  g_autoptr (WeftModuleTree) tree = made_model ("RootForB root model", MODEL_OF_PARTS, PARTS);
  g_autoptr (WeftLoadOptions) options = weft_load_options_new ();

  weft_load_options_set_module_tree (options, tree);
  weft_load_options_set_flags (options, WEFT_LOAD_FLAGS_ALLOW_MISSING);
  made_assert_refused (NULL, fit_rows[i].published, options, WEFT_ERROR_MISSING, fit_rows[i].message);
}

/* One name in common of thirty is chance; the two of them that a small file has are not. */
static void
test_fit_by_chance (void)
{
  g_autoptr (GString) model = g_string_new ("norm: F32[1]");
  g_autoptr (GString) published = g_string_new ("norm: F32[1]\n");
  g_autoptr (WeftLoadOptions) options = weft_load_options_new ();
  g_autoptr (WeftModuleTree) tree = NULL;

  for (guint i = 0; i < 30; i++)
    {
      g_string_append_printf (model, "\nlayers.%u.w: F32[1]", i);
      g_string_append_printf (published, "blocks.%u.w: F32[1]\n", i);
    }
  tree = made_model ("TestModel test -", model->str, NULL);
  weft_load_options_set_module_tree (options, tree);
  weft_load_options_set_flags (options, WEFT_LOAD_FLAGS_ALLOW_MISSING);
  made_assert_refused (
      NULL, published->str, options, WEFT_ERROR_MISSING,
      "this config does not fit this checkpoint: 1 of the 31 tensors|among the 31 of TestModel");
  made_assert_round_trip (NULL, "layers.3.w: F32[1] 1\nnorm: F32[1] 2\n", options,
                          "layers.3.w: F32[1] 1\nnorm: F32[1] 2\n");
}

/* Elements that are dropped because they should be zero: the plan stays as it is, the report of values says if they are not. */
static void
test_values (void)
{
  static const gchar *const published[] = { "w: F32[4,1] 1 2 0 0\n", "w: F32[4,1] 1 2 0 9\n" };
  g_autoptr (WeftTransformList) mapping = made_mapping (CONVERT ("'w'", "'w'", OP ("Inkling2UnpadVocab")));

  for (guint i = 0; i < G_N_ELEMENTS (published); i++)
    {
      g_autoptr (WeftLoadOptions) options = weft_load_options_new ();
      g_auto (MadeFolders) folders = { 0 };
      g_autoptr (WeftLoadPlan) plan = NULL;
      g_autoptr (GError) error = NULL;
      WeftLoadReport *values;

      weft_load_options_set_mapping (options, mapping);
      plan = make_plan (&folders, "{'vocab_size':4,'unpadded_vocab_size':2}", published[i], options);
      g_assert_true (weft_load_plan_is_reversible (plan));
      values = weft_load_plan_check_values (plan, NULL, &error);
      g_assert_no_error (error);
      g_assert_cmpuint (weft_load_report_count (values, WEFT_FINDING_NOT_REVERSIBLE), ==, i);
      g_assert_true (weft_load_plan_is_reversible (plan));
      g_assert_true (weft_load_plan_check_values (plan, NULL, &error) == values);
      made_convert (folders.published, folders.runtime, options, &error);
      g_assert_no_error (error);
      g_assert_true (made_revert (folders.runtime, folders.back, NULL, WEFT_REVERT_FLAGS_NONE, &error)
                     == (i == 0));
      if (i == 1)
        made_assert_message (error, "'w' has no exact inverse|other values than zero");
    }
}

/* The text for a person: a title, a row for names that differ by numbers alone, nothing if there is nothing. */
static void
test_text (void)
{
  g_autoptr (WeftModuleTree) tree =
      made_model ("TestModel test -",
                  "l.0.w: F32[1]\nl.1.w: F32[1]\nl.2.w: F32[1]\nx: F32[2]\nhead: F32[1]\nembed: F32[1]",
                  ",'tied':{'head':'embed'}");
  g_autoptr (WeftLoadOptions) options = weft_load_options_new ();
  g_auto (MadeFolders) folders = { 0 };
  g_autoptr (WeftLoadPlan) plan = NULL;
  g_autofree gchar *text = NULL;
  g_autofree gchar *all = NULL;
  g_autofree gchar *expected = NULL;
  g_autofree gchar *expected_all = NULL;

  weft_load_options_set_module_tree (options, tree);
  plan = make_plan (&folders, NULL, "e.0.w: F32[1]\ne.1.w: F32[1]\nembed: F32[1]\nl.1.w: F32[1]\nx: F32[3]\n",
                    options);
  text = weft_load_report_to_text (weft_load_plan_get_report (plan), 20, FALSE);
  all = weft_load_report_to_text (weft_load_plan_get_report (plan), 20, TRUE);
  expected = g_strdup_printf ("TestModel LOAD REPORT from: %s\n"
                              "UNEXPECTED      e.{0, 1}.w (2): carried along under its own name\n"
                              "MISSING         l.{0, 2}.w (2)\n"
                              "MISMATCH        x: the checkpoint gives (3,), the model has (2,)\n",
                              folders.published);
  expected_all = g_strconcat (
      expected, "tied            head: is not in the checkpoint; the model ties it to 'embed'\n", NULL);
  g_assert_cmpstr (text, ==, expected);
  g_assert_cmpstr (all, ==, expected_all);
}

/* A list of the model that cannot be read is said so, not left out. */
static void
test_wrong_ignore_list (void)
{
  static const gchar *const members[] = { "ignore_on_load_missing", "ignore_on_load_unexpected" };

  for (guint i = 0; i < G_N_ELEMENTS (members); i++)
    {
      g_autofree gchar *text = g_strdup_printf (",'%s':['(']", members[i]);
      g_autoptr (WeftModuleTree) tree = made_model ("TestModel test -", "w: F32[1]", text);
      g_autoptr (WeftLoadOptions) options = weft_load_options_new ();

      weft_load_options_set_module_tree (options, tree);
      made_assert_refused (NULL, "w: F32[1]", options, WEFT_ERROR_PATTERN, members[i]);
    }
}

static void
test_text_of_nothing (void)
{
  g_autoptr (WeftModuleTree) tree = made_model ("TestModel test -", "w: F32[1]", NULL);
  g_autoptr (WeftLoadOptions) options = weft_load_options_new ();
  g_auto (MadeFolders) folders = { 0 };
  g_autoptr (WeftLoadPlan) plan = NULL;
  g_autofree gchar *text = NULL;

  weft_load_options_set_module_tree (options, tree);
  plan = make_plan (&folders, "{'model_type':'test'}", "w: F32[1]\n", options);
  text = weft_load_report_to_text (weft_load_plan_get_report (plan), 20, FALSE);
  g_assert_cmpstr (text, ==, "");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (tie_rows); i++)
    {
      g_autofree gchar *path = g_strdup_printf ("/report/ties/%s", tie_rows[i].name);
      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_ties);
    }
  for (guint i = 0; i < G_N_ELEMENTS (fit_rows); i++)
    {
      g_autofree gchar *path = g_strdup_printf ("/report/fit/%s", fit_rows[i].name);
      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_fit);
    }
  g_test_add_func ("/report/rows", test_rows);
  g_test_add_func ("/report/tie-detail", test_tie_detail);
  g_test_add_func ("/report/strict", test_strict);
  g_test_add_func ("/report/strict-about-open-mode", test_strict_about_open_mode);
  g_test_add_func ("/report/fit-by-chance", test_fit_by_chance);
  g_test_add_func ("/report/values", test_values);
  g_test_add_func ("/report/text", test_text);
  g_test_add_func ("/report/wrong-ignore-list", test_wrong_ignore_list);
  g_test_add_func ("/report/text-of-nothing", test_text_of_nothing);
  return g_test_run ();
}
