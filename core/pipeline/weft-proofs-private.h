/* SPDX-License-Identifier: Apache-2.0 */
/* Proofs of conversions, made on other threads while the calling one runs the conversions that follow. What they read is shared
 * and does not change any more; each changes its own conversion only. Ops that do not say that they may be called on any
 * thread are called on the owner's. Private to the pipeline room. */
#pragma once

#include "transform/weft-conversion-internal.h"

typedef struct _WeftProofs WeftProofs;

/* @published, @facts: what weft_conversion_prove() takes. */
WeftProofs *weft_proofs_new (WeftStateDict *published, WeftOpContext *facts);
/* Waits for all. */
void weft_proofs_free (WeftProofs *self);
/* Begins the proof of a conversion, which nobody touches until weft_proofs_finish_next(). */
void weft_proofs_add (WeftProofs *self, WeftConversion *conversion);
/* Waits for the proof that was added first of those not yet waited for: the result of weft_conversion_prove(). */
gboolean weft_proofs_finish_next (WeftProofs *self, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (WeftProofs, weft_proofs_free)
