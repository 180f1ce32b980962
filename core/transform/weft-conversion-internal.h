/* SPDX-License-Identifier: Apache-2.0 */
/* One conversion of a plan: the published tensors that meet under one name, and the runtime tensors made of them. The same
 * object runs both ways, so that reverting is the inverse of the plan and no replay. Internal to the library: not installed. */
#pragma once

#include "tensor/weft-state-dict.h"
#include "transform/weft-op-context.h"
#include "transform/weft-transform-list.h"
#include "transform/weft-weight-converter.h"

typedef struct
{
  /* Position in the published state dict, and of the source pattern that the key matched. */
  guint position;
  guint pattern;
  /* What stood in place of the last `*.` of that pattern; -1 if nothing did. */
  gint64 number;
} WeftConversionSource;

typedef struct
{
  gchar *name;
  /* Which target pattern it came from, and the number put in place of its `*` (-1: none). */
  guint pattern;
  gint64 number;
  WeftTensor *tensor;
  /* A part of a packed weight that is not wanted. */
  gboolean is_left_out;
} WeftConversionOutput;

typedef enum
{
  WEFT_PROOF_EXACT,
  /* Reversible if the elements that the conversion drops are zero, as they should be. */
  WEFT_PROOF_CONDITIONAL,
  WEFT_PROOF_LOSSY,
} WeftProof;

/* How a companion of packed weights followed them. */
typedef enum
{
  WEFT_CARRY_NONE,
  /* It got a name that goes with that of its weight. */
  WEFT_CARRY_RENAMED,
  /* The ops acted on it, in as many axes as its weight has. */
  WEFT_CARRY_GRID,
  /* One element became one for each row before that. */
  WEFT_CARRY_CHANNELS,
  /* All sources have the one element that the outputs have. */
  WEFT_CARRY_SHARED,
} WeftCarry;

typedef struct
{
  /* The name under which the sources meet: the renamed key, target 0 put in. */
  gchar *layer;
  /* NULL: a plain renaming, one source and one output. */
  WeftWeightConverter *converter;
  /* Index of the converter in the plan's list, -1 for none. */
  gint rule;
  /* Patterns with their captures put in, or NULL for a renaming. */
  GStrv source_patterns;
  GStrv target_patterns;
  GArray *sources;
  GArray *outputs;
  WeftProof proof;
  gchar *proof_reason;
  WeftCarry carry;
  /* How many axes the made weights have, if it carries companions of theirs. */
  guint output_rank;
} WeftConversion;

WeftConversion *weft_conversion_new (const gchar *layer, WeftWeightConverter *converter, gint rule);
void weft_conversion_free (WeftConversion *self);
void weft_conversion_add_source (WeftConversion *self, guint position, guint pattern, gint64 number);
void weft_conversion_add_output (WeftConversion *self, const gchar *name, guint pattern, gint64 number,
                                 WeftTensor *tensor);

/* A conversion for the name that a key got from @rules, with the patterns of the converter that it met, if it met one. */
WeftConversion *weft_conversion_new_for_key (WeftRenamedKey *renamed, WeftTransformList *rules,
                                             GError **error);
/* Adds that key, or another one that met the same converter under the same name, as a source. */
void weft_conversion_collect (WeftConversion *self, WeftRenamedKey *renamed, guint position);

/* The number in @key that stands for the last `*.` of @pattern; -1 if there is none. */
gint64 weft_conversion_find_number (const gchar *pattern, const gchar *key);

/* Makes the outputs out of @published. @read_dtype: what sources are cast to first, or invalid to keep what is stored.
 * @facts: config and parameters of the model. */
gboolean weft_conversion_run (WeftConversion *self, WeftStateDict *published, WeftDtype read_dtype,
                              WeftOpContext *facts, GError **error);

/* Makes the published tensors out of @runtime (one for each output, in order): one tensor for each source, in order.
 * @facts: config, and the published tensors as parameters. */
GPtrArray *weft_conversion_invert (WeftConversion *self, WeftTensor **runtime, WeftStateDict *published,
                                   WeftOpContext *facts, GError **error);

/* Notes that the inverse is not exact, and why. */
void weft_conversion_set_lossy (WeftConversion *self, const gchar *reason);

/* Applies, inverts, and compares addresses. Sets the proof; FALSE if the inverse is plainly wrong. */
gboolean weft_conversion_prove (WeftConversion *self, WeftStateDict *published, WeftOpContext *facts,
                                GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (WeftConversion, weft_conversion_free)
