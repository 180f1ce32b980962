/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/weft-header-scanner-private.h"

#include <string.h>
#include <xxhash.h>

#include "base/weft-shape.h"
#include "checkpoint/weft-json-cursor-private.h"

/* Names seen so far: an open hash table of positions in the entries. The hash is seeded anew for each header, so that
 * nobody can write a header whose names collide. */
typedef struct
{
  guint32 hash;
  guint32 entry_plus_1;
} NameSlot;

typedef struct
{
  NameSlot *slots;
  gsize n_slots;
  guint64 seed;
} NameIndex;

typedef struct
{
  WeftJsonCursor cursor;
  NameIndex names;
  WeftHeader *header;
  WeftDtype dtype;
  gboolean has_metadata;
} Scan;

typedef enum
{
  FIELD_UNKNOWN = 0,
  FIELD_DTYPE = 1 << 0,
  FIELD_SHAPE = 1 << 1,
  FIELD_DATA_OFFSETS = 1 << 2,
  FIELD_ALL = FIELD_DTYPE | FIELD_SHAPE | FIELD_DATA_OFFSETS,
} Field;

void
weft_header_free (WeftHeader *self)
{
  g_array_unref (self->entries);
  g_array_unref (self->dims);
  g_clear_pointer (&self->metadata, g_hash_table_unref);
  g_string_chunk_free (self->texts);
  g_free (self);
}

static WeftHeader *
header_new (void)
{
  WeftHeader *self = g_new0 (WeftHeader, 1);

  self->entries = g_array_new (FALSE, FALSE, sizeof (WeftHeaderEntry));
  self->dims = g_array_sized_new (FALSE, FALSE, sizeof (guint64), 64);
  self->texts = g_string_chunk_new (64 * 1024);
  return self;
}

/* Checks 1 to 3: a length field is there, it is within the limit, and the JSON lies within the file. @bytes holds
 * MIN (8, @file_size) bytes. */
gboolean
weft_header_read_length (const guint8 *bytes, guint64 file_size, const gchar *where, gsize *n_bytes,
                         GError **error)
{
  guint64 length = 0;

  if (file_size < WEFT_HEADER_LENGTH_BYTES)
    {
      g_set_error (
          error, WEFT_ERROR, WEFT_ERROR_FORMAT,
          "%s: byte 0: expected 8 bytes that give the length of the header, found a file of %" G_GUINT64_FORMAT
          " bytes; it is no safetensors file or was cut off",
          where, file_size);
      return FALSE;
    }
  memcpy (&length, bytes, sizeof length);
  length = GUINT64_FROM_LE (length);
  if (length > WEFT_HEADER_MAX_BYTES)
    {
      g_set_error (
          error, WEFT_ERROR, WEFT_ERROR_FORMAT,
          "%s: byte 0: expected a header of at most 100000000 bytes, found a length of %" G_GUINT64_FORMAT
          "; it is no safetensors file or is damaged",
          where, length);
      return FALSE;
    }
  if (length > file_size - WEFT_HEADER_LENGTH_BYTES)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT,
                   "%s: byte 0: expected a header of %" G_GUINT64_FORMAT
                   " bytes, found only %" G_GUINT64_FORMAT " bytes after its length; the file was cut off",
                   where, length, file_size - WEFT_HEADER_LENGTH_BYTES);
      return FALSE;
    }
  *n_bytes = (gsize) length;
  return TRUE;
}

static void
name_index_put (NameIndex *self, NameSlot slot)
{
  gsize at = slot.hash & (self->n_slots - 1);

  while (self->slots[at].entry_plus_1 != 0)
    at = (at + 1) & (self->n_slots - 1);
  self->slots[at] = slot;
}

static void
name_index_grow (NameIndex *self)
{
  NameIndex old = *self;

  self->n_slots = MAX (1024, 2 * old.n_slots);
  self->slots = g_new0 (NameSlot, self->n_slots);
  for (gsize i = 0; i < old.n_slots; i++)
    if (old.slots[i].entry_plus_1 != 0)
      name_index_put (self, old.slots[i]);
  g_free (old.slots);
}

/* Finds an earlier entry of this name; if there is none, notes that the entry to come has it. */
static const WeftHeaderEntry *
find_or_note_name (Scan *scan, const WeftJsonText *name)
{
  const WeftHeaderEntry *entries = &g_array_index (scan->header->entries, WeftHeaderEntry, 0);
  NameIndex *names = &scan->names;
  guint n_entries = scan->header->entries->len;
  guint32 hash = (guint32) XXH3_64bits_withSeed (name->bytes, name->n_bytes, names->seed);

  if (2 * (gsize) n_entries >= names->n_slots)
    name_index_grow (names);
  for (gsize at = hash & (names->n_slots - 1); names->slots[at].entry_plus_1 != 0;
       at = (at + 1) & (names->n_slots - 1))
    if (names->slots[at].hash == hash
        && weft_json_text_equal (name, entries[names->slots[at].entry_plus_1 - 1].name))
      return &entries[names->slots[at].entry_plus_1 - 1];
  name_index_put (names, (NameSlot){ hash, n_entries + 1 });
  return NULL;
}

static WeftDtype
dtype_from_text (const WeftJsonText *text)
{
  for (guint i = WEFT_DTYPE_BOOL; i < WEFT_N_DTYPES; i++)
    if (weft_json_text_equal (text, weft_dtype_get_name ((WeftDtype) i)))
      return (WeftDtype) i;
  return WEFT_DTYPE_INVALID;
}

static gboolean
scan_dtype (Scan *scan, WeftHeaderEntry *entry, GError **error)
{
  WeftJsonCursor *cursor = &scan->cursor;
  WeftJsonText text;

  if (!weft_json_cursor_read_text (cursor, &text, "a dtype in quotes", error))
    return FALSE;
  /* Tensors mostly have the dtype of the one before. */
  if (!weft_json_text_equal (&text, weft_dtype_get_name (scan->dtype)))
    scan->dtype = dtype_from_text (&text);
  entry->dtype = (guint8) scan->dtype;
  if (scan->dtype != WEFT_DTYPE_INVALID)
    return TRUE;
  cursor->at = cursor->start + text.position;
  return weft_json_cursor_refuse (cursor, "a dtype of the format, such as \"BF16\"", error);
}

static gboolean
scan_shape (Scan *scan, WeftHeaderEntry *entry, GError **error)
{
  WeftJsonCursor *cursor = &scan->cursor;
  gboolean is_first = TRUE, is_done = FALSE;

  if (!weft_json_cursor_expect (cursor, '[', "a shape in brackets", error))
    return FALSE;
  entry->dims_start = scan->header->dims->len;
  for (guint rank = 0; TRUE; rank++)
    {
      guint64 dim;

      if (!weft_json_cursor_next_element (cursor, &is_first, &is_done, error))
        return FALSE;
      if (is_done)
        {
          entry->rank = (guint8) rank;
          return TRUE;
        }
      if (rank == WEFT_MAX_RANK)
        {
          g_set_error (error, WEFT_ERROR, WEFT_ERROR_LIMIT,
                       "%s: byte %" G_GUINT64_FORMAT
                       ": tensor '%s': expected a shape of at most %d dims, found more",
                       cursor->where, weft_json_cursor_get_position (cursor), entry->name, WEFT_MAX_RANK);
          return FALSE;
        }
      if (!weft_json_cursor_read_u64 (cursor, &dim, error))
        return FALSE;
      g_array_append_val (scan->header->dims, dim);
    }
}

static gboolean
scan_data_offsets (WeftJsonCursor *cursor, WeftHeaderEntry *entry, GError **error)
{
  return weft_json_cursor_expect (cursor, '[', "data_offsets in brackets", error)
         && weft_json_cursor_read_u64 (cursor, &entry->begin, error)
         && weft_json_cursor_expect (cursor, ',', "',' and a second offset", error)
         && weft_json_cursor_read_u64 (cursor, &entry->end, error)
         && weft_json_cursor_expect (cursor, ']', "']' after two offsets", error);
}

static Field
field_from_name (const WeftJsonText *name)
{
  if (weft_json_text_equal (name, "dtype"))
    return FIELD_DTYPE;
  if (weft_json_text_equal (name, "shape"))
    return FIELD_SHAPE;
  if (weft_json_text_equal (name, "data_offsets"))
    return FIELD_DATA_OFFSETS;
  return FIELD_UNKNOWN;
}

static gboolean
scan_field (Scan *scan, Field field, WeftHeaderEntry *entry, GError **error)
{
  if (field == FIELD_DTYPE)
    return scan_dtype (scan, entry, error);
  if (field == FIELD_SHAPE)
    return scan_shape (scan, entry, error);
  if (field == FIELD_DATA_OFFSETS)
    return scan_data_offsets (&scan->cursor, entry, error);
  return weft_json_cursor_skip_value (&scan->cursor, error);
}

static gboolean
scan_entry_fields (Scan *scan, WeftHeaderEntry *entry, GError **error)
{
  WeftJsonCursor *cursor = &scan->cursor;
  gboolean is_first = TRUE, is_done = FALSE;
  guint seen = 0;

  if (!weft_json_cursor_expect (cursor, '{', "an object with dtype, shape and data_offsets", error))
    return FALSE;
  while (TRUE)
    {
      WeftJsonText name;
      Field field;

      if (!weft_json_cursor_next_member (cursor, &is_first, &is_done, &name, error))
        return FALSE;
      if (is_done)
        break;
      field = field_from_name (&name);
      if ((seen & field) != 0)
        return weft_json_cursor_refuse (cursor, "each field once, here is a second one", error);
      seen |= field;
      if (!scan_field (scan, field, entry, error))
        return FALSE;
    }
  if (seen == FIELD_ALL)
    return TRUE;
  cursor->at--;
  return weft_json_cursor_refuse (cursor,
                                  (seen & FIELD_DTYPE) == 0   ? "the field dtype"
                                  : (seen & FIELD_SHAPE) == 0 ? "the field shape"
                                                              : "the field data_offsets",
                                  error);
}

static gboolean
scan_entry (Scan *scan, const WeftJsonText *name, GError **error)
{
  WeftHeader *header = scan->header;
  WeftHeaderEntry entry = { .position = (guint32) name->position };
  const WeftHeaderEntry *earlier = find_or_note_name (scan, name);

  if (earlier != NULL)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT,
                   "%s: byte %" G_GUINT64_FORMAT
                   ": tensor '%s': expected each name once, found it at byte %" G_GUINT64_FORMAT " already",
                   scan->cursor.where, scan->cursor.base + entry.position, earlier->name,
                   scan->cursor.base + earlier->position);
      return FALSE;
    }
  entry.name = g_string_chunk_insert_len (header->texts, name->bytes, (gssize) name->n_bytes);
  scan->cursor.subject = entry.name;
  if (!scan_entry_fields (scan, &entry, error))
    return FALSE;
  scan->cursor.subject = NULL;
  g_array_append_val (header->entries, entry);
  return TRUE;
}

static gboolean
scan_metadata_members (WeftJsonCursor *cursor, GHashTable *metadata, GError **error)
{
  gboolean is_first = TRUE, is_done = FALSE;

  while (TRUE)
    {
      g_autofree gchar *key = NULL;
      WeftJsonText text;

      if (!weft_json_cursor_next_member (cursor, &is_first, &is_done, &text, error))
        return FALSE;
      if (is_done)
        return TRUE;
      key = g_strndup (text.bytes, text.n_bytes);
      if (g_hash_table_contains (metadata, key))
        return weft_json_cursor_refuse (cursor, "each key of __metadata__ once, here is a second one", error);
      if (!weft_json_cursor_read_text (cursor, &text, "a text as value in __metadata__", error))
        return FALSE;
      g_hash_table_insert (metadata, g_steal_pointer (&key), g_strndup (text.bytes, text.n_bytes));
    }
}

static gboolean
scan_metadata (Scan *scan, GError **error)
{
  if (scan->has_metadata)
    return weft_json_cursor_refuse (&scan->cursor, "__metadata__ once, here is a second one", error);
  scan->has_metadata = TRUE;
  if (weft_json_cursor_accept_null (&scan->cursor))
    return TRUE;
  scan->header->metadata = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  return weft_json_cursor_expect (&scan->cursor, '{', "an object of texts, or null, as __metadata__", error)
         && scan_metadata_members (&scan->cursor, scan->header->metadata, error);
}

/* Check 5: the grammar and the types. */
static gboolean
scan_document (Scan *scan, GError **error)
{
  WeftJsonCursor *cursor = &scan->cursor;
  gboolean is_first = TRUE, is_done = FALSE;

  if (!weft_json_cursor_expect (cursor, '{', "a JSON object", error))
    return FALSE;
  while (TRUE)
    {
      WeftJsonText name;

      if (!weft_json_cursor_next_member (cursor, &is_first, &is_done, &name, error))
        return FALSE;
      if (is_done)
        return weft_json_cursor_expect_end (cursor, error);
      if (!(weft_json_text_equal (&name, "__metadata__") ? scan_metadata (scan, error)
                                                         : scan_entry (scan, &name, error)))
        return FALSE;
    }
}

static gint
compare_offsets (gconstpointer a, gconstpointer b)
{
  const WeftHeaderEntry *x = a, *y = b;

  if (x->begin != y->begin)
    return x->begin < y->begin ? -1 : 1;
  if (x->end != y->end)
    return x->end < y->end ? -1 : 1;
  return x->position < y->position ? -1 : x->position > y->position;
}

static void
sort_by_offsets (WeftHeader *header)
{
  const WeftHeaderEntry *entries = &g_array_index (header->entries, WeftHeaderEntry, 0);

  for (guint i = 1; i < header->entries->len; i++)
    if (compare_offsets (&entries[i - 1], &entries[i]) > 0)
      {
        g_array_sort (header->entries, compare_offsets);
        return;
      }
}

static gchar *
describe_shape (const guint64 *dims, guint rank)
{
  g_autoptr (GString) text = g_string_new ("[");

  for (guint i = 0; i < rank; i++)
    g_string_append_printf (text, i == 0 ? "%" G_GUINT64_FORMAT : ",%" G_GUINT64_FORMAT, dims[i]);
  g_string_append_c (text, ']');
  return g_string_free (g_steal_pointer (&text), FALSE);
}

/* The number of bytes that dtype and shape give; NULL or the reason why there is none. Dims multiply from the left, so
 * that a zero ends the danger of overflow only for what follows it. */
static const gchar *
count_bytes (const WeftHeaderEntry *entry, const guint64 *dims, guint64 *n_bytes)
{
  guint64 n_elements = 1, n_bits;

  for (guint i = 0; i < entry->rank; i++)
    if (__builtin_mul_overflow (n_elements, dims[i], &n_elements))
      return "a shape with fewer than 2^64 bits";
  if (__builtin_mul_overflow (n_elements, (guint64) weft_dtype_get_bits ((WeftDtype) entry->dtype), &n_bits))
    return "a shape with fewer than 2^64 bits";
  if (n_bits % 8 != 0)
    return "a shape that fills whole bytes";
  *n_bytes = n_bits / 8;
  return NULL;
}

static gboolean
refuse_entry (const Scan *scan, const WeftHeaderEntry *entry, const gchar *expected, GError **error)
{
  const guint64 *dims = &g_array_index (scan->header->dims, guint64, 0) + entry->dims_start;
  g_autofree gchar *shape = describe_shape (dims, entry->rank);

  g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT,
               "%s: byte %" G_GUINT64_FORMAT
               ": tensor '%s': expected %s, found %s of shape %s at data_offsets [%" G_GUINT64_FORMAT
               ", %" G_GUINT64_FORMAT "]",
               scan->cursor.where, scan->cursor.base + entry->position, entry->name, expected,
               weft_dtype_get_name ((WeftDtype) entry->dtype), shape, entry->begin, entry->end);
  return FALSE;
}

/* Checks 6 to 9 of one tensor. */
static gboolean
check_entry (const Scan *scan, const WeftHeaderEntry *entry, guint64 previous_end, GError **error)
{
  const guint64 *dims = &g_array_index (scan->header->dims, guint64, 0) + entry->dims_start;
  const gchar *reason;
  guint64 n_bytes = 0;

  if (entry->begin != previous_end)
    {
      g_autofree gchar *expected = g_strdup_printf (
          "bytes that begin at %" G_GUINT64_FORMAT ", where the tensor before ends", previous_end);
      return refuse_entry (scan, entry, expected, error);
    }
  if (entry->end < entry->begin)
    return refuse_entry (scan, entry, "bytes that end after they begin", error);
  reason = count_bytes (entry, dims, &n_bytes);
  if (reason != NULL)
    return refuse_entry (scan, entry, reason, error);
  if (entry->end - entry->begin != n_bytes)
    {
      g_autofree gchar *expected =
          g_strdup_printf ("%" G_GUINT64_FORMAT " bytes, as dtype and shape give", n_bytes);
      return refuse_entry (scan, entry, expected, error);
    }
  return TRUE;
}

/* Checks 6 to 10, tensor by tensor in the order of their bytes. */
static gboolean
check_layout (const Scan *scan, guint64 data_size, GError **error)
{
  const GArray *entries = scan->header->entries;
  guint64 end = 0;

  for (guint i = 0; i < entries->len; i++)
    {
      const WeftHeaderEntry *entry = &g_array_index (entries, WeftHeaderEntry, i);

      if (!check_entry (scan, entry, end, error))
        return FALSE;
      end = entry->end;
    }
  if (data_size == WEFT_HEADER_ANY_SIZE || end == data_size)
    return TRUE;
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT,
               "%s: byte %" G_GUINT64_FORMAT ": expected %" G_GUINT64_FORMAT
               " bytes after the header, found %" G_GUINT64_FORMAT "; the file was %s",
               scan->cursor.where, scan->cursor.base + (guint64) (scan->cursor.end - scan->cursor.start), end,
               data_size, data_size < end ? "cut off" : "extended");
  return FALSE;
}

/* Checks 4 to 10 on the JSON of a header. @data_size is the number of bytes that follow it in the file. */
WeftHeader *
weft_header_scan (const gchar *json, gsize n_bytes, guint64 data_size, const gchar *where, GError **error)
{
  Scan scan = { .names.seed = ((guint64) g_random_int () << 32) | g_random_int () };
  g_autoptr (WeftHeader) header = header_new ();
  gboolean is_valid;

  scan.header = header;
  is_valid = weft_json_cursor_init (&scan.cursor, json, n_bytes, WEFT_HEADER_LENGTH_BYTES, where, error)
             && scan_document (&scan, error);
  if (is_valid)
    {
      sort_by_offsets (header);
      is_valid = check_layout (&scan, data_size, error);
    }
  weft_json_cursor_clear (&scan.cursor);
  g_free (scan.names.slots);
  return is_valid ? g_steal_pointer (&header) : NULL;
}
