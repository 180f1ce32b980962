/* SPDX-License-Identifier: Apache-2.0 */
#include "base/weft-text.h"

#include <string.h>
#include <xxhash.h>

/* One part of a name between dots, cut into the keys that natural order compares: a part of digits only is a
 * number and sorts before text; other parts compare by the text without its trailing digits, then by that number,
 * the bare text first. */
typedef struct
{
  const gchar *text;
  gsize text_length;
  const gchar *digits;
  gsize digits_length;
} NamePart;

static NamePart
cut_part (const gchar *start, gsize length)
{
  NamePart part = { .text = start, .text_length = length };

  while (part.text_length > 0 && g_ascii_isdigit (start[part.text_length - 1]))
    part.text_length--;
  part.digits = start + part.text_length;
  part.digits_length = length - part.text_length;
  return part;
}

/* Numbers of any length: leading zeros do not count. */
static gint
compare_digits (const gchar *a, gsize a_length, const gchar *b, gsize b_length)
{
  while (a_length > 0 && *a == '0')
    a++, a_length--;
  while (b_length > 0 && *b == '0')
    b++, b_length--;
  if (a_length != b_length)
    return a_length < b_length ? -1 : 1;
  return memcmp (a, b, a_length);
}

static gint
compare_parts (const NamePart *a, const NamePart *b)
{
  gboolean a_is_number = a->text_length == 0 && a->digits_length > 0;
  gboolean b_is_number = b->text_length == 0 && b->digits_length > 0;
  gint order;

  if (a_is_number != b_is_number)
    return a_is_number ? -1 : 1;
  /* UTF-8 compares by bytes as it does by code points. */
  order = memcmp (a->text, b->text, MIN (a->text_length, b->text_length));
  if (order == 0 && a->text_length != b->text_length)
    order = a->text_length < b->text_length ? -1 : 1;
  if (order != 0)
    return order;
  if ((a->digits_length == 0) != (b->digits_length == 0))
    return a->digits_length == 0 ? -1 : 1;
  return compare_digits (a->digits, a->digits_length, b->digits, b->digits_length);
}

/**
 * weft_text_compare_natural:
 * @a: a tensor name
 * @b: another
 *
 * Compares part by part between dots. A part of digits only is an integer and sorts before any text; other parts
 * sort by (text without trailing digits, trailing number), the bare text before its numbered forms. `a.007` and
 * `a.7` are equal, so sort with a stable sort.
 *
 * Returns: less than, equal to or greater than 0
 * Since: 1.0
 */
gint
weft_text_compare_natural (const gchar *a, const gchar *b)
{
  gsize n_equal = 0;

  /* Names of one layer share most of their parts; those need no look. */
  while (a[n_equal] == b[n_equal] && a[n_equal] != '\0')
    n_equal++;
  if (a[n_equal] == b[n_equal])
    return 0;
  while (n_equal > 0 && a[n_equal - 1] != '.')
    n_equal--;
  a += n_equal;
  b += n_equal;
  while (TRUE)
    {
      gsize a_length = (gsize) (strchrnul (a, '.') - a);
      gsize b_length = (gsize) (strchrnul (b, '.') - b);

      if (a_length != b_length || memcmp (a, b, a_length) != 0)
        {
          NamePart a_part = cut_part (a, a_length);
          NamePart b_part = cut_part (b, b_length);
          gint order = compare_parts (&a_part, &b_part);

          if (order != 0)
            return order;
        }
      if (a[a_length] == '\0' || b[b_length] == '\0')
        return (a[a_length] != '\0') - (b[b_length] != '\0');
      a += a_length + 1;
      b += b_length + 1;
    }
}

/* A number of any length: how many digits it has without leading zeros, then these. */
static gchar *
write_number (gchar *end, const gchar *digits, gsize length)
{
  guint32 n_digits;

  while (length > 0 && *digits == '0')
    digits++, length--;
  n_digits = GUINT32_TO_BE ((guint32) length);
  end = mempcpy (end, &n_digits, sizeof n_digits);
  return mempcpy (end, digits, length);
}

/* Numbers before texts; a text ends before any longer one, and stands bare before it is numbered. */
static gchar *
write_part (gchar *end, const NamePart *part)
{
  gboolean is_number = part->text_length == 0 && part->digits_length > 0;

  *end++ = is_number ? 0 : 1;
  if (!is_number)
    {
      end = mempcpy (end, part->text, part->text_length);
      *end++ = 0;
      *end++ = part->digits_length > 0;
    }
  return part->digits_length > 0 ? write_number (end, part->digits, part->digits_length) : end;
}

/**
 * weft_text_append_natural_key: (skip)
 * @keys: where to append
 * @name: a tensor name
 *
 * Appends bytes that compare, a beginning of others before these, as the names do by weft_text_compare_natural(): a name
 * that is sorted is cut once, not once a comparison.
 *
 * Since: 1.0
 */
void
weft_text_append_natural_key (GByteArray *keys, const gchar *name)
{
  /* A part of one digit takes most: 1 + 4 + 1 bytes. */
  const gsize max_part_overhead = 7;
  gsize n_parts = 1;
  guint start = keys->len;
  gchar *end;

  for (const gchar *dot = name; (dot = strchr (dot, '.')) != NULL; dot++)
    n_parts++;
  g_byte_array_set_size (keys, start + (guint) (strlen (name) + n_parts * max_part_overhead));
  end = (gchar *) keys->data + start;
  while (TRUE)
    {
      gsize length = (gsize) (strchrnul (name, '.') - name);
      NamePart part = cut_part (name, length);

      end = write_part (end, &part);
      if (name[length] == '\0')
        break;
      name += length + 1;
    }
  g_byte_array_set_size (keys, (guint) (end - (gchar *) keys->data));
}

/**
 * weft_text_hash: (skip)
 * @text: a text
 *
 * Takes eight bytes at a time where g_str_hash() takes one; names are long and much alike.
 *
 * Returns: a hash of @text for a #GHashTable
 * Since: 1.0
 */
guint
weft_text_hash (gconstpointer text)
{
  return (guint) XXH3_64bits (text, strlen (text));
}

/**
 * weft_text_number_pattern: (skip)
 * @pattern: a text
 * @number: a number, such as that of an expert
 *
 * Called for each tensor that an op takes apart, where printf() would be most of the time.
 *
 * Returns: (transfer full): @pattern with @number in place of every `*`
 * Since: 1.0
 */
gchar *
weft_text_number_pattern (const gchar *pattern, guint64 number)
{
  gchar digits[20];
  gsize n_digits = 0, n_stars = 0;
  gchar *text, *end;
  const gchar *star;

  do
    digits[sizeof digits - ++n_digits] = (gchar) ('0' + number % 10);
  while ((number /= 10) > 0);
  for (star = pattern; (star = strchr (star, '*')) != NULL; star++)
    n_stars++;
  text = end = g_malloc (strlen (pattern) + n_stars * n_digits + 1);
  for (; (star = strchr (pattern, '*')) != NULL; pattern = star + 1)
    {
      end = mempcpy (end, pattern, (gsize) (star - pattern));
      end = mempcpy (end, digits + sizeof digits - n_digits, n_digits);
    }
  strcpy (end, pattern);
  return text;
}

/**
 * weft_text_parse_size:
 * @text: a size: a whole number, with an optional unit: B, KB, MB, GB, TB (powers of 1000) or KiB ... TiB
 * @n_bytes: (out): the size in bytes
 * @error: return location
 *
 * Returns: whether @text is a size
 * Errors: %WEFT_ERROR_ARGUMENT if it is not
 * Since: 1.0
 */
gboolean
weft_text_parse_size (const gchar *text, guint64 *n_bytes, GError **error)
{
  static const struct
  {
    const gchar *unit;
    guint64 factor;
  } units[] = {
    { "", 1 },
    { "B", 1 },
    { "KB", 1000 },
    { "MB", 1000 * 1000 },
    { "GB", 1000 * 1000 * 1000 },
    { "TB", G_GUINT64_CONSTANT (1000000000000) },
    { "KiB", 1024 },
    { "MiB", 1024 * 1024 },
    { "GiB", 1024 * 1024 * 1024 },
    { "TiB", G_GUINT64_CONSTANT (1) << 40 },
  };
  gchar *end = NULL;
  guint64 number;

  if (g_ascii_isdigit (text[0]))
    {
      number = g_ascii_strtoull (text, &end, 10);
      while (*end == ' ')
        end++;
      for (guint i = 0; i < G_N_ELEMENTS (units); i++)
        if (g_ascii_strcasecmp (end, units[i].unit) == 0
            && !__builtin_mul_overflow (number, units[i].factor, n_bytes))
          return TRUE;
    }
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT,
               "'%s' is no size; write a number and a unit, such as 5GB or 512MiB", text);
  return FALSE;
}

/**
 * weft_text_format_size:
 * @n_bytes: a size in bytes
 *
 * Returns: (transfer full): the size for a person, such as `1.4 GiB`
 * Since: 1.0
 */
gchar *
weft_text_format_size (guint64 n_bytes)
{
  g_autofree gchar *text = g_format_size_full (n_bytes, G_FORMAT_SIZE_IEC_UNITS);
  g_autoptr (GString) plain = g_string_new (text);

  /* GLib puts a no-break space before the unit, which no one can search for. */
  g_string_replace (plain, "\302\240", " ", 0);
  return g_strdup (plain->str);
}
