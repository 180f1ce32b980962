/* SPDX-License-Identifier: Apache-2.0 */
/* `weft convert`: a published checkpoint into its runtime layout. */
#include "base/weft-text.h"
#include "weft-command-convert.h"
#include "weft-command-load.h"
#include "weft-command-output.h"

typedef struct
{
  WeftCommandSource source;
  WeftCommandRules rules;
  WeftCommandDestination destination;
  gchar *max_shard_size;
  WeftCommandQuantization quantization;
  WeftCommandParallel parallel;
  gboolean is_hashed;
  gboolean is_dry_run;
} ConvertOptions;

static const GOptionEntry convert_options[] = {
  WEFT_COMMAND_DESTINATION_OPTIONS (ConvertOptions, destination),
  WEFT_COMMAND_MPI_OPTION (ConvertOptions, destination),
  WEFT_COMMAND_RULES_OPTIONS (ConvertOptions, rules),
  WEFT_COMMAND_SOURCE_OPTIONS (ConvertOptions, source),
  { "max-shard-size", 0, 0, G_OPTION_ARG_STRING, WEFT_COMMAND_OPTION (ConvertOptions, max_shard_size),
    "Begin a new file at this size, such as 5GB (default: each tensor goes to the shard of its first source)",
    "SIZE" },
  WEFT_COMMAND_QUANTIZATION_OPTIONS (ConvertOptions, quantization),
  WEFT_COMMAND_PARALLEL_OPTIONS (ConvertOptions, parallel),
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
  { "The dense values of a packed checkpoint", "weft convert my-fp8-model -o out --dequantize --dtype BF16" },
  { "With weights packed",
    "weft convert my-model -o out --quantize fp8 --keep lm_head --error-report errors.svg" },
  { "What each of four tensor-parallel ranks holds", "weft convert Mixtral-8x7B -o ranks --tp-size 4" },
  { "By four processes, on machines with a common file system",
    "mpirun -n 4 weft convert Mixtral-8x7B -o out --mpi" },
  { NULL, NULL },
};

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
  if (!weft_command_set_quantization (load_options, &options->quantization, error)
      || !weft_command_set_parallel (&options->parallel, load_options, error))
    return NULL;
  checkpoint = weft_command_open_source (call->arguments[0], &options->source, call, error);
  return checkpoint != NULL ? weft_command_new_plan (checkpoint, load_options, &options->rules, error) : NULL;
}

static gint
run_convert (WeftCommandCall *call, GError **error)
{
  ConvertOptions *options = call->options;

  return weft_command_convert_ranks (call, &options->destination, &options->quantization, options->is_dry_run,
                                     &options->parallel, make_plan, error);
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
      "Packed weights follow the rules as they are, codes and scales as one unit; what cannot be kept exact is refused, and "
      "--dequantize converts dense values. --quantize packs what is dense at the end.\n\n"
      "With --base, SRC is a folder with a LoRA adapter (adapter_config.json, adapter_model.safetensors). It follows the rules of "
      "its model: experts' matrices are fused as the experts are, and the config says so.\n\n"
      "With --tp-size or --ep-size, the output is what ranks of a parallel runtime hold: slices of the converted tensors, by the plan that comes "
      "with the model or that of --plan. A rank reads only the bytes that it keeps. Without --tp-rank the folders of all ranks appear together in DST "
      "when all are complete; --resume keeps those that an interrupted run has completed. `weft gather` joins the folders.\n\n"
      "With --mpi, the processes that mpirun starts on one machine or many share the work: each writes files, or runs of tensors of a file, of its own "
      "share of the bytes, and the output is the same as that of one process. With --tp-size and without --tp-rank, each makes whole folders of ranks. All must be given the same options. "
      "When one fails, all stop.\n\n"
      "--force and --in-place remove from the folder that they replace only what was read, copied or is replaced by name; whatever "
      "else is in it stays in DST.weft-old.",
  .min_arguments = 1,
  .max_arguments = 1,
  .options = convert_options,
  .options_size = sizeof (ConvertOptions),
  .examples = convert_examples,
  .run = run_convert,
};
