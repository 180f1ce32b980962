/* SPDX-License-Identifier: Apache-2.0 */
/* What the sink of a member asks of its set. */
#pragma once

#include "checkpoint/weft-output-set.h"
#include "checkpoint/weft-output-transaction-private.h"

G_BEGIN_DECLS

WeftOutputTransaction *weft_output_set_get_transaction (WeftOutputSet *self);
/* How the output of a member comes to its place in the set. */
WeftOutputFlags weft_output_set_get_member_flags (WeftOutputSet *self);

G_END_DECLS
