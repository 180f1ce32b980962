/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/weft-memory-sink.h"

#include <stdlib.h>

/* What vector units and array libraries like. */
#define ALIGNMENT 64

struct _WeftMemorySink
{
  GObject parent_instance;

  WeftStateDict *outputs;
  /* GBytes by name. */
  GHashTable *tensors;
  gboolean is_complete;
};

/* All outputs are one batch. */
static gboolean
weft_memory_sink_prepare (WeftSink *sink, WeftStateDict *outputs, guint *n_batches,
                          G_GNUC_UNUSED GError **error)
{
  WeftMemorySink *self = WEFT_MEMORY_SINK (sink);

  self->outputs = g_object_ref (outputs);
  *n_batches = 1;
  return TRUE;
}

/* A size from outside: failing to get it is an error, not the end of the program. */
static gpointer
allocate (const gchar *name, guint64 n_bytes, GError **error)
{
  gpointer memory = NULL;

  if (n_bytes <= G_MAXSIZE && posix_memalign (&memory, ALIGNMENT, MAX ((gsize) n_bytes, 1)) == 0)
    return memory;
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_LIMIT,
               "tensor '%s': %" G_GUINT64_FORMAT " bytes of memory cannot be had", name, n_bytes);
  return NULL;
}

static gboolean
weft_memory_sink_begin_batch (WeftSink *sink, G_GNUC_UNUSED guint batch, GArray *transfers,
                              G_GNUC_UNUSED gboolean *is_filled, GError **error)
{
  WeftMemorySink *self = WEFT_MEMORY_SINK (sink);

  for (guint i = 0; i < weft_state_dict_get_n_tensors (self->outputs); i++)
    {
      WeftTensor *tensor = weft_state_dict_get_tensor (self->outputs, i);
      const gchar *name = weft_state_dict_get_name (self->outputs, i);
      guint64 n_bytes = weft_tensor_get_n_bytes (tensor);
      WeftTransfer transfer = { .tensor = tensor, .fd = -1, .name = name };

      transfer.memory = allocate (name, n_bytes, error);
      if (transfer.memory == NULL)
        return FALSE;
      g_hash_table_insert (
          self->tensors, g_strdup (name),
          g_bytes_new_with_free_func (transfer.memory, (gsize) n_bytes, free, transfer.memory));
      g_array_append_val (transfers, transfer);
    }
  return TRUE;
}

static gboolean
weft_memory_sink_finish (WeftSink *sink, G_GNUC_UNUSED GError **error)
{
  WEFT_MEMORY_SINK (sink)->is_complete = TRUE;
  return TRUE;
}

static void
weft_memory_sink_abandon (WeftSink *sink)
{
  g_hash_table_remove_all (WEFT_MEMORY_SINK (sink)->tensors);
}

static void
weft_memory_sink_implement (WeftSinkInterface *iface)
{
  iface->prepare = weft_memory_sink_prepare;
  iface->begin_batch = weft_memory_sink_begin_batch;
  iface->finish = weft_memory_sink_finish;
  iface->abandon = weft_memory_sink_abandon;
}

G_DEFINE_FINAL_TYPE_WITH_CODE (WeftMemorySink, weft_memory_sink, G_TYPE_OBJECT,
                               G_IMPLEMENT_INTERFACE (WEFT_TYPE_SINK, weft_memory_sink_implement))

static void
weft_memory_sink_finalize (GObject *object)
{
  WeftMemorySink *self = WEFT_MEMORY_SINK (object);

  g_clear_object (&self->outputs);
  g_hash_table_unref (self->tensors);
  G_OBJECT_CLASS (weft_memory_sink_parent_class)->finalize (object);
}

static void
weft_memory_sink_class_init (WeftMemorySinkClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = weft_memory_sink_finalize;
}

static void
weft_memory_sink_init (WeftMemorySink *self)
{
  self->tensors = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, (GDestroyNotify) g_bytes_unref);
}

/**
 * weft_memory_sink_new:
 *
 * Returns: (transfer full): an empty sink
 * Since: 1.0
 */
WeftMemorySink *
weft_memory_sink_new (void)
{
  return g_object_new (WEFT_TYPE_MEMORY_SINK, NULL);
}

/**
 * weft_memory_sink_lookup:
 * @self: a sink
 * @name: the name of an output
 *
 * Returns: (transfer none) (nullable): the output's bytes, aligned to 64 bytes; %NULL if there is no such output or nothing
 *   has been written
 * Since: 1.0
 */
GBytes *
weft_memory_sink_lookup (WeftMemorySink *self, const gchar *name)
{
  g_return_val_if_fail (WEFT_IS_MEMORY_SINK (self) && name != NULL, NULL);
  return self->is_complete ? g_hash_table_lookup (self->tensors, name) : NULL;
}
