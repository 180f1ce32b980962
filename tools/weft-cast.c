/* SPDX-License-Identifier: Apache-2.0 */
/* `weft cast`: the tensors of a file in another dtype. */
#include "weft-command-output.h"
#include "weft-command-tensors.h"

typedef struct
{
  gchar *dtype;
  gchar *output;
} CastOptions;

static const GOptionEntry cast_options[] = {
  { "dtype", 'd', 0, G_OPTION_ARG_STRING, WEFT_COMMAND_OPTION (CastOptions, dtype),
    "Element type wanted, such as BF16, F8_E4M3 or float16", "D" },
  { "output", 'o', 0, G_OPTION_ARG_FILENAME, WEFT_COMMAND_OPTION (CastOptions, output), "File to write",
    "OUT.safetensors" },
  G_OPTION_ENTRY_NULL,
};

static const WeftCommandExample cast_examples[] = {
  { "Halve a file of F32 tensors", "weft cast model.safetensors --dtype BF16 -o half.safetensors" },
  { NULL, NULL },
};

static WeftStateDict *
cast_all (WeftStateDict *tensors, WeftDtype dtype, GError **error)
{
  g_autoptr (WeftStateDict) casts = weft_state_dict_new ();

  for (guint i = 0; i < weft_state_dict_get_n_tensors (tensors); i++)
    {
      const gchar *name = weft_state_dict_get_name (tensors, i);
      g_autoptr (WeftTensor) cast = weft_tensor_cast (weft_state_dict_get_tensor (tensors, i), dtype, error);

      if (cast == NULL || !weft_state_dict_add (casts, name, cast, error))
        {
          g_prefix_error (error, "'%s': ", name);
          return NULL;
        }
    }
  return g_steal_pointer (&casts);
}

static gint
run_cast (WeftCommandCall *call, GError **error)
{
  const CastOptions *options = call->options;
  WeftDtype dtype = options->dtype != NULL ? weft_dtype_from_any_name (options->dtype) : WEFT_DTYPE_INVALID;
  g_autoptr (WeftStateDict) tensors = NULL;
  g_autoptr (WeftStateDict) casts = NULL;

  if (options->dtype == NULL || options->output == NULL || options->output[0] == '\0')
    weft_command_set_usage_error (error, "--dtype and --output are needed");
  else if (dtype == WEFT_DTYPE_INVALID)
    weft_command_set_usage_error (
        error, "'%s' is no dtype; names are those of safetensors, such as BF16 or F8_E4M3", options->dtype);
  else
    tensors = weft_command_open_tensors (call->arguments[0], call, error);
  if (tensors != NULL)
    casts = cast_all (tensors, dtype, error);
  if (casts == NULL || !weft_command_write_tensors (options->output, casts, call, error))
    return WEFT_COMMAND_FAILED;
  weft_command_note (call, "%u tensors as %s in %s", weft_state_dict_get_n_tensors (casts),
                     weft_dtype_get_name (dtype), options->output);
  return WEFT_COMMAND_DONE;
}

const WeftCommandEntry weft_cast_command = {
  .name = "cast",
  .arguments = "IN",
  .summary = "Write the tensors of a file in another dtype",
  .description =
      "IN is a safetensors file or a checkpoint folder; the output is one file, and must not exist. Rounding is to the nearest "
      "value, ties to even, subnormals kept. Beyond the largest number, F16, BF16 and F8_E5M2 give infinity, F8_E4M3 its largest "
      "number, the FNUZ dtypes their NaN. Numbers become integers by truncation, integers become narrower ones by wrapping.",
  .min_arguments = 1,
  .max_arguments = 1,
  .options = cast_options,
  .options_size = sizeof (CastOptions),
  .examples = cast_examples,
  .run = run_cast,
};
