/* SPDX-License-Identifier: Apache-2.0 */
/* Options that say what is replaced in the model: families of fusions, and modules by path. */
#pragma once

#include "pipeline/weft-load-options.h"
#include "weft-command-entry.h"

typedef struct
{
  gchar **fusions;
  gchar *fusion_config;
  gchar *plan_overrides;
  gboolean is_without;
} WeftCommandFusion;

#define WEFT_COMMAND_FUSION_OPTIONS(type, member)                                                                             \
  { "fusion",                                                                                                                 \
    0,                                                                                                                        \
    0,                                                                                                                        \
    G_OPTION_ARG_STRING_ARRAY,                                                                                                \
    WEFT_COMMAND_OPTION (type, member.fusions),                                                                               \
    "Fuse what this family fits, with its options as JSON, in place of what config.json stores; may be given more than once", \
    "NAME[=JSON]" },                                                                                                          \
      { "fusion-config",                                                                                                      \
        0,                                                                                                                    \
        0,                                                                                                                    \
        G_OPTION_ARG_FILENAME,                                                                                                \
        WEFT_COMMAND_OPTION (type, member.fusion_config),                                                                     \
        "Families and their options from a JSON file",                                                                        \
        "FILE" },                                                                                                             \
      { "plan-overrides",                                                                                                     \
        0,                                                                                                                    \
        0,                                                                                                                    \
        G_OPTION_ARG_FILENAME,                                                                                                \
        WEFT_COMMAND_OPTION (type, member.plan_overrides),                                                                    \
        "Modules to replace by path, from a YAML or JSON file",                                                               \
        "FILE" },                                                                                                             \
  {                                                                                                                           \
    "no-fusion", 0, 0, G_OPTION_ARG_NONE, WEFT_COMMAND_OPTION (type, member.is_without),                                      \
        "Fuse nothing, whatever config.json stores", NULL                                                                     \
  }

/* Puts what the options ask for into @options. */
gboolean weft_command_add_fusion (const WeftCommandFusion *fusion, WeftLoadOptions *options, GError **error);
