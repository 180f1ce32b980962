/* SPDX-License-Identifier: Apache-2.0 */
/* `weft shard`: a checkpoint cut into what ranks hold, under the names that it has. */
#include "weft-command-convert.h"
#include "weft-command-output.h"

typedef struct
{
  WeftCommandSource source;
  WeftCommandDestination destination;
  WeftCommandQuantization quantization;
  WeftCommandParallel parallel;
} ShardOptions;

static const GOptionEntry shard_options[] = {
  { "world-size", 'n', 0, G_OPTION_ARG_STRING, WEFT_COMMAND_OPTION (ShardOptions, parallel.world_size),
    "How many ranks there are; or the sizes of a mesh, as 2x4, for a plan of placements", "N" },
  { "rank", 'r', 0, G_OPTION_ARG_STRING, WEFT_COMMAND_OPTION (ShardOptions, parallel.rank),
    "Whose part, from 0 on (default: all of them, each in a folder rank-00000-of-0000N)", "R" },
  WEFT_COMMAND_PLAN_OPTION (ShardOptions, parallel),
  WEFT_COMMAND_DESTINATION_OPTIONS (ShardOptions, destination),
  WEFT_COMMAND_MPI_OPTION (ShardOptions, destination),
  WEFT_COMMAND_SOURCE_OPTIONS (ShardOptions, source),
  G_OPTION_ENTRY_NULL,
};

static const WeftCommandExample shard_examples[] = {
  { "Cut a converted checkpoint for four ranks", "weft shard out -n 4 -o ranks" },
  { "What rank 1 of 2 holds, by a plan of your own",
    "weft shard my-model -n 2 -r 1 --plan plan.json -o rank1" },
  { NULL, NULL },
};

static WeftLoadPlan *
make_plan (WeftCommandCall *call, GError **error)
{
  const ShardOptions *options = call->options;
  g_autoptr (WeftLoadOptions) load_options = weft_command_load_options (&options->source, NULL, error);
  g_autoptr (WeftCheckpoint) checkpoint = NULL;

  if (load_options == NULL || !weft_command_set_parallel (&options->parallel, load_options, error))
    return NULL;
  weft_load_options_set_flags (load_options, WEFT_LOAD_FLAGS_KEEP_NAMES | WEFT_LOAD_FLAGS_OPEN);
  checkpoint = weft_command_open_source (call->arguments[0], &options->source, call, error);
  return checkpoint != NULL ? weft_load_plan_new (checkpoint, load_options, error) : NULL;
}

static gint
run_shard (WeftCommandCall *call, GError **error)
{
  ShardOptions *options = call->options;

  if (options->parallel.world_size != NULL)
    return weft_command_convert_ranks (call, &options->destination, &options->quantization, FALSE,
                                       &options->parallel, make_plan, error);
  weft_command_set_usage_error (error, "how many ranks there are is needed (--world-size)");
  return WEFT_COMMAND_FAILED;
}

const WeftCommandEntry weft_shard_command = {
  .name = "shard",
  .arguments = "DIR",
  .summary = "Cut a checkpoint into what tensor- or expert-parallel ranks hold",
  .description =
      "DIR is cut under the names that it has, by --plan, or else by the plan of the model that its config.json names, whose rules are for "
      "the names of the runtime: convert first. A plan is JSON: {\"layers.*.self_attn.q_proj\": \"colwise\", ...}, with * for a number "
      "between dots. A style cuts the tensors of a module; a placement such as shard:0, strided:1:2 or replicate, by comma for each "
      "dimension of a mesh, cuts one tensor.\n\n"
      "A rule that is for no tensor is an error. Packed weights are cut at the edges of their blocks, their scales with them, or "
      "refused if their way of packing does not let ranks have parts: cut what `weft dequantize` makes of them then. Experts in tensors of "
      "their own belong to ranks by their numbers.\n\n"
      "Without --rank the folders of all ranks appear together in DST when all are complete; --resume keeps those that an interrupted run has "
      "completed. Each output is a checkpoint with the other files of DIR, and records what it holds; `weft gather` joins them.",
  .min_arguments = 1,
  .max_arguments = 1,
  .options = shard_options,
  .options_size = sizeof (ShardOptions),
  .examples = shard_examples,
  .run = run_shard,
};
