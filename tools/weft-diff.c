/* SPDX-License-Identifier: Apache-2.0 */
/* `weft diff`: what two checkpoints have not in common. */
#include "pipeline/weft-comparison.h"
#include "weft-command-load.h"
#include "weft-command-output.h"

/* How many rows are shown before the rest is counted. */
#define N_ROWS 60

typedef struct
{
  WeftCommandSource source;
  gboolean is_names_only;
  gboolean is_physical;
} DiffOptions;

static const GOptionEntry diff_options[] = {
  { "names", 'n', 0, G_OPTION_ARG_NONE, WEFT_COMMAND_OPTION (DiffOptions, is_names_only),
    "Compare names, dtypes and shapes; read no tensor", NULL },
  { "bytes", 'b', 0, G_OPTION_ARG_NONE, WEFT_COMMAND_OPTION (DiffOptions, is_physical),
    "Compare all files byte by byte, those beside the weights too", NULL },
  WEFT_COMMAND_SOURCE_OPTIONS (DiffOptions, source),
  G_OPTION_ENTRY_NULL,
};

static const WeftCommandExample diff_examples[] = {
  { "Did everything come back?", "weft revert out -o back && weft diff Mixtral-8x7B back" },
  { "A checkpoint and what was converted from it hold the same model", "weft diff Mixtral-8x7B out" },
  { "Is every file the same, byte by byte?", "weft diff --bytes Mixtral-8x7B back" },
  { "Which tensors did the fine-tuning change?", "weft diff --json base tuned" },
  { NULL, NULL },
};

static WeftComparison *
open_both (WeftCommandCall *call, GError **error)
{
  const DiffOptions *options = call->options;
  g_autoptr (WeftLoadOptions) load_options = NULL;
  g_autoptr (WeftCheckpoint) a = NULL;
  g_autoptr (WeftCheckpoint) b = NULL;

  if (options->is_names_only && options->is_physical)
    {
      weft_command_set_usage_error (error, "--names reads no bytes and --bytes reads them all; choose one");
      return NULL;
    }
  load_options = weft_command_load_options (&options->source, NULL, error);
  if (load_options == NULL)
    return NULL;
  a = weft_command_open_source (call->arguments[0], &options->source, call, error);
  b = a != NULL ? weft_command_open_source (call->arguments[1], &options->source, call, error) : NULL;
  if (b == NULL)
    return NULL;
  return weft_comparison_new (a, b, load_options,
                              options->is_physical ? WEFT_COMPARISON_FLAGS_BYTES : WEFT_COMPARISON_FLAGS_NONE,
                              error);
}

static void
note_layouts (WeftCommandCall *call, WeftComparison *comparison)
{
  const gchar *a = weft_comparison_get_layout (comparison, FALSE);
  const gchar *b = weft_comparison_get_layout (comparison, TRUE);

  if (!g_str_equal (a, "stored") || !g_str_equal (b, "stored"))
    weft_command_note (call, "the layouts are not the same: A is compared as %s, B as %s", a, b);
}

static void
print_result (WeftCommandCall *call, WeftComparison *comparison)
{
  const DiffOptions *options = call->options;
  g_autofree gchar *text = weft_comparison_to_text (comparison, N_ROWS);
  g_auto (GStrv) notes = weft_comparison_list_notes (comparison);
  g_autoptr (JsonNode) root = call->is_json ? weft_comparison_to_json (comparison) : NULL;

  if (root != NULL)
    weft_command_print_json (root);
  else
    weft_command_print ("%s", text);
  note_layouts (call, comparison);
  for (guint i = 0; notes[i] != NULL; i++)
    weft_command_note (call, "%s", notes[i]);
  weft_command_note (call, "%s: %u %s compared%s",
                     weft_comparison_is_equal (comparison) ? "equal" : "different",
                     weft_comparison_get_n_compared (comparison), options->is_physical ? "files" : "tensors",
                     options->is_names_only ? " by name, dtype and shape" : "");
}

static gint
run_diff (WeftCommandCall *call, GError **error)
{
  const DiffOptions *options = call->options;
  g_autoptr (WeftComparison) comparison = open_both (call, error);
  gboolean ok = comparison != NULL;

  if (ok && !options->is_names_only)
    ok = weft_comparison_execute (comparison, weft_command_progress, call, call->cancellable, error);
  weft_command_progress_end (call);
  if (!ok)
    return WEFT_COMMAND_FAILED;
  print_result (call, comparison);
  return weft_comparison_is_equal (comparison) ? WEFT_COMMAND_DONE : WEFT_COMMAND_DIFFERS;
}

const WeftCommandEntry weft_diff_command = {
  .name = "diff",
  .arguments = "A B",
  .summary = "Compare two checkpoints, whatever layout each is in",
  .description =
      "A and B are safetensors files or checkpoint folders. They are equal if they hold the same model: names, dtypes, shapes and "
      "every value. If one is published and the other converted, it is brought to the layout of the other while it is read (by its "
      "own record, or by the mapping that its config names); nothing is written, and memory does not grow with the model.\n\n"
      "Differences are listed by kind: only in A, only in B, dtype, shape, values (how many elements, the first of them, the largest "
      "absolute difference). Names that differ by numbers alone share a row. Metadata and config are told, and count for nothing.\n\n"
      "With --bytes nothing is interpreted: the files of both folders have to be the same, byte by byte.",
  .differs = "A and B are not equal",
  .min_arguments = 2,
  .max_arguments = 2,
  .options = diff_options,
  .options_size = sizeof (DiffOptions),
  .examples = diff_examples,
  .run = run_diff,
};
