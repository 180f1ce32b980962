/* SPDX-License-Identifier: Apache-2.0 */
#include "weft-command-convert.h"

#include <string.h>

#include "base/weft-json.h"
#include "base/weft-text.h"
#include "checkpoint/weft-output-set.h"
#include "weft-command-errors.h"
#include "weft-command-job.h"
#include "weft-command-output.h"

/* A plan that is carried out. */
typedef struct
{
  WeftCommandCall *call;
  WeftLoadPlan *plan;
  WeftSafetensorsSink *sink; /* NULL: nothing is written */
  WeftOutputSet *set;        /* (nullable): that the output is a member of, with its name */
  const gchar *member;
  JsonArray *results;   /* (nullable): those of several runs, for one value */
  gboolean is_alone;    /* of a job of which each process makes what is its own */
  gboolean is_repeated; /* an earlier run has told what the plan found */
} Run;

/* What values told while they were written. NULL if nothing was. */
static WeftLoadReport *
get_value_report (const Run *run)
{
  return run->sink == NULL ? NULL : weft_load_plan_check_values (run->plan, run->call->cancellable, NULL);
}

static gboolean
is_reversible (const Run *run)
{
  WeftLoadReport *values = get_value_report (run);

  return weft_load_plan_is_reversible (run->plan)
         && (values == NULL || weft_load_report_count (values, WEFT_FINDING_NOT_REVERSIBLE) == 0);
}

static void
print_reports (const Run *run, gboolean with_values)
{
  WeftLoadReport *values = with_values ? get_value_report (run) : NULL;

  if (run->is_repeated)
    return;
  weft_command_print_report (run->call, weft_load_plan_get_report (run->plan), FALSE);
  if (values != NULL)
    weft_command_print_report (run->call, values, FALSE);
}

static void
print_summary (const Run *run, const WeftTransferCounters *counters, gdouble seconds)
{
  WeftLoadOptions *options = weft_load_plan_get_options (run->plan);
  const gchar *way_back =
      weft_load_options_is_parallel (options) && !weft_safetensors_sink_is_single_file (run->sink)
          ? "`weft gather` joins the ranks"
      : !is_reversible (run) ? "not reversible (see above)"
      : !weft_safetensors_sink_is_single_file (run->sink)
          ? "`weft revert` brings every byte back"
          : "a single file holds no record, so that `weft revert` will go by the model's mapping";
  guint n_published = weft_state_dict_get_n_tensors (
      weft_checkpoint_get_state_dict (weft_load_plan_get_checkpoint (run->plan)));
  guint n_outputs = weft_state_dict_get_n_tensors (weft_load_plan_get_outputs (run->plan));
  g_autofree gchar *size = weft_text_format_size (counters->n_bytes_written);

  g_autofree gchar *rank = weft_load_options_is_parallel (options)
                               ? g_strdup_printf ("rank %u of %u: ", weft_load_options_get_rank (options),
                                                  weft_load_options_get_world_size (options))
                               : g_strdup ("");

  weft_command_note (run->call, "%s%u tensors became %u, %s in %.1f s; %s", rank, n_published, n_outputs,
                     size, seconds, way_back);
}

static void
print_result (const Run *run, const gchar *output, const WeftTransferCounters *counters)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  g_autoptr (JsonNode) root = NULL;

  if (!run->call->is_json)
    return;
  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "output");
  json_builder_add_string_value (builder, output);
  json_builder_set_member_name (builder, "tensors");
  json_builder_add_int_value (builder,
                              weft_state_dict_get_n_tensors (weft_load_plan_get_outputs (run->plan)));
  json_builder_set_member_name (builder, "bytes_kept");
  json_builder_add_int_value (builder, (gint64) counters->n_bytes_kept);
  json_builder_set_member_name (builder, "bytes_read");
  json_builder_add_int_value (builder, (gint64) counters->n_bytes_read);
  json_builder_set_member_name (builder, "bytes_written");
  json_builder_add_int_value (builder, (gint64) counters->n_bytes_written);
  weft_command_add_kept (builder, run->sink);
  json_builder_set_member_name (builder, "reversible");
  json_builder_add_boolean_value (builder, is_reversible (run));
  json_builder_set_member_name (builder, "report");
  json_builder_add_value (builder, weft_load_report_to_json (weft_load_plan_get_report (run->plan)));
  if (get_value_report (run) != NULL)
    {
      json_builder_set_member_name (builder, "value_report");
      json_builder_add_value (builder, weft_load_report_to_json (get_value_report (run)));
    }
  json_builder_end_object (builder);
  root = json_builder_get_root (builder);
  if (run->results != NULL)
    json_array_add_element (run->results, g_steal_pointer (&root));
  else
    weft_command_print_json (root);
}

/* Writes the output and says what was written. */
static gboolean
write_output (const Run *run, const WeftCommandDestination *destination, GError **error)
{
  const gchar *output = destination->output != NULL ? destination->output : run->call->arguments[0];
  WeftTransferCounters counters = { 0 };
  WeftTransferOptions transfer_options;
  gint64 start = g_get_monotonic_time ();
  gboolean ok;

  if (!weft_command_read_threads (destination, run->call, &transfer_options, error))
    return FALSE;
  ok = weft_load_plan_execute_full (run->plan, WEFT_SINK (run->sink), &transfer_options, &counters,
                                    run->call->cancellable, error);
  weft_command_progress_end (run->call);
  if (ok && !run->is_alone)
    weft_command_sum_counters (run->call, &counters);
  print_reports (run, ok);
  if (!ok)
    return FALSE;
  print_summary (run, &counters, (gdouble) (g_get_monotonic_time () - start) / G_USEC_PER_SEC);
  weft_command_print_kept (run->call, run->sink, output);
  print_result (run, output, &counters);
  return TRUE;
}

static gboolean
check_only (const Run *run, const WeftCommandDestination *destination, GError **error)
{
  const gchar *output = destination->output != NULL ? destination->output : run->call->arguments[0];
  const WeftTransferCounters counters = { 0 };
  gboolean ok = weft_load_plan_check (run->plan, error);

  print_reports (run, ok);
  if (!ok)
    return FALSE;
  weft_command_note_plan (run->call, run->plan);
  print_result (run, output, &counters);
  return TRUE;
}

static WeftSafetensorsSink *
open_sink (const Run *run, const WeftCommandDestination *destination, GError **error)
{
  WeftSafetensorsSink *sink = run->set != NULL
                                  ? weft_safetensors_sink_new_in_set (run->set, run->member)
                                  : weft_command_open_sink (destination, run->call->arguments[0], error);

  if (sink != NULL && !run->is_alone)
    weft_command_share_sink (run->call, sink);
  return sink;
}

static gboolean
convert_once (Run *run, const WeftCommandDestination *destination,
              const WeftCommandQuantization *quantization, gboolean is_dry_run, WeftCommandMakePlan make_plan,
              GError **error)
{
  WeftTransferOptions transfer_options;
  g_autoptr (WeftLoadPlan) plan = NULL;
  g_autoptr (WeftSafetensorsSink) sink = NULL;
  gboolean ok;

  /* A wrong command line is told before anything is opened. */
  if (!weft_command_read_threads (destination, run->call, &transfer_options, error))
    return FALSE;
  if (!is_dry_run)
    {
      sink = open_sink (run, destination, error);
      if (sink == NULL)
        return FALSE;
    }
  plan = make_plan (run->call, error);
  if (plan == NULL)
    return FALSE;
  run->plan = plan;
  run->sink = sink;
  ok = is_dry_run ? check_only (run, destination, error) : write_output (run, destination, error);
  if (ok && !is_dry_run && quantization->error_report != NULL && weft_command_speaks (run->call))
    {
      ok = weft_command_write_errors (plan, quantization->error_report, run->call, error);
      if (!ok)
        g_prefix_error (error, "the output is complete, but not the report of errors: ");
    }
  return ok;
}

/* A wrong command line is told before others are waited for. */
static gboolean
join_job (WeftCommandCall *call, const WeftCommandDestination *destination, GError **error)
{
  WeftTransferOptions transfer_options;

  return !destination->is_shared_out
         || (weft_command_read_threads (destination, call, &transfer_options, error)
             && weft_command_join_job (call, error));
}

gint
weft_command_convert (WeftCommandCall *call, const WeftCommandDestination *destination,
                      const WeftCommandQuantization *quantization, gboolean is_dry_run,
                      WeftCommandMakePlan make_plan, GError **error)
{
  Run run = { .call = call };

  if (!join_job (call, destination, error))
    return WEFT_COMMAND_FAILED;
  return convert_once (&run, destination, quantization, is_dry_run, make_plan, error) ? WEFT_COMMAND_DONE
                                                                                      : WEFT_COMMAND_FAILED;
}

/* What all ranks hold, made in one call. */
typedef struct
{
  WeftCommandCall *call;
  const WeftCommandDestination *destination;
  const WeftCommandQuantization *quantization;
  WeftCommandParallel *parallel;
  WeftCommandMakePlan make_plan;
  GStrv names; /* of the folders, by rank */
  guint n_ranks;
  WeftOutputSet *set; /* NULL: nothing is written */
  JsonArray *results;
} Ranks;

/* Folders of all ranks go into one. */
static gboolean
check_destination (const WeftCommandDestination *destination, const WeftCommandCall *call, GError **error)
{
  gboolean is_folder = destination->output != NULL && destination->output[0] != '\0'
                       && !destination->is_in_place
                       && !g_str_has_suffix (destination->output, ".safetensors");

  if (!is_folder)
    weft_command_set_usage_error (
        error, "the parts of all ranks need a folder to go to (--output); name one rank to make a file");
  else if (destination->is_shared_out && call->is_json)
    weft_command_set_usage_error (
        error, "--json tells of one process; with --mpi and the folders of all ranks leave it out");
  else
    return TRUE;
  return FALSE;
}

static gboolean
begin_set (Ranks *ranks, GError **error)
{
  WeftCommandCall *call = ranks->call;

  ranks->set = weft_output_set_new (ranks->destination->output, (const gchar *const *) ranks->names,
                                    weft_command_read_output_flags (ranks->destination), error);
  return ranks->set != NULL && (!weft_command_speaks (call) || weft_output_set_begin (ranks->set, error))
         && (call->job == NULL || weft_job_agree (call->job, error));
}

/* One rank's part; @is_first: the reports of the others say the same. */
static gboolean
convert_rank (const Ranks *ranks, guint rank, gboolean is_first, GError **error)
{
  Run run = { .call = ranks->call,
              .set = ranks->set,
              .member = ranks->names[rank],
              .results = ranks->results,
              .is_repeated = !is_first,
              .is_alone = TRUE };
  const gchar *output = ranks->destination->output;
  g_autofree gchar *path = g_build_filename (output != NULL ? output : "", ranks->names[rank], NULL);
  WeftCommandDestination own = *ranks->destination;

  own.output = path;
  ranks->parallel->current = rank;
  return convert_once (&run, &own, ranks->quantization, ranks->set == NULL, ranks->make_plan, error);
}

/* The processes of a job take turns; each makes its folders by itself. */
static gboolean
convert_own_ranks (const Ranks *ranks, GError **error)
{
  WeftJob *job = ranks->call->job;
  guint first = job != NULL ? weft_job_get_rank (job) : 0;
  guint step = job != NULL ? weft_job_get_size (job) : 1;

  for (guint rank = first; rank < ranks->n_ranks; rank += step)
    if (!convert_rank (ranks, rank, rank == first, error))
      return FALSE;
  return TRUE;
}

/* When all processes are done one of them gives the set its name. */
static gboolean
publish_set (const Ranks *ranks, GError **error)
{
  WeftCommandCall *call = ranks->call;

  if (call->job != NULL && !weft_job_commit (call->job, error))
    return FALSE;
  return !weft_command_speaks (call) || weft_output_set_publish (ranks->set, error);
}

/* The folder that was replaced was that of all ranks. */
static void
print_results (const Ranks *ranks)
{
  const gchar *kept_path = ranks->set != NULL ? weft_output_set_get_kept_path (ranks->set) : NULL;
  g_autofree gchar *shown = kept_path != NULL ? g_filename_display_name (kept_path) : NULL;
  g_autoptr (JsonNode) root = json_node_new (JSON_NODE_ARRAY);

  weft_command_print_replaced (ranks->call, kept_path, ranks->destination->output);
  if (!ranks->call->is_json)
    return;
  for (guint i = 0; shown != NULL && i < json_array_get_length (ranks->results); i++)
    json_object_set_string_member (json_array_get_object_element (ranks->results, i), "kept_path", shown);
  json_node_set_array (root, ranks->results);
  weft_command_print_json (root);
}

static gboolean
convert_all_ranks (Ranks *ranks, gboolean is_dry_run, GError **error)
{
  gboolean ok = (is_dry_run || begin_set (ranks, error)) && convert_own_ranks (ranks, error)
                && (is_dry_run || publish_set (ranks, error));

  /* What is given up of the set is still written to until all processes have stopped. */
  if (!ok && ranks->call->job != NULL)
    (void) weft_job_fail (ranks->call->job, error);
  if (ok)
    print_results (ranks);
  g_clear_object (&ranks->set);
  return ok;
}

static GStrv
name_folders (guint n_ranks)
{
  GStrv names = g_new0 (gchar *, n_ranks + 1);

  for (guint i = 0; i < n_ranks; i++)
    names[i] = weft_rank_folder_name (i, n_ranks);
  return names;
}

gint
weft_command_convert_ranks (WeftCommandCall *call, const WeftCommandDestination *destination,
                            const WeftCommandQuantization *quantization, gboolean is_dry_run,
                            WeftCommandParallel *parallel, WeftCommandMakePlan make_plan, GError **error)
{
  g_autoptr (JsonArray) results = json_array_new ();
  g_auto (GStrv) names = NULL;
  guint n_ranks;
  Ranks ranks;

  if (!weft_command_read_ranks (parallel, &parallel->current, &n_ranks, error))
    return WEFT_COMMAND_FAILED;
  if (n_ranks == 0 || parallel->rank != NULL)
    return weft_command_convert (call, destination, quantization, is_dry_run, make_plan, error);
  if ((!is_dry_run && !check_destination (destination, call, error)) || !join_job (call, destination, error))
    return WEFT_COMMAND_FAILED;
  names = name_folders (n_ranks);
  ranks = (Ranks){ call, destination, quantization, parallel, make_plan, names, n_ranks, NULL, results };
  return convert_all_ranks (&ranks, is_dry_run, error) ? WEFT_COMMAND_DONE : WEFT_COMMAND_FAILED;
}

gboolean
weft_command_set_scheme (WeftLoadOptions *load_options, const gchar *scheme, const gchar *parameters,
                         const WeftCommandQuantization *quantization, GError **error)
{
  g_autoptr (GError) cause = NULL;
  g_autoptr (JsonNode) node =
      parameters != NULL ? weft_json_parse (parameters, -1, "the parameters", &cause) : NULL;

  if (cause != NULL || (node != NULL && !JSON_NODE_HOLDS_OBJECT (node)))
    {
      weft_command_set_usage_error (error, "'%s' is no JSON object of parameters of a scheme%s%s", parameters,
                                    cause != NULL ? ": " : "", cause != NULL ? cause->message : "");
      return FALSE;
    }
  weft_load_options_set_quantization (load_options, scheme, node);
  for (guint i = 0; quantization->kept != NULL && quantization->kept[i] != NULL; i++)
    if (!weft_load_options_add_dense_module (load_options, quantization->kept[i], &cause))
      {
        weft_command_set_usage_error (error, "--keep: %s", cause->message);
        return FALSE;
      }
  return TRUE;
}

gboolean
weft_command_set_quantization (WeftLoadOptions *load_options, const WeftCommandQuantization *quantization,
                               GError **error)
{
  const gchar *equals = quantization->scheme != NULL ? strchr (quantization->scheme, '=') : NULL;
  g_autofree gchar *scheme = equals != NULL
                                 ? g_strndup (quantization->scheme, (gsize) (equals - quantization->scheme))
                                 : g_strdup (quantization->scheme);

  weft_load_options_set_is_dequantized (load_options, quantization->is_dequantized);
  if (scheme != NULL)
    return weft_command_set_scheme (load_options, scheme, equals != NULL ? equals + 1 : NULL, quantization,
                                    error);
  if (quantization->kept == NULL && quantization->error_report == NULL)
    return TRUE;
  weft_command_set_usage_error (error, "--keep and --error-report need --quantize");
  return FALSE;
}
