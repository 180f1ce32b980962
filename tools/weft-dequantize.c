/* SPDX-License-Identifier: Apache-2.0 */
/* `weft dequantize`: the dense values of a packed checkpoint, under the names that it was published with. */
#include "weft-command-convert.h"

typedef struct
{
  WeftCommandDestination destination;
  WeftCommandQuantization quantization;
  gchar *dtype;
} DequantizeOptions;

static const GOptionEntry dequantize_options[] = {
  WEFT_COMMAND_DESTINATION_OPTIONS (DequantizeOptions, destination),
  WEFT_COMMAND_MPI_OPTION (DequantizeOptions, destination),
  { "dtype", 'd', 0, G_OPTION_ARG_STRING, WEFT_COMMAND_OPTION (DequantizeOptions, dtype),
    "Element type of what was packed: F32, F16 or BF16 (default: the config's)", "D" },
  G_OPTION_ENTRY_NULL,
};

static const WeftCommandExample dequantize_examples[] = {
  { "Dense values of a packed checkpoint", "weft dequantize my-fp8-model -o dense" },
  { "In another dtype", "weft dequantize my-fp8-model --dtype F32 -o dense" },
  { NULL, NULL },
};

static WeftLoadPlan *
make_plan (WeftCommandCall *call, GError **error)
{
  const DequantizeOptions *options = call->options;
  WeftDtype dtype = options->dtype != NULL ? weft_dtype_from_any_name (options->dtype) : WEFT_DTYPE_INVALID;
  g_autoptr (WeftLoadOptions) load_options = weft_load_options_new ();
  g_autoptr (WeftCheckpoint) checkpoint = NULL;

  if (options->dtype != NULL && dtype != WEFT_DTYPE_F32 && dtype != WEFT_DTYPE_F16
      && dtype != WEFT_DTYPE_BF16)
    {
      weft_command_set_usage_error (error, "'%s' is no dtype of dense values; --dtype takes F32, F16 or BF16",
                                    options->dtype);
      return NULL;
    }
  weft_load_options_set_is_dequantized (load_options, TRUE);
  weft_load_options_set_dense_dtype (load_options, dtype);
  weft_load_options_set_flags (load_options, WEFT_LOAD_FLAGS_KEEP_NAMES | WEFT_LOAD_FLAGS_OPEN);
  checkpoint = weft_checkpoint_open (call->arguments[0], call->cancellable, error);
  return checkpoint != NULL ? weft_load_plan_new (checkpoint, load_options, error) : NULL;
}

static gint
run_dequantize (WeftCommandCall *call, GError **error)
{
  const DequantizeOptions *options = call->options;

  return weft_command_convert (call, &options->destination, &options->quantization, FALSE, make_plan, error);
}

const WeftCommandEntry weft_dequantize_command = {
  .name = "dequantize",
  .arguments = "SRC",
  .summary = "Write the dense values of a packed checkpoint",
  .description =
      "SRC is a checkpoint folder or one file. Its config.json says how its weights are packed. They get their dense values "
      "under their dense names; scales and other companions go, everything else stays as it is stored. The config of the output "
      "says nothing of quantization any more.\n\n"
      "`weft convert --dequantize` does the same on the way to a runtime layout.",
  .min_arguments = 1,
  .max_arguments = 1,
  .options = dequantize_options,
  .options_size = sizeof (DequantizeOptions),
  .examples = dequantize_examples,
  .run = run_dequantize,
};
