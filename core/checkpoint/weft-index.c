/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/weft-index-private.h"

#include <string.h>

#include "base/weft-json.h"
#include "checkpoint/weft-json-cursor-private.h"

void
weft_index_free (WeftIndex *self)
{
  g_bytes_unref (self->text);
  g_clear_pointer (&self->metadata, json_node_unref);
  g_ptr_array_unref (self->file_names);
  g_array_unref (self->entries);
  g_string_chunk_free (self->names);
  g_free (self);
}

void
weft_index_forget_entries (WeftIndex *self)
{
  g_array_unref (self->entries);
  self->entries = g_array_new (FALSE, FALSE, sizeof (WeftIndexEntry));
  g_string_chunk_clear (self->names);
}

/* A shard stands beside its index: anything else is a trap or a mistake. */
static gboolean
is_plain_file_name (const WeftJsonText *text)
{
  return text->n_bytes > 0 && memchr (text->bytes, '/', text->n_bytes) == NULL
         && !weft_json_text_equal (text, ".") && !weft_json_text_equal (text, "..");
}

/* The position of a file name, in order of appearance. Neighbours mostly share their file, so the last one is tried
 * first. */
static guint
intern_file_name (WeftIndex *self, GHashTable *positions, const WeftJsonText *text)
{
  g_autofree gchar *name = NULL;
  gpointer position;

  if (self->entries->len > 0)
    {
      guint last = g_array_index (self->entries, WeftIndexEntry, self->entries->len - 1).file;

      if (weft_json_text_equal (text, g_ptr_array_index (self->file_names, last)))
        return last;
    }
  name = g_strndup (text->bytes, text->n_bytes);
  if (g_hash_table_lookup_extended (positions, name, NULL, &position))
    return GPOINTER_TO_UINT (position);
  g_hash_table_insert (positions, name, GUINT_TO_POINTER (self->file_names->len));
  g_ptr_array_add (self->file_names, g_steal_pointer (&name));
  return self->file_names->len - 1;
}

static gboolean
read_weight_map (WeftIndex *self, WeftJsonCursor *cursor, GError **error)
{
  g_autoptr (GHashTable) positions = g_hash_table_new (g_str_hash, g_str_equal);
  gboolean is_first = TRUE, is_done = FALSE;

  if (!weft_json_cursor_expect (cursor, '{', "an object as weight_map", error))
    return FALSE;
  while (TRUE)
    {
      WeftIndexEntry entry;
      WeftJsonText text;

      if (!weft_json_cursor_next_member (cursor, &is_first, &is_done, &text, error))
        return FALSE;
      if (is_done)
        return TRUE;
      entry.name = g_string_chunk_insert_len (self->names, text.bytes, (gssize) text.n_bytes);
      cursor->subject = entry.name;
      if (!weft_json_cursor_read_text (cursor, &text, "a file name in quotes", error))
        return FALSE;
      if (!is_plain_file_name (&text))
        {
          cursor->at = cursor->start + text.position;
          return weft_json_cursor_refuse (cursor, "the plain name of a file beside the index", error);
        }
      entry.file = intern_file_name (self, positions, &text);
      g_array_append_val (self->entries, entry);
      cursor->subject = NULL;
    }
}

static gboolean
read_metadata (WeftIndex *self, WeftJsonCursor *cursor, GError **error)
{
  const gchar *start;

  weft_json_cursor_skip_space (cursor);
  start = cursor->at;
  if (start == cursor->end || *start != '{')
    return weft_json_cursor_refuse (cursor, "an object as metadata", error);
  if (!weft_json_cursor_skip_value (cursor, error))
    return FALSE;
  self->metadata = weft_json_parse (start, cursor->at - start, cursor->where, error);
  return self->metadata != NULL;
}

static gboolean
read_document (WeftIndex *self, WeftJsonCursor *cursor, GError **error)
{
  gboolean is_first = TRUE, is_done = FALSE, has_weight_map = FALSE;

  if (!weft_json_cursor_expect (cursor, '{', "a JSON object", error))
    return FALSE;
  while (TRUE)
    {
      WeftJsonText name;
      gboolean is_valid;

      if (!weft_json_cursor_next_member (cursor, &is_first, &is_done, &name, error))
        return FALSE;
      if (is_done)
        break;
      if (weft_json_text_equal (&name, "weight_map") && !has_weight_map)
        is_valid = has_weight_map = read_weight_map (self, cursor, error);
      else if (weft_json_text_equal (&name, "metadata") && self->metadata == NULL)
        is_valid = read_metadata (self, cursor, error);
      else if (weft_json_text_equal (&name, "weight_map") || weft_json_text_equal (&name, "metadata"))
        return weft_json_cursor_refuse (cursor, "weight_map and metadata once, here is a second one", error);
      else
        is_valid = weft_json_cursor_skip_value (cursor, error);
      if (!is_valid)
        return FALSE;
    }
  if (!has_weight_map || self->metadata == NULL)
    return weft_json_cursor_refuse (
        cursor, has_weight_map ? "a member metadata (it may be {})" : "a member weight_map", error);
  return weft_json_cursor_expect_end (cursor, error);
}

static gint
compare_texts (gconstpointer a, gconstpointer b)
{
  return strcmp (*(const gchar *const *) a, *(const gchar *const *) b);
}

/* Sorts the file names and lets the entries point to their new places. */
static void
sort_file_names (WeftIndex *self)
{
  g_autoptr (GHashTable) positions = g_hash_table_new (g_str_hash, g_str_equal);
  g_autofree gchar **old_names =
      g_memdup2 (self->file_names->pdata, self->file_names->len * sizeof (gchar *));
  g_autofree guint *moved_to = g_new (guint, MAX (self->file_names->len, 1));

  g_ptr_array_sort (self->file_names, compare_texts);
  for (guint i = 0; i < self->file_names->len; i++)
    g_hash_table_insert (positions, g_ptr_array_index (self->file_names, i), GUINT_TO_POINTER (i));
  for (guint i = 0; i < self->file_names->len; i++)
    moved_to[i] = GPOINTER_TO_UINT (g_hash_table_lookup (positions, old_names[i]));
  for (guint i = 0; i < self->entries->len; i++)
    {
      WeftIndexEntry *entry = &g_array_index (self->entries, WeftIndexEntry, i);

      entry->file = moved_to[entry->file];
    }
}

static GBytes *
read_text (const gchar *path, GError **error)
{
  g_autoptr (GError) local_error = NULL;
  gchar *text;
  gsize n_bytes;

  if (g_file_get_contents (path, &text, &n_bytes, &local_error))
    return g_bytes_new_take (text, n_bytes);
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_IO, "%s: cannot be read: %s", path, local_error->message);
  return NULL;
}

WeftIndex *
weft_index_load (const gchar *path, GError **error)
{
  g_auto (WeftJsonCursor) cursor = { 0 };
  g_autoptr (WeftIndex) self = NULL;
  g_autoptr (GBytes) text = read_text (path, error);

  if (text == NULL)
    return NULL;
  self = g_new0 (WeftIndex, 1);
  self->file_names = g_ptr_array_new_with_free_func (g_free);
  self->entries = g_array_new (FALSE, FALSE, sizeof (WeftIndexEntry));
  self->names = g_string_chunk_new (64 * 1024);
  self->text = g_steal_pointer (&text);
  if (!weft_json_cursor_init (&cursor, g_bytes_get_data (self->text, NULL), g_bytes_get_size (self->text), 0,
                              path, error)
      || !read_document (self, &cursor, error))
    return NULL;
  if (self->entries->len == 0)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT,
                   "%s: expected at least one tensor in weight_map, found none", path);
      return NULL;
    }
  sort_file_names (self);
  return g_steal_pointer (&self);
}
