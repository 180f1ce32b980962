/* SPDX-License-Identifier: Apache-2.0 */
/* Output that appears whole or not at all: work happens in `DST.weft-partial`, one rename publishes. A journal in the
 * partial folder keeps two runs apart (it is locked) and lets a later run go on (it lists the files that are done). */
#pragma once

#include "checkpoint/weft-safetensors-sink.h"
#include "checkpoint/weft-writeback-private.h"

G_BEGIN_DECLS

typedef struct _WeftOutputTransaction WeftOutputTransaction;

/* What an output is: a folder, a file, or a folder with a folder for each of several members. */
typedef enum
{
  WEFT_OUTPUT_SHAPE_FOLDER,
  WEFT_OUTPUT_SHAPE_FILE,
  WEFT_OUTPUT_SHAPE_SET,
} WeftOutputShape;

/* Looks at the destination and changes nothing yet. */
WeftOutputTransaction *weft_output_transaction_new (const gchar *path, WeftOutputShape shape,
                                                    WeftOutputFlags flags, GError **error);
/* Drops what is not published, as weft_output_transaction_abandon() does. */
void weft_output_transaction_free (WeftOutputTransaction *self);

/* Refuses a destination that would harm a source file or folder. */
gboolean weft_output_transaction_guard_source (WeftOutputTransaction *self, const gchar *source_path,
                                               GError **error);

/* Makes or takes up the partial folder. What an earlier run has done counts only if its @fingerprint is the same. */
gboolean weft_output_transaction_begin (WeftOutputTransaction *self, const gchar *fingerprint,
                                        GError **error);
gboolean weft_output_transaction_has_finished (WeftOutputTransaction *self, const gchar *name, guint64 size);

/* A set: members are outputs of their own, whose destinations lie in the partial folder of the set, so that they come to their
 * place together. A member that is whole is noted, and is taken for done by a later run if its fingerprint is the same and its
 * files have the sizes that they had. Many processes may write members; one of them begins and publishes. */
gboolean weft_output_transaction_begin_set (WeftOutputTransaction *self, const gchar *const *members,
                                            GError **error);
gchar *weft_output_transaction_get_member_path (WeftOutputTransaction *self, const gchar *member);
gboolean weft_output_transaction_take_member (WeftOutputTransaction *self, const gchar *member,
                                              const gchar *fingerprint, gboolean *is_done, GError **error);
gboolean weft_output_transaction_note_member (WeftOutputTransaction *self, const gchar *member,
                                              const gchar *fingerprint, GError **error);
gboolean weft_output_transaction_publish_set (WeftOutputTransaction *self, const gchar *const *members,
                                              GError **error);

/* A file of @size bytes, allocated at once so that a full disk shows now. The descriptor stays the transaction's, and names
 * the file until it is finished. */
gint weft_output_transaction_create_file (WeftOutputTransaction *self, const gchar *name, guint64 size,
                                          GError **error);
void weft_output_transaction_note_written (WeftOutputTransaction *self, gint fd, guint64 n_bytes);
gboolean weft_output_transaction_finish_file (WeftOutputTransaction *self, gint fd, GError **error);

/* The same where the ranks of a job write. Rank 0 begins, and reserves the files; the others join, when it has begun. Each opens the
 * part of a file that it writes, from @start to @end, and gets to know when what it has written is durable; when all parts of a
 * file are, rank 0 notes the file. */
void weft_output_transaction_join (WeftOutputTransaction *self);
/* Whether several ranks may write to one file, which not every file system of many machines can take. */
gboolean weft_output_transaction_takes_ranges (WeftOutputTransaction *self);
gboolean weft_output_transaction_reserve_file (WeftOutputTransaction *self, const gchar *name,
                                               GError **error);
gint weft_output_transaction_open_part (WeftOutputTransaction *self, const gchar *name, guint64 size,
                                        guint64 start, guint64 end, GError **error);
gboolean weft_output_transaction_finish_part (WeftOutputTransaction *self, gint fd, WeftDurableFunc durable,
                                              gpointer user_data, GError **error);
gboolean weft_output_transaction_note_finished (WeftOutputTransaction *self, const gchar *name, guint64 size,
                                                GError **error);
/* Whether all that this rank has finished is durable or has failed; then, which of the two. */
gboolean weft_output_transaction_is_idle (WeftOutputTransaction *self);
gboolean weft_output_transaction_settle (WeftOutputTransaction *self, GError **error);
/* Whether a file has its size, whoever has written it. */
gboolean weft_output_transaction_check_file (WeftOutputTransaction *self, const gchar *name, guint64 size,
                                             GError **error);

/* Small files: a text, or a copy of another file; @name may have folders in it. */
gboolean weft_output_transaction_add_text (WeftOutputTransaction *self, const gchar *name, GBytes *text,
                                           GError **error);
gboolean weft_output_transaction_copy_file (WeftOutputTransaction *self, const gchar *name,
                                            const gchar *source_path, GError **error);

/* The existing folder that the output takes the place of, or NULL. Of the files in it, only those that are named as replaceable
 * and have not changed since are removed then. If there is more, the folder stays as `DST.weft-old`, which is the kept path;
 * else that is NULL. */
const gchar *weft_output_transaction_get_replaced (WeftOutputTransaction *self);
void weft_output_transaction_add_replaceable (WeftOutputTransaction *self, const gchar *name);
/* Takes back that a file may go. */
void weft_output_transaction_keep (WeftOutputTransaction *self, const gchar *name);
const gchar *weft_output_transaction_get_kept_path (WeftOutputTransaction *self);

gboolean weft_output_transaction_publish (WeftOutputTransaction *self, GError **error);
/* After a failure: removes what cannot be resumed. */
void weft_output_transaction_abandon (WeftOutputTransaction *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (WeftOutputTransaction, weft_output_transaction_free)

G_END_DECLS
