/* SPDX-License-Identifier: Apache-2.0 */
/* Options that convert, plan, explain and revert share: which checkpoint, which rules, how strict. */
#pragma once

#include "checkpoint/weft-checkpoint.h"
#include "checkpoint/weft-safetensors-sink.h"
#include "pipeline/weft-load-plan.h"
#include "weft-command-fusion.h"

typedef struct
{
  gchar **key_mappings;
  gchar *mapping;
  gchar *model_type;
  gchar *module_tree;
  gchar *like;
  gchar *class_name;
  gboolean is_open;
  gchar *variant;
  gchar *io;
  gboolean is_lenient;
} WeftCommandSource;

typedef struct
{
  gchar *dtype;
  gboolean allows_missing;
  gboolean ignores_mismatched;
  gboolean drops_unexpected;
  gchar *strict;
  gchar *base;
  gchar *adapter_name;
  WeftCommandFusion fusion;
} WeftCommandRules;

typedef struct
{
  gchar *output;
  gchar *threads;
  gboolean is_forced;
  gboolean is_in_place;
  gboolean is_resumed;
  gboolean is_not_synced;
  gboolean is_shared_out;
} WeftCommandDestination;

#define WEFT_COMMAND_SOURCE_OPTIONS(type, member)                                                                      \
  { "key-mapping",                                                                                                     \
    'k',                                                                                                               \
    0,                                                                                                                 \
    G_OPTION_ARG_STRING_ARRAY,                                                                                         \
    WEFT_COMMAND_OPTION (type, member.key_mappings),                                                                   \
    "A renaming of your own, tried before the model's rules; may be given more than once",                             \
    "SRC=DST" },                                                                                                       \
      { "mapping",                                                                                                     \
        0,                                                                                                             \
        0,                                                                                                             \
        G_OPTION_ARG_FILENAME,                                                                                         \
        WEFT_COMMAND_OPTION (type, member.mapping),                                                                    \
        "Rules from a JSON file, in place of those that ship for the model; or a folder of such files, by model type", \
        "FILE" },                                                                                                      \
      { "model-type",                                                                                                  \
        0,                                                                                                             \
        0,                                                                                                             \
        G_OPTION_ARG_STRING,                                                                                           \
        WEFT_COMMAND_OPTION (type, member.model_type),                                                                 \
        "Use the mapping of this name, in place of what config.json says",                                             \
        "NAME" },                                                                                                      \
      { "module-tree",                                                                                                 \
        0,                                                                                                             \
        0,                                                                                                             \
        G_OPTION_ARG_FILENAME,                                                                                         \
        WEFT_COMMAND_OPTION (type, member.module_tree),                                                                \
        "What the runtime expects, as JSON: names, shapes, sub-models; in place of what config.json says",             \
        "FILE" },                                                                                                      \
      { "like",                                                                                                        \
        0,                                                                                                             \
        0,                                                                                                             \
        G_OPTION_ARG_FILENAME,                                                                                         \
        WEFT_COMMAND_OPTION (type, member.like),                                                                       \
        "The runtime expects the names and shapes of this checkpoint",                                                 \
        "CHECKPOINT" },                                                                                                \
      { "class",                                                                                                       \
        0,                                                                                                             \
        0,                                                                                                             \
        G_OPTION_ARG_STRING,                                                                                           \
        WEFT_COMMAND_OPTION (type, member.class_name),                                                                 \
        "Load into this class of the model's family (base model, another head), not the one of config.json",           \
        "NAME" },                                                                                                      \
      { "open",                                                                                                        \
        0,                                                                                                             \
        0,                                                                                                             \
        G_OPTION_ARG_NONE,                                                                                             \
        WEFT_COMMAND_OPTION (type, member.is_open),                                                                    \
        "Do not look at what config.json says of names and shapes; convert what is there",                             \
        NULL },                                                                                                        \
      { "variant",                                                                                                     \
        0,                                                                                                             \
        0,                                                                                                             \
        G_OPTION_ARG_STRING,                                                                                           \
        WEFT_COMMAND_OPTION (type, member.variant),                                                                    \
        "Read model.VARIANT.safetensors",                                                                              \
        "VARIANT" },                                                                                                   \
      { "lenient",                                                                                                     \
        0,                                                                                                             \
        0,                                                                                                             \
        G_OPTION_ARG_NONE,                                                                                             \
        WEFT_COMMAND_OPTION (type, member.is_lenient),                                                                 \
        "Take tensors that the index does not list, if their shard is listed; other shards are not read",              \
        NULL },                                                                                                        \
  {                                                                                                                    \
    "io", 0, 0, G_OPTION_ARG_STRING, WEFT_COMMAND_OPTION (type, member.io),                                            \
        "How files are read: pread (default), mmap, or direct (past the page cache)", "BACKEND"                        \
  }

#define WEFT_COMMAND_RULES_OPTIONS(type, member)                                                       \
  WEFT_COMMAND_FUSION_OPTIONS (type, member.fusion),                                                   \
      { "dtype",                                                                                       \
        'd',                                                                                           \
        0,                                                                                             \
        G_OPTION_ARG_STRING,                                                                           \
        WEFT_COMMAND_OPTION (type, member.dtype),                                                      \
        "keep (default): as stored; auto: what the config and the model say; or a dtype such as BF16", \
        "D" },                                                                                         \
      { "allow-missing",                                                                               \
        0,                                                                                             \
        0,                                                                                             \
        G_OPTION_ARG_NONE,                                                                             \
        WEFT_COMMAND_OPTION (type, member.allows_missing),                                             \
        "Go on without tensors that the model has and the checkpoint lacks",                           \
        NULL },                                                                                        \
      { "ignore-mismatched-sizes",                                                                     \
        0,                                                                                             \
        0,                                                                                             \
        G_OPTION_ARG_NONE,                                                                             \
        WEFT_COMMAND_OPTION (type, member.ignores_mismatched),                                         \
        "Leave out tensors of another shape than the model's",                                         \
        NULL },                                                                                        \
      { "drop-unexpected",                                                                             \
        0,                                                                                             \
        0,                                                                                             \
        G_OPTION_ARG_NONE,                                                                             \
        WEFT_COMMAND_OPTION (type, member.drops_unexpected),                                           \
        "Leave out tensors that the model does not know",                                              \
        NULL },                                                                                        \
      { "strict",                                                                                      \
        0,                                                                                             \
        0,                                                                                             \
        G_OPTION_ARG_STRING,                                                                           \
        WEFT_COMMAND_OPTION (type, member.strict),                                                     \
        "Stop at these too, by comma: unexpected, ignored, unused, not-reversible, open; all",         \
        "KINDS" },                                                                                     \
      { "base",                                                                                        \
        0,                                                                                             \
        0,                                                                                             \
        G_OPTION_ARG_FILENAME,                                                                         \
        WEFT_COMMAND_OPTION (type, member.base),                                                       \
        "SRC is a LoRA adapter of the model in this folder, whose rules it follows",                   \
        "DIR" },                                                                                       \
  {                                                                                                    \
    "adapter-name", 0, 0, G_OPTION_ARG_STRING, WEFT_COMMAND_OPTION (type, member.adapter_name),        \
        "With --base: what the runtime calls the adapter (default: default)", "NAME"                   \
  }

#define WEFT_COMMAND_MPI_OPTION(type, member)                                                                \
  {                                                                                                          \
    "mpi", 0, 0, G_OPTION_ARG_NONE, WEFT_COMMAND_OPTION (type, member.is_shared_out),                        \
        "Share the work out among the processes of `mpirun -n N weft ...`, which have one file system", NULL \
  }

#define WEFT_COMMAND_DESTINATION_OPTIONS(type, member)                                                                \
  { "output",                                                                                                         \
    'o',                                                                                                              \
    0,                                                                                                                \
    G_OPTION_ARG_FILENAME,                                                                                            \
    WEFT_COMMAND_OPTION (type, member.output),                                                                        \
    "Folder to make (or one file, if it ends in .safetensors)",                                                       \
    "DST" },                                                                                                          \
      { "force",                                                                                                      \
        'f',                                                                                                          \
        0,                                                                                                            \
        G_OPTION_ARG_NONE,                                                                                            \
        WEFT_COMMAND_OPTION (type, member.is_forced),                                                                 \
        "Exchange DST, if it is a checkpoint, when the new one is complete; foreign files in it go to DST.weft-old",  \
        NULL },                                                                                                       \
      { "in-place",                                                                                                   \
        0,                                                                                                            \
        0,                                                                                                            \
        G_OPTION_ARG_NONE,                                                                                            \
        WEFT_COMMAND_OPTION (type, member.is_in_place),                                                               \
        "Exchange the source for the output when that is complete; what was not read or copied goes to SRC.weft-old", \
        NULL },                                                                                                       \
      { "resume",                                                                                                     \
        0,                                                                                                            \
        0,                                                                                                            \
        G_OPTION_ARG_NONE,                                                                                            \
        WEFT_COMMAND_OPTION (type, member.is_resumed),                                                                \
        "Go on where an interrupted run of the same plan stopped",                                                    \
        NULL },                                                                                                       \
      { "no-sync",                                                                                                    \
        0,                                                                                                            \
        0,                                                                                                            \
        G_OPTION_ARG_NONE,                                                                                            \
        WEFT_COMMAND_OPTION (type, member.is_not_synced),                                                             \
        "Do not wait until the output is on the disk",                                                                \
        NULL },                                                                                                       \
  {                                                                                                                   \
    "threads", 't', 0, G_OPTION_ARG_STRING, WEFT_COMMAND_OPTION (type, member.threads),                               \
        "Threads that move bytes; 0: none but the main one (default: the smaller of 4 and the CPUs)", "N"             \
  }

/* Says what of earlier files there still is: kept by --resume, or by the replaced folder. */
void weft_command_print_kept (WeftCommandCall *call, WeftSafetensorsSink *sink, const gchar *output);
/* The second of these, for a folder that is known. */
void weft_command_print_replaced (WeftCommandCall *call, const gchar *kept_path, const gchar *output);
void weft_command_add_kept (JsonBuilder *builder, WeftSafetensorsSink *sink);
WeftCheckpoint *weft_command_open_source (const gchar *path, const WeftCommandSource *source,
                                          WeftCommandCall *call, GError **error);
/* The tree of --module-tree or --like. */
WeftModuleTree *weft_command_load_tree (const WeftCommandSource *source, GError **error);
WeftLoadOptions *weft_command_load_options (const WeftCommandSource *source, const WeftCommandRules *rules,
                                            GError **error);
/* A plan for a checkpoint, or, with --base, for an adapter. */
WeftLoadPlan *weft_command_new_plan (WeftCheckpoint *checkpoint, WeftLoadOptions *options,
                                     const WeftCommandRules *rules, GError **error);
/* How the output comes to its place, by the options. */
WeftOutputFlags weft_command_read_output_flags (const WeftCommandDestination *destination);
WeftSafetensorsSink *weft_command_open_sink (const WeftCommandDestination *destination,
                                             const gchar *source_path, GError **error);

/* 0 for none, if @text is %NULL. */
gboolean weft_command_parse_shard_size (const gchar *text, guint64 *n_bytes, GError **error);
gboolean weft_command_read_threads (const WeftCommandDestination *destination, WeftCommandCall *call,
                                    WeftTransferOptions *options, GError **error);

/* What a plan would make, in one line. */
void weft_command_note_plan (WeftCommandCall *call, WeftLoadPlan *plan);
void weft_command_print_report (WeftCommandCall *call, WeftLoadReport *report, gboolean with_harmless);
