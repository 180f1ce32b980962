/* SPDX-License-Identifier: Apache-2.0 */
/* `weft revert`: a runtime checkpoint into its published layout. */
#include "base/weft-text.h"
#include "pipeline/weft-revert-plan.h"
#include "weft-command-job.h"
#include "weft-command-load.h"
#include "weft-command-output.h"

typedef struct
{
  WeftCommandSource source;
  WeftCommandDestination destination;
  gboolean is_lossy;
  gboolean ignores_provenance;
} RevertOptions;

static const GOptionEntry revert_options[] = {
  WEFT_COMMAND_DESTINATION_OPTIONS (RevertOptions, destination),
  WEFT_COMMAND_MPI_OPTION (RevertOptions, destination),
  { "lossy", 0, 0, G_OPTION_ARG_NONE, WEFT_COMMAND_OPTION (RevertOptions, is_lossy),
    "Take the nearest inverse of what has no exact one", NULL },
  { "no-provenance", 0, 0, G_OPTION_ARG_NONE, WEFT_COMMAND_OPTION (RevertOptions, ignores_provenance),
    "Go by the model's mapping alone, as if nothing were recorded", NULL },
  WEFT_COMMAND_SOURCE_OPTIONS (RevertOptions, source),
  G_OPTION_ENTRY_NULL,
};

static const WeftCommandExample revert_examples[] = {
  { "Bring the published checkpoint back", "weft revert out -o back" },
  { "A runtime checkpoint that Weft did not make", "weft revert runtime -o published --model-type mixtral" },
  { NULL, NULL },
};

static WeftRevertPlan *
make_plan (WeftCommandCall *call, GError **error)
{
  const RevertOptions *options = call->options;
  WeftRevertFlags flags = WEFT_REVERT_FLAGS_NONE;
  g_autoptr (WeftCheckpoint) checkpoint = NULL;
  g_autoptr (WeftLoadOptions) load_options = weft_command_load_options (&options->source, NULL, error);

  if (load_options == NULL)
    return NULL;
  flags |= options->is_lossy ? WEFT_REVERT_FLAGS_ALLOW_LOSSY : 0;
  flags |= options->ignores_provenance ? WEFT_REVERT_FLAGS_IGNORE_PROVENANCE : 0;
  checkpoint = weft_command_open_source (call->arguments[0], &options->source, call, error);
  return checkpoint != NULL ? weft_revert_plan_new (checkpoint, load_options, flags, error) : NULL;
}

static void
print_result (WeftCommandCall *call, WeftRevertPlan *plan, WeftSafetensorsSink *sink, const gchar *output,
              const WeftTransferCounters *counters, guint n_equal, guint n_different)
{
  g_autofree gchar *size = weft_text_format_size (counters->n_bytes_written);
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  g_autoptr (JsonNode) root = NULL;
  guint n_tensors = weft_state_dict_get_n_tensors (weft_revert_plan_get_outputs (plan));
  gboolean by_record = weft_revert_plan_has_provenance (plan);

  weft_command_note (call, "%u tensors, %s, %s", n_tensors, size,
                     by_record ? "in their published layout" : "under the names of the model's mapping");
  if (n_equal + n_different > 0)
    weft_command_note (call, "%u of %u files have the hash of the published ones", n_equal,
                       n_equal + n_different);
  weft_command_print_kept (call, sink, output);
  if (!call->is_json)
    return;
  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "tensors");
  json_builder_add_int_value (builder, n_tensors);
  json_builder_set_member_name (builder, "bytes_written");
  json_builder_add_int_value (builder, (gint64) counters->n_bytes_written);
  weft_command_add_kept (builder, sink);
  json_builder_set_member_name (builder, "by_record");
  json_builder_add_boolean_value (builder, by_record);
  json_builder_set_member_name (builder, "files_with_equal_hash");
  json_builder_add_int_value (builder, n_equal);
  json_builder_set_member_name (builder, "files_with_other_hash");
  json_builder_add_int_value (builder, n_different);
  json_builder_end_object (builder);
  root = json_builder_get_root (builder);
  weft_command_print_json (root);
}

static gint
run_revert (WeftCommandCall *call, GError **error)
{
  const RevertOptions *options = call->options;
  const gchar *output =
      options->destination.output != NULL ? options->destination.output : call->arguments[0];
  g_autoptr (WeftRevertPlan) plan = NULL;
  g_autoptr (WeftSafetensorsSink) sink = NULL;
  WeftTransferCounters counters = { 0 };
  WeftTransferOptions transfer_options;
  guint n_equal = 0, n_different = 0;
  gboolean ok;

  if (!weft_command_read_threads (&options->destination, call, &transfer_options, error)
      || (options->destination.is_shared_out && !weft_command_join_job (call, error)))
    return WEFT_COMMAND_FAILED;
  sink = weft_command_open_sink (&options->destination, call->arguments[0], error);
  plan = sink != NULL ? make_plan (call, error) : NULL;
  if (plan == NULL)
    return WEFT_COMMAND_FAILED;
  weft_command_share_sink (call, sink);
  ok = weft_revert_plan_execute_full (plan, WEFT_SINK (sink), &transfer_options, &counters, call->cancellable,
                                      error);
  if (ok)
    weft_command_sum_counters (call, &counters);
  ok = ok
       && (weft_safetensors_sink_is_single_file (sink) || !weft_command_speaks (call)
           || weft_revert_plan_compare_hashes (plan, output, &n_equal, &n_different, call->cancellable,
                                               error));
  weft_command_progress_end (call);
  weft_command_print_report (call, weft_revert_plan_get_report (plan), FALSE);
  if (!ok)
    return WEFT_COMMAND_FAILED;
  print_result (call, plan, sink, output, &counters, n_equal, n_different);
  return WEFT_COMMAND_DONE;
}

const WeftCommandEntry weft_revert_command = {
  .name = "revert",
  .arguments = "SRC",
  .summary = "Take a runtime checkpoint back into its published layout",
  .description =
      "SRC is what `weft convert` wrote. Its weft-provenance.json holds the published names, their order, shards and headers and "
      "the rules that were used; reverting runs the inverse of these rules on the tensors that are there now, so edited values "
      "keep their edits, and untouched ones come back byte for byte. The published checkpoint itself is not needed.\n\n"
      "Without that record (a runtime checkpoint from elsewhere) the model's mapping decides the names: rules for old names and "
      "changes of prefix are not reversed then.",
  .min_arguments = 1,
  .max_arguments = 1,
  .options = revert_options,
  .options_size = sizeof (RevertOptions),
  .examples = revert_examples,
  .run = run_revert,
};
