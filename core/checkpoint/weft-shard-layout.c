/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/weft-shard-layout.h"

#include <string.h>

#include "base/weft-json.h"
#include "checkpoint/weft-header-scanner-private.h"
#include "checkpoint/weft-header-writer-private.h"

#define INDEX_NAME "model.safetensors.index.json"
/* Padding is worth a page if so many bytes are copied within pages by it. */
#define MIN_BYTES_IN_PLACE (1024 * 1024)

/* A tensor in a file: its position in the outputs and its offset in the file. */
typedef struct
{
  guint position;
  guint64 offset;
} Placement;

typedef struct
{
  gchar *name;
  GBytes *header;
  GArray *placements;
  guint64 size;
} OutputFile;

struct _WeftShardLayout
{
  GObject parent_instance;

  WeftStateDict *outputs;
  GPtrArray *files;
  gchar *index_name;
  GBytes *index;
};

G_DEFINE_FINAL_TYPE (WeftShardLayout, weft_shard_layout, G_TYPE_OBJECT)

static void
output_file_free (gpointer file)
{
  OutputFile *self = file;

  g_free (self->name);
  g_clear_pointer (&self->header, g_bytes_unref);
  g_array_unref (self->placements);
  g_free (self);
}

static void
weft_shard_layout_finalize (GObject *object)
{
  WeftShardLayout *self = WEFT_SHARD_LAYOUT (object);

  g_clear_object (&self->outputs);
  g_ptr_array_unref (self->files);
  g_free (self->index_name);
  g_clear_pointer (&self->index, g_bytes_unref);
  G_OBJECT_CLASS (weft_shard_layout_parent_class)->finalize (object);
}

static void
weft_shard_layout_class_init (WeftShardLayoutClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = weft_shard_layout_finalize;
}

static void
weft_shard_layout_init (WeftShardLayout *self)
{
  self->files = g_ptr_array_new_with_free_func (output_file_free);
}

static WeftShardLayout *
layout_new (WeftStateDict *outputs)
{
  WeftShardLayout *self = g_object_new (WEFT_TYPE_SHARD_LAYOUT, NULL);

  self->outputs = g_object_ref (outputs);
  return self;
}

static OutputFile *
get_file (WeftShardLayout *self, guint file)
{
  return g_ptr_array_index (self->files, file);
}

static OutputFile *
output_file_new (void)
{
  OutputFile *file = g_new0 (OutputFile, 1);

  file->placements = g_array_new (FALSE, FALSE, sizeof (Placement));
  return file;
}

static OutputFile *
add_file (WeftShardLayout *self)
{
  OutputFile *file = output_file_new ();

  g_ptr_array_add (self->files, file);
  return file;
}

static void
place (OutputFile *file, guint position)
{
  Placement placement = { .position = position };

  g_array_append_val (file->placements, placement);
}

static gint
compare_placements (gconstpointer a, gconstpointer b, gpointer outputs)
{
  guint a_position = ((const Placement *) a)->position, b_position = ((const Placement *) b)->position;

  return weft_header_writer_compare (weft_tensor_get_dtype (weft_state_dict_get_tensor (outputs, a_position)),
                                     weft_state_dict_get_name (outputs, a_position),
                                     weft_tensor_get_dtype (weft_state_dict_get_tensor (outputs, b_position)),
                                     weft_state_dict_get_name (outputs, b_position));
}

/* For each offset in its page that the first tensor may have: how many bytes then keep their offset in the page. */
typedef struct
{
  guint64 tensor_offset;
  guint64 n_bytes[WEFT_HEADER_PAGE_BYTES / WEFT_HEADER_ALIGNMENT];
} PageVotes;

static void
vote (guint64 file_offset, guint64 offset, guint64 n_bytes, gpointer user_data)
{
  PageVotes *votes = user_data;
  guint64 wanted = (file_offset - (votes->tensor_offset + offset)) % WEFT_HEADER_PAGE_BYTES;

  if (wanted % WEFT_HEADER_ALIGNMENT == 0)
    votes->n_bytes[wanted / WEFT_HEADER_ALIGNMENT] += n_bytes;
}

/* The kernel copies between files nearly twice as fast where source and destination lie alike in their pages. Returns the
 * offset that the first tensor should have in its page for most bytes to do so, or -1 if that gains nothing. */
static gint
choose_page_offset (WeftShardLayout *self, const OutputFile *file, gsize n_header_bytes)
{
  PageVotes votes = { 0 };
  guint best = 0;

  for (guint i = 0; i < file->placements->len; i++)
    {
      const Placement *placement = &g_array_index (file->placements, Placement, i);

      votes.tensor_offset = placement->offset;
      weft_tensor_foreach_extent (weft_state_dict_get_tensor (self->outputs, placement->position), vote,
                                  &votes);
    }
  for (guint i = 1; i < G_N_ELEMENTS (votes.n_bytes); i++)
    if (votes.n_bytes[i] > votes.n_bytes[best])
      best = i;
  if (votes.n_bytes[best] < MIN_BYTES_IN_PLACE
      || n_header_bytes + WEFT_HEADER_PAGE_BYTES > WEFT_HEADER_MAX_BYTES)
    return -1;
  return (gint) best * WEFT_HEADER_ALIGNMENT;
}

/* Puts the tensors of a file in the order of the format, writes its header and gives each its offset. */
static gboolean
lay_out_file (WeftShardLayout *self, OutputFile *file, GHashTable *metadata, GError **error)
{
  GString *json = weft_header_writer_begin (metadata);
  guint64 end = 0;

  g_array_sort_with_data (file->placements, compare_placements, self->outputs);
  for (guint i = 0; i < file->placements->len; i++)
    {
      Placement *placement = &g_array_index (file->placements, Placement, i);
      WeftTensor *tensor = weft_state_dict_get_tensor (self->outputs, placement->position);

      placement->offset = end;
      end += weft_tensor_get_n_bytes (tensor);
      weft_header_writer_add (json, weft_state_dict_get_name (self->outputs, placement->position),
                              weft_tensor_get_dtype (tensor), weft_tensor_get_shape (tensor),
                              placement->offset, end);
    }
  file->header = weft_header_writer_finish (json, choose_page_offset (self, file, json->len));
  file->size = WEFT_HEADER_LENGTH_BYTES + g_bytes_get_size (file->header) + end;
  for (guint i = 0; i < file->placements->len; i++)
    g_array_index (file->placements, Placement, i).offset += file->size - end;
  if (g_bytes_get_size (file->header) <= WEFT_HEADER_MAX_BYTES)
    return TRUE;
  g_set_error (
      error, WEFT_ERROR, WEFT_ERROR_LIMIT,
      "an output file of %u tensors: expected a header of at most 100000000 bytes, found %" G_GSIZE_FORMAT
      "; use --max-shard-size to get more files",
      file->placements->len, g_bytes_get_size (file->header));
  return FALSE;
}

static void
name_files (WeftShardLayout *self)
{
  guint n_files = self->files->len;

  for (guint i = 0; i < n_files; i++)
    get_file (self, i)->name = n_files == 1
                                   ? g_strdup ("model.safetensors")
                                   : g_strdup_printf ("model-%05u-of-%05u.safetensors", i + 1, n_files);
}

/* The members of the index's metadata, as texts of JSON by name: those of the source, with the two totals put right. */
static GHashTable *
make_index_metadata (WeftShardLayout *self, JsonNode *source)
{
  GHashTable *members = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  guint64 total_size = 0, total_parameters = 0;

  if (source != NULL && JSON_NODE_HOLDS_OBJECT (source))
    {
      JsonObjectIter iter;
      const gchar *name;
      JsonNode *node;

      json_object_iter_init (&iter, json_node_get_object (source));
      while (json_object_iter_next (&iter, &name, &node))
        g_hash_table_insert (members, g_strdup (name), weft_json_to_text (node, FALSE));
    }
  for (guint i = 0; i < weft_state_dict_get_n_tensors (self->outputs); i++)
    {
      WeftTensor *tensor = weft_state_dict_get_tensor (self->outputs, i);

      total_size += weft_tensor_get_n_bytes (tensor);
      total_parameters += (guint64) weft_tensor_get_n_elements (tensor);
    }
  g_hash_table_insert (members, g_strdup ("total_size"), g_strdup_printf ("%" G_GUINT64_FORMAT, total_size));
  g_hash_table_insert (members, g_strdup ("total_parameters"),
                       g_strdup_printf ("%" G_GUINT64_FORMAT, total_parameters));
  return members;
}

static gint
compare_texts (gconstpointer a, gconstpointer b)
{
  return strcmp (*(const gchar *const *) a, *(const gchar *const *) b);
}

/* `"name": {` ... `}` with sorted keys, four spaces deep. Values are JSON already. */
static void
append_object (GString *json, const gchar *name, GHashTable *members)
{
  guint n_members;
  g_autofree gpointer *keys = g_hash_table_get_keys_as_array (members, &n_members);

  qsort (keys, n_members, sizeof *keys, compare_texts);
  g_string_append_printf (json, "  \"%s\": {%s", name, n_members == 0 ? "" : "\n");
  for (guint i = 0; i < n_members; i++)
    {
      g_string_append (json, "    ");
      weft_json_append_text (json, keys[i], TRUE);
      g_string_append (json, ": ");
      g_string_append (json, g_hash_table_lookup (members, keys[i]));
      g_string_append (json, i + 1 < n_members ? ",\n" : "\n  ");
    }
  g_string_append_c (json, '}');
}

static GBytes *
write_index (WeftShardLayout *self, JsonNode *source_metadata)
{
  g_autoptr (GHashTable) metadata = make_index_metadata (self, source_metadata);
  g_autoptr (GHashTable) weight_map = g_hash_table_new (g_str_hash, g_str_equal);
  g_autoptr (GPtrArray) quoted_names = g_ptr_array_new_with_free_func (g_free);
  GString *json = g_string_new ("{\n");

  for (guint i = 0; i < self->files->len; i++)
    {
      OutputFile *file = get_file (self, i);
      gchar *quoted_name = g_strdup_printf ("\"%s\"", file->name);

      g_ptr_array_add (quoted_names, quoted_name);
      for (guint j = 0; j < file->placements->len; j++)
        {
          guint position = g_array_index (file->placements, Placement, j).position;

          g_hash_table_insert (weight_map, (gpointer) weft_state_dict_get_name (self->outputs, position),
                               quoted_name);
        }
    }
  append_object (json, "metadata", metadata);
  g_string_append (json, ",\n");
  append_object (json, "weight_map", weight_map);
  g_string_append (json, "\n}\n");
  return g_string_free_to_bytes (json);
}

/* Names and index, once the files have their tensors. */
static void
finish_layout (WeftShardLayout *self, JsonNode *index_metadata)
{
  name_files (self);
  if (self->files->len < 2)
    return;
  self->index_name = g_strdup (INDEX_NAME);
  self->index = write_index (self, index_metadata);
}

/* How many shard numbers there are, used or not. */
static guint
count_numbers (const guint *shards, gsize n_shards)
{
  guint n = 1;

  for (gsize i = 0; i < n_shards; i++)
    n = MAX (n, shards[i] + 1);
  return n;
}

/**
 * weft_shard_layout_new_assigned:
 * @outputs: the tensors to write
 * @shards: (array length=n_shards): for each output the number of its shard
 * @n_shards: the number of outputs
 * @metadata: (nullable) (element-type GHashTable): for each shard number the texts of `__metadata__`; an absent element
 *   or %NULL writes none
 * @index_metadata: (nullable): further members of the index's `metadata`
 * @error: return location
 *
 * Lays out files by given shard numbers. Shards without tensors vanish and the files are numbered anew,
 * `model-00001-of-0000N.safetensors`; a single one is `model.safetensors` and has no index.
 *
 * Returns: (transfer full): the layout
 * Errors: %WEFT_ERROR_LIMIT if a header passes 100,000,000 bytes
 * Since: 1.0
 */
WeftShardLayout *
weft_shard_layout_new_assigned (WeftStateDict *outputs, const guint *shards, gsize n_shards,
                                GPtrArray *metadata, JsonNode *index_metadata, GError **error)
{
  g_autoptr (WeftShardLayout) self = NULL;
  guint n_numbers = count_numbers (shards, n_shards);
  g_autofree gboolean *is_used = g_new0 (gboolean, n_numbers);
  g_autofree OutputFile **files = g_new0 (OutputFile *, n_numbers);

  g_return_val_if_fail (n_shards == weft_state_dict_get_n_tensors (outputs), NULL);
  self = layout_new (outputs);
  /* Without outputs there is one file, without tensors. */
  is_used[0] = n_shards == 0;
  for (gsize i = 0; i < n_shards; i++)
    is_used[shards[i]] = TRUE;
  for (guint i = 0; i < n_numbers; i++)
    files[i] = is_used[i] ? add_file (self) : NULL;
  for (gsize i = 0; i < n_shards; i++)
    place (files[shards[i]], (guint) i);
  for (guint i = 0; i < n_numbers; i++)
    {
      GHashTable *texts = metadata != NULL && i < metadata->len ? g_ptr_array_index (metadata, i) : NULL;

      if (files[i] != NULL && !lay_out_file (self, files[i], texts, error))
        return NULL;
    }
  finish_layout (self, index_metadata);
  return g_steal_pointer (&self);
}

/* The file that is being filled while outputs are dealt out by size. */
typedef struct
{
  OutputFile *file;
  guint64 n_bytes;
  gsize n_header_bytes;
} Filling;

/* A tensor above the limit gets a file of its own, which comes before the one that is being filled. */
static void
deal_out (WeftShardLayout *self, Filling *filling, guint position, guint64 max_bytes, gsize max_header_bytes)
{
  WeftTensor *tensor = weft_state_dict_get_tensor (self->outputs, position);
  guint64 n_bytes = weft_tensor_get_n_bytes (tensor);
  gsize n_header_bytes = weft_header_writer_get_max_bytes (weft_state_dict_get_name (self->outputs, position),
                                                           weft_tensor_get_shape (tensor));

  if (n_bytes > max_bytes)
    {
      place (add_file (self), position);
      return;
    }
  if (filling->file->placements->len > 0
      && (n_bytes > max_bytes - filling->n_bytes
          || filling->n_header_bytes + n_header_bytes > max_header_bytes))
    {
      g_ptr_array_add (self->files, filling->file);
      *filling = (Filling){ .file = output_file_new () };
    }
  place (filling->file, position);
  filling->n_bytes += n_bytes;
  filling->n_header_bytes += n_header_bytes;
}

/**
 * weft_shard_layout_new_by_size:
 * @outputs: the tensors to write
 * @max_shard_bytes: the limit of a file, in bytes of tensors; #WEFT_DEFAULT_MAX_SHARD_BYTES is the usual one
 * @metadata: (nullable) (element-type utf8 utf8): the texts of `__metadata__` of every file
 * @index_metadata: (nullable): further members of the index's `metadata`
 * @error: return location
 *
 * Deals out the outputs in their order, a new file whenever the next tensor would pass the limit (exactly full still
 * fits) or the header would pass the format's 100,000,000 bytes. A tensor above the limit gets its own file, placed
 * before the file that is being filled.
 *
 * Returns: (transfer full): the layout
 * Errors: %WEFT_ERROR_LIMIT if a header passes 100,000,000 bytes all the same
 * Since: 1.0
 */
WeftShardLayout *
weft_shard_layout_new_by_size (WeftStateDict *outputs, guint64 max_shard_bytes, GHashTable *metadata,
                               JsonNode *index_metadata, GError **error)
{
  g_autoptr (WeftShardLayout) self = layout_new (outputs);
  g_autoptr (GBytes) empty_header = weft_header_writer_finish (weft_header_writer_begin (metadata), -1);
  gsize n_empty_bytes = MIN (g_bytes_get_size (empty_header), WEFT_HEADER_MAX_BYTES);
  Filling filling = { .file = output_file_new () };

  for (guint i = 0; i < weft_state_dict_get_n_tensors (outputs); i++)
    deal_out (self, &filling, i, max_shard_bytes, WEFT_HEADER_MAX_BYTES - n_empty_bytes);
  if (filling.file->placements->len > 0 || self->files->len == 0)
    g_ptr_array_add (self->files, filling.file);
  else
    output_file_free (filling.file);
  for (guint i = 0; i < self->files->len; i++)
    if (!lay_out_file (self, get_file (self, i), metadata, error))
      return NULL;
  finish_layout (self, index_metadata);
  return g_steal_pointer (&self);
}

static gboolean
is_same_shape (const WeftShape *shape, const guint64 *dims, guint rank)
{
  gboolean is_same = shape->rank == rank;

  for (guint i = 0; i < rank && is_same; i++)
    is_same = (guint64) shape->dims[i] == dims[i];
  return is_same;
}

/* Finds the output that an entry of a recorded header speaks of. */
static gboolean
place_entry (WeftShardLayout *self, OutputFile *file, const WeftHeader *header, const WeftHeaderEntry *entry,
             gboolean *is_placed, GError **error)
{
  Placement placement = { .offset =
                              WEFT_HEADER_LENGTH_BYTES + g_bytes_get_size (file->header) + entry->begin };
  const guint64 *dims = &g_array_index (header->dims, guint64, 0) + entry->dims_start;
  WeftTensor *tensor;

  if (!weft_state_dict_find (self->outputs, entry->name, &placement.position))
    {
      g_set_error (
          error, WEFT_ERROR, WEFT_ERROR_MISSING,
          "%s: tensor '%s': expected an output of that name, as the recorded header has it, found none",
          file->name, entry->name);
      return FALSE;
    }
  if (is_placed[placement.position])
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_CONFLICT,
                   "%s: tensor '%s': expected each name in one recorded header, found it in a second one",
                   file->name, entry->name);
      return FALSE;
    }
  tensor = weft_state_dict_get_tensor (self->outputs, placement.position);
  if (weft_tensor_get_dtype (tensor) != (WeftDtype) entry->dtype
      || !is_same_shape (weft_tensor_get_shape (tensor), dims, entry->rank))
    {
      g_autofree gchar *shape = weft_shape_to_string (weft_tensor_get_shape (tensor));

      g_set_error (
          error, WEFT_ERROR, WEFT_ERROR_SHAPE,
          "%s: tensor '%s': expected dtype and shape of the recorded header, %s with %u dims and %" G_GUINT64_FORMAT
          " bytes, found %s of shape %s",
          file->name, entry->name, weft_dtype_get_name ((WeftDtype) entry->dtype), entry->rank,
          entry->end - entry->begin, weft_dtype_get_name (weft_tensor_get_dtype (tensor)), shape);
      return FALSE;
    }
  is_placed[placement.position] = TRUE;
  g_array_append_val (file->placements, placement);
  return TRUE;
}

static gboolean
lay_out_verbatim (WeftShardLayout *self, const gchar *file_name, GBytes *json, gboolean *is_placed,
                  GError **error)
{
  OutputFile *file = add_file (self);
  g_autoptr (WeftHeader) header = NULL;
  gsize n_bytes;
  const gchar *text = g_bytes_get_data (json, &n_bytes);

  file->name = g_strdup (file_name);
  file->header = g_bytes_ref (json);
  file->size = WEFT_HEADER_LENGTH_BYTES + n_bytes;
  if (n_bytes > WEFT_HEADER_MAX_BYTES)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_LIMIT,
                   "%s: expected a recorded header of at most 100000000 bytes, found %" G_GSIZE_FORMAT,
                   file_name, n_bytes);
      return FALSE;
    }
  header = weft_header_scan (text == NULL ? "" : text, n_bytes, WEFT_HEADER_ANY_SIZE, file_name, error);
  if (header == NULL)
    return FALSE;
  for (guint i = 0; i < header->entries->len; i++)
    {
      const WeftHeaderEntry *entry = &g_array_index (header->entries, WeftHeaderEntry, i);

      if (!place_entry (self, file, header, entry, is_placed, error))
        return FALSE;
      file->size = WEFT_HEADER_LENGTH_BYTES + n_bytes + entry->end;
    }
  return TRUE;
}

/* Recorded names come from a file that anybody can have written. */
static gboolean
check_file_name (WeftShardLayout *self, const gchar *name, GError **error)
{
  gboolean is_plain = *name != '\0' && *name != '.' && strpbrk (name, "/\n") == NULL;

  for (guint i = 0; i < self->files->len; i++)
    is_plain = is_plain && strcmp (get_file (self, i)->name, name) != 0;
  if (!is_plain)
    g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT,
                 "expected recorded file names that are plain and differ from each other, found '%s'", name);
  return is_plain;
}

/**
 * weft_shard_layout_new_verbatim:
 * @outputs: the tensors to write
 * @file_names: (array zero-terminated=1): the names of the files
 * @headers: (element-type GBytes): for each file the JSON of its header, as weft_shard_read_header() gives it
 * @index_name: (nullable): the name of the index
 * @index: (nullable): the text of the index, written as it is
 * @error: return location
 *
 * Lays out files by recorded headers, so that a checkpoint comes back byte for byte. The tensors that the headers list
 * and the outputs must be the same.
 *
 * Returns: (transfer full): the layout
 * Errors: %WEFT_ERROR_FORMAT if a header breaks the format or a name is no plain file name; %WEFT_ERROR_MISSING if a
 *   header lists a tensor that is no output; %WEFT_ERROR_SHAPE if dtype or shape differ; %WEFT_ERROR_CONFLICT if two
 *   headers list a name; %WEFT_ERROR_UNEXPECTED if no header lists an output; %WEFT_ERROR_LIMIT
 * Since: 1.0
 */
WeftShardLayout *
weft_shard_layout_new_verbatim (WeftStateDict *outputs, const gchar *const *file_names, GPtrArray *headers,
                                const gchar *index_name, GBytes *index, GError **error)
{
  guint n_outputs = weft_state_dict_get_n_tensors (outputs);
  g_autoptr (WeftShardLayout) self = NULL;
  g_autofree gboolean *is_placed = g_new0 (gboolean, MAX (n_outputs, 1));

  g_return_val_if_fail (g_strv_length ((GStrv) file_names) == headers->len && headers->len > 0, NULL);
  g_return_val_if_fail ((index_name == NULL) == (index == NULL), NULL);
  self = layout_new (outputs);
  for (guint i = 0; i < headers->len; i++)
    if (!check_file_name (self, file_names[i], error)
        || !lay_out_verbatim (self, file_names[i], g_ptr_array_index (headers, i), is_placed, error))
      return NULL;
  for (guint i = 0; i < n_outputs; i++)
    if (!is_placed[i])
      {
        g_set_error (error, WEFT_ERROR, WEFT_ERROR_UNEXPECTED,
                     "tensor '%s': expected it in one of the recorded headers, found it in none",
                     weft_state_dict_get_name (outputs, i));
        return NULL;
      }
  if (index_name != NULL && !check_file_name (self, index_name, error))
    return NULL;
  self->index_name = g_strdup (index_name);
  self->index = index == NULL ? NULL : g_bytes_ref (index);
  return g_steal_pointer (&self);
}

/**
 * weft_shard_layout_get_outputs:
 * @self: a layout
 *
 * Returns: (transfer none): the tensors that are laid out
 * Since: 1.0
 */
WeftStateDict *
weft_shard_layout_get_outputs (WeftShardLayout *self)
{
  g_return_val_if_fail (WEFT_IS_SHARD_LAYOUT (self), NULL);
  return self->outputs;
}

/**
 * weft_shard_layout_get_n_files:
 * @self: a layout
 *
 * Returns: the number of safetensors files, at least 1
 * Since: 1.0
 */
guint
weft_shard_layout_get_n_files (WeftShardLayout *self)
{
  g_return_val_if_fail (WEFT_IS_SHARD_LAYOUT (self), 0);
  return self->files->len;
}

/**
 * weft_shard_layout_set_single_name:
 * @self: a layout
 * @name: (type filename): a name for the file, such as `adapter_model.safetensors`
 *
 * Names the file of a layout that has one. A layout of several files keeps the usual names.
 *
 * Since: 1.0
 */
void
weft_shard_layout_set_single_name (WeftShardLayout *self, const gchar *name)
{
  g_return_if_fail (strchr (name, '/') == NULL);
  if (self->files->len != 1)
    return;
  g_free (get_file (self, 0)->name);
  get_file (self, 0)->name = g_strdup (name);
}

/**
 * weft_shard_layout_get_file_name:
 * @self: a layout
 * @file: which file
 *
 * Returns: the plain name of the file
 * Since: 1.0
 */
const gchar *
weft_shard_layout_get_file_name (WeftShardLayout *self, guint file)
{
  g_return_val_if_fail (WEFT_IS_SHARD_LAYOUT (self) && file < self->files->len, NULL);
  return get_file (self, file)->name;
}

/**
 * weft_shard_layout_get_file_size:
 * @self: a layout
 * @file: which file
 *
 * Returns: the size of the whole file in bytes
 * Since: 1.0
 */
guint64
weft_shard_layout_get_file_size (WeftShardLayout *self, guint file)
{
  g_return_val_if_fail (WEFT_IS_SHARD_LAYOUT (self) && file < self->files->len, 0);
  return get_file (self, file)->size;
}

/**
 * weft_shard_layout_get_header:
 * @self: a layout
 * @file: which file
 *
 * Returns: (transfer none): the JSON of the file's header with its padding, without the length field before it
 * Since: 1.0
 */
GBytes *
weft_shard_layout_get_header (WeftShardLayout *self, guint file)
{
  g_return_val_if_fail (WEFT_IS_SHARD_LAYOUT (self) && file < self->files->len, NULL);
  return get_file (self, file)->header;
}

/**
 * weft_shard_layout_get_n_tensors:
 * @self: a layout
 * @file: which file
 *
 * Returns: the number of tensors in the file
 * Since: 1.0
 */
guint
weft_shard_layout_get_n_tensors (WeftShardLayout *self, guint file)
{
  g_return_val_if_fail (WEFT_IS_SHARD_LAYOUT (self) && file < self->files->len, 0);
  return get_file (self, file)->placements->len;
}

/**
 * weft_shard_layout_get_tensor:
 * @self: a layout
 * @file: which file
 * @tensor: which tensor of the file, in the order of their bytes
 *
 * Returns: the tensor's position in the outputs
 * Since: 1.0
 */
guint
weft_shard_layout_get_tensor (WeftShardLayout *self, guint file, guint tensor)
{
  g_return_val_if_fail (WEFT_IS_SHARD_LAYOUT (self) && file < self->files->len, 0);
  g_return_val_if_fail (tensor < get_file (self, file)->placements->len, 0);
  return g_array_index (get_file (self, file)->placements, Placement, tensor).position;
}

/**
 * weft_shard_layout_get_tensor_offset:
 * @self: a layout
 * @file: which file
 * @tensor: which tensor of the file, in the order of their bytes
 *
 * Returns: the offset of the tensor's first byte in the file, in bytes
 * Since: 1.0
 */
guint64
weft_shard_layout_get_tensor_offset (WeftShardLayout *self, guint file, guint tensor)
{
  g_return_val_if_fail (WEFT_IS_SHARD_LAYOUT (self) && file < self->files->len, 0);
  g_return_val_if_fail (tensor < get_file (self, file)->placements->len, 0);
  return g_array_index (get_file (self, file)->placements, Placement, tensor).offset;
}

/**
 * weft_shard_layout_get_index_name:
 * @self: a layout
 *
 * Returns: (nullable): the file name of the index, or %NULL if there is none
 * Since: 1.0
 */
const gchar *
weft_shard_layout_get_index_name (WeftShardLayout *self)
{
  g_return_val_if_fail (WEFT_IS_SHARD_LAYOUT (self), NULL);
  return self->index_name;
}

/**
 * weft_shard_layout_get_index:
 * @self: a layout
 *
 * Returns: (transfer none) (nullable): the text of the index, or %NULL if there is none
 * Since: 1.0
 */
GBytes *
weft_shard_layout_get_index (WeftShardLayout *self)
{
  g_return_val_if_fail (WEFT_IS_SHARD_LAYOUT (self), NULL);
  return self->index;
}
