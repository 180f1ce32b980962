/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/weft-json-cursor-private.h"

/* Containers inside containers; the document itself is the first level. */
#define MAX_LEVELS 127
/* How much of an offending token a message quotes. */
#define MAX_QUOTED 32

guint64
weft_json_cursor_get_position (const WeftJsonCursor *self)
{
  return self->base + (guint64) (self->at - self->start);
}

/* The token at the cursor, for a message. */
static gchar *
describe_token (const WeftJsonCursor *self)
{
  const gchar *at = self->at;

  if (at == self->end)
    return g_strdup ("the end of the text");
  if (*at == '"')
    at++;
  while (at < self->end && at - self->at < MAX_QUOTED && g_ascii_isgraph (*at)
         && strchr ("{}[]:,\"", *at) == NULL)
    at++;
  if (at > self->at)
    return g_strdup_printf ("'%.*s'", (gint) (at - self->at), self->at);
  if (g_ascii_isprint (*at))
    return g_strdup_printf ("'%c'", *at);
  return g_strdup_printf ("byte 0x%02X", (guint) (guchar) *at);
}

gboolean
weft_json_cursor_refuse (const WeftJsonCursor *self, const gchar *expected, GError **error)
{
  g_autofree gchar *found = describe_token (self);

  if (self->subject != NULL)
    g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT,
                 "%s: byte %" G_GUINT64_FORMAT ": tensor '%s': expected %s, found %s", self->where,
                 weft_json_cursor_get_position (self), self->subject, expected, found);
  else
    g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT,
                 "%s: byte %" G_GUINT64_FORMAT ": expected %s, found %s", self->where,
                 weft_json_cursor_get_position (self), expected, found);
  return FALSE;
}

/* The first byte that is not UTF-8, or @end. NUL is a character here; the grammar refuses it. */
static const gchar *
find_invalid_utf8 (const gchar *at, const gchar *end)
{
  while (at < end)
    {
      guint64 word;
      gunichar character;

      if (end - at >= 8)
        {
          memcpy (&word, at, sizeof word);
          if ((word & G_GUINT64_CONSTANT (0x8080808080808080)) == 0)
            {
              at += 8;
              continue;
            }
        }
      if ((guchar) *at < 0x80)
        {
          at++;
          continue;
        }
      character = g_utf8_get_char_validated (at, end - at);
      if (character == (gunichar) -1 || character == (gunichar) -2)
        return at;
      at = g_utf8_next_char (at);
    }
  return end;
}

/* @base is the position of @text in its file, for messages; @where is the name of the file. */
gboolean
weft_json_cursor_init (WeftJsonCursor *self, const gchar *text, gsize n_bytes, guint64 base,
                       const gchar *where, GError **error)
{
  *self = (WeftJsonCursor){ .where = where, .start = text, .at = text, .end = text + n_bytes, .base = base };
  self->at = find_invalid_utf8 (text, self->end);
  if (self->at != self->end)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT,
                   "%s: byte %" G_GUINT64_FORMAT ": expected UTF-8, found byte 0x%02X", where,
                   weft_json_cursor_get_position (self), (guint) (guchar) *self->at);
      return FALSE;
    }
  self->at = text;
  self->unescaped = g_string_new (NULL);
  return TRUE;
}

void
weft_json_cursor_clear (WeftJsonCursor *self)
{
  if (self->unescaped != NULL)
    g_string_free (g_steal_pointer (&self->unescaped), TRUE);
}

void
weft_json_cursor_skip_space (WeftJsonCursor *self)
{
  while (self->at < self->end
         && (*self->at == ' ' || *self->at == '\n' || *self->at == '\r' || *self->at == '\t'))
    self->at++;
}

gboolean
weft_json_cursor_accept (WeftJsonCursor *self, gchar token)
{
  weft_json_cursor_skip_space (self);
  if (self->at == self->end || *self->at != token)
    return FALSE;
  self->at++;
  return TRUE;
}

gboolean
weft_json_cursor_expect (WeftJsonCursor *self, gchar token, const gchar *expected, GError **error)
{
  return weft_json_cursor_accept (self, token) || weft_json_cursor_refuse (self, expected, error);
}

gboolean
weft_json_cursor_expect_end (WeftJsonCursor *self, GError **error)
{
  weft_json_cursor_skip_space (self);
  return self->at == self->end || weft_json_cursor_refuse (self, "nothing more after the object", error);
}

static gboolean
accept_word (WeftJsonCursor *self, const gchar *word)
{
  gsize n_bytes = strlen (word);

  weft_json_cursor_skip_space (self);
  if ((gsize) (self->end - self->at) < n_bytes || memcmp (self->at, word, n_bytes) != 0)
    return FALSE;
  self->at += n_bytes;
  return TRUE;
}

gboolean
weft_json_cursor_accept_null (WeftJsonCursor *self)
{
  return accept_word (self, "null");
}

/* Whether @byte goes on a run of plain text: no quote, no backslash, no control character. */
static inline gboolean
is_plain (guchar byte)
{
  return byte >= 0x20 && byte != '"' && byte != '\\';
}

/* Skips plain text, eight bytes at a time while it can: names are long. */
static inline void
skip_plain (WeftJsonCursor *self)
{
  const guint64 ones = G_GUINT64_CONSTANT (0x0101010101010101);
  const gchar *at = self->at;

  for (; self->end - at >= 8; at += 8)
    {
      guint64 word, quotes, backslashes, special;

      memcpy (&word, at, sizeof word);
      word = GUINT64_FROM_LE (word);
      quotes = word ^ (ones * '"');
      backslashes = word ^ (ones * '\\');
      special = ((word - ones * 0x20) & ~word) | ((quotes - ones) & ~quotes)
                | ((backslashes - ones) & ~backslashes);
      special &= ones * 0x80;
      /* The lowest one is never wrong. */
      if (special != 0)
        {
          self->at = at + __builtin_ctzll (special) / 8;
          return;
        }
    }
  while (at < self->end && is_plain ((guchar) *at))
    at++;
  self->at = at;
}

/* Four hexadecimal digits at @at, or -1. */
static gint
read_hex4 (const gchar *at, const gchar *end)
{
  gint unit = 0;

  if (end - at < 4)
    return -1;
  for (guint i = 0; i < 4; i++)
    {
      gint digit = g_ascii_xdigit_value (at[i]);

      if (digit < 0)
        return -1;
      unit = unit * 16 + digit;
    }
  return unit;
}

/* `\uXXXX`, or a pair of them for a character beyond U+FFFF; the cursor is on the backslash. */
static gboolean
read_unicode_escape (WeftJsonCursor *self, GError **error)
{
  gint unit = read_hex4 (self->at + 2, self->end);
  gsize n_bytes = 6;

  if (unit < 0)
    return weft_json_cursor_refuse (self, "four hexadecimal digits after \\u", error);
  if (unit == 0)
    return weft_json_cursor_refuse (self, "a text without the character U+0000", error);
  if (unit >= 0xDC00 && unit <= 0xDFFF)
    return weft_json_cursor_refuse (self, "no low surrogate without a high one", error);
  if (unit >= 0xD800 && unit <= 0xDBFF)
    {
      gint low = -1;

      if (self->end - self->at >= 12 && self->at[6] == '\\' && self->at[7] == 'u')
        low = read_hex4 (self->at + 8, self->end);
      if (low < 0xDC00 || low > 0xDFFF)
        return weft_json_cursor_refuse (self, "a low surrogate after the high one", error);
      unit = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
      n_bytes = 12;
    }
  g_string_append_unichar (self->unescaped, (gunichar) unit);
  self->at += n_bytes;
  return TRUE;
}

static gboolean
read_escape (WeftJsonCursor *self, GError **error)
{
  static const gchar letters[] = "\"\\/bfnrt";
  static const gchar meanings[] = "\"\\/\b\f\n\r\t";
  const gchar *letter;

  if (self->end - self->at < 2)
    return weft_json_cursor_refuse (self, "an escape", error);
  if (self->at[1] == 'u')
    return read_unicode_escape (self, error);
  letter = memchr (letters, self->at[1], sizeof letters - 1);
  if (letter == NULL)
    return weft_json_cursor_refuse (self, "one of the escapes \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\u", error);
  g_string_append_c (self->unescaped, meanings[letter - letters]);
  self->at += 2;
  return TRUE;
}

/* @expected says what the text is, for a message: "a tensor name". */
gboolean
weft_json_cursor_read_text (WeftJsonCursor *self, WeftJsonText *text, const gchar *expected, GError **error)
{
  const gchar *run;
  gsize position;

  if (!weft_json_cursor_expect (self, '"', expected, error))
    return FALSE;
  run = self->at;
  position = (gsize) (run - 1 - self->start);
  skip_plain (self);
  if (self->at < self->end && *self->at == '"')
    {
      *text = (WeftJsonText){ run, (gsize) (self->at - run), position };
      self->at++;
      return TRUE;
    }
  g_string_truncate (self->unescaped, 0);
  while (TRUE)
    {
      g_string_append_len (self->unescaped, run, self->at - run);
      if (self->at < self->end && *self->at == '"')
        break;
      if (self->at == self->end || *self->at != '\\')
        return weft_json_cursor_refuse (self, "the end of a text (control characters must be escaped)",
                                        error);
      if (!read_escape (self, error))
        return FALSE;
      run = self->at;
      skip_plain (self);
    }
  self->at++;
  *text = (WeftJsonText){ self->unescaped->str, self->unescaped->len, position };
  return TRUE;
}

/* Digits only: no sign (not even -0), no fraction, no exponent, no leading zero, below 2^64. */
gboolean
weft_json_cursor_read_u64 (WeftJsonCursor *self, guint64 *number, GError **error)
{
  const gchar *at;
  guint64 value = 0;
  gboolean is_valid = TRUE;

  weft_json_cursor_skip_space (self);
  for (at = self->at; at < self->end && *at >= '0' && *at <= '9'; at++)
    is_valid = is_valid && !__builtin_mul_overflow (value, 10, &value)
               && !__builtin_add_overflow (value, (guint64) (*at - '0'), &value);
  if (!is_valid || at == self->at || (*self->at == '0' && at - self->at > 1)
      || (at < self->end && (*at == '.' || *at == 'e' || *at == 'E')))
    return weft_json_cursor_refuse (self, "an unsigned 64-bit integer", error);
  self->at = at;
  *number = value;
  return TRUE;
}

static gboolean
skip_digits (WeftJsonCursor *self)
{
  const gchar *first = self->at;

  while (self->at < self->end && g_ascii_isdigit (*self->at))
    self->at++;
  return self->at > first;
}

static gboolean
accept_here (WeftJsonCursor *self, const gchar *tokens)
{
  if (self->at == self->end || *self->at == '\0' || strchr (tokens, *self->at) == NULL)
    return FALSE;
  self->at++;
  return TRUE;
}

static gboolean
skip_number (WeftJsonCursor *self, GError **error)
{
  const gchar *first = self->at;
  gboolean is_valid;

  accept_here (self, "-");
  is_valid = accept_here (self, "0") || skip_digits (self);
  if (is_valid && accept_here (self, "."))
    is_valid = skip_digits (self);
  if (is_valid && accept_here (self, "eE"))
    {
      accept_here (self, "+-");
      is_valid = skip_digits (self);
    }
  if (is_valid)
    return TRUE;
  self->at = first;
  return weft_json_cursor_refuse (self, "a JSON value", error);
}

gboolean
weft_json_cursor_next_element (WeftJsonCursor *self, gboolean *is_first, gboolean *is_done, GError **error)
{
  *is_done = weft_json_cursor_accept (self, ']');
  if (*is_done)
    return TRUE;
  if (!*is_first && !weft_json_cursor_expect (self, ',', "',' or ']'", error))
    return FALSE;
  *is_first = FALSE;
  return TRUE;
}

gboolean
weft_json_cursor_next_member (WeftJsonCursor *self, gboolean *is_first, gboolean *is_done, WeftJsonText *name,
                              GError **error)
{
  *is_done = weft_json_cursor_accept (self, '}');
  if (*is_done)
    return TRUE;
  if (!*is_first && !weft_json_cursor_expect (self, ',', "',' or '}'", error))
    return FALSE;
  *is_first = FALSE;
  return weft_json_cursor_read_text (self, name, "a name in quotes", error)
         && weft_json_cursor_expect (self, ':', "':'", error);
}

static gboolean
skip_at_level (WeftJsonCursor *self, guint level, GError **error)
{
  gboolean is_first = TRUE, is_done = FALSE;
  gboolean is_object;
  WeftJsonText text;

  weft_json_cursor_skip_space (self);
  if (self->at < self->end && *self->at == '"')
    return weft_json_cursor_read_text (self, &text, "a text", error);
  if (accept_word (self, "null") || accept_word (self, "true") || accept_word (self, "false"))
    return TRUE;
  is_object = self->at < self->end && *self->at == '{';
  if (!is_object && !(self->at < self->end && *self->at == '['))
    return skip_number (self, error);
  if (level == MAX_LEVELS)
    return weft_json_cursor_refuse (self, "at most 127 levels of JSON", error);
  for (self->at++; TRUE;)
    {
      if (!(is_object ? weft_json_cursor_next_member (self, &is_first, &is_done, &text, error)
                      : weft_json_cursor_next_element (self, &is_first, &is_done, error)))
        return FALSE;
      if (is_done)
        return TRUE;
      if (!skip_at_level (self, level + 1, error))
        return FALSE;
    }
}

/* Skips a value that stands as a member of a member of the document. */
gboolean
weft_json_cursor_skip_value (WeftJsonCursor *self, GError **error)
{
  return skip_at_level (self, 2, error);
}
