/* SPDX-License-Identifier: Apache-2.0 */
#include "pipeline/weft-slice-record-private.h"

#include <string.h>

#include "base/weft-json.h"
#include "pipeline/weft-load-options-private.h"
#include "pipeline/weft-output-private.h"
#include "pipeline/weft-provenance-private.h"

#define VERSION 1

/* What the whole is made of, as it is recorded. */
typedef struct
{
  GPtrArray *names;
  GPtrArray *headers;
  const gchar *index_name;
  GBytes *index;
  GBytes *provenance; /* (nullable) */
} Whole;

static void
whole_clear (Whole *self)
{
  g_clear_pointer (&self->names, g_ptr_array_unref);
  g_clear_pointer (&self->headers, g_ptr_array_unref);
  g_clear_pointer (&self->provenance, g_bytes_unref);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Whole, whole_clear)

/* Names and layout stay, and so do the files. */
static gboolean
is_cut_as_published (WeftLoadPlan *plan)
{
  return (weft_load_options_get_flags (plan->options) & WEFT_LOAD_FLAGS_KEEP_NAMES) != 0
         && plan->quantizer == NULL && !weft_load_plan_is_dequantized (plan)
         && strcmp (weft_load_options_get_dtype (plan->options), "keep") == 0
         && weft_load_options_get_max_shard_bytes (plan->options) == 0;
}

static GBytes *
read_file (const gchar *path, GError **error)
{
  g_autofree gchar *text = NULL;
  g_autoptr (GError) local_error = NULL;
  gsize n_bytes;

  if (g_file_get_contents (path, &text, &n_bytes, &local_error))
    return g_bytes_new_take (g_steal_pointer (&text), n_bytes);
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_IO, "%s: cannot be read: %s", path, local_error->message);
  return NULL;
}

static gboolean
take_published_files (WeftLoadPlan *plan, Whole *whole, GError **error)
{
  g_autofree gchar *path = weft_provenance_find (plan->checkpoint);

  for (guint i = 0; i < weft_checkpoint_get_n_shards (plan->checkpoint); i++)
    {
      WeftShard *shard = weft_checkpoint_get_shard (plan->checkpoint, i);
      GBytes *header = weft_shard_read_header (shard, error);

      if (header == NULL)
        return FALSE;
      g_ptr_array_add (whole->headers, header);
      g_ptr_array_add (whole->names, g_strdup (weft_shard_get_file_name (shard)));
    }
  whole->index = weft_checkpoint_get_index (plan->checkpoint);
  whole->index_name = weft_checkpoint_get_index_name (plan->checkpoint);
  if (path == NULL)
    return TRUE;
  whole->provenance = read_file (path, error);
  return whole->provenance != NULL;
}

/* The files that converting without ranks would write. */
static WeftShardLayout *
lay_out_converted (WeftLoadPlan *plan, Whole *whole, GCancellable *cancellable, GError **error)
{
  g_autoptr (WeftShardLayout) layout = weft_output_lay_out_whole (plan, error);

  whole->provenance = layout != NULL ? weft_provenance_write (plan, cancellable, error) : NULL;
  if (whole->provenance == NULL)
    return NULL;
  for (guint i = 0; i < weft_shard_layout_get_n_files (layout); i++)
    {
      g_ptr_array_add (whole->headers, g_bytes_ref (weft_shard_layout_get_header (layout, i)));
      g_ptr_array_add (whole->names, g_strdup (weft_shard_layout_get_file_name (layout, i)));
    }
  whole->index = weft_shard_layout_get_index (layout);
  whole->index_name = weft_shard_layout_get_index_name (layout);
  return g_steal_pointer (&layout);
}

static void
append_bytes (GString *json, GBytes *bytes)
{
  g_autofree gchar *text =
      bytes != NULL ? g_strndup (g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes)) : NULL;

  if (text != NULL)
    weft_json_append_text (json, text, FALSE);
  else
    g_string_append (json, "null");
}

static void
append_whole (GString *json, const Whole *whole)
{
  g_string_append (json, "  \"files\": [");
  for (guint i = 0; i < whole->names->len; i++)
    {
      g_string_append (json, i > 0 ? ",\n    {\"name\": " : "\n    {\"name\": ");
      weft_json_append_text (json, whole->names->pdata[i], FALSE);
      g_string_append (json, ", \"header\": ");
      append_bytes (json, whole->headers->pdata[i]);
      g_string_append_c (json, '}');
    }
  g_string_append (json, "],\n  \"index\": ");
  if (whole->index_name != NULL)
    {
      g_string_append (json, "{\"name\": ");
      weft_json_append_text (json, whole->index_name, FALSE);
      g_string_append (json, ", \"text\": ");
      append_bytes (json, whole->index);
      g_string_append_c (json, '}');
    }
  else
    g_string_append (json, "null");
  g_string_append (json, ",\n  \"provenance\": ");
  append_bytes (json, whole->provenance);
}

/* A part is ["name", [axis, start, length, start, length, ...], ...]: the ranges on each axis that is cut. */
static void
append_slice (GString *json, const gchar *name, const WeftSlice *slice)
{
  g_string_append_c (json, '[');
  weft_json_append_text (json, name, FALSE);
  for (guint axis = 0; axis < slice->shape.rank; axis++)
    {
      const GArray *ranges = slice->ranges[axis];

      if (ranges == NULL)
        continue;
      g_string_append_printf (json, ",[%u", axis);
      for (guint i = 0; i < ranges->len; i++)
        g_string_append_printf (json, ",%" G_GINT64_FORMAT ",%" G_GINT64_FORMAT,
                                g_array_index (ranges, WeftRange, i).start,
                                g_array_index (ranges, WeftRange, i).length);
      g_string_append_c (json, ']');
    }
  g_string_append_c (json, ']');
}

static gboolean
append_slices (GString *json, WeftLoadPlan *plan, GError **error)
{
  guint rank = weft_load_options_get_rank (plan->options);
  gboolean is_first = TRUE;

  for (guint i = 0; i < weft_state_dict_get_n_tensors (plan->whole); i++)
    {
      g_auto (WeftSlice) slice = { .shape = { 0 } };
      gboolean is_owned;

      if (!weft_sharding_find_slice (plan->sharding, i, rank, &slice, &is_owned, error))
        return FALSE;
      if (!is_owned || weft_slice_is_whole (&slice))
        continue;
      g_string_append (json, is_first ? "\n    " : ",\n    ");
      is_first = FALSE;
      append_slice (json, weft_state_dict_get_name (plan->whole, i), &slice);
    }
  return TRUE;
}

GBytes *
weft_slice_record_write (WeftLoadPlan *plan, GCancellable *cancellable, GError **error)
{
  g_auto (Whole)
      whole = { g_ptr_array_new_with_free_func (g_free),
                g_ptr_array_new_with_free_func ((GDestroyNotify) g_bytes_unref), NULL, NULL, NULL };
  g_autoptr (GString) json = g_string_new ("{\"format\": \"" WEFT_SLICE_FORMAT "\", \"version\": ");
  g_autoptr (WeftShardLayout) layout = NULL;

  if (is_cut_as_published (plan))
    {
      if (!take_published_files (plan, &whole, error))
        return NULL;
    }
  else
    {
      layout = lay_out_converted (plan, &whole, cancellable, error);
      if (layout == NULL)
        return NULL;
    }
  g_string_append_printf (json, "%d, \"weft\": \"%s\", \"rank\": %u, \"world_size\": %u,\n", VERSION,
                          WEFT_VERSION, weft_load_options_get_rank (plan->options),
                          weft_load_options_get_world_size (plan->options));
  append_whole (json, &whole);
  g_string_append (json, ",\n  \"slices\": [");
  if (!append_slices (json, plan, error))
    return NULL;
  g_string_append (json, "]}\n");
  return g_string_free_to_bytes (g_steal_pointer (&json));
}

/* Reading: anybody can have written the file. */

static void
free_slice (gpointer slice)
{
  weft_slice_clear (slice);
  g_free (slice);
}

void
weft_slice_record_free (WeftSliceRecord *self)
{
  g_free (self->checksum);
  g_strfreev (self->file_names);
  g_clear_pointer (&self->headers, g_ptr_array_unref);
  g_free (self->index_name);
  g_clear_pointer (&self->index, g_bytes_unref);
  g_clear_pointer (&self->provenance, g_bytes_unref);
  g_clear_object (&self->tensors);
  g_clear_pointer (&self->slices, g_hash_table_unref);
  g_free (self);
}

static gboolean
refuse (const gchar *path, const gchar *what, GError **error)
{
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT, "%s: %s; this is no record of a rank that Weft wrote",
               path, what);
  return FALSE;
}

static const gchar *
get_text (JsonNode *root, const gchar *name)
{
  JsonNode *node = weft_json_lookup (root, name);

  return node != NULL && JSON_NODE_HOLDS_VALUE (node) && json_node_get_value_type (node) == G_TYPE_STRING
             ? json_node_get_string (node)
             : NULL;
}

static JsonArray *
get_array (JsonNode *node)
{
  return node != NULL && JSON_NODE_HOLDS_ARRAY (node) ? json_node_get_array (node) : NULL;
}

/* -1 if it is none. */
static gint64
get_number (JsonNode *node)
{
  return node != NULL && JSON_NODE_HOLDS_VALUE (node) && json_node_get_value_type (node) == G_TYPE_INT64
             ? MAX (json_node_get_int (node), -1)
             : -1;
}

static gboolean
read_files (WeftSliceRecord *self, JsonNode *root, GArray *first_tensors, const gchar *path, GError **error)
{
  JsonArray *files = get_array (weft_json_lookup (root, "files"));
  g_autoptr (GStrvBuilder) names = g_strv_builder_new ();

  if (files == NULL || json_array_get_length (files) == 0)
    return refuse (path, "'files' names no file", error);
  for (guint i = 0; i < json_array_get_length (files); i++)
    {
      JsonNode *file = json_array_get_element (files, i);
      const gchar *name = get_text (file, "name");
      const gchar *header = get_text (file, "header");

      guint first = weft_state_dict_get_n_tensors (self->tensors);

      if (name == NULL || header == NULL)
        return refuse (path, "a file has no name or no header", error);
      g_array_append_val (first_tensors, first);
      g_strv_builder_add (names, name);
      g_ptr_array_add (self->headers, g_bytes_new (header, strlen (header)));
      if (!weft_shard_scan_recorded_header (self->headers->pdata[i], name, self->tensors, error))
        {
          g_prefix_error (error, "%s: ", path);
          return FALSE;
        }
    }
  self->file_names = g_strv_builder_end (names);
  return TRUE;
}

/* The file of a tensor, as the index says. */
static const gchar *
get_indexed_file (JsonObject *map, const gchar *tensor)
{
  JsonNode *node = json_object_get_member (map, tensor);

  return node != NULL && JSON_NODE_HOLDS_VALUE (node) && json_node_get_value_type (node) == G_TYPE_STRING
             ? json_node_get_string (node)
             : NULL;
}

/* Whether the whole could be opened again: its index names for each tensor the file whose header has it. */
static gboolean
check_index (WeftSliceRecord *self, const guint *first_tensors, const gchar *path, GError **error)
{
  gsize n_bytes;
  const gchar *text = g_bytes_get_data (self->index, &n_bytes);
  g_autoptr (JsonNode) root = weft_json_parse (text, (gssize) n_bytes, path, error);
  JsonNode *map = root != NULL ? weft_json_lookup (root, "weight_map") : NULL;

  if (root == NULL)
    return FALSE;
  if (map == NULL || !JSON_NODE_HOLDS_OBJECT (map)
      || json_object_get_size (json_node_get_object (map)) != weft_state_dict_get_n_tensors (self->tensors)
      || !g_str_has_suffix (self->index_name, ".safetensors.index.json"))
    return refuse (path, "'index' is no index of the tensors that the files have", error);
  for (guint i = 0; self->file_names[i] != NULL; i++)
    for (guint k = first_tensors[i]; k < first_tensors[i + 1]; k++)
      if (g_strcmp0 (
              get_indexed_file (json_node_get_object (map), weft_state_dict_get_name (self->tensors, k)),
              self->file_names[i])
          != 0)
        return refuse (path, "'index' names other files than 'files' does", error);
  return TRUE;
}

/* Whether files are found without an index. */
static gboolean
check_names (WeftSliceRecord *self, const gchar *path, GError **error)
{
  return (g_strv_length (self->file_names) == 1 && g_str_has_suffix (self->file_names[0], ".safetensors"))
         || refuse (path, "without an 'index' one file is expected, whose name ends with .safetensors",
                    error);
}

static gboolean
read_rest_of_whole (WeftSliceRecord *self, JsonNode *root, GArray *first_tensors, const gchar *path,
                    GError **error)
{
  JsonNode *index = weft_json_lookup (root, "index");
  const gchar *provenance = get_text (root, "provenance");
  guint n_tensors = weft_state_dict_get_n_tensors (self->tensors);

  g_array_append_val (first_tensors, n_tensors);

  if (provenance != NULL)
    {
      g_autoptr (JsonNode) recorded = weft_json_parse (provenance, -1, path, error);

      if (recorded == NULL)
        return FALSE;
      if (!JSON_NODE_HOLDS_OBJECT (recorded))
        return refuse (path, "'provenance' is no JSON object", error);
      self->provenance = g_bytes_new (provenance, strlen (provenance));
    }
  if (index == NULL || !JSON_NODE_HOLDS_OBJECT (index))
    return check_names (self, path, error);
  if (get_text (index, "name") == NULL || get_text (index, "text") == NULL)
    return refuse (path, "'index' has no name or no text", error);
  self->index_name = g_strdup (get_text (index, "name"));
  self->index = g_bytes_new (get_text (index, "text"), strlen (get_text (index, "text")));
  return check_index (self, (const guint *) (gpointer) first_tensors->data, path, error);
}

/* [axis, start, length, start, length, ...], ascending and within the axis. */
static gboolean
read_axis (JsonArray *numbers, WeftSlice *slice)
{
  guint n = numbers != NULL ? json_array_get_length (numbers) : 0;
  gint64 axis = n > 0 ? get_number (json_array_get_element (numbers, 0)) : -1;
  gint64 end = 0;
  GArray *ranges;

  if (n % 2 == 0 || axis < 0 || axis >= slice->shape.rank || slice->ranges[axis] != NULL)
    return FALSE;
  ranges = slice->ranges[axis] = g_array_new (FALSE, FALSE, sizeof (WeftRange));
  for (guint i = 1; i < n; i += 2)
    {
      gint64 start = get_number (json_array_get_element (numbers, i));
      gint64 length = get_number (json_array_get_element (numbers, i + 1));

      if (start < end || length <= 0 || start > slice->shape.dims[axis] - length)
        return FALSE;
      weft_ranges_append (ranges, start, length);
      end = start + length;
    }
  return TRUE;
}

static gboolean
read_slice (WeftSliceRecord *self, JsonArray *entry)
{
  JsonNode *first =
      entry != NULL && json_array_get_length (entry) > 0 ? json_array_get_element (entry, 0) : NULL;
  const gchar *name = first != NULL && JSON_NODE_HOLDS_VALUE (first) ? json_node_get_string (first) : NULL;
  WeftTensor *tensor = name != NULL ? weft_state_dict_lookup (self->tensors, name) : NULL;
  WeftSlice *slice;

  if (tensor == NULL || g_hash_table_contains (self->slices, name))
    return FALSE;
  slice = g_new0 (WeftSlice, 1);
  weft_slice_init (slice, weft_tensor_get_shape (tensor));
  g_hash_table_insert (self->slices, g_strdup (name), slice);
  for (guint i = 1; i < json_array_get_length (entry); i++)
    if (!read_axis (get_array (json_array_get_element (entry, i)), slice))
      return FALSE;
  return TRUE;
}

static gboolean
read_slices (WeftSliceRecord *self, JsonNode *root, const gchar *path, GError **error)
{
  JsonArray *slices = get_array (weft_json_lookup (root, "slices"));

  if (slices == NULL)
    return refuse (path, "'slices' is no list", error);
  for (guint i = 0; i < json_array_get_length (slices); i++)
    if (!read_slice (self, get_array (json_array_get_element (slices, i))))
      {
        g_autofree gchar *what = g_strdup_printf ("slices[%u] is malformed", i);

        return refuse (path, what, error);
      }
  return TRUE;
}

static gboolean
read_rank (WeftSliceRecord *self, JsonNode *root, const gchar *path, GError **error)
{
  gint64 rank = get_number (weft_json_lookup (root, "rank"));
  gint64 world_size = get_number (weft_json_lookup (root, "world_size"));

  if (g_strcmp0 (get_text (root, "format"), WEFT_SLICE_FORMAT) != 0)
    return refuse (path, "'format' is not " WEFT_SLICE_FORMAT, error);
  if (get_number (weft_json_lookup (root, "version")) != VERSION)
    return refuse (path, "'version' is not 1, which this Weft reads", error);
  if (rank < 0 || rank >= world_size || world_size > G_MAXINT)
    return refuse (path, "'rank' and 'world_size' do not fit", error);
  self->rank = (guint) rank;
  self->world_size = (guint) world_size;
  return TRUE;
}

WeftSliceRecord *
weft_slice_record_load (const gchar *path, GError **error)
{
  g_autoptr (WeftSliceRecord) self = g_new0 (WeftSliceRecord, 1);
  g_autoptr (JsonNode) root = weft_json_load_file (path, error);
  g_autoptr (GBytes) bytes = root != NULL ? read_file (path, error) : NULL;
  g_autoptr (GArray) first_tensors = g_array_new (FALSE, FALSE, sizeof (guint));

  if (bytes == NULL)
    return NULL;
  self->checksum = g_compute_checksum_for_bytes (G_CHECKSUM_SHA256, bytes);
  self->headers = g_ptr_array_new_with_free_func ((GDestroyNotify) g_bytes_unref);
  self->tensors = weft_state_dict_new ();
  self->slices = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, free_slice);
  if (!read_rank (self, root, path, error) || !read_files (self, root, first_tensors, path, error)
      || !read_rest_of_whole (self, root, first_tensors, path, error)
      || !read_slices (self, root, path, error))
    return NULL;
  return g_steal_pointer (&self);
}

static gboolean
are_equal_bytes (GBytes *a, GBytes *b)
{
  return a == NULL || b == NULL ? a == b : g_bytes_equal (a, b);
}

gboolean
weft_slice_record_is_of_same_whole (const WeftSliceRecord *self, const WeftSliceRecord *other)
{
  if (self->world_size != other->world_size
      || !g_strv_equal ((const gchar *const *) self->file_names, (const gchar *const *) other->file_names)
      || !are_equal_bytes (self->index, other->index)
      || !are_equal_bytes (self->provenance, other->provenance))
    return FALSE;
  for (guint i = 0; i < self->headers->len; i++)
    if (!g_bytes_equal (self->headers->pdata[i], other->headers->pdata[i]))
      return FALSE;
  return TRUE;
}
