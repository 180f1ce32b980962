/* SPDX-License-Identifier: Apache-2.0 */
/* What a sink tells the other ranks of a job while it works, and hears from them. */
#pragma once

#include "checkpoint/weft-job.h"

G_BEGIN_DECLS

/* weft_job_poll() after a moment of rest, for loops that wait. */
gboolean weft_job_rest (WeftJob *self, GError **error);

/* weft_job_agree(), or weft_job_commit(), step by step, for what is to be done while a rank waits: each step rests for a moment. */
void weft_job_begin_agreement (WeftJob *self, gboolean commits);
gboolean weft_job_wait_for_agreement (WeftJob *self, gboolean *is_agreed, GError **error);

/* Another output begins: a cancel counts again. */
void weft_job_begin_output (WeftJob *self);

/* What this rank has done: bytes of outputs; parts of the output that are durable (from any thread). */
void weft_job_set_n_bytes (WeftJob *self, guint64 n_bytes);
void weft_job_add_part (WeftJob *self);
/* What the ranks had done when they last told. */
guint64 weft_job_get_n_bytes (WeftJob *self);
guint weft_job_get_n_parts (WeftJob *self, guint rank);

/* What must be equal on all ranks. After an agreement: whether it is, with an error that every rank gets. */
void weft_job_set_fingerprint (WeftJob *self, guint64 fingerprint);
gboolean weft_job_check_fingerprints (WeftJob *self, GError **error);

/* Called whenever the ranks have told each other something. */
void weft_job_set_listener (WeftJob *self, void (*listener) (gpointer user_data), gpointer user_data);

/* Gives all ranks the bytes of rank 0; right after an agreement. */
void weft_job_broadcast (WeftJob *self, gpointer bytes, gsize n_bytes);

G_END_DECLS
