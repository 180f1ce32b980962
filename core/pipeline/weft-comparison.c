/* SPDX-License-Identifier: Apache-2.0 */
#include "pipeline/weft-comparison.h"

#include <math.h>
#include <string.h>

#include "base/weft-json.h"
#include "base/weft-text.h"
#include "pipeline/weft-load-plan.h"
#include "pipeline/weft-provenance-private.h"
#include "pipeline/weft-report-row.h"
#include "pipeline/weft-revert-plan.h"
#include "pipeline/weft-tensor-pair-private.h"

#define N_KINDS (WEFT_DIFFERENCE_FILE + 1)
#define FILE_BUFFER_BYTES (1024 * 1024)

/* How a side is looked at. */
typedef enum
{
  LAYOUT_STORED,
  LAYOUT_CONVERTED,
  LAYOUT_REVERTED,
  N_LAYOUTS,
} Layout;

static const gchar *const layout_names[N_LAYOUTS] = { "stored", "converted", "reverted" };

typedef struct
{
  WeftCheckpoint *checkpoint; /* (nullable): a side may be a mere state dict */
  WeftStateDict *layouts[N_LAYOUTS];
  gboolean is_tried[N_LAYOUTS];
  /* Why the side cannot be brought to a layout. */
  GError *failures[N_LAYOUTS];
  Layout layout;
} Side;

struct _WeftComparison
{
  GObject parent_instance;

  WeftLoadOptions *options;
  WeftComparisonFlags flags;
  Side sides[2];
  /* WeftTensorPair, of what both have with one dtype and shape. */
  GArray *pairs;
  guint n_compared;
  GPtrArray *differences;
  GPtrArray *notes;
};

G_DEFINE_FINAL_TYPE (WeftComparison, weft_comparison, G_TYPE_OBJECT)
G_DEFINE_BOXED_TYPE (WeftDifference, weft_difference, weft_difference_copy, weft_difference_free)

/**
 * weft_difference_copy:
 * @self: a difference
 *
 * Returns: (transfer full): a copy
 * Since: 1.0
 */
WeftDifference *
weft_difference_copy (const WeftDifference *self)
{
  WeftDifference *copy = g_new (WeftDifference, 1);

  *copy = *self;
  copy->name = g_strdup (self->name);
  copy->detail = g_strdup (self->detail);
  return copy;
}

/**
 * weft_difference_free:
 * @self: (transfer full): a difference
 *
 * Since: 1.0
 */
void
weft_difference_free (WeftDifference *self)
{
  g_free (self->name);
  g_free (self->detail);
  g_free (self);
}

/**
 * weft_difference_get_kind_name:
 * @kind: a kind of difference
 *
 * Returns: its name in JSON, such as `only_in_a`
 * Since: 1.0
 */
const gchar *
weft_difference_get_kind_name (WeftDifferenceKind kind)
{
  static const gchar *const names[N_KINDS] = { "only_in_a", "only_in_b", "dtype", "shape", "values", "file" };

  return names[kind];
}

static void
weft_comparison_finalize (GObject *object)
{
  WeftComparison *self = WEFT_COMPARISON (object);

  g_clear_object (&self->options);
  for (guint i = 0; i < G_N_ELEMENTS (self->sides); i++)
    {
      g_clear_object (&self->sides[i].checkpoint);
      for (guint k = 0; k < N_LAYOUTS; k++)
        {
          g_clear_object (&self->sides[i].layouts[k]);
          g_clear_error (&self->sides[i].failures[k]);
        }
    }
  g_array_unref (self->pairs);
  g_ptr_array_unref (self->differences);
  g_ptr_array_unref (self->notes);
  G_OBJECT_CLASS (weft_comparison_parent_class)->finalize (object);
}

static void
weft_comparison_class_init (WeftComparisonClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = weft_comparison_finalize;
}

static void
weft_comparison_init (WeftComparison *self)
{
  self->pairs = g_array_new (FALSE, TRUE, sizeof (WeftTensorPair));
  self->differences = g_ptr_array_new_with_free_func ((GDestroyNotify) weft_difference_free);
  self->notes = g_ptr_array_new_with_free_func (g_free);
}

static WeftDifference *
add_difference (WeftComparison *self, WeftDifferenceKind kind, const gchar *name, const gchar *detail)
{
  WeftDifference *difference = g_new0 (WeftDifference, 1);

  difference->kind = kind;
  difference->name = g_strdup (name);
  difference->detail = g_strdup (detail);
  g_ptr_array_add (self->differences, difference);
  return difference;
}

static WeftStateDict *
convert (WeftComparison *self, WeftCheckpoint *checkpoint, GError **error)
{
  g_autoptr (WeftLoadPlan) plan = weft_load_plan_new (checkpoint, self->options, error);

  return plan != NULL ? g_object_ref (weft_load_plan_get_outputs (plan)) : NULL;
}

static WeftStateDict *
revert (WeftComparison *self, WeftCheckpoint *checkpoint, GError **error)
{
  g_autoptr (WeftRevertPlan) plan =
      weft_revert_plan_new (checkpoint, self->options, WEFT_REVERT_FLAGS_NONE, error);

  return plan != NULL ? g_object_ref (weft_revert_plan_get_outputs (plan)) : NULL;
}

/* The tensors of a side in a layout, or NULL if it cannot be brought there. */
static WeftStateDict *
get_layout (WeftComparison *self, guint side_number, Layout layout)
{
  Side *side = &self->sides[side_number];

  if (!side->is_tried[layout] && side->checkpoint != NULL)
    {
      if (layout == LAYOUT_STORED)
        side->layouts[layout] = g_object_ref (weft_checkpoint_get_state_dict (side->checkpoint));
      else if (layout == LAYOUT_CONVERTED)
        side->layouts[layout] = convert (self, side->checkpoint, &side->failures[layout]);
      else
        side->layouts[layout] = revert (self, side->checkpoint, &side->failures[layout]);
    }
  side->is_tried[layout] = TRUE;
  return side->layouts[layout];
}

static gboolean
have_equal_headers (WeftTensor *a, WeftTensor *b)
{
  return weft_tensor_get_dtype (a) == weft_tensor_get_dtype (b)
         && weft_shape_equal (weft_tensor_get_shape (a), weft_tensor_get_shape (b));
}

/* In how many names, dtypes and shapes two state dicts differ. */
static guint
count_header_differences (WeftStateDict *a, WeftStateDict *b)
{
  guint n_equal = 0;

  for (guint i = 0; i < weft_state_dict_get_n_tensors (a); i++)
    {
      WeftTensor *other = weft_state_dict_lookup (b, weft_state_dict_get_name (a, i));

      n_equal += other != NULL && have_equal_headers (weft_state_dict_get_tensor (a, i), other);
    }
  return weft_state_dict_get_n_tensors (a) + weft_state_dict_get_n_tensors (b) - 2 * n_equal;
}

static gboolean
has_record (const Side *side)
{
  g_autofree gchar *path = weft_provenance_find (side->checkpoint);

  return path != NULL;
}

/* A conversion may change values and no name, so a record on one side alone is believed first. Then come the layouts as
 * they are stored, and what takes the least work to bring both to one. */
static void
choose_layouts (WeftComparison *self)
{
  static const Layout orders[][2] = {
    { LAYOUT_STORED, LAYOUT_STORED },       { LAYOUT_CONVERTED, LAYOUT_STORED },
    { LAYOUT_STORED, LAYOUT_CONVERTED },    { LAYOUT_REVERTED, LAYOUT_STORED },
    { LAYOUT_STORED, LAYOUT_REVERTED },     { LAYOUT_REVERTED, LAYOUT_REVERTED },
    { LAYOUT_CONVERTED, LAYOUT_CONVERTED },
  };
  gboolean a_has_record = has_record (&self->sides[0]), b_has_record = has_record (&self->sides[1]);
  const Layout first[] = { a_has_record ? LAYOUT_REVERTED : LAYOUT_STORED,
                           b_has_record ? LAYOUT_REVERTED : LAYOUT_STORED };
  guint fewest = G_MAXUINT;

  for (guint i = a_has_record != b_has_record ? 0 : 1; i <= G_N_ELEMENTS (orders) && fewest > 0; i++)
    {
      const Layout *order = i == 0 ? first : orders[i - 1];
      WeftStateDict *a = get_layout (self, 0, order[0]);
      WeftStateDict *b = a != NULL ? get_layout (self, 1, order[1]) : NULL;
      guint n = b != NULL ? count_header_differences (a, b) : G_MAXUINT;

      if (n >= fewest)
        continue;
      fewest = n;
      self->sides[0].layout = order[0];
      self->sides[1].layout = order[1];
    }
}

static void
compare_headers_of (WeftComparison *self, const gchar *name, WeftTensor *a, WeftTensor *b)
{
  WeftTensorPair pair = { .a = a, .b = b, .name = name };

  if (weft_tensor_get_dtype (a) != weft_tensor_get_dtype (b))
    {
      g_autofree gchar *detail =
          g_strdup_printf ("%s and %s", weft_dtype_get_name (weft_tensor_get_dtype (a)),
                           weft_dtype_get_name (weft_tensor_get_dtype (b)));

      add_difference (self, WEFT_DIFFERENCE_DTYPE, name, detail);
    }
  if (!weft_shape_equal (weft_tensor_get_shape (a), weft_tensor_get_shape (b)))
    {
      g_autofree gchar *a_shape = weft_shape_to_string (weft_tensor_get_shape (a));
      g_autofree gchar *b_shape = weft_shape_to_string (weft_tensor_get_shape (b));
      g_autofree gchar *detail = g_strdup_printf ("%s and %s", a_shape, b_shape);

      add_difference (self, WEFT_DIFFERENCE_SHAPE, name, detail);
    }
  if (have_equal_headers (a, b))
    g_array_append_val (self->pairs, pair);
}

static void
compare_headers (WeftComparison *self)
{
  WeftStateDict *a = self->sides[0].layouts[self->sides[0].layout];
  WeftStateDict *b = self->sides[1].layouts[self->sides[1].layout];

  for (guint i = 0; i < weft_state_dict_get_n_tensors (a); i++)
    {
      const gchar *name = weft_state_dict_get_name (a, i);
      WeftTensor *other = weft_state_dict_lookup (b, name);

      if (other == NULL)
        add_difference (self, WEFT_DIFFERENCE_ONLY_IN_A, name, NULL);
      else
        compare_headers_of (self, name, weft_state_dict_get_tensor (a, i), other);
    }
  for (guint i = 0; i < weft_state_dict_get_n_tensors (b); i++)
    if (!weft_state_dict_find (a, weft_state_dict_get_name (b, i), NULL))
      add_difference (self, WEFT_DIFFERENCE_ONLY_IN_B, weft_state_dict_get_name (b, i), NULL);
  self->n_compared = self->pairs->len;
}

/* Checkpoints that differ may do so because one could not be brought to the layout of the other. That one without a record
 * cannot be reverted says nothing. */
static void
note_failures (WeftComparison *self)
{
  for (guint i = 0; self->differences->len > 0 && i < G_N_ELEMENTS (self->sides); i++)
    {
      const Side *side = &self->sides[i];

      for (guint k = 0; k < N_LAYOUTS; k++)
        if (side->failures[k] != NULL && (k == LAYOUT_CONVERTED || has_record (side)))
          g_ptr_array_add (self->notes,
                           g_strdup_printf ("%s cannot be compared as %s: %s", i == 0 ? "A" : "B",
                                            layout_names[k], side->failures[k]->message));
    }
}

/* All metadata of the files of a checkpoint. */
static GHashTable *
collect_metadata (WeftCheckpoint *checkpoint)
{
  GHashTable *all = g_hash_table_new (g_str_hash, g_str_equal);

  for (guint i = 0; i < weft_checkpoint_get_n_shards (checkpoint); i++)
    {
      GHashTable *metadata = weft_shard_get_metadata (weft_checkpoint_get_shard (checkpoint, i));
      GHashTableIter iter;
      gpointer key, value;

      if (metadata == NULL)
        continue;
      g_hash_table_iter_init (&iter, metadata);
      while (g_hash_table_iter_next (&iter, &key, &value))
        g_hash_table_insert (all, key, value);
    }
  return all;
}

static void
note_metadata_of (WeftComparison *self, GHashTable *mine, GHashTable *others, gboolean is_a)
{
  g_autoptr (GList) keys = g_list_sort (g_hash_table_get_keys (mine), (GCompareFunc) strcmp);

  for (GList *key = keys; key != NULL; key = key->next)
    {
      const gchar *value = g_hash_table_lookup (mine, key->data);
      const gchar *other = g_hash_table_lookup (others, key->data);

      if (other == NULL)
        g_ptr_array_add (self->notes, g_strdup_printf ("metadata '%s' is '%s' in %s alone",
                                                       (const gchar *) key->data, value, is_a ? "A" : "B"));
      else if (is_a && strcmp (value, other) != 0)
        g_ptr_array_add (self->notes, g_strdup_printf ("metadata '%s' is '%s' in A and '%s' in B",
                                                       (const gchar *) key->data, value, other));
    }
}

/* Metadata says nothing of the tensors: it is told, and is no difference. */
static void
note_metadata (WeftComparison *self)
{
  WeftCheckpoint *a = self->sides[0].checkpoint, *b = self->sides[1].checkpoint;
  g_autoptr (GHashTable) a_metadata = collect_metadata (a);
  g_autoptr (GHashTable) b_metadata = collect_metadata (b);
  JsonNode *a_config = weft_checkpoint_get_config (a), *b_config = weft_checkpoint_get_config (b);

  note_metadata_of (self, a_metadata, b_metadata, TRUE);
  note_metadata_of (self, b_metadata, a_metadata, FALSE);
  if (a_config != NULL && b_config != NULL && !json_node_equal (a_config, b_config))
    g_ptr_array_add (self->notes, g_strdup ("config.json is not the same"));
}

/**
 * weft_comparison_new:
 * @a: a checkpoint
 * @b: another
 * @options: (nullable): mapping, module tree and so on, for converting to a common layout
 * @flags: what is compared
 * @error: return location
 *
 * Compares names, dtypes and shapes. No tensor is read. With %WEFT_COMPARISON_FLAGS_BYTES nothing is compared yet.
 *
 * Returns: (transfer full): the comparison
 * Errors: none at present
 * Since: 1.0
 */
WeftComparison *
weft_comparison_new (WeftCheckpoint *a, WeftCheckpoint *b, WeftLoadOptions *options,
                     WeftComparisonFlags flags, GError **error)
{
  WeftComparison *self;

  g_return_val_if_fail (WEFT_IS_CHECKPOINT (a) && WEFT_IS_CHECKPOINT (b), NULL);
  self = g_object_new (WEFT_TYPE_COMPARISON, NULL);
  self->options = options != NULL ? g_object_ref (options) : weft_load_options_new ();
  self->flags = flags;
  self->sides[0].checkpoint = g_object_ref (a);
  self->sides[1].checkpoint = g_object_ref (b);
  if ((flags & WEFT_COMPARISON_FLAGS_BYTES) == 0)
    {
      choose_layouts (self);
      compare_headers (self);
      note_failures (self);
      note_metadata (self);
    }
  return self;
}

/**
 * weft_comparison_new_of_state_dicts:
 * @a: tensors
 * @b: other tensors
 *
 * Compares names, dtypes and shapes as they are.
 *
 * Returns: (transfer full): the comparison
 * Since: 1.0
 */
WeftComparison *
weft_comparison_new_of_state_dicts (WeftStateDict *a, WeftStateDict *b)
{
  WeftComparison *self = g_object_new (WEFT_TYPE_COMPARISON, NULL);

  self->sides[0].layouts[LAYOUT_STORED] = g_object_ref (a);
  self->sides[1].layouts[LAYOUT_STORED] = g_object_ref (b);
  compare_headers (self);
  return self;
}

static WeftShape
find_index (const WeftShape *shape, guint64 position)
{
  WeftShape index = { .rank = shape->rank };

  for (guint axis = shape->rank; axis > 0; axis--)
    {
      index.dims[axis - 1] = (gint64) (position % (guint64) shape->dims[axis - 1]);
      position /= (guint64) shape->dims[axis - 1];
    }
  return index;
}

static void
add_values (WeftComparison *self, const WeftTensorPair *pair)
{
  guint64 n_elements = (guint64) weft_tensor_get_n_elements (pair->a);
  WeftDifference *difference = add_difference (self, WEFT_DIFFERENCE_VALUES, pair->name, NULL);
  WeftShape index;
  g_autofree gchar *place = NULL;
  g_autofree gchar *largest = NULL;

  difference->shape = *weft_tensor_get_shape (pair->a);
  difference->n_elements = n_elements;
  difference->n_different = pair->n_different;
  difference->first = pair->first;
  difference->largest = pair->largest;
  index = find_index (&difference->shape, pair->first);
  place = weft_shape_to_string (&index);
  if (isinf (pair->largest))
    largest = g_strdup (", one side being infinite or no number");
  else if (!isnan (pair->largest))
    largest = g_strdup_printf (", by at most %g", pair->largest);
  difference->detail =
      g_strdup_printf ("%" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT " elements, the first at %s%s",
                       pair->n_different, n_elements, place, largest != NULL ? largest : "");
}

/* The files of a checkpoint by the name they have in its folder; one file alone is called as on the other side. */
static GHashTable *
list_files (WeftCheckpoint *checkpoint)
{
  const gchar *folder = weft_checkpoint_get_folder (checkpoint);
  const gchar *const *lists[] = { weft_checkpoint_get_other_files (checkpoint),
                                  weft_checkpoint_get_unused_files (checkpoint) };
  const gchar *names[] = { weft_checkpoint_get_index_name (checkpoint), WEFT_PROVENANCE_FILE_NAME };
  GHashTable *files = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);

  for (guint i = 0; i < weft_checkpoint_get_n_shards (checkpoint); i++)
    {
      WeftShard *shard = weft_checkpoint_get_shard (checkpoint, i);

      g_hash_table_insert (files,
                           g_strdup (folder != NULL ? weft_shard_get_file_name (shard) : "the weights"),
                           g_strdup (weft_file_get_path (weft_shard_get_file (shard))));
    }
  for (guint i = 0; folder != NULL && i < G_N_ELEMENTS (lists); i++)
    for (guint k = 0; lists[i][k] != NULL; k++)
      g_hash_table_insert (files, g_strdup (lists[i][k]), g_build_filename (folder, lists[i][k], NULL));
  for (guint i = 0; folder != NULL && i < G_N_ELEMENTS (names); i++)
    {
      g_autofree gchar *path = names[i] != NULL ? g_build_filename (folder, names[i], NULL) : NULL;

      if (path != NULL && g_file_test (path, G_FILE_TEST_IS_REGULAR))
        g_hash_table_insert (files, g_strdup (names[i]), g_steal_pointer (&path));
    }
  return files;
}

/* The first byte in which two files differ, up to the end of the shorter one. */
static gboolean
find_first_byte (WeftFile *a, WeftFile *b, guint64 *first, GCancellable *cancellable, GError **error)
{
  g_autofree guint8 *a_bytes = g_malloc (FILE_BUFFER_BYTES);
  g_autofree guint8 *b_bytes = g_malloc (FILE_BUFFER_BYTES);
  guint64 size = MIN (weft_file_get_size (a), weft_file_get_size (b));

  for (*first = 0; *first < size;)
    {
      gsize n_bytes = MIN (FILE_BUFFER_BYTES, size - *first);
      gsize at = 0;

      if (g_cancellable_is_cancelled (cancellable))
        {
          g_set_error_literal (error, WEFT_ERROR, WEFT_ERROR_CANCELLED, "cancelled");
          return FALSE;
        }
      if (!weft_file_read (a, *first, a_bytes, n_bytes, error)
          || !weft_file_read (b, *first, b_bytes, n_bytes, error))
        return FALSE;
      if (memcmp (a_bytes, b_bytes, n_bytes) == 0)
        {
          *first += n_bytes;
          continue;
        }
      while (a_bytes[at] == b_bytes[at])
        at++;
      *first += at;
      return TRUE;
    }
  return TRUE;
}

static gboolean
compare_file (WeftComparison *self, const gchar *name, const gchar *a_path, const gchar *b_path,
              GCancellable *cancellable, GError **error)
{
  g_autoptr (WeftFile) a = weft_file_open (a_path, WEFT_IO_BACKEND_PREAD, error);
  g_autoptr (WeftFile) b = a != NULL ? weft_file_open (b_path, WEFT_IO_BACKEND_PREAD, error) : NULL;
  g_autoptr (GString) detail = g_string_new (NULL);
  guint64 a_size, b_size, first = 0;

  if (b == NULL || !find_first_byte (a, b, &first, cancellable, error))
    return FALSE;
  self->n_compared++;
  a_size = weft_file_get_size (a);
  b_size = weft_file_get_size (b);
  if (first == a_size && first == b_size)
    return TRUE;
  if (a_size != b_size)
    g_string_append_printf (detail, "%" G_GUINT64_FORMAT " and %" G_GUINT64_FORMAT " bytes, ", a_size,
                            b_size);
  g_string_append_printf (detail, "the first difference at byte %" G_GUINT64_FORMAT, first);
  add_difference (self, WEFT_DIFFERENCE_FILE, name, detail->str)->first = first;
  return TRUE;
}

static gboolean
compare_files (WeftComparison *self, GCancellable *cancellable, GError **error)
{
  g_autoptr (GHashTable) a = list_files (self->sides[0].checkpoint);
  g_autoptr (GHashTable) b = list_files (self->sides[1].checkpoint);
  g_autoptr (GList) a_names = g_list_sort (g_hash_table_get_keys (a), (GCompareFunc) strcmp);
  g_autoptr (GList) b_names = g_list_sort (g_hash_table_get_keys (b), (GCompareFunc) strcmp);

  for (GList *name = a_names; name != NULL; name = name->next)
    {
      const gchar *b_path = g_hash_table_lookup (b, name->data);

      if (b_path == NULL)
        add_difference (self, WEFT_DIFFERENCE_ONLY_IN_A, name->data, NULL);
      else if (!compare_file (self, name->data, g_hash_table_lookup (a, name->data), b_path, cancellable,
                              error))
        return FALSE;
    }
  for (GList *name = b_names; name != NULL; name = name->next)
    if (!g_hash_table_contains (a, name->data))
      add_difference (self, WEFT_DIFFERENCE_ONLY_IN_B, name->data, NULL);
  return TRUE;
}

/**
 * weft_comparison_execute:
 * @self: a comparison
 * @progress: (nullable) (scope call): called as bytes are compared
 * @user_data: data of @progress
 * @cancellable: (nullable): stops the work
 * @error: return location
 *
 * Compares the values of the tensors that both sides have with one dtype and shape; or, with
 * %WEFT_COMPARISON_FLAGS_BYTES, all files. Reads both sides once, piece by piece.
 *
 * Returns: whether everything could be read; what differs is in weft_comparison_list_differences()
 * Errors: those of reading, %WEFT_ERROR_CANCELLED
 * Since: 1.0
 */
gboolean
weft_comparison_execute (WeftComparison *self, WeftProgressFunc progress, gpointer user_data,
                         GCancellable *cancellable, GError **error)
{
  WeftTransferOptions options = { .struct_size = sizeof options,
                                  .n_threads = weft_transfer_get_default_n_threads (),
                                  .progress = progress,
                                  .progress_data = user_data };

  return weft_comparison_execute_full (self, &options, cancellable, error);
}

/**
 * weft_comparison_execute_full: (skip)
 * @self: a comparison
 * @options: threads and progress
 * @cancellable: (nullable): stops the work
 * @error: return location
 *
 * As weft_comparison_execute().
 *
 * Returns: whether everything could be read
 * Errors: as weft_comparison_execute()
 * Since: 1.0
 */
gboolean
weft_comparison_execute_full (WeftComparison *self, const WeftTransferOptions *options,
                              GCancellable *cancellable, GError **error)
{
  WeftTensorPair *pairs = (WeftTensorPair *) (gpointer) self->pairs->data;
  guint n_pairs = self->pairs->len;
  gboolean was_equal = weft_comparison_is_equal (self);

  if ((self->flags & WEFT_COMPARISON_FLAGS_BYTES) != 0)
    return compare_files (self, cancellable, error);
  if (!weft_tensor_pairs_compare (pairs, n_pairs, options, cancellable, error))
    return FALSE;
  for (guint i = 0; i < n_pairs; i++)
    if (pairs[i].n_different > 0)
      add_values (self, &pairs[i]);
  if (was_equal)
    note_failures (self);
  g_array_set_size (self->pairs, 0);
  return TRUE;
}

/**
 * weft_comparison_is_equal:
 * @self: a comparison
 *
 * Returns: whether no difference was found so far
 * Since: 1.0
 */
gboolean
weft_comparison_is_equal (WeftComparison *self)
{
  return self->differences->len == 0;
}

/**
 * weft_comparison_get_n_compared:
 * @self: a comparison
 *
 * Returns: how many tensors (or files) both sides have, with one dtype and shape
 * Since: 1.0
 */
guint
weft_comparison_get_n_compared (WeftComparison *self)
{
  return self->n_compared;
}

/**
 * weft_comparison_get_layout:
 * @self: a comparison
 * @of_b: the second checkpoint, not the first
 *
 * Returns: how that checkpoint was looked at: `stored`, `converted` (to the runtime's layout) or `reverted` (to the
 *   published one)
 * Since: 1.0
 */
const gchar *
weft_comparison_get_layout (WeftComparison *self, gboolean of_b)
{
  return layout_names[self->sides[of_b ? 1 : 0].layout];
}

static gint
compare_differences (gconstpointer a, gconstpointer b)
{
  const WeftDifference *difference_a = *(const WeftDifference *const *) a;
  const WeftDifference *difference_b = *(const WeftDifference *const *) b;

  if (difference_a->kind != difference_b->kind)
    return difference_a->kind < difference_b->kind ? -1 : 1;
  return weft_text_compare_natural (difference_a->name, difference_b->name);
}

/**
 * weft_comparison_list_differences:
 * @self: a comparison
 *
 * Returns: (transfer container) (element-type WeftDifference): what differs, by kind and name
 * Since: 1.0
 */
GPtrArray *
weft_comparison_list_differences (WeftComparison *self)
{
  GPtrArray *list = g_ptr_array_new_with_free_func ((GDestroyNotify) weft_difference_free);

  for (guint i = 0; i < self->differences->len; i++)
    g_ptr_array_add (list, weft_difference_copy (self->differences->pdata[i]));
  g_ptr_array_sort (list, compare_differences);
  return list;
}

/**
 * weft_comparison_list_notes:
 * @self: a comparison
 *
 * Returns: (transfer full): sentences on metadata and config, which do not make checkpoints different, and on layouts that a
 *   checkpoint could not be brought to
 * Since: 1.0
 */
GStrv
weft_comparison_list_notes (WeftComparison *self)
{
  g_autoptr (GStrvBuilder) builder = g_strv_builder_new ();

  for (guint i = 0; i < self->notes->len; i++)
    g_strv_builder_add (builder, self->notes->pdata[i]);
  return g_strv_builder_end (builder);
}

static void
add_value_members (JsonBuilder *builder, const WeftDifference *difference)
{
  WeftShape index = find_index (&difference->shape, difference->first);

  json_builder_set_member_name (builder, "n_elements");
  json_builder_add_int_value (builder, (gint64) difference->n_elements);
  json_builder_set_member_name (builder, "n_different");
  json_builder_add_int_value (builder, (gint64) difference->n_different);
  json_builder_set_member_name (builder, "first_index");
  json_builder_begin_array (builder);
  for (guint i = 0; i < index.rank; i++)
    json_builder_add_int_value (builder, index.dims[i]);
  json_builder_end_array (builder);
  json_builder_set_member_name (builder, "largest");
  if (isfinite (difference->largest))
    json_builder_add_double_value (builder, difference->largest);
  else
    json_builder_add_null_value (builder);
}

static void
add_difference_json (JsonBuilder *builder, const WeftDifference *difference)
{
  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "name");
  json_builder_add_string_value (builder, difference->name);
  if (difference->detail != NULL)
    {
      json_builder_set_member_name (builder, "detail");
      json_builder_add_string_value (builder, difference->detail);
    }
  if (difference->kind == WEFT_DIFFERENCE_VALUES)
    add_value_members (builder, difference);
  json_builder_end_object (builder);
}

/**
 * weft_comparison_to_json:
 * @self: a comparison
 *
 * Returns: (transfer full): an object with `equal`, `compared`, `layouts`, `notes`, and an array for each kind of
 *   difference
 * Since: 1.0
 */
JsonNode *
weft_comparison_to_json (WeftComparison *self)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  g_autoptr (GPtrArray) differences = weft_comparison_list_differences (self);

  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "equal");
  json_builder_add_boolean_value (builder, weft_comparison_is_equal (self));
  json_builder_set_member_name (builder, "compared");
  json_builder_add_int_value (builder, self->n_compared);
  json_builder_set_member_name (builder, "layouts");
  json_builder_begin_array (builder);
  json_builder_add_string_value (builder, weft_comparison_get_layout (self, FALSE));
  json_builder_add_string_value (builder, weft_comparison_get_layout (self, TRUE));
  json_builder_end_array (builder);
  for (guint kind = 0; kind < N_KINDS; kind++)
    {
      json_builder_set_member_name (builder, weft_difference_get_kind_name (kind));
      json_builder_begin_array (builder);
      for (guint i = 0; i < differences->len; i++)
        if (((const WeftDifference *) differences->pdata[i])->kind == kind)
          add_difference_json (builder, differences->pdata[i]);
      json_builder_end_array (builder);
    }
  json_builder_set_member_name (builder, "notes");
  json_builder_begin_array (builder);
  for (guint i = 0; i < self->notes->len; i++)
    json_builder_add_string_value (builder, self->notes->pdata[i]);
  json_builder_end_array (builder);
  json_builder_end_object (builder);
  return json_builder_get_root (builder);
}

/* Where values differ the worst tensor of a row speaks for it; everything else has one row for each thing that is said. */
static gint
compare_for_rows (gconstpointer a, gconstpointer b)
{
  const WeftDifference *difference_a = *(const WeftDifference *const *) a;
  const WeftDifference *difference_b = *(const WeftDifference *const *) b;

  if (difference_a->kind == WEFT_DIFFERENCE_VALUES && difference_a->largest < difference_b->largest)
    return -1;
  if (difference_a->kind == WEFT_DIFFERENCE_VALUES && difference_a->largest > difference_b->largest)
    return 1;
  if (difference_a->kind != WEFT_DIFFERENCE_VALUES
      && g_strcmp0 (difference_a->detail, difference_b->detail) != 0)
    return g_strcmp0 (difference_a->detail, difference_b->detail);
  return compare_differences (a, b);
}

static void
append_rows (GString *text, WeftDifferenceKind kind, GPtrArray *names, GPtrArray *details, guint *n_left)
{
  static const gchar *const titles[N_KINDS] = {
    "ONLY IN A", "ONLY IN B", "DTYPE", "SHAPE", "VALUES", "FILE"
  };
  g_autoptr (GPtrArray) rows = NULL;

  if (names->len == 0)
    return;
  g_ptr_array_add (names, NULL);
  g_ptr_array_add (details, NULL);
  rows = weft_report_rows_new ((const gchar *const *) names->pdata, (const gchar *const *) details->pdata);
  for (guint i = 0; i < rows->len; i++)
    {
      const WeftReportRow *row = rows->pdata[i];

      if (*n_left == 0)
        break;
      (*n_left)--;
      g_string_append_printf (text, "%-9s  %s", titles[kind], row->pattern);
      if (row->n_names > 1)
        g_string_append_printf (text, " (%u%s)", row->n_names,
                                kind == WEFT_DIFFERENCE_VALUES ? "; the worst:" : "");
      if (row->detail != NULL)
        g_string_append_printf (text, ": %s", row->detail);
      g_string_append_c (text, '\n');
    }
  g_ptr_array_set_size (names, 0);
  g_ptr_array_set_size (details, 0);
}

/**
 * weft_comparison_to_text:
 * @self: a comparison
 * @n_lines: how many rows are shown before the rest is counted
 *
 * Returns: (transfer full): the differences for a person, names that differ by numbers alone in one row; empty if there are
 *   none
 * Since: 1.0
 */
gchar *
weft_comparison_to_text (WeftComparison *self, guint n_lines)
{
  GString *text = g_string_new (NULL);
  g_autoptr (GPtrArray) differences = weft_comparison_list_differences (self);
  guint n_left = n_lines;

  for (guint kind = 0; kind < N_KINDS; kind++)
    {
      g_autoptr (GPtrArray) of_kind = g_ptr_array_new ();
      g_autoptr (GPtrArray) names = g_ptr_array_new ();
      g_autoptr (GPtrArray) details = g_ptr_array_new ();

      for (guint i = 0; i < differences->len; i++)
        if (((const WeftDifference *) differences->pdata[i])->kind == kind)
          g_ptr_array_add (of_kind, differences->pdata[i]);
      g_ptr_array_sort (of_kind, compare_for_rows);
      for (guint i = 0; i < of_kind->len; i++)
        {
          const WeftDifference *difference = of_kind->pdata[i];
          const gchar *detail = difference->detail != NULL ? difference->detail : "";

          if (kind != WEFT_DIFFERENCE_VALUES && details->len > 0
              && strcmp (details->pdata[details->len - 1], detail) != 0)
            append_rows (text, kind, names, details, &n_left);
          g_ptr_array_add (names, difference->name);
          g_ptr_array_add (details, (gpointer) detail);
        }
      append_rows (text, kind, names, details, &n_left);
    }
  if (n_left == 0 && differences->len > 0)
    g_string_append_printf (text, "%u differences in all\n", differences->len);
  return g_string_free (text, FALSE);
}
