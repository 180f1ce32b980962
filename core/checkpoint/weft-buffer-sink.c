/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/weft-buffer-sink.h"

typedef struct
{
  gpointer memory;
  guint64 n_bytes;
} Buffer;

struct _WeftBufferSink
{
  GObject parent_instance;

  WeftStateDict *outputs;
  /* Buffer by name. */
  GHashTable *buffers;
  /* What buffers lie in. */
  GPtrArray *arenas;
};

static gboolean
check_output (WeftBufferSink *self, WeftStateDict *outputs, guint position, GError **error)
{
  const gchar *name = weft_state_dict_get_name (outputs, position);
  guint64 n_bytes = weft_tensor_get_n_bytes (weft_state_dict_get_tensor (outputs, position));
  const Buffer *buffer = g_hash_table_lookup (self->buffers, name);

  if (buffer == NULL)
    g_set_error (error, WEFT_ERROR, WEFT_ERROR_MISSING,
                 "tensor '%s': expected a buffer of %" G_GUINT64_FORMAT " bytes, found none", name, n_bytes);
  else if (buffer->n_bytes != n_bytes)
    g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE,
                 "tensor '%s': expected a buffer of %" G_GUINT64_FORMAT
                 " bytes, found one of %" G_GUINT64_FORMAT " bytes",
                 name, n_bytes, buffer->n_bytes);
  else
    return TRUE;
  return FALSE;
}

static gboolean
weft_buffer_sink_prepare (WeftSink *sink, WeftStateDict *outputs, guint *n_batches, GError **error)
{
  WeftBufferSink *self = WEFT_BUFFER_SINK (sink);
  GHashTableIter iter;
  gpointer name;

  for (guint i = 0; i < weft_state_dict_get_n_tensors (outputs); i++)
    if (!check_output (self, outputs, i, error))
      return FALSE;
  g_hash_table_iter_init (&iter, self->buffers);
  while (g_hash_table_iter_next (&iter, &name, NULL))
    if (weft_state_dict_lookup (outputs, name) == NULL)
      {
        g_set_error (error, WEFT_ERROR, WEFT_ERROR_UNEXPECTED,
                     "tensor '%s': expected an output for the buffer, found none", (const gchar *) name);
        return FALSE;
      }
  self->outputs = g_object_ref (outputs);
  *n_batches = 1;
  return TRUE;
}

static gboolean
weft_buffer_sink_begin_batch (WeftSink *sink, G_GNUC_UNUSED guint batch, GArray *transfers,
                              G_GNUC_UNUSED gboolean *is_filled, G_GNUC_UNUSED GError **error)
{
  WeftBufferSink *self = WEFT_BUFFER_SINK (sink);

  for (guint i = 0; i < weft_state_dict_get_n_tensors (self->outputs); i++)
    {
      const gchar *name = weft_state_dict_get_name (self->outputs, i);
      const Buffer *buffer = g_hash_table_lookup (self->buffers, name);
      WeftTransfer transfer = {
        .tensor = weft_state_dict_get_tensor (self->outputs, i),
        .fd = -1,
        .memory = buffer->memory,
        .name = name,
      };

      g_array_append_val (transfers, transfer);
    }
  return TRUE;
}

static void
weft_buffer_sink_implement (WeftSinkInterface *iface)
{
  iface->prepare = weft_buffer_sink_prepare;
  iface->begin_batch = weft_buffer_sink_begin_batch;
}

G_DEFINE_FINAL_TYPE_WITH_CODE (WeftBufferSink, weft_buffer_sink, G_TYPE_OBJECT,
                               G_IMPLEMENT_INTERFACE (WEFT_TYPE_SINK, weft_buffer_sink_implement))

static void
weft_buffer_sink_finalize (GObject *object)
{
  WeftBufferSink *self = WEFT_BUFFER_SINK (object);

  g_clear_object (&self->outputs);
  g_hash_table_unref (self->buffers);
  g_ptr_array_unref (self->arenas);
  G_OBJECT_CLASS (weft_buffer_sink_parent_class)->finalize (object);
}

static void
weft_buffer_sink_class_init (WeftBufferSinkClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = weft_buffer_sink_finalize;
}

static void
weft_buffer_sink_init (WeftBufferSink *self)
{
  self->buffers = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  self->arenas = g_ptr_array_new_with_free_func (g_object_unref);
}

/**
 * weft_buffer_sink_new:
 *
 * Returns: (transfer full): a sink without buffers
 * Since: 1.0
 */
WeftBufferSink *
weft_buffer_sink_new (void)
{
  return g_object_new (WEFT_TYPE_BUFFER_SINK, NULL);
}

/**
 * weft_buffer_sink_add: (skip)
 * @self: a sink
 * @name: the name of an output
 * @buffer: where its bytes go, row-major and little-endian; stays the caller's and must outlive the writing
 * @n_bytes: the size of @buffer in bytes: that of the output
 * @error: return location
 *
 * Returns: whether this is the first buffer of that name
 * Errors: %WEFT_ERROR_CONFLICT if there is one already
 * Since: 1.0
 */
gboolean
weft_buffer_sink_add (WeftBufferSink *self, const gchar *name, gpointer buffer, guint64 n_bytes,
                      GError **error)
{
  Buffer *added;

  g_return_val_if_fail (WEFT_IS_BUFFER_SINK (self) && name != NULL, FALSE);
  if (g_hash_table_contains (self->buffers, name))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_CONFLICT,
                   "tensor '%s': expected one buffer, found a second one", name);
      return FALSE;
    }
  added = g_new (Buffer, 1);
  *added = (Buffer){ .memory = buffer, .n_bytes = n_bytes };
  g_hash_table_insert (self->buffers, g_strdup (name), added);
  return TRUE;
}

/**
 * weft_buffer_sink_add_arena:
 * @self: a sink
 * @arena: where the bytes go; kept until the sink is gone
 * @layout: which outputs go there, and where
 * @error: return location
 *
 * Adds a buffer for each output of @layout. Arenas and buffers may be mixed, so that some weights go to one kind of memory
 * and others to another.
 *
 * Returns: whether all fit, and are the first buffers of their names
 * Errors: %WEFT_ERROR_ARGUMENT if the arena is too small or begins off the alignment of @layout, %WEFT_ERROR_CONFLICT if
 *   there is a buffer of a name already
 * Since: 1.0
 */
gboolean
weft_buffer_sink_add_arena (WeftBufferSink *self, WeftArena *arena, WeftArenaLayout *layout, GError **error)
{
  WeftStateDict *outputs;
  guint64 n_bytes, alignment;
  guint8 *memory;

  g_return_val_if_fail (WEFT_IS_BUFFER_SINK (self), FALSE);
  g_return_val_if_fail (WEFT_IS_ARENA (arena) && WEFT_IS_ARENA_LAYOUT (layout), FALSE);
  outputs = weft_arena_layout_get_outputs (layout);
  n_bytes = weft_arena_layout_get_n_bytes (layout);
  alignment = weft_arena_layout_get_alignment (layout);
  memory = weft_arena_get_memory (arena);
  if (weft_arena_get_n_bytes (arena) < n_bytes || GPOINTER_TO_SIZE (memory) % alignment != 0)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT,
                   "arena: expected %" G_GUINT64_FORMAT
                   " bytes that begin at a multiple of %" G_GUINT64_FORMAT ", found %" G_GUINT64_FORMAT
                   " bytes at %p",
                   n_bytes, alignment, weft_arena_get_n_bytes (arena), (gpointer) memory);
      return FALSE;
    }
  g_ptr_array_add (self->arenas, g_object_ref (arena));
  for (guint i = 0; i < weft_state_dict_get_n_tensors (outputs); i++)
    if (!weft_buffer_sink_add (self, weft_state_dict_get_name (outputs, i),
                               memory + weft_arena_layout_get_offset (layout, i),
                               weft_tensor_get_n_bytes (weft_state_dict_get_tensor (outputs, i)), error))
      return FALSE;
  return TRUE;
}
