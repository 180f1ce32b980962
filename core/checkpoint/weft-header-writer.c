/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/weft-header-writer-private.h"

#include <string.h>

#include "base/weft-json.h"
#include "checkpoint/weft-header-scanner-private.h"

/* An entry apart from its name and its dims: quotes, field names, the longest dtype, two offsets of 20 digits. */
#define MAX_ENTRY_BYTES 128
/* A dim of 20 digits and a comma. */
#define MAX_DIM_BYTES 21
/* A control character becomes \u00XX. */
#define MAX_ESCAPED_BYTES 6

gint
weft_header_writer_compare (WeftDtype a_dtype, const gchar *a_name, WeftDtype b_dtype, const gchar *b_name)
{
  if (a_dtype != b_dtype)
    return a_dtype > b_dtype ? -1 : 1;
  /* UTF-8 compares by bytes as it does by code points. */
  return strcmp (a_name, b_name);
}

static void
append_number (GString *json, guint64 number)
{
  gchar digits[20];
  gsize at = sizeof digits;

  do
    digits[--at] = (gchar) ('0' + number % 10);
  while ((number /= 10) != 0);
  g_string_append_len (json, digits + at, (gssize) (sizeof digits - at));
}

static gint
compare_keys (gconstpointer a, gconstpointer b)
{
  return strcmp (a, b);
}

GString *
weft_header_writer_begin (GHashTable *metadata)
{
  GString *json = g_string_new ("{");

  if (metadata != NULL)
    {
      g_autoptr (GList) keys = g_list_sort (g_hash_table_get_keys (metadata), compare_keys);

      g_string_append (json, "\"__metadata__\":{");
      for (GList *key = keys; key != NULL; key = key->next)
        {
          weft_json_append_text (json, key->data, FALSE);
          g_string_append_c (json, ':');
          weft_json_append_text (json, g_hash_table_lookup (metadata, key->data), FALSE);
          if (key->next != NULL)
            g_string_append_c (json, ',');
        }
      g_string_append_c (json, '}');
    }
  return json;
}

void
weft_header_writer_add (GString *json, const gchar *name, WeftDtype dtype, const WeftShape *shape,
                        guint64 begin, guint64 end)
{
  if (json->len > 1)
    g_string_append_c (json, ',');
  weft_json_append_text (json, name, FALSE);
  g_string_append (json, ":{\"dtype\":\"");
  g_string_append (json, weft_dtype_get_name (dtype));
  g_string_append (json, "\",\"shape\":[");
  for (guint i = 0; i < shape->rank; i++)
    {
      if (i > 0)
        g_string_append_c (json, ',');
      append_number (json, (guint64) shape->dims[i]);
    }
  g_string_append (json, "],\"data_offsets\":[");
  append_number (json, begin);
  g_string_append_c (json, ',');
  append_number (json, end);
  g_string_append (json, "]}");
}

gsize
weft_header_writer_get_max_bytes (const gchar *name, const WeftShape *shape)
{
  return strlen (name) * MAX_ESCAPED_BYTES + shape->rank * MAX_DIM_BYTES + MAX_ENTRY_BYTES;
}

GBytes *
weft_header_writer_finish (GString *json, gint page_offset)
{
  guint modulus = page_offset < 0 ? WEFT_HEADER_ALIGNMENT : WEFT_HEADER_PAGE_BYTES;

  g_string_append_c (json, '}');
  while ((WEFT_HEADER_LENGTH_BYTES + json->len) % modulus != (guint) MAX (0, page_offset))
    g_string_append_c (json, ' ');
  return g_string_free_to_bytes (json);
}
