/* SPDX-License-Identifier: Apache-2.0 */
/* `weft gather`: what ranks hold, joined into one checkpoint. */
#include "base/weft-text.h"
#include "checkpoint/weft-rank-folder.h"
#include "pipeline/weft-gather-plan.h"
#include "weft-command-load.h"
#include "weft-command-output.h"

typedef struct
{
  WeftCommandDestination destination;
} GatherOptions;

static const GOptionEntry gather_options[] = {
  WEFT_COMMAND_DESTINATION_OPTIONS (GatherOptions, destination),
  G_OPTION_ENTRY_NULL,
};

static const WeftCommandExample gather_examples[] = {
  { "Join the ranks that are in a folder", "weft gather ranks -o whole" },
  { "The same, each named", "weft gather ranks/rank-00000-of-00002 ranks/rank-00001-of-00002 -o whole" },
  { NULL, NULL },
};

static gboolean
add_checkpoint (GPtrArray *checkpoints, const gchar *path, WeftCommandCall *call, GError **error)
{
  WeftCheckpoint *checkpoint = weft_checkpoint_open (path, call->cancellable, error);

  if (checkpoint == NULL)
    return FALSE;
  g_ptr_array_add (checkpoints, checkpoint);
  return TRUE;
}

/* Refuses a folder with what a run has begun and not ended: its files may be holes. */
static gboolean
check_whole (const gchar *folder, GError **error)
{
  g_autofree gchar *journal = g_build_filename (folder, ".weft-journal", NULL);

  if (!g_file_test (journal, G_FILE_TEST_EXISTS))
    return TRUE;
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_CONFLICT,
               "%s is what an interrupted run has left: finish it with --resume, or remove it", folder);
  return FALSE;
}

/* Refuses what lies beside the folders of ranks and looks like one: the run that made them has not ended, or another one did not. */
static gboolean
check_neighbour (const gchar *folder, const gchar *name, GError **error)
{
  g_autofree gchar *path = g_build_filename (folder, name, NULL);

  if (!g_str_has_prefix (name, "rank-") || !g_file_test (path, G_FILE_TEST_IS_DIR))
    return TRUE;
  g_set_error (
      error, WEFT_ERROR, WEFT_ERROR_CONFLICT,
      "%s: expected the folders of ranks (rank-00000-of-0000N) alone, found %s: if an interrupted run has left it, "
      "finish that with --resume or remove it; or name each folder to be joined",
      folder, name);
  return FALSE;
}

/* All ranks in a folder are of one number of ranks. */
static gboolean
check_world_size (const gchar *folder, const gchar *const *ranks, GError **error)
{
  guint first_size = 0, size = 0;

  (void) weft_rank_folder_parse (ranks[0], NULL, &first_size);
  for (guint i = 1; ranks[i] != NULL; i++)
    if (weft_rank_folder_parse (ranks[i], NULL, &size) && size != first_size)
      {
        g_set_error (error, WEFT_ERROR, WEFT_ERROR_CONFLICT,
                     "%s holds what ranks of %u and of %u have: name each folder to be joined", folder,
                     first_size, size);
        return FALSE;
      }
  return TRUE;
}

/* Those in @folder that have the names of ranks, if there are any. */
static gboolean
add_ranks_in (GPtrArray *checkpoints, const gchar *folder, const gchar *const *ranks, WeftCommandCall *call,
              GError **error)
{
  g_autoptr (GDir) entries = g_dir_open (folder, 0, NULL);
  const gchar *name;

  while (entries != NULL && (name = g_dir_read_name (entries)) != NULL)
    if (!g_strv_contains (ranks, name) && !check_neighbour (folder, name, error))
      return FALSE;
  if (!check_world_size (folder, ranks, error))
    return FALSE;
  for (guint i = 0; ranks[i] != NULL; i++)
    {
      g_autofree gchar *path = g_build_filename (folder, ranks[i], NULL);

      if (!check_whole (path, error) || !add_checkpoint (checkpoints, path, call, error))
        return FALSE;
    }
  return TRUE;
}

static WeftGatherPlan *
make_plan (WeftCommandCall *call, GError **error)
{
  g_autoptr (GPtrArray) checkpoints = g_ptr_array_new_with_free_func (g_object_unref);

  for (guint i = 0; i < call->n_arguments; i++)
    {
      const gchar *path = call->arguments[i];
      g_auto (GStrv) ranks = weft_rank_folders_list (path);

      if (!check_whole (path, error)
          || !(ranks[0] != NULL ? add_ranks_in (checkpoints, path, (const gchar *const *) ranks, call, error)
                                : add_checkpoint (checkpoints, path, call, error)))
        return NULL;
    }
  return weft_gather_plan_new (checkpoints, error);
}

static void
print_result (WeftCommandCall *call, WeftGatherPlan *plan, WeftSafetensorsSink *sink, const gchar *output,
              const WeftTransferCounters *counters)
{
  guint n_tensors = weft_state_dict_get_n_tensors (weft_gather_plan_get_outputs (plan));
  g_autofree gchar *size = weft_text_format_size (counters->n_bytes_written);
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  g_autoptr (JsonNode) root = NULL;

  weft_command_note (call, "%u tensors of %u ranks, %s", n_tensors, weft_gather_plan_get_world_size (plan),
                     size);
  weft_command_print_kept (call, sink, output);
  if (!call->is_json)
    return;
  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "output");
  json_builder_add_string_value (builder, output);
  json_builder_set_member_name (builder, "world_size");
  json_builder_add_int_value (builder, weft_gather_plan_get_world_size (plan));
  json_builder_set_member_name (builder, "tensors");
  json_builder_add_int_value (builder, n_tensors);
  json_builder_set_member_name (builder, "bytes_written");
  json_builder_add_int_value (builder, (gint64) counters->n_bytes_written);
  weft_command_add_kept (builder, sink);
  json_builder_end_object (builder);
  root = json_builder_get_root (builder);
  weft_command_print_json (root);
}

static gint
run_gather (WeftCommandCall *call, GError **error)
{
  const GatherOptions *options = call->options;
  g_autoptr (WeftGatherPlan) plan = NULL;
  g_autoptr (WeftSafetensorsSink) sink = NULL;
  WeftTransferCounters counters = { 0 };
  WeftTransferOptions transfer_options;
  gboolean ok;

  if (options->destination.output == NULL || options->destination.is_in_place)
    {
      weft_command_set_usage_error (error, "where the whole goes is needed (--output)");
      return WEFT_COMMAND_FAILED;
    }
  if (!weft_command_read_threads (&options->destination, call, &transfer_options, error))
    return WEFT_COMMAND_FAILED;
  sink = weft_command_open_sink (&options->destination, call->arguments[0], error);
  plan = sink != NULL ? make_plan (call, error) : NULL;
  if (plan == NULL)
    return WEFT_COMMAND_FAILED;
  ok = weft_gather_plan_execute_full (plan, WEFT_SINK (sink), &transfer_options, &counters, call->cancellable,
                                      error);
  weft_command_progress_end (call);
  if (!ok)
    return WEFT_COMMAND_FAILED;
  print_result (call, plan, sink, options->destination.output, &counters);
  return WEFT_COMMAND_DONE;
}

const WeftCommandEntry weft_gather_command = {
  .name = "gather",
  .arguments = "RANK_DIR...",
  .summary = "Join what ranks hold into one checkpoint",
  .description =
      "RANK_DIR is a folder that `weft convert --tp-size` or `weft shard` wrote for one rank, or a folder in which all of them are "
      "(rank-00000-of-0000N, ...; of one N, and nothing that an interrupted run has left). Each has recorded which slices of which tensors it holds, and what the files of the whole are: they come "
      "out as if they had never been cut, byte for byte, so that `weft revert` goes on from there.\n\n"
      "A part of a tensor that no rank holds is an error; so are ranks that hold the same elements with different values.",
  .min_arguments = 1,
  .max_arguments = G_MAXUINT,
  .options = gather_options,
  .options_size = sizeof (GatherOptions),
  .examples = gather_examples,
  .run = run_gather,
};
