/* SPDX-License-Identifier: Apache-2.0 */
/* `weft verify`: whether an output is whole, and leads back to where it came from. */
#include "pipeline/weft-verification.h"
#include "weft-command-convert.h"
#include "weft-command-output.h"

typedef struct
{
  WeftCommandSource source;
  WeftCommandRules rules;
  WeftCommandQuantization quantization;
  gchar *source_path;
  gchar *round_trip_path;
  gboolean with_bytes;
} VerifyOptions;

static const GOptionEntry verify_options[] = {
  { "source", 's', 0, G_OPTION_ARG_FILENAME, WEFT_COMMAND_OPTION (VerifyOptions, source_path),
    "Convert SRC again, writing nothing, and compare every value", "SRC" },
  { "round-trip", 'r', 0, G_OPTION_ARG_FILENAME, WEFT_COMMAND_OPTION (VerifyOptions, round_trip_path),
    "Prove from headers that reverting gives SRC", "SRC" },
  { "bytes", 'b', 0, G_OPTION_ARG_NONE, WEFT_COMMAND_OPTION (VerifyOptions, with_bytes),
    "With --round-trip: read and compare every byte, too", NULL },
  WEFT_COMMAND_RULES_OPTIONS (VerifyOptions, rules),
  WEFT_COMMAND_PACKING_OPTIONS (VerifyOptions, quantization),
  WEFT_COMMAND_SOURCE_OPTIONS (VerifyOptions, source),
  G_OPTION_ENTRY_NULL,
};

static const WeftCommandExample verify_examples[] = {
  { "Are the files whole, and what their record says?", "weft verify out" },
  { "Does converting the source again give the same bytes?", "weft verify out --source Mixtral-8x7B" },
  { "Would reverting give the published files?", "weft verify out --round-trip Mixtral-8x7B" },
  { "Before the source is deleted: compare every byte", "weft verify out --round-trip Mixtral-8x7B --bytes" },
  { NULL, NULL },
};

static WeftCheckpoint *
open_source (WeftCommandCall *call, const gchar *path, GError **error)
{
  const VerifyOptions *options = call->options;

  return weft_command_open_source (path, &options->source, call, error);
}

static gboolean
check_source (WeftCommandCall *call, WeftVerification *verification, GError **error)
{
  const VerifyOptions *options = call->options;
  g_autoptr (WeftLoadOptions) load_options =
      weft_command_load_options (&options->source, &options->rules, error);
  g_autoptr (WeftCheckpoint) source =
      load_options != NULL && weft_command_set_quantization (load_options, &options->quantization, error)
          ? open_source (call, options->source_path, error)
          : NULL;

  return source != NULL
         && weft_verification_check_source (verification, source, load_options, call->cancellable, error);
}

static gboolean
check_round_trip (WeftCommandCall *call, WeftVerification *verification, GError **error)
{
  const VerifyOptions *options = call->options;
  g_autoptr (WeftLoadOptions) load_options = weft_command_load_options (&options->source, NULL, error);
  g_autoptr (WeftCheckpoint) source =
      load_options != NULL ? open_source (call, options->round_trip_path, error) : NULL;

  return source != NULL
         && weft_verification_check_round_trip (verification, source, load_options, options->with_bytes,
                                                call->cancellable, error);
}

/* The record and its hashes, unless the source itself is there to compare with. */
static gboolean
run_checks (WeftCommandCall *call, WeftVerification *verification, GError **error)
{
  const VerifyOptions *options = call->options;
  gboolean has_source = options->source_path != NULL || options->round_trip_path != NULL;

  return weft_verification_check_record (verification, error)
         && (has_source || weft_verification_check_hashes (verification, call->cancellable, error))
         && (options->source_path == NULL || check_source (call, verification, error))
         && (options->round_trip_path == NULL || check_round_trip (call, verification, error));
}

static void
print_checks (WeftVerification *verification)
{
  static const gchar *const outcomes[] = { "passed", "FAILED", "skipped" };

  for (guint i = 0; i < weft_verification_get_n_checks (verification); i++)
    weft_command_print ("%-7s  %s: %s\n", outcomes[weft_verification_get_check_outcome (verification, i)],
                        weft_verification_get_check_name (verification, i),
                        weft_verification_get_check_detail (verification, i));
}

static gint
run_verify (WeftCommandCall *call, GError **error)
{
  const VerifyOptions *options = call->options;
  g_autoptr (WeftVerification) verification = NULL;
  gboolean ok;

  if (options->with_bytes && options->round_trip_path == NULL)
    {
      weft_command_set_usage_error (error, "--bytes goes with --round-trip SRC");
      return WEFT_COMMAND_FAILED;
    }
  verification = weft_verification_new (call->arguments[0], call->cancellable, error);
  if (verification == NULL)
    return WEFT_COMMAND_FAILED;
  weft_verification_set_progress (verification, weft_command_progress, call, NULL);
  ok = run_checks (call, verification, error);
  weft_command_progress_end (call);
  if (!ok)
    return WEFT_COMMAND_FAILED;
  if (call->is_json)
    {
      g_autoptr (JsonNode) root = weft_verification_to_json (verification);

      weft_command_print_json (root);
    }
  else
    print_checks (verification);
  return weft_verification_has_passed (verification) ? WEFT_COMMAND_DONE : WEFT_COMMAND_DIFFERS;
}

const WeftCommandEntry weft_verify_command = {
  .name = "verify",
  .arguments = "OUT",
  .summary = "Check that an output is whole, is what its record says, and leads back",
  .description =
      "The files come first: headers, index and shards agree, nothing is missing, nothing overlaps, sizes fit. Then the record "
      "(weft-provenance.json): every tensor that was written is there with its dtype, and nothing else. If it was written with "
      "`weft convert --hash`, every tensor is read as reverting would give it, and the hashes of the published files are compared: "
      "this needs no source.\n\n"
      "--source SRC converts SRC again and compares every value with OUT; give the options (--dtype, --dequantize, ...) that OUT was "
      "made with. --round-trip SRC proves from headers that reverting OUT gives the tensors of SRC, in its files; with --bytes it also "
      "reads both and compares every byte. Nothing is ever written.",
  .differs = "a check failed",
  .min_arguments = 1,
  .max_arguments = 1,
  .options = verify_options,
  .options_size = sizeof (VerifyOptions),
  .examples = verify_examples,
  .run = run_verify,
};
