/* SPDX-License-Identifier: Apache-2.0 */
#include "pipeline/weft-report-row.h"

#include <string.h>

/* Up to this many numbers are written out. */
#define MAX_WRITTEN_NUMBERS 10
/* Longer numbers are text: no model counts that far. */
#define MAX_DIGITS 9

G_DEFINE_BOXED_TYPE (WeftReportRow, weft_report_row, weft_report_row_copy, weft_report_row_free)

/**
 * weft_report_row_copy:
 * @self: a row
 *
 * Returns: (transfer full): a copy
 * Since: 1.0
 */
WeftReportRow *
weft_report_row_copy (const WeftReportRow *self)
{
  WeftReportRow *copy = g_new0 (WeftReportRow, 1);

  copy->pattern = g_strdup (self->pattern);
  copy->detail = g_strdup (self->detail);
  copy->n_names = self->n_names;
  return copy;
}

/**
 * weft_report_row_free:
 * @self: (transfer full): a row
 *
 * Since: 1.0
 */
void
weft_report_row_free (WeftReportRow *self)
{
  g_free (self->pattern);
  g_free (self->detail);
  g_free (self);
}

/* Names of one shape: the shape, and for each of its stars the numbers that stood there. */
typedef struct
{
  GStrv parts;
  GPtrArray *numbers; /* GHashTable as set, one a star */
  const gchar *detail;
  guint n_names;
} Group;

static void
group_free (gpointer user_data)
{
  Group *group = user_data;

  g_strfreev (group->parts);
  g_ptr_array_unref (group->numbers);
  g_free (group);
}

/* A number is a part of digits alone that follows a dot. */
static gboolean
is_number (GStrv parts, guint i)
{
  gsize length = strlen (parts[i]);

  return i > 0 && length > 0 && length <= MAX_DIGITS && strspn (parts[i], "0123456789") == length;
}

static Group *
group_new (GStrv parts)
{
  Group *group = g_new0 (Group, 1);

  group->parts = g_strdupv (parts);
  group->numbers = g_ptr_array_new_with_free_func ((GDestroyNotify) g_hash_table_unref);
  for (guint i = 0; parts[i] != NULL; i++)
    if (is_number (parts, i))
      g_ptr_array_add (group->numbers, g_hash_table_new (NULL, NULL));
  return group;
}

static gchar *
make_shape (GStrv parts)
{
  g_autoptr (GString) shape = g_string_new (NULL);

  for (guint i = 0; parts[i] != NULL; i++)
    g_string_append_printf (shape, "%s%s", i > 0 ? "." : "", is_number (parts, i) ? "*" : parts[i]);
  return g_string_free (g_steal_pointer (&shape), FALSE);
}

static void
group_add (Group *group, GStrv parts, const gchar *detail)
{
  guint star = 0;

  for (guint i = 0; parts[i] != NULL; i++)
    if (is_number (parts, i))
      g_hash_table_add (group->numbers->pdata[star++],
                        GUINT_TO_POINTER ((guint) g_ascii_strtoull (parts[i], NULL, 10)));
  group->detail = detail;
  group->n_names++;
}

static gint
compare_numbers (gconstpointer a, gconstpointer b)
{
  guint number_a = GPOINTER_TO_UINT (*(gconstpointer const *) a);
  guint number_b = GPOINTER_TO_UINT (*(gconstpointer const *) b);

  return (number_a > number_b) - (number_a < number_b);
}

static void
append_numbers (GString *text, GHashTable *set)
{
  guint n;
  g_autofree gpointer *numbers = g_hash_table_get_keys_as_array (set, &n);

  qsort (numbers, n, sizeof *numbers, compare_numbers);
  if (n == 1)
    g_string_append_printf (text, "%u", GPOINTER_TO_UINT (numbers[0]));
  else if (n > MAX_WRITTEN_NUMBERS)
    g_string_append_printf (text, "{%u...%u}", GPOINTER_TO_UINT (numbers[0]),
                            GPOINTER_TO_UINT (numbers[n - 1]));
  else
    for (guint i = 0; i < n; i++)
      g_string_append_printf (text, "%s%u%s", i == 0 ? "{" : ", ", GPOINTER_TO_UINT (numbers[i]),
                              i == n - 1 ? "}" : "");
}

static WeftReportRow *
make_row (const Group *group)
{
  WeftReportRow *row = g_new0 (WeftReportRow, 1);
  GString *pattern = g_string_new (NULL);
  guint star = 0;

  for (guint i = 0; group->parts[i] != NULL; i++)
    {
      if (i > 0)
        g_string_append_c (pattern, '.');
      if (is_number (group->parts, i))
        append_numbers (pattern, group->numbers->pdata[star++]);
      else
        g_string_append (pattern, group->parts[i]);
    }
  row->pattern = g_string_free (pattern, FALSE);
  row->detail = g_strdup (group->detail);
  row->n_names = group->n_names;
  return row;
}

/**
 * weft_report_rows_new:
 * @names: (array zero-terminated=1): names of tensors
 * @details: (array zero-terminated=1) (nullable): what is said of each; empty for nothing
 *
 * Merges names that differ by numbers alone. A star stands for each part of digits that follows a dot; one number is
 * written as it is, up to ten as `{0, 1, 3}`, more as `{0...255}`. A row has the detail of its last name.
 *
 * Returns: (transfer container) (element-type WeftReportRow): the rows, in the order of their first names
 * Since: 1.0
 */
GPtrArray *
weft_report_rows_new (const gchar *const *names, const gchar *const *details)
{
  g_autoptr (GPtrArray) groups = g_ptr_array_new_with_free_func (group_free);
  g_autoptr (GHashTable) by_shape = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  GPtrArray *rows = g_ptr_array_new_with_free_func ((GDestroyNotify) weft_report_row_free);

  for (guint i = 0; names[i] != NULL; i++)
    {
      g_auto (GStrv) parts = g_strsplit (names[i], ".", -1);
      g_autofree gchar *shape = make_shape (parts);
      Group *group = g_hash_table_lookup (by_shape, shape);

      if (group == NULL)
        {
          group = group_new (parts);
          g_ptr_array_add (groups, group);
          g_hash_table_insert (by_shape, g_steal_pointer (&shape), group);
        }
      group_add (group, parts, details != NULL && *details[i] != '\0' ? details[i] : NULL);
    }
  for (guint i = 0; i < groups->len; i++)
    g_ptr_array_add (rows, make_row (groups->pdata[i]));
  return rows;
}
