/* SPDX-License-Identifier: Apache-2.0 */
/* `weft convert`: a published checkpoint into its runtime layout. */
#include "base/weft-text.h"
#include "weft-command-load.h"
#include "weft-command-output.h"

typedef struct
{
  WeftCommandSource source;
  WeftCommandRules rules;
  WeftCommandDestination destination;
  gchar *max_shard_size;
  gboolean is_hashed;
  gboolean is_dry_run;
} ConvertOptions;

static const GOptionEntry convert_options[] = {
  WEFT_COMMAND_DESTINATION_OPTIONS (ConvertOptions, destination),
  WEFT_COMMAND_RULES_OPTIONS (ConvertOptions, rules),
  WEFT_COMMAND_SOURCE_OPTIONS (ConvertOptions, source),
  { "max-shard-size", 0, 0, G_OPTION_ARG_STRING, WEFT_COMMAND_OPTION (ConvertOptions, max_shard_size),
    "Begin a new file at this size, such as 5GB (default: each tensor goes to the shard of its first source)",
    "SIZE" },
  { "hash", 0, 0, G_OPTION_ARG_NONE, WEFT_COMMAND_OPTION (ConvertOptions, is_hashed),
    "Record a hash of each source file, which costs a pass over them; `weft revert` compares", NULL },
  { "dry-run", 'n', 0, G_OPTION_ARG_NONE, WEFT_COMMAND_OPTION (ConvertOptions, is_dry_run),
    "Plan and check, write nothing", NULL },
  G_OPTION_ENTRY_NULL,
};

static const WeftCommandExample convert_examples[] = {
  { "Convert a checkpoint", "weft convert Mixtral-8x7B -o out" },
  { "What would be done, from headers alone", "weft convert Mixtral-8x7B -o out --dry-run" },
  { "With the dtypes that the model's runtime uses", "weft convert Mixtral-8x7B -o out --dtype auto" },
  { "With a renaming of your own",
    "weft convert my-model -o out --key-mapping '^encoder\\.=model.encoder.'" },
  { "A LoRA adapter, by the rules of its model", "weft convert my-adapter --base Mixtral-8x7B -o out" },
  { "An unknown model, by rules from a file", "weft convert my-model -o out --mapping my-rules.json" },
  { NULL, NULL },
};

/* What values told while they were written. NULL if nothing was. */
static WeftLoadReport *
get_value_report (WeftCommandCall *call, WeftLoadPlan *plan)
{
  const ConvertOptions *options = call->options;

  return options->is_dry_run ? NULL : weft_load_plan_check_values (plan, call->cancellable, NULL);
}

static gboolean
is_reversible (WeftCommandCall *call, WeftLoadPlan *plan)
{
  WeftLoadReport *values = get_value_report (call, plan);

  return weft_load_plan_is_reversible (plan)
         && (values == NULL || weft_load_report_count (values, WEFT_FINDING_NOT_REVERSIBLE) == 0);
}

static void
print_reports (WeftCommandCall *call, WeftLoadPlan *plan, gboolean with_values)
{
  WeftLoadReport *values = with_values ? get_value_report (call, plan) : NULL;

  weft_command_print_report (call, weft_load_plan_get_report (plan), FALSE);
  if (values != NULL)
    weft_command_print_report (call, values, FALSE);
}

static void
print_summary (WeftCommandCall *call, WeftLoadPlan *plan, gboolean is_recorded,
               const WeftTransferCounters *counters, gdouble seconds)
{
  const gchar *way_back =
      !is_reversible (call, plan) ? "not reversible (see above)"
      : is_recorded               ? "`weft revert` brings every byte back"
                    : "a single file holds no record, so that `weft revert` will go by the model's mapping";
  guint n_published =
      weft_state_dict_get_n_tensors (weft_checkpoint_get_state_dict (weft_load_plan_get_checkpoint (plan)));
  guint n_outputs = weft_state_dict_get_n_tensors (weft_load_plan_get_outputs (plan));
  g_autofree gchar *size = weft_text_format_size (counters->n_bytes_written);

  weft_command_note (call, "%u tensors became %u, %s in %.1f s; %s", n_published, n_outputs, size, seconds,
                     way_back);
}

static void
print_result (WeftCommandCall *call, WeftLoadPlan *plan, WeftSafetensorsSink *sink, const gchar *output,
              const WeftTransferCounters *counters)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  g_autoptr (JsonNode) root = NULL;

  if (!call->is_json)
    return;
  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "output");
  json_builder_add_string_value (builder, output);
  json_builder_set_member_name (builder, "tensors");
  json_builder_add_int_value (builder, weft_state_dict_get_n_tensors (weft_load_plan_get_outputs (plan)));
  json_builder_set_member_name (builder, "bytes_kept");
  json_builder_add_int_value (builder, (gint64) counters->n_bytes_kept);
  json_builder_set_member_name (builder, "bytes_read");
  json_builder_add_int_value (builder, (gint64) counters->n_bytes_read);
  json_builder_set_member_name (builder, "bytes_written");
  json_builder_add_int_value (builder, (gint64) counters->n_bytes_written);
  weft_command_add_kept (builder, sink);
  json_builder_set_member_name (builder, "reversible");
  json_builder_add_boolean_value (builder, is_reversible (call, plan));
  json_builder_set_member_name (builder, "report");
  json_builder_add_value (builder, weft_load_report_to_json (weft_load_plan_get_report (plan)));
  if (get_value_report (call, plan) != NULL)
    {
      json_builder_set_member_name (builder, "value_report");
      json_builder_add_value (builder, weft_load_report_to_json (get_value_report (call, plan)));
    }
  json_builder_end_object (builder);
  root = json_builder_get_root (builder);
  weft_command_print_json (root);
}

static WeftLoadPlan *
make_plan (WeftCommandCall *call, GError **error)
{
  const ConvertOptions *options = call->options;
  g_autoptr (WeftCheckpoint) checkpoint = NULL;
  g_autoptr (WeftLoadOptions) load_options =
      weft_command_load_options (&options->source, &options->rules, error);
  guint64 max_shard_bytes = 0;

  if (load_options == NULL
      || !weft_command_parse_shard_size (options->max_shard_size, &max_shard_bytes, error))
    return NULL;
  weft_load_options_set_max_shard_bytes (load_options, max_shard_bytes);
  weft_load_options_set_is_hashed (load_options, options->is_hashed);
  checkpoint = weft_command_open_source (call->arguments[0], &options->source, call, error);
  return checkpoint != NULL ? weft_command_new_plan (checkpoint, load_options, &options->rules, error) : NULL;
}

static gint
run_convert (WeftCommandCall *call, GError **error)
{
  const ConvertOptions *options = call->options;
  const gchar *output =
      options->destination.output != NULL ? options->destination.output : call->arguments[0];
  g_autoptr (WeftLoadPlan) plan = NULL;
  g_autoptr (WeftSafetensorsSink) sink = NULL;
  WeftTransferCounters counters = { 0 };
  WeftTransferOptions transfer_options;
  gint64 start = g_get_monotonic_time ();
  gboolean ok;

  if (!weft_command_read_threads (&options->destination, call, &transfer_options, error))
    return WEFT_COMMAND_FAILED;
  if (!options->is_dry_run)
    {
      sink = weft_command_open_sink (&options->destination, call->arguments[0], error);
      if (sink == NULL)
        return WEFT_COMMAND_FAILED;
    }
  plan = make_plan (call, error);
  if (plan == NULL)
    return WEFT_COMMAND_FAILED;
  ok = options->is_dry_run ? weft_load_plan_check (plan, error)
                           : weft_load_plan_execute_full (plan, WEFT_SINK (sink), &transfer_options,
                                                          &counters, call->cancellable, error);
  weft_command_progress_end (call);
  print_reports (call, plan, ok);
  if (!ok)
    return WEFT_COMMAND_FAILED;
  if (options->is_dry_run)
    weft_command_note_plan (call, plan);
  else
    {
      print_summary (call, plan, !weft_safetensors_sink_is_single_file (sink), &counters,
                     (gdouble) (g_get_monotonic_time () - start) / G_USEC_PER_SEC);
      weft_command_print_kept (call, sink, output);
    }
  print_result (call, plan, sink, output, &counters);
  return WEFT_COMMAND_DONE;
}

const WeftCommandEntry weft_convert_command = {
  .name = "convert",
  .arguments = "SRC",
  .summary = "Take a published checkpoint into its runtime layout",
  .description =
      "SRC is a checkpoint folder, an index or one safetensors file. Its config.json says which model it is, and with that "
      "which rules rename, merge, split and reorder its tensors.\n\n"
      "The output appears under its name only when it is complete and on the disk; a failed run leaves nothing behind but a "
      "DST.weft-partial that --resume takes up. It holds the tensors, the other files of SRC, and weft-provenance.json, from "
      "which `weft revert` brings every byte back.\n\n"
      "Nothing is dropped silently: tensors that the model does not know are listed and carried along; missing, mismatched or "
      "failed ones stop the run before anything is written. Weights that are not read (other formats, shards that the index does "
      "not list) are named and left where they are.\n\n"
      "With --base, SRC is a folder with a LoRA adapter (adapter_config.json, adapter_model.safetensors). It follows the rules of "
      "its model: experts' matrices are fused as the experts are, and the config says so.\n\n"
      "--force and --in-place remove from the folder that they replace only what was read, copied or is replaced by name; whatever "
      "else is in it stays in DST.weft-old.",
  .min_arguments = 1,
  .max_arguments = 1,
  .options = convert_options,
  .options_size = sizeof (ConvertOptions),
  .examples = convert_examples,
  .run = run_convert,
};
