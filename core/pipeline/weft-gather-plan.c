/* SPDX-License-Identifier: Apache-2.0 */
#include "pipeline/weft-gather-plan.h"

#include <string.h>
#include <sys/stat.h>

#include "checkpoint/weft-safetensors-sink.h"
#include "pipeline/weft-provenance-private.h"
#include "pipeline/weft-slice-record-private.h"
#include "pipeline/weft-tensor-pair-private.h"

/* No plan cuts a tensor into more boxes. */
#define MAX_BOXES 65536

/* A folder and what it says that it holds. */
typedef struct
{
  WeftCheckpoint *checkpoint;
  WeftSliceRecord *record;
} Part;

/* Two ranks that hold the same elements. */
typedef struct
{
  WeftTensor *a, *b;
  const gchar *name;
  guint rank_a, rank_b;
} Replica;

struct _WeftGatherPlan
{
  GObject parent_instance;

  GArray *parts; /* of Part, by rank */
  WeftStateDict *outputs;
  GArray *replicas; /* of Replica */
};

/* One tensor while it is joined. */
typedef struct
{
  WeftGatherPlan *plan;
  const gchar *name;
  WeftShape shape;
  /* Of each part: its tensor (NULL: it has none) and where that lies. */
  WeftTensor **tensors;
  WeftSlice **slices;
  /* For each axis: where boxes begin, and its end. */
  GArray *edges[WEFT_MAX_RANK];
  WeftRange box[WEFT_MAX_RANK];
} Join;

G_DEFINE_FINAL_TYPE (WeftGatherPlan, weft_gather_plan, G_TYPE_OBJECT)

static void
clear_part (gpointer pointer)
{
  Part *part = pointer;

  g_clear_object (&part->checkpoint);
  g_clear_pointer (&part->record, weft_slice_record_free);
}

static void
clear_replica (gpointer pointer)
{
  Replica *replica = pointer;

  weft_tensor_unref (replica->a);
  weft_tensor_unref (replica->b);
}

static void
weft_gather_plan_finalize (GObject *object)
{
  WeftGatherPlan *self = WEFT_GATHER_PLAN (object);

  g_array_unref (self->replicas);
  g_clear_object (&self->outputs);
  g_array_unref (self->parts);
  G_OBJECT_CLASS (weft_gather_plan_parent_class)->finalize (object);
}

static void
weft_gather_plan_class_init (WeftGatherPlanClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = weft_gather_plan_finalize;
}

static void
weft_gather_plan_init (WeftGatherPlan *self)
{
  self->parts = g_array_new (FALSE, TRUE, sizeof (Part));
  g_array_set_clear_func (self->parts, clear_part);
  self->replicas = g_array_new (FALSE, TRUE, sizeof (Replica));
  g_array_set_clear_func (self->replicas, clear_replica);
  self->outputs = weft_state_dict_new ();
}

static const Part *
get_part (WeftGatherPlan *self, guint i)
{
  return &g_array_index (self->parts, Part, i);
}

/* Joining. */

static gint
compare_edges (gconstpointer a, gconstpointer b)
{
  gint64 first = *(const gint64 *) a, second = *(const gint64 *) b;

  return (first > second) - (first < second);
}

/* Ascending, each once. */
static void
sort_edges (GArray *edges)
{
  guint n = 1;

  g_array_sort (edges, compare_edges);
  for (guint i = 1; i < edges->len; i++)
    if (g_array_index (edges, gint64, i) != g_array_index (edges, gint64, n - 1))
      g_array_index (edges, gint64, n++) = g_array_index (edges, gint64, i);
  g_array_set_size (edges, n);
}

static GArray *
list_edges (const Join *self, guint axis)
{
  GArray *edges = g_array_new (FALSE, FALSE, sizeof (gint64));
  gint64 begin = 0, end = self->shape.dims[axis];

  g_array_append_val (edges, begin);
  g_array_append_val (edges, end);
  for (guint i = 0; i < self->plan->parts->len; i++)
    {
      const GArray *ranges =
          self->tensors[i] != NULL && self->slices[i] != NULL ? self->slices[i]->ranges[axis] : NULL;

      for (guint k = 0; ranges != NULL && k < ranges->len; k++)
        {
          begin = g_array_index (ranges, WeftRange, k).start;
          end = begin + g_array_index (ranges, WeftRange, k).length;
          g_array_append_val (edges, begin);
          g_array_append_val (edges, end);
        }
    }
  sort_edges (edges);
  return edges;
}

static gboolean
find_edges (Join *self, GError **error)
{
  guint64 n_boxes = 1;

  for (guint axis = 0; axis < self->shape.rank; axis++)
    {
      self->edges[axis] = list_edges (self, axis);
      n_boxes *= MAX (self->edges[axis]->len - 1, 1);
      if (n_boxes > MAX_BOXES)
        {
          g_set_error (error, WEFT_ERROR, WEFT_ERROR_LIMIT,
                       "'%s' is cut into more than %d boxes, which no plan does", self->name, MAX_BOXES);
          return FALSE;
        }
    }
  return TRUE;
}

/* Where a range of the whole axis begins in what a part holds of it; -1: it does not hold it. */
static gint64
find_local_start (const GArray *ranges, const WeftRange *wanted)
{
  gint64 offset = 0;

  if (ranges == NULL)
    return wanted->start;
  if (wanted->length == 0)
    return 0;
  for (guint i = 0; i < ranges->len; i++)
    {
      const WeftRange *range = &g_array_index (ranges, WeftRange, i);

      if (wanted->start >= range->start && wanted->start + wanted->length <= range->start + range->length)
        return offset + wanted->start - range->start;
      offset += range->length;
    }
  return -1;
}

static gboolean
holds_box (const Join *self, guint part)
{
  for (guint axis = 0; self->tensors[part] != NULL && self->slices[part] != NULL && axis < self->shape.rank;
       axis++)
    if (find_local_start (self->slices[part]->ranges[axis], &self->box[axis]) < 0)
      return FALSE;
  return self->tensors[part] != NULL;
}

static WeftTensor *
cut_box (const Join *self, guint part, GError **error)
{
  g_autoptr (WeftTensor) box = weft_tensor_ref (self->tensors[part]);

  for (guint axis = 0; box != NULL && axis < self->shape.rank; axis++)
    {
      const GArray *ranges = self->slices[part] != NULL ? self->slices[part]->ranges[axis] : NULL;
      WeftTensor *narrower = weft_tensor_slice (box, (gint) axis, find_local_start (ranges, &self->box[axis]),
                                                self->box[axis].length, error);

      weft_tensor_unref (box);
      box = narrower;
    }
  return g_steal_pointer (&box);
}

static void
add_replica (const Join *self, WeftTensor *a, guint rank_a, WeftTensor *b, guint rank_b)
{
  Replica replica = { weft_tensor_ref (a), weft_tensor_ref (b), self->name, rank_a, rank_b };

  g_array_append_val (self->plan->replicas, replica);
}

static WeftTensor *
refuse_hole (const Join *self, GError **error)
{
  g_autoptr (GString) where = g_string_new (NULL);
  guint n = self->plan->parts->len, world_size = get_part (self->plan, 0)->record->world_size;

  for (guint axis = 0; axis < self->shape.rank; axis++)
    g_string_append_printf (where, "%s%" G_GINT64_FORMAT ":%" G_GINT64_FORMAT, axis > 0 ? ", " : "",
                            self->box[axis].start, self->box[axis].start + self->box[axis].length);
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_MISSING,
               "'%s': no folder holds [%s]; %u of %u ranks are given%s", self->name, where->str, n,
               world_size, n < world_size ? ", give the others too" : "");
  return NULL;
}

/* What is in the box: of the first rank that holds it; those of others have to be equal. */
static WeftTensor *
join_box (const Join *self, GError **error)
{
  g_autoptr (WeftTensor) first = NULL;
  guint first_part = 0;

  for (guint i = 0; i < self->plan->parts->len; i++)
    {
      g_autoptr (WeftTensor) box = NULL;

      if (!holds_box (self, i))
        continue;
      box = cut_box (self, i, error);
      if (box == NULL)
        return NULL;
      if (first == NULL)
        {
          first = g_steal_pointer (&box);
          first_part = i;
        }
      else
        add_replica (self, first, get_part (self->plan, first_part)->record->rank, box,
                     get_part (self->plan, i)->record->rank);
    }
  return first != NULL ? g_steal_pointer (&first) : refuse_hole (self, error);
}

static WeftTensor *
join_axes (Join *self, guint axis, GError **error)
{
  g_autoptr (GPtrArray) boxes = g_ptr_array_new_with_free_func ((GDestroyNotify) weft_tensor_unref);
  GArray *edges = axis < self->shape.rank ? self->edges[axis] : NULL;

  if (edges == NULL)
    return join_box (self, error);
  for (guint i = 0; i == 0 || i + 1 < edges->len; i++)
    {
      gint64 start = g_array_index (edges, gint64, i);
      gint64 end = i + 1 < edges->len ? g_array_index (edges, gint64, i + 1) : start;
      WeftTensor *box;

      self->box[axis] = (WeftRange){ start, end - start };
      box = join_axes (self, axis + 1, error);
      if (box == NULL)
        return NULL;
      g_ptr_array_add (boxes, box);
    }
  return boxes->len == 1 ? weft_tensor_ref (boxes->pdata[0])
                         : weft_tensor_concat ((WeftTensor **) boxes->pdata, boxes->len, (gint) axis, error);
}

/* Whether the file holds what its record says. */
static gboolean
check_part (const Join *self, guint part, WeftDtype dtype, GError **error)
{
  WeftShape shape = self->slices[part] != NULL ? weft_slice_get_shape (self->slices[part]) : self->shape;
  WeftTensor *tensor = self->tensors[part];
  g_autofree gchar *expected = NULL;
  g_autofree gchar *found = NULL;

  if (tensor == NULL
      || (weft_tensor_get_dtype (tensor) == dtype
          && weft_shape_equal (weft_tensor_get_shape (tensor), &shape)))
    return TRUE;
  expected = weft_shape_to_string (&shape);
  found = weft_shape_to_string (weft_tensor_get_shape (tensor));
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE,
               "%s: '%s': the record says %s %s, found %s %s; parts that were changed cannot be joined",
               weft_checkpoint_get_path (get_part (self->plan, part)->checkpoint), self->name,
               weft_dtype_get_name (dtype), expected, weft_dtype_get_name (weft_tensor_get_dtype (tensor)),
               found);
  return FALSE;
}

static gboolean
join_tensor (WeftGatherPlan *self, const gchar *name, WeftTensor *whole, GError **error)
{
  guint n = self->parts->len;
  g_autofree WeftTensor **tensors = g_new0 (WeftTensor *, n);
  g_autofree WeftSlice **slices = g_new0 (WeftSlice *, n);
  Join join = { self, name, *weft_tensor_get_shape (whole), tensors, slices, { NULL }, { { 0, 0 } } };
  g_autoptr (WeftTensor) joined = NULL;
  gboolean ok = TRUE;

  for (guint i = 0; ok && i < n; i++)
    {
      tensors[i] =
          weft_state_dict_lookup (weft_checkpoint_get_state_dict (get_part (self, i)->checkpoint), name);
      slices[i] = g_hash_table_lookup (get_part (self, i)->record->slices, name);
      ok = check_part (&join, i, weft_tensor_get_dtype (whole), error);
    }
  ok = ok && find_edges (&join, error);
  if (ok)
    joined = join_axes (&join, 0, error);
  for (guint axis = 0; axis < join.shape.rank; axis++)
    g_clear_pointer (&join.edges[axis], g_array_unref);
  return joined != NULL && weft_state_dict_add (self->outputs, name, joined, error);
}

/* Making one. */

static gint
compare_ranks (gconstpointer a, gconstpointer b)
{
  guint first = ((const Part *) a)->record->rank, second = ((const Part *) b)->record->rank;

  return (first > second) - (first < second);
}

static gboolean
add_part (WeftGatherPlan *self, WeftCheckpoint *checkpoint, GError **error)
{
  g_autofree gchar *path = weft_provenance_find (checkpoint);
  WeftSliceRecord *record;
  Part part;

  if (path == NULL)
    {
      g_set_error (
          error, WEFT_ERROR, WEFT_ERROR_MISSING,
          "%s has no record (%s) of what it holds; only what `weft shard` and `weft convert --tp-size` wrote can be joined",
          weft_checkpoint_get_path (checkpoint), WEFT_PROVENANCE_FILE_NAME);
      return FALSE;
    }
  record = weft_slice_record_load (path, error);
  if (record == NULL)
    return FALSE;
  part = (Part){ g_object_ref (checkpoint), record };
  g_array_append_val (self->parts, part);
  return TRUE;
}

static gboolean
check_parts (WeftGatherPlan *self, GError **error)
{
  const Part *first = get_part (self, 0);

  for (guint i = 1; i < self->parts->len; i++)
    {
      const Part *part = get_part (self, i);
      gboolean is_twice = part->record->rank == get_part (self, i - 1)->record->rank;

      if (!is_twice && weft_slice_record_is_of_same_whole (first->record, part->record))
        continue;
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_CONFLICT,
                   is_twice ? "%s and %s are both of one rank; give each once"
                            : "%s and %s are not parts of one conversion; give the folders of one run",
                   weft_checkpoint_get_path (get_part (self, is_twice ? i - 1 : 0)->checkpoint),
                   weft_checkpoint_get_path (part->checkpoint));
      return FALSE;
    }
  return TRUE;
}

/* A tensor that no header of the whole lists would be lost. */
static gboolean
check_names (WeftGatherPlan *self, GError **error)
{
  for (guint i = 0; i < self->parts->len; i++)
    {
      const Part *part = get_part (self, i);
      WeftStateDict *tensors = weft_checkpoint_get_state_dict (part->checkpoint);

      for (guint k = 0; k < weft_state_dict_get_n_tensors (tensors); k++)
        {
          const gchar *name = weft_state_dict_get_name (tensors, k);

          if (weft_state_dict_find (part->record->tensors, name, NULL))
            continue;
          g_set_error (error, WEFT_ERROR, WEFT_ERROR_UNEXPECTED,
                       "%s: '%s' is no tensor of the whole that its record describes",
                       weft_checkpoint_get_path (part->checkpoint), name);
          return FALSE;
        }
    }
  return TRUE;
}

/**
 * weft_gather_plan_new:
 * @checkpoints: (element-type WeftCheckpoint): the folders of the ranks, in any order
 * @error: return location
 *
 * Plans from headers and records alone. A rank may be left out if others hold all that it holds.
 *
 * Returns: (transfer full): the plan
 * Errors: %WEFT_ERROR_MISSING if a part of a tensor is in no folder, or a folder has no record; %WEFT_ERROR_CONFLICT if the folders are
 *   not of one conversion; %WEFT_ERROR_SHAPE or %WEFT_ERROR_UNEXPECTED if one holds something else than it says
 * Since: 1.0
 */
WeftGatherPlan *
weft_gather_plan_new (GPtrArray *checkpoints, GError **error)
{
  g_autoptr (WeftGatherPlan) self = g_object_new (WEFT_TYPE_GATHER_PLAN, NULL);
  WeftStateDict *whole;

  for (guint i = 0; i < checkpoints->len; i++)
    if (!add_part (self, checkpoints->pdata[i], error))
      return NULL;
  if (self->parts->len == 0)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT, "no folder of a rank was given");
      return NULL;
    }
  g_array_sort (self->parts, compare_ranks);
  if (!check_parts (self, error) || !check_names (self, error))
    return NULL;
  whole = get_part (self, 0)->record->tensors;
  for (guint i = 0; i < weft_state_dict_get_n_tensors (whole); i++)
    if (!join_tensor (self, weft_state_dict_get_name (whole, i), weft_state_dict_get_tensor (whole, i),
                      error))
      return NULL;
  return g_steal_pointer (&self);
}

/**
 * weft_gather_plan_get_outputs:
 * @self: a plan
 *
 * Returns: (transfer none): the whole tensors, lazy
 * Since: 1.0
 */
WeftStateDict *
weft_gather_plan_get_outputs (WeftGatherPlan *self)
{
  return self->outputs;
}

/**
 * weft_gather_plan_get_world_size:
 * @self: a plan
 *
 * Returns: how many ranks the whole was cut for
 * Since: 1.0
 */
guint
weft_gather_plan_get_world_size (WeftGatherPlan *self)
{
  return get_part (self, 0)->record->world_size;
}

/**
 * weft_gather_plan_check_replicas:
 * @self: a plan
 * @cancellable: (nullable): stops the work
 * @error: return location
 *
 * Reads what several ranks hold, and compares. weft_gather_plan_execute() does so too.
 *
 * Returns: whether all hold the same
 * Errors: %WEFT_ERROR_CONFLICT if two ranks differ; those of reading
 * Since: 1.0
 */
gboolean
weft_gather_plan_check_replicas (WeftGatherPlan *self, GCancellable *cancellable, GError **error)
{
  g_autofree WeftTensorPair *pairs = g_new0 (WeftTensorPair, self->replicas->len + 1);
  WeftTransferOptions options = { .struct_size = sizeof options,
                                  .n_threads = weft_transfer_get_default_n_threads () };

  for (guint i = 0; i < self->replicas->len; i++)
    {
      const Replica *replica = &g_array_index (self->replicas, Replica, i);

      pairs[i].a = replica->a;
      pairs[i].b = replica->b;
      pairs[i].name = replica->name;
    }
  if (!weft_tensor_pairs_compare (pairs, self->replicas->len, &options, cancellable, error))
    return FALSE;
  for (guint i = 0; i < self->replicas->len; i++)
    {
      const Replica *replica = &g_array_index (self->replicas, Replica, i);

      if (pairs[i].n_different == 0)
        continue;
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_CONFLICT,
                   "'%s': ranks %u and %u hold the same elements with different values (%" G_GUINT64_FORMAT
                   " of them)",
                   replica->name, replica->rank_a, replica->rank_b, pairs[i].n_different);
      return FALSE;
    }
  return TRUE;
}

/* Differs whenever a part does: its record, or a file of it. */
static gchar *
compute_fingerprint (WeftGatherPlan *self)
{
  g_autoptr (GString) text = g_string_new (NULL);

  for (guint i = 0; i < self->parts->len; i++)
    {
      const Part *part = get_part (self, i);

      g_string_append_printf (text, "%s\n", part->record->checksum);
      for (guint k = 0; k < weft_checkpoint_get_n_shards (part->checkpoint); k++)
        {
          const gchar *path =
              weft_file_get_path (weft_shard_get_file (weft_checkpoint_get_shard (part->checkpoint, k)));
          struct stat status = { .st_size = 0 };

          if (stat (path, &status) == 0)
            g_string_append_printf (text, "%s %" G_GINT64_FORMAT " %" G_GINT64_FORMAT ".%09ld\n", path,
                                    (gint64) status.st_size, (gint64) status.st_mtim.tv_sec,
                                    status.st_mtim.tv_nsec);
        }
    }
  return g_compute_checksum_for_string (G_CHECKSUM_SHA256, text->str, (gssize) text->len);
}

/* Writing must not harm a part. Files beside the weights are those of the first, which is told last. */
static gboolean
set_sources (WeftGatherPlan *self, WeftSafetensorsSink *sink, GError **error)
{
  for (guint i = self->parts->len; i > 0; i--)
    if (!weft_safetensors_sink_set_source (sink, get_part (self, i - 1)->checkpoint, error))
      return FALSE;
  return TRUE;
}

/* The files of the whole, as they were recorded. */
static gboolean
prepare_files (WeftGatherPlan *self, WeftSafetensorsSink *sink, GError **error)
{
  const WeftSliceRecord *record = get_part (self, 0)->record;
  g_autoptr (WeftShardLayout) layout = NULL;
  g_autofree gchar *fingerprint = NULL;

  if (!set_sources (self, sink, error))
    return FALSE;
  layout = weft_shard_layout_new_verbatim (self->outputs, (const gchar *const *) record->file_names,
                                           record->headers, record->index_name, record->index, error);
  if (layout == NULL)
    return FALSE;
  weft_safetensors_sink_set_layout (sink, layout);
  fingerprint = compute_fingerprint (self);
  weft_safetensors_sink_set_fingerprint (sink, fingerprint);
  return record->provenance == NULL || weft_safetensors_sink_is_single_file (sink)
         || weft_safetensors_sink_add_text (sink, WEFT_PROVENANCE_FILE_NAME, record->provenance, error);
}

/**
 * weft_gather_plan_execute:
 * @self: a plan
 * @sink: where the whole goes
 * @progress: (nullable) (scope call): called as bytes arrive
 * @user_data: data of @progress
 * @cancellable: (nullable): stops the work
 * @error: return location
 *
 * Compares what several ranks hold, and joins the parts. Files beside the weights are those of the first rank.
 *
 * Returns: whether all outputs are in place
 * Errors: those of weft_gather_plan_check_replicas(), of the sink and of reading
 * Since: 1.0
 */
gboolean
weft_gather_plan_execute (WeftGatherPlan *self, WeftSink *sink, WeftProgressFunc progress, gpointer user_data,
                          GCancellable *cancellable, GError **error)
{
  WeftTransferOptions options = { .struct_size = sizeof options,
                                  .n_threads = weft_transfer_get_default_n_threads (),
                                  .progress = progress,
                                  .progress_data = user_data };

  return weft_gather_plan_execute_full (self, sink, &options, NULL, cancellable, error);
}

/**
 * weft_gather_plan_execute_full: (skip)
 * @self: a plan
 * @sink: where the whole goes
 * @options: threads, tiles, progress
 * @counters: (nullable): added to
 * @cancellable: (nullable): stops the work
 * @error: return location
 *
 * As weft_gather_plan_execute().
 *
 * Returns: whether all outputs are in place
 * Errors: as weft_gather_plan_execute()
 * Since: 1.0
 */
gboolean
weft_gather_plan_execute_full (WeftGatherPlan *self, WeftSink *sink, const WeftTransferOptions *options,
                               WeftTransferCounters *counters, GCancellable *cancellable, GError **error)
{
  if (WEFT_IS_SAFETENSORS_SINK (sink) && !prepare_files (self, WEFT_SAFETENSORS_SINK (sink), error))
    return FALSE;
  return weft_gather_plan_check_replicas (self, cancellable, error)
         && weft_sink_write (sink, self->outputs, options, counters, cancellable, error);
}
