/* SPDX-License-Identifier: Apache-2.0 */
/* What may go of a folder that an output takes the place of. */
#pragma once

#include "checkpoint/weft-output-transaction-private.h"

G_BEGIN_DECLS

/* The weights of a checkpoint in or below the folder @base, which is replaced, their index, and the record of how it was made. */
void weft_replaceable_add_weights (WeftOutputTransaction *transaction, const gchar *base,
                                   WeftCheckpoint *old);

G_END_DECLS
