/* SPDX-License-Identifier: Apache-2.0 */
/* Whether an output is whole, is what its record says, and leads back to what it was made of. */
#pragma once

#include "checkpoint/weft-checkpoint.h"
#include "pipeline/weft-load-options.h"
#include "tensor/weft-transfer.h"

G_BEGIN_DECLS

/**
 * WeftCheckOutcome:
 * @WEFT_CHECK_OUTCOME_PASSED: it holds
 * @WEFT_CHECK_OUTCOME_FAILED: it does not
 * @WEFT_CHECK_OUTCOME_SKIPPED: there is nothing to check it by
 *
 * What came of a check.
 *
 * Since: 1.0
 */
typedef enum
{
  WEFT_CHECK_OUTCOME_PASSED,
  WEFT_CHECK_OUTCOME_FAILED,
  WEFT_CHECK_OUTCOME_SKIPPED,
} WeftCheckOutcome;

#define WEFT_TYPE_VERIFICATION (weft_verification_get_type ())

/**
 * WeftVerification:
 *
 * Checks of one output. Making one checks its files (headers, index, shards, sizes); the others are asked for. Nothing is
 * ever written.
 *
 * Since: 1.0
 */
WEFT_PUBLIC
G_DECLARE_FINAL_TYPE (WeftVerification, weft_verification, WEFT, VERIFICATION, GObject)

WEFT_PUBLIC WeftVerification *weft_verification_new (const gchar *path, GCancellable *cancellable,
                                                     GError **error);
WEFT_PUBLIC void weft_verification_set_progress (WeftVerification *self, WeftProgressFunc progress,
                                                 gpointer user_data, GDestroyNotify destroy);
WEFT_PUBLIC gboolean weft_verification_check_record (WeftVerification *self, GError **error);
WEFT_PUBLIC gboolean weft_verification_check_hashes (WeftVerification *self, GCancellable *cancellable,
                                                     GError **error);
WEFT_PUBLIC gboolean weft_verification_check_source (WeftVerification *self, WeftCheckpoint *source,
                                                     WeftLoadOptions *options, GCancellable *cancellable,
                                                     GError **error);
WEFT_PUBLIC gboolean weft_verification_check_round_trip (WeftVerification *self, WeftCheckpoint *source,
                                                         WeftLoadOptions *options, gboolean with_bytes,
                                                         GCancellable *cancellable, GError **error);

WEFT_PUBLIC gboolean weft_verification_has_passed (WeftVerification *self);
WEFT_PUBLIC guint weft_verification_get_n_checks (WeftVerification *self);
WEFT_PUBLIC const gchar *weft_verification_get_check_name (WeftVerification *self, guint check);
WEFT_PUBLIC WeftCheckOutcome weft_verification_get_check_outcome (WeftVerification *self, guint check);
WEFT_PUBLIC const gchar *weft_verification_get_check_detail (WeftVerification *self, guint check);
WEFT_PUBLIC JsonNode *weft_verification_to_json (WeftVerification *self);

G_END_DECLS
