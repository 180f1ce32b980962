/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/weft-gguf-reader-private.h"

#include <string.h>

#define WINDOW_BYTES (64 * 1024)
#define MAX_NAME_BYTES 65535
/* Arrays of arrays are allowed and unheard of. */
#define MAX_DEPTH 4
/* Names, and elements of arrays, of a file, which take more memory than bytes of it: many times those of any vocabulary. */
#define MAX_COUNT (4 * 1024 * 1024)

typedef enum
{
  VALUE_U8,
  VALUE_I8,
  VALUE_U16,
  VALUE_I16,
  VALUE_U32,
  VALUE_I32,
  VALUE_F32,
  VALUE_BOOL,
  VALUE_TEXT,
  VALUE_ARRAY,
  VALUE_U64,
  VALUE_I64,
  VALUE_F64,
  N_VALUE_TYPES,
} ValueType;

/* Bytes of a value, those of an element of the variant that holds it, and its type. Texts and arrays take at least their
 * lengths. */
static const struct
{
  guint n_bytes;
  guint n_stored;
  const gchar *variant;
} value_types[N_VALUE_TYPES] = {
  [VALUE_U8] = { 1, 1, "y" },     [VALUE_I8] = { 1, 2, "n" },   [VALUE_U16] = { 2, 2, "q" },
  [VALUE_I16] = { 2, 2, "n" },    [VALUE_U32] = { 4, 4, "u" },  [VALUE_I32] = { 4, 4, "i" },
  [VALUE_F32] = { 4, 8, "d" },    [VALUE_BOOL] = { 1, 1, "b" }, [VALUE_TEXT] = { 8, 0, "s" },
  [VALUE_ARRAY] = { 12, 0, "v" }, [VALUE_U64] = { 8, 8, "t" },  [VALUE_I64] = { 8, 8, "x" },
  [VALUE_F64] = { 8, 8, "d" },
};

void
weft_gguf_reader_init (WeftGgufReader *self, WeftFile *file)
{
  *self = (WeftGgufReader){ .file = file, .window = g_malloc (WINDOW_BYTES) };
}

void
weft_gguf_reader_clear (WeftGgufReader *self)
{
  g_clear_pointer (&self->window, g_free);
}

gboolean
weft_gguf_reader_fail (const WeftGgufReader *self, const gchar *format, GError **error, ...)
{
  g_autofree gchar *what = NULL;
  va_list arguments;

  va_start (arguments, error);
  what = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT, "%s: byte %" G_GUINT64_FORMAT ": %s",
               weft_file_get_path (self->file), self->position, what);
  return FALSE;
}

gboolean
weft_gguf_reader_count (WeftGgufReader *self, guint64 n, GError **error)
{
  if (n <= MAX_COUNT - self->n_counted)
    {
      self->n_counted += n;
      return TRUE;
    }
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_LIMIT,
               "%s: byte %" G_GUINT64_FORMAT
               ": expected up to %d tensors, values and elements of them in all, found more",
               weft_file_get_path (self->file), self->position, MAX_COUNT);
  return FALSE;
}

static guint64
get_rest (const WeftGgufReader *self)
{
  return weft_file_get_size (self->file) - self->position;
}

static gboolean
read_bytes (WeftGgufReader *self, gpointer bytes, gsize n_bytes, GError **error)
{
  if (n_bytes > get_rest (self))
    return weft_gguf_reader_fail (self, "expected %" G_GSIZE_FORMAT " bytes more, found the end of the file",
                                  error, n_bytes);
  if (n_bytes > WINDOW_BYTES)
    {
      if (!weft_file_read (self->file, self->position, bytes, n_bytes, error))
        return FALSE;
      self->position += n_bytes;
      return TRUE;
    }
  if (self->position < self->window_start
      || self->position + n_bytes > self->window_start + self->window_bytes)
    {
      self->window_start = self->position;
      self->window_bytes = (gsize) MIN (WINDOW_BYTES, get_rest (self));
      if (!weft_file_read (self->file, self->window_start, self->window, self->window_bytes, error))
        return FALSE;
    }
  memcpy (bytes, self->window + (self->position - self->window_start), n_bytes);
  self->position += n_bytes;
  return TRUE;
}

gboolean
weft_gguf_reader_read_u32 (WeftGgufReader *self, guint32 *value, GError **error)
{
  if (!read_bytes (self, value, sizeof *value, error))
    return FALSE;
  *value = GUINT32_FROM_LE (*value);
  return TRUE;
}

gboolean
weft_gguf_reader_read_u64 (WeftGgufReader *self, guint64 *value, GError **error)
{
  if (!read_bytes (self, value, sizeof *value, error))
    return FALSE;
  *value = GUINT64_FROM_LE (*value);
  return TRUE;
}

/* Bytes that their number comes before. */
static gchar *
read_text (WeftGgufReader *self, gsize *n_bytes, GError **error)
{
  g_autofree gchar *text = NULL;
  guint64 length = 0;

  if (!weft_gguf_reader_read_u64 (self, &length, error))
    return NULL;
  if (length > get_rest (self))
    {
      weft_gguf_reader_fail (
          self, "expected a text of %" G_GUINT64_FORMAT " bytes, found the end of the file", error, length);
      return NULL;
    }
  text = g_malloc ((gsize) length + 1);
  text[length] = '\0';
  *n_bytes = (gsize) length;
  return read_bytes (self, text, (gsize) length, error) ? g_steal_pointer (&text) : NULL;
}

gchar *
weft_gguf_reader_read_name (WeftGgufReader *self, GError **error)
{
  gsize n_bytes;
  g_autofree gchar *name = read_text (self, &n_bytes, error);

  if (name == NULL)
    return NULL;
  if (n_bytes > 0 && n_bytes <= MAX_NAME_BYTES && g_utf8_validate (name, (gssize) n_bytes, NULL))
    return g_steal_pointer (&name);
  weft_gguf_reader_fail (self, "expected a name of 1 to %d bytes of UTF-8", error, MAX_NAME_BYTES);
  return NULL;
}

static GVariant *
read_text_value (WeftGgufReader *self, GError **error)
{
  gsize n_bytes;
  g_autofree gchar *text = read_text (self, &n_bytes, error);

  if (text == NULL)
    return NULL;
  return g_variant_ref_sink (g_utf8_validate (text, (gssize) n_bytes, NULL)
                                 ? g_variant_new_string (text)
                                 : g_variant_new_take_string (g_utf8_make_valid (text, (gssize) n_bytes)));
}

/* Writes a number of the file as the variant of its type holds it. */
static void
store_number (ValueType type, guint64 bits, gpointer place)
{
  guint32 f32_bits = (guint32) bits;
  gfloat f32;
  gdouble f64;

  memcpy (&f32, &f32_bits, sizeof f32);
  f64 = (gdouble) f32;
  switch (type)
    {
    case VALUE_U8:
      *(guint8 *) place = (guint8) bits;
      break;
    case VALUE_BOOL:
      *(guint8 *) place = bits != 0;
      break;
    case VALUE_I8:
      memcpy (place, &(gint16){ (gint8) bits }, sizeof (gint16));
      break;
    case VALUE_U16:
    case VALUE_I16:
      memcpy (place, &(guint16){ (guint16) bits }, sizeof (guint16));
      break;
    case VALUE_U32:
    case VALUE_I32:
      memcpy (place, &f32_bits, sizeof f32_bits);
      break;
    case VALUE_F32:
      memcpy (place, &f64, sizeof f64);
      break;
    case VALUE_U64:
    case VALUE_I64:
    case VALUE_F64:
    case VALUE_TEXT:
    case VALUE_ARRAY:
    case N_VALUE_TYPES:
    default:
      memcpy (place, &bits, sizeof bits);
    }
}

/* An array of numbers, in memory of its own size. */
static GVariant *
read_numbers (WeftGgufReader *self, ValueType type, guint64 n_elements, GError **error)
{
  const gsize n_stored = value_types[type].n_stored;
  g_autofree guint8 *numbers = g_malloc_n ((gsize) n_elements, n_stored);

  for (guint64 i = 0; i < n_elements; i++)
    {
      guint8 bytes[8] = { 0 };
      guint64 bits;

      if (!read_bytes (self, bytes, value_types[type].n_bytes, error))
        return NULL;
      memcpy (&bits, bytes, sizeof bits);
      store_number (type, GUINT64_FROM_LE (bits), numbers + i * n_stored);
    }
  return g_variant_ref_sink (g_variant_new_fixed_array (G_VARIANT_TYPE (value_types[type].variant), numbers,
                                                        (gsize) n_elements, n_stored));
}

static GVariant *
read_number (WeftGgufReader *self, ValueType type, GError **error)
{
  g_autoptr (GVariant) numbers = read_numbers (self, type, 1, error);

  return numbers != NULL ? g_variant_get_child_value (numbers, 0) : NULL;
}

static gboolean
read_type (WeftGgufReader *self, ValueType *type, GError **error)
{
  guint32 number = 0;

  if (!weft_gguf_reader_read_u32 (self, &number, error))
    return FALSE;
  *type = (ValueType) number;
  return number < N_VALUE_TYPES
         || weft_gguf_reader_fail (self, "expected a type of value below %d, found %u", error, N_VALUE_TYPES,
                                   number);
}

static GVariant *
read_value_of (WeftGgufReader *self, ValueType type, guint depth, GError **error)
{
  g_autoptr (GVariantBuilder) builder = NULL;
  g_autofree gchar *array_type = NULL;
  ValueType element;
  guint64 n_elements;

  if (type == VALUE_TEXT)
    return read_text_value (self, error);
  if (type != VALUE_ARRAY)
    return read_number (self, type, error);
  if (!read_type (self, &element, error) || !weft_gguf_reader_read_u64 (self, &n_elements, error))
    return NULL;
  if (n_elements > get_rest (self) / value_types[element].n_bytes
      || (element == VALUE_ARRAY && depth == MAX_DEPTH))
    {
      weft_gguf_reader_fail (
          self, "an array of %" G_GUINT64_FORMAT " values does not fit the file, or arrays nest too deep",
          error, n_elements);
      return NULL;
    }
  if (!weft_gguf_reader_count (self, n_elements, error))
    return NULL;
  if (element != VALUE_TEXT && element != VALUE_ARRAY)
    return read_numbers (self, element, n_elements, error);
  array_type = g_strconcat ("a", value_types[element].variant, NULL);
  builder = g_variant_builder_new (G_VARIANT_TYPE (array_type));
  for (guint64 i = 0; i < n_elements; i++)
    {
      g_autoptr (GVariant) value = read_value_of (self, element, depth + 1, error);

      if (value == NULL)
        return NULL;
      g_variant_builder_add_value (builder, element == VALUE_ARRAY ? g_variant_new_variant (value) : value);
    }
  return g_variant_ref_sink (g_variant_builder_end (builder));
}

GVariant *
weft_gguf_reader_read_value (WeftGgufReader *self, GError **error)
{
  ValueType type;

  return read_type (self, &type, error) ? read_value_of (self, type, 0, error) : NULL;
}
