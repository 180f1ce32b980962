/* SPDX-License-Identifier: Apache-2.0 */
/* Nearly all patterns of mappings are text with a few `.`, `.*`, `(\d+)` or `(.+)` in it. They are matched here, by
 * a list of atoms with backtracking over the repeated ones; every other pattern is left to GRegex. The meaning is
 * that of the regular expression, on keys of printable ASCII: there `.` is any byte, `\d` is 0 to 9, `\w` a letter, a
 * digit or `_`, and no line ends. */
#include "transform/weft-plain-matcher-private.h"

#include <string.h>

/* Stands for `.` in the text of an atom; no key that gets here holds it. */
#define ANY_BYTE '\001'

#define MAX_ATOMS 48

/* Backtracking is polynomial in the length of a key; what needs more steps than this is left to GRegex. */
#define MAX_STEPS 20000

typedef enum
{
  ATOM_TEXT,
  ATOM_REPEATED_ANY,
  ATOM_REPEATED_DIGIT,
  ATOM_DIGIT,
  ATOM_OPEN,
  ATOM_CLOSE,
  ATOM_NOT_AHEAD,
  ATOM_NO_WORD_AHEAD,
  ATOM_END,
} AtomKind;

typedef struct
{
  AtomKind kind;
  guint number; /* of a group, or the fewest repetitions */
  gsize length;
  gchar *text;
} Atom;

struct _WeftPlainMatcher
{
  GArray *atoms;
  gboolean is_anchored;
  guint n_captures;
  gchar *landmark; /* (nullable): text that stands at a fixed distance from the start of every match */
  gsize landmark_offset;
};

typedef struct
{
  const WeftPlainMatcher *matcher;
  const gchar *text;
  gsize length;
  guint n_steps;
  WeftPatternSpan *captures;
} Search;

static void
clear_atom (gpointer atom)
{
  g_free (((Atom *) atom)->text);
}

/* weft_plain_matcher_free: */
void
weft_plain_matcher_free (WeftPlainMatcher *self)
{
  g_array_unref (self->atoms);
  g_free (self->landmark);
  g_free (self);
}

static void
add_atom (WeftPlainMatcher *self, AtomKind kind, guint number)
{
  Atom atom = { .kind = kind, .number = number };

  g_array_append_val (self->atoms, atom);
}

static void
add_text (WeftPlainMatcher *self, AtomKind kind, const GString *text)
{
  Atom atom = { .kind = kind, .length = text->len, .text = g_strdup (text->str) };

  g_array_append_val (self->atoms, atom);
}

/* Reads characters that stand for exactly one byte each. Stops at anything else, and before a character that a
 * quantifier follows. */
static void
read_text (const gchar **cursor, GString *text)
{
  while (TRUE)
    {
      const gchar *c = *cursor;
      gsize width = 1;
      gchar byte = *c;

      if (c[0] == '\\' && g_ascii_ispunct (c[1]))
        {
          width = 2;
          byte = c[1];
        }
      else if (c[0] == '.')
        byte = ANY_BYTE;
      else if (!(g_ascii_isgraph (*c) || *c == ' ') || strchr ("^$*+?{}[]()|\\", *c) != NULL)
        return;
      if (c[width] != '\0' && strchr ("*+?{", c[width]) != NULL)
        return;
      g_string_append_c (text, byte);
      *cursor += width;
    }
}

static gboolean
read_prefix (const gchar **cursor, const gchar *prefix)
{
  if (!g_str_has_prefix (*cursor, prefix))
    return FALSE;
  *cursor += strlen (prefix);
  return TRUE;
}

/* `(?!text)` or `(?:(?!text))`. */
static gboolean
read_not_ahead (WeftPlainMatcher *self, const gchar **cursor)
{
  gboolean is_wrapped = g_str_has_prefix (*cursor, "(?:(?!");
  g_autoptr (GString) text = g_string_new (NULL);

  if (!read_prefix (cursor, is_wrapped ? "(?:(?!" : "(?!"))
    return FALSE;
  if (read_prefix (cursor, "\\w)"))
    {
      add_atom (self, ATOM_NO_WORD_AHEAD, 0);
      return !is_wrapped;
    }
  read_text (cursor, text);
  add_text (self, ATOM_NOT_AHEAD, text);
  return text->len > 0 && read_prefix (cursor, is_wrapped ? "))" : ")");
}

/* A quantifier after a quantifier (`.*?`, `\d++`) is another thing than the atom alone. */
static gboolean
read_repeat (WeftPlainMatcher *self, const gchar **cursor, const gchar *written, AtomKind kind, guint minimum)
{
  if (!read_prefix (cursor, written) || (**cursor != '\0' && strchr ("*+?{", **cursor) != NULL))
    return FALSE;
  add_atom (self, kind, minimum);
  return TRUE;
}

static gboolean
read_group_edge (WeftPlainMatcher *self, const gchar **cursor, guint *open_group)
{
  if (**cursor == '(' && (*cursor)[1] != '?' && *open_group == 0
      && self->n_captures + 1 < WEFT_PATTERN_N_CAPTURES)
    {
      *open_group = ++self->n_captures;
      add_atom (self, ATOM_OPEN, *open_group);
      *cursor += 1;
      return TRUE;
    }
  if (**cursor == ')' && *open_group != 0 && ((*cursor)[1] == '\0' || strchr ("*+?{", (*cursor)[1]) == NULL))
    {
      add_atom (self, ATOM_CLOSE, *open_group);
      *open_group = 0;
      *cursor += 1;
      return TRUE;
    }
  return FALSE;
}

static gboolean
read_atom (WeftPlainMatcher *self, const gchar **cursor, guint *open_group)
{
  g_autoptr (GString) text = g_string_new (NULL);
  const gchar *c = *cursor;

  read_text (cursor, text);
  if (text->len > 0)
    {
      add_text (self, ATOM_TEXT, text);
      return TRUE;
    }
  if (c[0] == '.')
    return c[1] == '*' ? read_repeat (self, cursor, ".*", ATOM_REPEATED_ANY, 0)
                       : read_repeat (self, cursor, ".+", ATOM_REPEATED_ANY, 1);
  if (g_str_has_prefix (c, "\\d*"))
    return read_repeat (self, cursor, "\\d*", ATOM_REPEATED_DIGIT, 0);
  if (g_str_has_prefix (c, "\\d+"))
    return read_repeat (self, cursor, "\\d+", ATOM_REPEATED_DIGIT, 1);
  if (g_str_has_prefix (c, "\\d"))
    return read_repeat (self, cursor, "\\d", ATOM_DIGIT, 0);
  if (c[0] == '(' && c[1] == '?')
    return read_not_ahead (self, cursor);
  if (c[0] == '$' && c[1] == '\0')
    return read_repeat (self, cursor, "$", ATOM_END, 0);
  return read_group_edge (self, cursor, open_group);
}

/* The first run of certain bytes in the text that every match starts with. */
static void
find_landmark (WeftPlainMatcher *self)
{
  const Atom *first = NULL;

  for (guint i = 0; i < self->atoms->len && (first == NULL || first->kind == ATOM_OPEN); i++)
    first = &g_array_index (self->atoms, Atom, i);
  if (first == NULL || first->kind != ATOM_TEXT)
    return;
  while (self->landmark_offset < first->length && first->text[self->landmark_offset] == ANY_BYTE)
    self->landmark_offset++;
  self->landmark = g_strdup (first->text + self->landmark_offset);
  *strchrnul (self->landmark, ANY_BYTE) = '\0';
  if (self->landmark[0] == '\0')
    g_clear_pointer (&self->landmark, g_free);
}

/* weft_plain_matcher_new: a matcher for the regular expression @pattern, or %NULL if it is not plain. */
WeftPlainMatcher *
weft_plain_matcher_new (const gchar *pattern)
{
  g_autoptr (WeftPlainMatcher) self = g_new0 (WeftPlainMatcher, 1);
  const gchar *cursor = pattern;
  guint open_group = 0;

  self->atoms = g_array_new (FALSE, FALSE, sizeof (Atom));
  g_array_set_clear_func (self->atoms, clear_atom);
  self->is_anchored = read_prefix (&cursor, "^");
  if (self->is_anchored && *cursor != '\0' && strchr ("*+?{", *cursor) != NULL)
    return NULL;
  while (*cursor != '\0')
    if (self->atoms->len == MAX_ATOMS || !read_atom (self, &cursor, &open_group))
      return NULL;
  find_landmark (self);
  return open_group == 0 ? g_steal_pointer (&self) : NULL;
}

/* weft_plain_matcher_get_n_captures: */
guint
weft_plain_matcher_get_n_captures (const WeftPlainMatcher *self)
{
  return self->n_captures;
}

static gboolean
has_text_at (const Search *search, const Atom *atom, gsize position)
{
  if (search->length - position < atom->length)
    return FALSE;
  for (gsize i = 0; i < atom->length; i++)
    if (atom->text[i] != search->text[position + i] && atom->text[i] != ANY_BYTE)
      return FALSE;
  return TRUE;
}

static gboolean
has_word_at (const Search *search, gsize position)
{
  return position < search->length
         && (g_ascii_isalnum (search->text[position]) || search->text[position] == '_');
}

/* Atoms of fixed width: whether one fits at *@position, which is moved past it. */
static gboolean
fits (Search *search, const Atom *atom, gsize *position)
{
  switch (atom->kind)
    {
    case ATOM_TEXT:
      if (!has_text_at (search, atom, *position))
        return FALSE;
      *position += atom->length;
      return TRUE;
    case ATOM_DIGIT:
      return *position < search->length && g_ascii_isdigit (search->text[(*position)++]);
    case ATOM_OPEN:
      search->captures[atom->number].start = (gssize) *position;
      return TRUE;
    case ATOM_CLOSE:
      search->captures[atom->number].end = (gssize) *position;
      return TRUE;
    case ATOM_NOT_AHEAD:
      return !has_text_at (search, atom, *position);
    case ATOM_NO_WORD_AHEAD:
      return !has_word_at (search, *position);
    case ATOM_END:
      return *position == search->length;
    default:
      return FALSE;
    }
}

/* Whether the atoms from @index on may match at @position, by the first byte of a text alone. */
static gboolean
may_match_at (const Search *search, guint index, gsize position)
{
  const GArray *atoms = search->matcher->atoms;
  const Atom *atom = index < atoms->len ? &g_array_index (atoms, Atom, index) : NULL;

  return atom == NULL || atom->kind != ATOM_TEXT || atom->text[0] == ANY_BYTE
         || (position < search->length && atom->text[0] == search->text[position]);
}

/* The last start in [first, last] from which the atoms from @index on may match, or -1. */
static gssize
find_last_start (const Search *search, guint index, gsize first, gssize last)
{
  const GArray *atoms = search->matcher->atoms;
  const Atom *atom = index < atoms->len ? &g_array_index (atoms, Atom, index) : NULL;
  const gchar *found;

  if (last < (gssize) first)
    return -1;
  if (atom == NULL || atom->kind != ATOM_TEXT || atom->text[0] == ANY_BYTE)
    return last;
  found = memrchr (search->text + first, atom->text[0], (gsize) last + 1 - first);
  return found != NULL ? found - search->text : -1;
}

static gssize
match_from (Search *search, guint index, gsize position)
{
  for (; index < search->matcher->atoms->len; index++)
    {
      const Atom *atom = &g_array_index (search->matcher->atoms, Atom, index);
      gsize furthest = position;

      if (++search->n_steps > MAX_STEPS)
        return -1;
      if (atom->kind != ATOM_REPEATED_ANY && atom->kind != ATOM_REPEATED_DIGIT)
        {
          if (!fits (search, atom, &position))
            return -1;
          continue;
        }
      if (atom->kind == ATOM_REPEATED_ANY)
        furthest = search->length;
      else
        while (furthest < search->length && g_ascii_isdigit (search->text[furthest]))
          furthest++;
      position += atom->number;
      for (gssize start = find_last_start (search, index + 1, position, (gssize) furthest); start >= 0;
           start = find_last_start (search, index + 1, position, start - 1))
        {
          gssize end = match_from (search, index + 1, (gsize) start);

          if (end >= 0)
            return end;
        }
      return -1;
    }
  return (gssize) position;
}

/* weft_plain_matcher_search: finds the leftmost match in @text, which is printable ASCII. @captures has room for
 * %WEFT_PATTERN_N_CAPTURES spans. */
WeftPlainResult
weft_plain_matcher_search (const WeftPlainMatcher *self, const gchar *text, gsize length,
                           WeftPatternSpan *captures)
{
  Search search = { .matcher = self, .text = text, .length = length, .captures = captures };
  gsize last = self->is_anchored ? 0 : length;

  for (gsize start = 0; start <= last; start++)
    {
      gssize end;

      if (self->landmark != NULL && !self->is_anchored)
        {
          const gchar *found = start + self->landmark_offset <= length
                                   ? strstr (text + start + self->landmark_offset, self->landmark)
                                   : NULL;

          if (found == NULL)
            return WEFT_PLAIN_RESULT_NO_MATCH;
          start = (gsize) (found - text) - self->landmark_offset;
        }
      end = may_match_at (&search, 0, start) ? match_from (&search, 0, start) : -1;
      if (search.n_steps > MAX_STEPS)
        return WEFT_PLAIN_RESULT_GIVEN_UP;
      if (end >= 0)
        {
          captures[0] = (WeftPatternSpan){ (gssize) start, end };
          return WEFT_PLAIN_RESULT_MATCH;
        }
    }
  return WEFT_PLAIN_RESULT_NO_MATCH;
}
