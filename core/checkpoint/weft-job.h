/* SPDX-License-Identifier: Apache-2.0 */
/* One piece of work of several processes: they go on together or fail together. */
#pragma once

#include "checkpoint/weft-communicator.h"

G_BEGIN_DECLS

#define WEFT_TYPE_JOB (weft_job_get_type ())

/**
 * WeftJob:
 *
 * What the ranks of a communicator do together. Every rank makes one, does the same steps, and tells it when it fails. A sink that
 * has a job shares the writing out among its ranks, see weft_safetensors_sink_set_job().
 *
 * Since: 1.0
 */
WEFT_PUBLIC
G_DECLARE_FINAL_TYPE (WeftJob, weft_job, WEFT, JOB, GObject)

WEFT_PUBLIC WeftJob *weft_job_new (WeftCommunicator *communicator, GCancellable *cancellable);

WEFT_PUBLIC guint weft_job_get_rank (WeftJob *self);
WEFT_PUBLIC guint weft_job_get_size (WeftJob *self);

WEFT_PUBLIC gboolean weft_job_poll (WeftJob *self, GError **error);
WEFT_PUBLIC gboolean weft_job_agree (WeftJob *self, GError **error);
WEFT_PUBLIC gboolean weft_job_check_same (WeftJob *self, const gchar *const *names,
                                          const gchar *const *values, GError **error);
WEFT_PUBLIC gboolean weft_job_commit (WeftJob *self, GError **error);
WEFT_PUBLIC gboolean weft_job_fail (WeftJob *self, GError **error);
WEFT_PUBLIC void weft_job_abort (WeftJob *self);
WEFT_PUBLIC void weft_job_sum (WeftJob *self, guint64 *values, gsize n_values);

G_END_DECLS
