/* SPDX-License-Identifier: Apache-2.0 */
/* A strict pull reader over JSON text in memory (RFC 8259, at most 127 levels deep). It builds no tree and allocates
 * nothing but one buffer for texts with escapes, so that a header of 100 MB costs no more than its own bytes. */
#pragma once

#include <string.h>

#include "base/weft-error.h"

G_BEGIN_DECLS

/* A text of the document, unescaped and without a NUL inside. It lies in the document or in the cursor's buffer and is
 * valid until the next text is read. @position is where its opening quote stands in the document. */
typedef struct
{
  const gchar *bytes;
  gsize n_bytes;
  gsize position;
} WeftJsonText;

static inline gboolean
weft_json_text_equal (const WeftJsonText *self, const gchar *text)
{
  return self->n_bytes == strlen (text) && memcmp (self->bytes, text, self->n_bytes) == 0;
}

/* @subject is what messages speak of, such as the name of the tensor that is being read. */
typedef struct
{
  const gchar *where;
  const gchar *subject;
  const gchar *start;
  const gchar *at;
  const gchar *end;
  guint64 base;
  GString *unescaped;
} WeftJsonCursor;

gboolean weft_json_cursor_init (WeftJsonCursor *self, const gchar *text, gsize n_bytes, guint64 base,
                                const gchar *where, GError **error);
void weft_json_cursor_clear (WeftJsonCursor *self);

void weft_json_cursor_skip_space (WeftJsonCursor *self);
gboolean weft_json_cursor_accept (WeftJsonCursor *self, gchar token);
gboolean weft_json_cursor_expect (WeftJsonCursor *self, gchar token, const gchar *expected, GError **error);
gboolean weft_json_cursor_expect_end (WeftJsonCursor *self, GError **error);
gboolean weft_json_cursor_accept_null (WeftJsonCursor *self);
gboolean weft_json_cursor_read_text (WeftJsonCursor *self, WeftJsonText *text, const gchar *expected,
                                     GError **error);
gboolean weft_json_cursor_read_u64 (WeftJsonCursor *self, guint64 *number, GError **error);
gboolean weft_json_cursor_skip_value (WeftJsonCursor *self, GError **error);

/* Steps to the next member of an object whose `{` is read, or over its `}`. @is_first is FALSE afterwards. */
gboolean weft_json_cursor_next_member (WeftJsonCursor *self, gboolean *is_first, gboolean *is_done,
                                       WeftJsonText *name, GError **error);
/* The same for the elements of an array whose `[` is read. */
gboolean weft_json_cursor_next_element (WeftJsonCursor *self, gboolean *is_first, gboolean *is_done,
                                        GError **error);

/* Sets an error at the cursor: what was expected there; what was found is read off the document. */
gboolean weft_json_cursor_refuse (const WeftJsonCursor *self, const gchar *expected, GError **error);
guint64 weft_json_cursor_get_position (const WeftJsonCursor *self);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (WeftJsonCursor, weft_json_cursor_clear)

G_END_DECLS
