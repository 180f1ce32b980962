/* SPDX-License-Identifier: Apache-2.0 */
/* `weft quantize`: dense weights packed by a scheme, under the names that they were published with. */
#include "weft-command-convert.h"

typedef struct
{
  WeftCommandDestination destination;
  WeftCommandQuantization quantization;
  gchar *scheme;
  gchar *parameters;
} QuantizeOptions;

static const GOptionEntry quantize_options[] = {
  WEFT_COMMAND_DESTINATION_OPTIONS (QuantizeOptions, destination),
  WEFT_COMMAND_MPI_OPTION (QuantizeOptions, destination),
  { "scheme", 's', 0, G_OPTION_ARG_STRING, WEFT_COMMAND_OPTION (QuantizeOptions, scheme),
    "How weights are packed, such as fp8-block", "S" },
  { "params", 'p', 0, G_OPTION_ARG_STRING, WEFT_COMMAND_OPTION (QuantizeOptions, parameters),
    "Parameters of the scheme", "JSON" },
  { "dequantize", 0, 0, G_OPTION_ARG_NONE, WEFT_COMMAND_OPTION (QuantizeOptions, quantization.is_dequantized),
    "Take weights that are packed already by their dense values", NULL },
  WEFT_COMMAND_KEEP_OPTIONS (QuantizeOptions, quantization),
  G_OPTION_ENTRY_NULL,
};

static const WeftCommandExample quantize_examples[] = {
  { "FP8 with a scale for every 128 x 128 block",
    "weft quantize my-model --scheme fp8-block -o my-fp8-model" },
  { "With parameters, and a plot of what it costs",
    "weft quantize my-model --scheme fp8-block --params '{\"weight_block_size\": [64, 64]}' --error-report e.svg -o out" },
  { NULL, NULL },
};

static WeftLoadPlan *
make_plan (WeftCommandCall *call, GError **error)
{
  const QuantizeOptions *options = call->options;
  g_autoptr (WeftLoadOptions) load_options = weft_load_options_new ();
  g_autoptr (WeftCheckpoint) checkpoint = NULL;

  if (options->scheme == NULL)
    {
      weft_command_set_usage_error (error, "--scheme is needed");
      return NULL;
    }
  weft_load_options_set_flags (load_options, WEFT_LOAD_FLAGS_KEEP_NAMES | WEFT_LOAD_FLAGS_OPEN);
  if (!weft_command_set_scheme (load_options, options->scheme, options->parameters, &options->quantization,
                                error))
    return NULL;
  weft_load_options_set_is_dequantized (load_options, options->quantization.is_dequantized);
  checkpoint = weft_checkpoint_open (call->arguments[0], call->cancellable, error);
  return checkpoint != NULL ? weft_load_plan_new (checkpoint, load_options, error) : NULL;
}

static gint
run_quantize (WeftCommandCall *call, GError **error)
{
  const QuantizeOptions *options = call->options;

  return weft_command_convert (call, &options->destination, &options->quantization, FALSE, make_plan, error);
}

const WeftCommandEntry weft_quantize_command = {
  .name = "quantize",
  .arguments = "IN",
  .summary = "Write a checkpoint with its dense weights packed",
  .description =
      "IN is a checkpoint folder or one file. Weights of linear layers are packed, and stacked experts: tensors of two axes whose names end in "
      "`weight`, and of three axes with `experts` in their names (FP8 also takes others of `weight`, if they have 16 columns or more and no `conv` in the name). Modules called like an embedding or a norm (the last part of the path has `embed` "
      "or `norm` in it, or is wte, wpe or shared) stay dense, and so do heads and routers, or what --keep says in place of these: lm_head, head, "
      "embed_out, score, classifier, qa_outputs, router, mlp.gate, block_sparse_moe.gate. Convolutions, biases and empty tensors stay dense. `weft "
      "convert --quantize` does the same; where it knows the model, classes of modules tell which ones are linear. The config of the output tells the "
      "scheme; of one file, its header does.\n\n"
      "Weights that are packed already are refused, unless --dequantize is given. So is a weight whose shape the scheme cannot keep, and one with NaN or "
      "infinity in it; --keep leaves it dense, and '*experts*' all stacked experts.\n\n"
      "Schemes, with their parameters: fp8-block (weight_block_size, scale_fmt), fp8-per-row, mxfp4-moe (stacked experts), "
      "modelopt-nvfp4 (group_size, 16), bitsandbytes-4bit (quant_type, blocksize, double_quant), bitsandbytes-int8, affine (bits, group_size), gguf "
      "(type, such as Q8_0; blocks in a safetensors file), and compressed-tensors/FORMAT (weights, as in its config) with "
      "float-quantized, int-quantized, pack-quantized, nvfp4-pack-quantized, mxfp4-pack-quantized, mxfp6-pack-quantized or "
      "mxfp8-quantized. Plugins may bring others.",
  .min_arguments = 1,
  .max_arguments = 1,
  .options = quantize_options,
  .options_size = sizeof (QuantizeOptions),
  .examples = quantize_examples,
  .run = run_quantize,
};
