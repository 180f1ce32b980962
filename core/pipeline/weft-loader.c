/* SPDX-License-Identifier: Apache-2.0 */
#include "pipeline/weft-loader.h"

#include "checkpoint/weft-buffer-sink.h"

/* What vector units and array libraries like. */
#define DEFAULT_ALIGNMENT 64

struct _WeftLoader
{
  GObject parent_instance;

  gchar *path;
  WeftLoadOptions *options;
  WeftIoBackend io_backend;
  guint64 alignment;
  guint queue_depth;
  guint64 read_bytes;

  WeftLoadedFunc loaded;
  gpointer loaded_data;
  GDestroyNotify loaded_destroy;
  WeftProgressFunc progress;
  gpointer progress_data;
  GDestroyNotify progress_destroy;

  WeftLoadPlan *plan;
  WeftArenaLayout *layout;
  WeftTransferCounters counters;
};

G_DEFINE_FINAL_TYPE (WeftLoader, weft_loader, G_TYPE_OBJECT)

static void
weft_loader_dispose (GObject *object)
{
  WeftLoader *self = WEFT_LOADER (object);

  /* A callback of a script may hold the loader. */
  weft_loader_set_loaded_func (self, NULL, NULL, NULL);
  weft_loader_set_progress_func (self, NULL, NULL, NULL);
  G_OBJECT_CLASS (weft_loader_parent_class)->dispose (object);
}

static void
weft_loader_finalize (GObject *object)
{
  WeftLoader *self = WEFT_LOADER (object);

  g_free (self->path);
  g_clear_object (&self->options);
  g_clear_object (&self->plan);
  g_clear_object (&self->layout);
  G_OBJECT_CLASS (weft_loader_parent_class)->finalize (object);
}

static void
weft_loader_class_init (WeftLoaderClass *klass)
{
  G_OBJECT_CLASS (klass)->dispose = weft_loader_dispose;
  G_OBJECT_CLASS (klass)->finalize = weft_loader_finalize;
}

static void
weft_loader_init (WeftLoader *self)
{
  self->alignment = DEFAULT_ALIGNMENT;
  self->queue_depth = weft_transfer_get_default_n_threads ();
}

/**
 * weft_loader_new:
 * @path: (type filename): a checkpoint: a file, an index or a folder
 * @options: (nullable): how to load it: fusions, dtype, packed or dense, the slice of a rank
 *
 * Nothing is opened before weft_loader_prepare().
 *
 * Returns: (transfer full): the loader
 * Since: 1.0
 */
WeftLoader *
weft_loader_new (const gchar *path, WeftLoadOptions *options)
{
  WeftLoader *self;

  g_return_val_if_fail (path != NULL, NULL);
  self = g_object_new (WEFT_TYPE_LOADER, NULL);
  self->path = g_strdup (path);
  g_set_object (&self->options, options);
  return self;
}

/**
 * weft_loader_new_for_plan:
 * @plan: a plan, made from whatever was opened
 *
 * Returns: (transfer full): a loader of its outputs
 * Since: 1.0
 */
WeftLoader *
weft_loader_new_for_plan (WeftLoadPlan *plan)
{
  WeftLoader *self;

  g_return_val_if_fail (WEFT_IS_LOAD_PLAN (plan), NULL);
  self = g_object_new (WEFT_TYPE_LOADER, NULL);
  self->plan = g_object_ref (plan);
  return self;
}

/**
 * weft_loader_set_io_backend:
 * @self: a loader that was made of a path
 * @io_backend: how files are read
 *
 * Since: 1.0
 */
void
weft_loader_set_io_backend (WeftLoader *self, WeftIoBackend io_backend)
{
  g_return_if_fail (WEFT_IS_LOADER (self));
  self->io_backend = io_backend;
}

/**
 * weft_loader_set_alignment:
 * @self: a loader
 * @alignment: what the offset of each tensor is a multiple of, in bytes: a power of two; 64 if it is not set
 *
 * Since: 1.0
 */
void
weft_loader_set_alignment (WeftLoader *self, guint64 alignment)
{
  g_return_if_fail (WEFT_IS_LOADER (self));
  self->alignment = alignment;
}

/**
 * weft_loader_set_queue:
 * @self: a loader
 * @depth: how many reads are under way at once, each on a thread; 0: the thread that loads does all; if it is not set, that of
 *   weft_transfer_get_default_n_threads()
 * @read_bytes: the size of one read in bytes; 0 for the default (2 MiB)
 *
 * What is in flight is @depth times @read_bytes. A deeper queue helps where the files are not in memory yet, and costs
 * little where they are.
 *
 * Since: 1.0
 */
void
weft_loader_set_queue (WeftLoader *self, guint depth, guint64 read_bytes)
{
  g_return_if_fail (WEFT_IS_LOADER (self));
  self->queue_depth = depth;
  self->read_bytes = read_bytes;
}

/**
 * weft_loader_set_loaded_func:
 * @self: a loader
 * @func: (nullable) (scope notified) (closure user_data) (destroy destroy): called as tensors are completed; it
 *   returns whether the load is to go on
 * @user_data: data of @func
 * @destroy: (nullable): called on @user_data when @func is replaced or the loader is gone
 *
 * Since: 1.0
 */
void
weft_loader_set_loaded_func (WeftLoader *self, WeftLoadedFunc func, gpointer user_data,
                             GDestroyNotify destroy)
{
  gpointer old_data;
  GDestroyNotify old_destroy;

  g_return_if_fail (WEFT_IS_LOADER (self));
  old_data = self->loaded_data;
  old_destroy = self->loaded_destroy;
  self->loaded = func;
  self->loaded_data = user_data;
  self->loaded_destroy = destroy;
  if (old_destroy != NULL)
    old_destroy (old_data);
}

/**
 * weft_loader_set_progress_func:
 * @self: a loader
 * @func: (nullable) (scope notified) (closure user_data) (destroy destroy): called as bytes arrive
 * @user_data: data of @func
 * @destroy: (nullable): called on @user_data when @func is replaced or the loader is gone
 *
 * Since: 1.0
 */
void
weft_loader_set_progress_func (WeftLoader *self, WeftProgressFunc func, gpointer user_data,
                               GDestroyNotify destroy)
{
  gpointer old_data;
  GDestroyNotify old_destroy;

  g_return_if_fail (WEFT_IS_LOADER (self));
  old_data = self->progress_data;
  old_destroy = self->progress_destroy;
  self->progress = func;
  self->progress_data = user_data;
  self->progress_destroy = destroy;
  if (old_destroy != NULL)
    old_destroy (old_data);
}

static gboolean
make_plan (WeftLoader *self, GCancellable *cancellable, GError **error)
{
  g_autoptr (WeftCheckpoint) checkpoint = NULL;

  if (self->plan != NULL)
    return TRUE;
  checkpoint = weft_checkpoint_open_full (self->path, NULL, self->io_backend, WEFT_CHECKPOINT_FLAGS_NONE,
                                          cancellable, error);
  if (checkpoint != NULL)
    self->plan = weft_load_plan_new (checkpoint, self->options, error);
  return self->plan != NULL;
}

/**
 * weft_loader_prepare:
 * @self: a loader
 * @cancellable: (nullable): stops the opening
 * @error: return location
 *
 * Opens the checkpoint and plans the load, once. Only headers are read.
 *
 * Returns: (transfer none): how many bytes an arena must have, and where each tensor will lie in it
 * Errors: those of weft_checkpoint_open(), weft_load_plan_new(), weft_load_plan_check() and weft_arena_layout_new()
 * Since: 1.0
 */
WeftArenaLayout *
weft_loader_prepare (WeftLoader *self, GCancellable *cancellable, GError **error)
{
  g_return_val_if_fail (WEFT_IS_LOADER (self), NULL);
  if (self->layout == NULL && make_plan (self, cancellable, error)
      && weft_load_plan_check (self->plan, error))
    self->layout = weft_arena_layout_new (weft_load_plan_get_outputs (self->plan), self->alignment, error);
  return self->layout;
}

/* One load. The callback's error stops it as the caller's cancellable does, through one of its own. */
typedef struct
{
  WeftLoader *loader;
  GCancellable *stop;
  GError *error;
} Load;

static void
report_loaded (gsize position, gpointer user_data)
{
  Load *load = user_data;
  WeftLoader *self = load->loader;
  WeftStateDict *outputs = weft_arena_layout_get_outputs (self->layout);
  const gchar *name = weft_state_dict_get_name (outputs, (guint) position);

  if (self->loaded == NULL || load->error != NULL
      || self->loaded (self, name, weft_arena_layout_get_offset (self->layout, (guint) position),
                       weft_tensor_get_n_bytes (weft_state_dict_get_tensor (outputs, (guint) position)),
                       self->loaded_data, &load->error))
    return;
  if (load->error == NULL)
    g_set_error (&load->error, WEFT_ERROR, WEFT_ERROR_CANCELLED,
                 "cancelled: the callback that was told that '%s' is loaded returned FALSE", name);
  g_cancellable_cancel (load->stop);
}

static void
report_progress (guint64 n_bytes_done, guint64 n_bytes_total, gpointer user_data)
{
  WeftLoader *self = ((Load *) user_data)->loader;

  if (self->progress != NULL)
    self->progress (n_bytes_done, n_bytes_total, self->progress_data);
}

static gboolean
load_by_sink (Load *load, WeftSink *sink, GError **error)
{
  WeftLoader *self = load->loader;
  WeftTransferOptions options = {
    .struct_size = sizeof options,
    .n_threads = self->queue_depth,
    .tile_bytes = (gsize) self->read_bytes,
    .progress = report_progress,
    .progress_data = load,
    .completed = report_loaded,
    .completed_data = load,
  };
  gboolean ok = weft_load_plan_execute_full (self->plan, sink, &options, &self->counters, load->stop, error);

  if (load->error == NULL)
    return ok;
  g_clear_error (error);
  g_propagate_error (error, load->error);
  return FALSE;
}

static void
cancel (G_GNUC_UNUSED GCancellable *cancellable, gpointer user_data)
{
  g_cancellable_cancel (user_data);
}

/**
 * weft_loader_load_into:
 * @self: a loader
 * @arena: where the bytes go, row-major and little-endian; it may be larger than the table says
 * @cancellable: (nullable): stops the load within a tile
 * @error: return location
 *
 * Prepares, if that was not done, and fills the arena. May be called again, with other arenas.
 *
 * Returns: whether all bytes are there; if not, what the arena holds is undefined
 * Errors: those of weft_loader_prepare(), weft_buffer_sink_add_arena() and weft_load_plan_execute(), and of the callback of
 *   weft_loader_set_loaded_func()
 * Since: 1.0
 */
gboolean
weft_loader_load_into (WeftLoader *self, WeftArena *arena, GCancellable *cancellable, GError **error)
{
  g_autoptr (WeftBufferSink) sink = weft_buffer_sink_new ();
  g_autoptr (GCancellable) stop = g_cancellable_new ();
  Load load = { .loader = self, .stop = stop };
  gulong handler;
  gboolean ok;

  g_return_val_if_fail (WEFT_IS_LOADER (self) && WEFT_IS_ARENA (arena), FALSE);
  if (weft_loader_prepare (self, cancellable, error) == NULL
      || !weft_buffer_sink_add_arena (sink, arena, self->layout, error))
    return FALSE;
  handler = cancellable != NULL ? g_cancellable_connect (cancellable, G_CALLBACK (cancel), stop, NULL) : 0;
  ok = load_by_sink (&load, WEFT_SINK (sink), error);
  g_cancellable_disconnect (cancellable, handler);
  return ok;
}

/**
 * weft_loader_load:
 * @self: a loader
 * @cancellable: (nullable): stops the load
 * @error: return location
 *
 * The whole in one call: prepares, allocates an arena by weft_arena_new() and fills it.
 *
 * Returns: (transfer full): the arena; weft_loader_prepare() gives the table that belongs to it
 * Errors: those of weft_arena_new() and weft_loader_load_into()
 * Since: 1.0
 */
WeftArena *
weft_loader_load (WeftLoader *self, GCancellable *cancellable, GError **error)
{
  WeftArenaLayout *layout = weft_loader_prepare (self, cancellable, error);
  g_autoptr (WeftArena) arena =
      layout != NULL ? weft_arena_new (weft_arena_layout_get_n_bytes (layout), error) : NULL;

  if (arena == NULL || !weft_loader_load_into (self, arena, cancellable, error))
    return NULL;
  return g_steal_pointer (&arena);
}

/**
 * weft_loader_get_plan:
 * @self: a loader
 *
 * Returns: (transfer none) (nullable): what is loaded, and the report of what did not go as the model wants; %NULL if nothing has been
 *   planned yet
 * Since: 1.0
 */
WeftLoadPlan *
weft_loader_get_plan (WeftLoader *self)
{
  g_return_val_if_fail (WEFT_IS_LOADER (self), NULL);
  return self->plan;
}

/**
 * weft_loader_get_n_bytes_read:
 * @self: a loader
 *
 * Returns: how many bytes of tensors it has read from files so far, small holes that were read through included
 * Since: 1.0
 */
guint64
weft_loader_get_n_bytes_read (WeftLoader *self)
{
  g_return_val_if_fail (WEFT_IS_LOADER (self), 0);
  return self->counters.n_bytes_read;
}
