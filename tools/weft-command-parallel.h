/* SPDX-License-Identifier: Apache-2.0 */
/* Options of the commands that make what ranks hold: how many there are, whose part is made, by which plan. */
#pragma once

#include "weft-command-load.h"

typedef struct
{
  gchar *tp_size;
  gchar *ep_size;
  gchar *world_size; /* a number, or a mesh as 2x2 */
  gchar *rank;       /* NULL: all of them, one after the other */
  gchar *plan;
  guint current; /* whose turn it is */
} WeftCommandParallel;

#define WEFT_COMMAND_PLAN_OPTION(type, member)                                                                  \
  {                                                                                                             \
    "plan", 0, 0, G_OPTION_ARG_FILENAME, WEFT_COMMAND_OPTION (type, member.plan),                               \
        "Rules of your own, as JSON from name patterns to styles, tried before those that come with the model", \
        "FILE"                                                                                                  \
  }

#define WEFT_COMMAND_PARALLEL_OPTIONS(type, member)                                           \
  { "tp-size",                                                                                \
    0,                                                                                        \
    0,                                                                                        \
    G_OPTION_ARG_STRING,                                                                      \
    WEFT_COMMAND_OPTION (type, member.tp_size),                                               \
    "Cut tensors over so many ranks",                                                         \
    "N" },                                                                                    \
      { "ep-size",                                                                            \
        0,                                                                                    \
        0,                                                                                    \
        G_OPTION_ARG_STRING,                                                                  \
        WEFT_COMMAND_OPTION (type, member.ep_size),                                           \
        "Spread experts over so many ranks, a multiple of those of --tp-size",                \
        "N" },                                                                                \
      { "tp-rank",                                                                            \
        0,                                                                                    \
        0,                                                                                    \
        G_OPTION_ARG_STRING,                                                                  \
        WEFT_COMMAND_OPTION (type, member.rank),                                              \
        "Whose part, from 0 on (default: all of them, each in a folder rank-00000-of-0000N)", \
        "R" },                                                                                \
      WEFT_COMMAND_PLAN_OPTION (type, member)

/* Reads the options, before anything is opened: the ranks that are to be made are from *@first on, *@n_ranks of them; 0: nothing is
 * cut. */
gboolean weft_command_read_ranks (const WeftCommandParallel *parallel, guint *first, guint *n_ranks,
                                  GError **error);
/* Puts them, for the rank whose turn it is, into the options of a load. */
gboolean weft_command_set_parallel (const WeftCommandParallel *parallel, WeftLoadOptions *load_options,
                                    GError **error);
