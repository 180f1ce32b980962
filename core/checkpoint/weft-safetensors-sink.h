/* SPDX-License-Identifier: Apache-2.0 */
/* A sink that writes a checkpoint: a folder of safetensors files, or one such file. */
#pragma once

#include "checkpoint/weft-checkpoint.h"
#include "checkpoint/weft-job.h"
#include "checkpoint/weft-shard-layout.h"
#include "checkpoint/weft-sink.h"

G_BEGIN_DECLS

#define WEFT_TYPE_SAFETENSORS_SINK (weft_safetensors_sink_get_type ())

/**
 * WeftSafetensorsSink:
 *
 * Writes outputs to a folder, or to one file if the path ends in `.safetensors` or the caller says so. The output appears under its name only
 * when it is complete and, unless told otherwise, on the disk.
 *
 * Since: 1.0
 */
WEFT_PUBLIC
G_DECLARE_FINAL_TYPE (WeftSafetensorsSink, weft_safetensors_sink, WEFT, SAFETENSORS_SINK, GObject)

/**
 * WeftOutputFlags:
 * @WEFT_OUTPUT_FLAGS_NONE: an output that exists is refused
 * @WEFT_OUTPUT_FLAGS_FORCE: an output that is a checkpoint is replaced when the new one is complete; files that are not
 *   accounted for stay, see weft_safetensors_sink_get_kept_path()
 * @WEFT_OUTPUT_FLAGS_IN_PLACE: the output is the source, which is replaced when the new one is complete, in the same way
 * @WEFT_OUTPUT_FLAGS_RESUME: files that an interrupted run of the same plan has finished are kept
 * @WEFT_OUTPUT_FLAGS_NO_SYNC: do not wait until the output is on the disk
 * @WEFT_OUTPUT_FLAGS_SINGLE_FILE: the output is one file, whatever its name ends in
 *
 * How an output comes to its place.
 *
 * Since: 1.0
 */
typedef enum /*< flags >*/
{
  WEFT_OUTPUT_FLAGS_NONE = 0,
  WEFT_OUTPUT_FLAGS_FORCE = 1 << 0,
  WEFT_OUTPUT_FLAGS_IN_PLACE = 1 << 1,
  WEFT_OUTPUT_FLAGS_RESUME = 1 << 2,
  WEFT_OUTPUT_FLAGS_NO_SYNC = 1 << 3,
  WEFT_OUTPUT_FLAGS_SINGLE_FILE = 1 << 4,
} WeftOutputFlags;

#define WEFT_TYPE_OUTPUT_SET (weft_output_set_get_type ())

/**
 * WeftOutputSet:
 *
 * Folders of several outputs, such as those of all ranks, in one folder, which appears under its name only when all are complete.
 *
 * Since: 1.0
 */
WEFT_PUBLIC
G_DECLARE_FINAL_TYPE (WeftOutputSet, weft_output_set, WEFT, OUTPUT_SET, GObject)

WEFT_PUBLIC WeftSafetensorsSink *weft_safetensors_sink_new (const gchar *path, GError **error);
WEFT_PUBLIC WeftSafetensorsSink *weft_safetensors_sink_new_full (const gchar *path, WeftOutputFlags flags,
                                                                 GError **error);
WEFT_PUBLIC WeftSafetensorsSink *weft_safetensors_sink_new_in_set (WeftOutputSet *set, const gchar *member);

WEFT_PUBLIC gboolean weft_safetensors_sink_is_single_file (WeftSafetensorsSink *self);
WEFT_PUBLIC gboolean weft_safetensors_sink_set_source (WeftSafetensorsSink *self, WeftCheckpoint *source,
                                                       GError **error);
WEFT_PUBLIC void weft_safetensors_sink_set_job (WeftSafetensorsSink *self, WeftJob *job);
WEFT_PUBLIC void weft_safetensors_sink_set_layout (WeftSafetensorsSink *self, WeftShardLayout *layout);
WEFT_PUBLIC void weft_safetensors_sink_set_fingerprint (WeftSafetensorsSink *self, const gchar *fingerprint);
WEFT_PUBLIC gboolean weft_safetensors_sink_add_text (WeftSafetensorsSink *self, const gchar *name,
                                                     GBytes *text, GError **error);
WEFT_PUBLIC void weft_safetensors_sink_leave_out (WeftSafetensorsSink *self, const gchar *name);

WEFT_PUBLIC const gchar *weft_safetensors_sink_get_kept_path (WeftSafetensorsSink *self);
WEFT_PUBLIC guint weft_safetensors_sink_get_n_resumed_files (WeftSafetensorsSink *self);
WEFT_PUBLIC guint64 weft_safetensors_sink_get_n_resumed_bytes (WeftSafetensorsSink *self);

G_END_DECLS
