/* SPDX-License-Identifier: Apache-2.0 */
/* Two checkpoints, compared tensor by tensor in a layout that both have. */
#pragma once

#include "checkpoint/weft-checkpoint.h"
#include "pipeline/weft-load-options.h"
#include "tensor/weft-transfer.h"

G_BEGIN_DECLS

/**
 * WeftDifferenceKind:
 * @WEFT_DIFFERENCE_ONLY_IN_A: the first checkpoint has the tensor (or file) alone
 * @WEFT_DIFFERENCE_ONLY_IN_B: the second one has it alone
 * @WEFT_DIFFERENCE_DTYPE: the dtypes differ
 * @WEFT_DIFFERENCE_SHAPE: the shapes differ
 * @WEFT_DIFFERENCE_VALUES: elements differ
 * @WEFT_DIFFERENCE_FILE: bytes of a file differ
 *
 * Kinds of differences.
 *
 * Since: 1.0
 */
typedef enum
{
  WEFT_DIFFERENCE_ONLY_IN_A,
  WEFT_DIFFERENCE_ONLY_IN_B,
  WEFT_DIFFERENCE_DTYPE,
  WEFT_DIFFERENCE_SHAPE,
  WEFT_DIFFERENCE_VALUES,
  WEFT_DIFFERENCE_FILE,
} WeftDifferenceKind;

/**
 * WeftComparisonFlags:
 * @WEFT_COMPARISON_FLAGS_NONE: tensors, in a layout that both checkpoints have
 * @WEFT_COMPARISON_FLAGS_BYTES: files, byte by byte, those beside the weights included
 *
 * What is compared.
 *
 * Since: 1.0
 */
typedef enum /*< flags >*/
{
  WEFT_COMPARISON_FLAGS_NONE = 0,
  WEFT_COMPARISON_FLAGS_BYTES = 1 << 0,
} WeftComparisonFlags;

#define WEFT_TYPE_DIFFERENCE (weft_difference_get_type ())

/**
 * WeftDifference:
 * @kind: what differs
 * @name: the tensor, or the file
 * @detail: (nullable): how, for a person
 * @shape: the shape of the tensor, for %WEFT_DIFFERENCE_VALUES
 * @n_elements: how many elements it has
 * @n_different: how many of them differ
 * @first: the first element that differs, counted row by row; for %WEFT_DIFFERENCE_FILE the first byte
 * @largest: the largest absolute difference: infinite where one side alone is NaN, NaN if the dtype is no number
 *
 * One thing that differs.
 *
 * Since: 1.0
 */
typedef struct
{
  WeftDifferenceKind kind;
  gchar *name;
  gchar *detail;
  WeftShape shape;
  guint64 n_elements;
  guint64 n_different;
  guint64 first;
  gdouble largest;
} WeftDifference;

WEFT_PUBLIC GType weft_difference_get_type (void);
WEFT_PUBLIC WeftDifference *weft_difference_copy (const WeftDifference *self);
WEFT_PUBLIC void weft_difference_free (WeftDifference *self);
WEFT_PUBLIC const gchar *weft_difference_get_kind_name (WeftDifferenceKind kind);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (WeftDifference, weft_difference_free)

#define WEFT_TYPE_COMPARISON (weft_comparison_get_type ())

/**
 * WeftComparison:
 *
 * Two checkpoints side by side. Making one compares what the headers say; weft_comparison_execute() compares values.
 *
 * A model that was converted is equal to what it was converted from: if the names do not agree, each side is taken as it
 * is stored, as its own plan would convert it, or as its record would revert it, lazily, and the two that agree best are
 * compared.
 *
 * Since: 1.0
 */
WEFT_PUBLIC
G_DECLARE_FINAL_TYPE (WeftComparison, weft_comparison, WEFT, COMPARISON, GObject)

WEFT_PUBLIC WeftComparison *weft_comparison_new (WeftCheckpoint *a, WeftCheckpoint *b,
                                                 WeftLoadOptions *options, WeftComparisonFlags flags,
                                                 GError **error);
WEFT_PUBLIC WeftComparison *weft_comparison_new_of_state_dicts (WeftStateDict *a, WeftStateDict *b);
WEFT_PUBLIC gboolean weft_comparison_execute (WeftComparison *self, WeftProgressFunc progress,
                                              gpointer user_data, GCancellable *cancellable, GError **error);
WEFT_PUBLIC gboolean weft_comparison_execute_full (WeftComparison *self, const WeftTransferOptions *options,
                                                   GCancellable *cancellable, GError **error);

WEFT_PUBLIC gboolean weft_comparison_is_equal (WeftComparison *self);
WEFT_PUBLIC guint weft_comparison_get_n_compared (WeftComparison *self);
WEFT_PUBLIC const gchar *weft_comparison_get_layout (WeftComparison *self, gboolean of_b);
WEFT_PUBLIC GPtrArray *weft_comparison_list_differences (WeftComparison *self);
WEFT_PUBLIC GStrv weft_comparison_list_notes (WeftComparison *self);
WEFT_PUBLIC JsonNode *weft_comparison_to_json (WeftComparison *self);
WEFT_PUBLIC gchar *weft_comparison_to_text (WeftComparison *self, guint n_lines);

G_END_DECLS
