/* SPDX-License-Identifier: Apache-2.0 */
/* What the commands that make a checkpoint share: running a plan, and options for packed weights. */
#pragma once

#include "weft-command-load.h"
#include "weft-command-parallel.h"

typedef struct
{
  gboolean is_dequantized;
  gchar *scheme;
  gchar **kept;
  gchar *error_report;
} WeftCommandQuantization;

#define WEFT_COMMAND_KEEP_OPTION(type, member)                                                             \
  {                                                                                                        \
    "keep", 0, 0, G_OPTION_ARG_STRING_ARRAY, WEFT_COMMAND_OPTION (type, member.kept),                      \
        "Leave modules dense: a path or its beginning or end, with * for any text, or re:REGEX (default: " \
        "heads and routers)",                                                                              \
        "PATTERN"                                                                                          \
  }

#define WEFT_COMMAND_KEEP_OPTIONS(type, member)                                                                 \
  WEFT_COMMAND_KEEP_OPTION (type, member),                                                                      \
  {                                                                                                             \
    "error-report", 0, 0, G_OPTION_ARG_FILENAME, WEFT_COMMAND_OPTION (type, member.error_report),               \
        "Say what quantizing costs, a line a tensor: a table, or JSON or a plot if FILE ends in .json or .svg", \
        "FILE"                                                                                                  \
  }

#define WEFT_COMMAND_SCHEME_OPTIONS(type, member)                                                          \
  { "dequantize",                                                                                          \
    0,                                                                                                     \
    0,                                                                                                     \
    G_OPTION_ARG_NONE,                                                                                     \
    WEFT_COMMAND_OPTION (type, member.is_dequantized),                                                     \
    "Convert the dense values of packed weights (default: codes and scales follow the rules as they are)", \
    NULL },                                                                                                \
  {                                                                                                        \
    "quantize", 0, 0, G_OPTION_ARG_STRING, WEFT_COMMAND_OPTION (type, member.scheme),                      \
        "Pack dense weights of the output, with parameters as JSON", "SCHEME[=JSON]"                       \
  }

#define WEFT_COMMAND_QUANTIZATION_OPTIONS(type, member) \
  WEFT_COMMAND_SCHEME_OPTIONS (type, member), WEFT_COMMAND_KEEP_OPTIONS (type, member)

/* What a conversion that writes nothing knows of packed weights. */
#define WEFT_COMMAND_PACKING_OPTIONS(type, member) \
  WEFT_COMMAND_SCHEME_OPTIONS (type, member), WEFT_COMMAND_KEEP_OPTION (type, member)

typedef WeftLoadPlan *(*WeftCommandMakePlan) (WeftCommandCall *call, GError **error);

/* Makes a plan and carries it out, with all that is printed about it. */
gint weft_command_convert (WeftCommandCall *call, const WeftCommandDestination *destination,
                           const WeftCommandQuantization *quantization, gboolean is_dry_run,
                           WeftCommandMakePlan make_plan, GError **error);

/* The same for the ranks that @parallel asks for: one into the destination, all into folders in it. */
gint weft_command_convert_ranks (WeftCommandCall *call, const WeftCommandDestination *destination,
                                 const WeftCommandQuantization *quantization, gboolean is_dry_run,
                                 WeftCommandParallel *parallel, WeftCommandMakePlan make_plan,
                                 GError **error);

gboolean weft_command_set_quantization (WeftLoadOptions *load_options,
                                        const WeftCommandQuantization *quantization, GError **error);
gboolean weft_command_set_scheme (WeftLoadOptions *load_options, const gchar *scheme, const gchar *parameters,
                                  const WeftCommandQuantization *quantization, GError **error);
