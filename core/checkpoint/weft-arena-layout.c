/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/weft-arena-layout.h"

struct _WeftArenaLayout
{
  GObject parent_instance;

  WeftStateDict *outputs;
  guint64 alignment;
  guint64 n_bytes;
  guint64 *offsets;
};

G_DEFINE_FINAL_TYPE (WeftArenaLayout, weft_arena_layout, G_TYPE_OBJECT)

static void
weft_arena_layout_finalize (GObject *object)
{
  WeftArenaLayout *self = WEFT_ARENA_LAYOUT (object);

  g_clear_object (&self->outputs);
  g_free (self->offsets);
  G_OBJECT_CLASS (weft_arena_layout_parent_class)->finalize (object);
}

static void
weft_arena_layout_class_init (WeftArenaLayoutClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = weft_arena_layout_finalize;
}

static void
weft_arena_layout_init (G_GNUC_UNUSED WeftArenaLayout *self)
{
}

/* Puts the output at @position behind those before it. */
static gboolean
place (WeftArenaLayout *self, guint position, GError **error)
{
  guint64 n_bytes = weft_tensor_get_n_bytes (weft_state_dict_get_tensor (self->outputs, position));
  guint64 padding = -self->n_bytes & (self->alignment - 1);

  if (n_bytes > G_MAXINT64 - self->n_bytes || padding > G_MAXINT64 - self->n_bytes - n_bytes)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_LIMIT,
                   "tensor '%s': its %" G_GUINT64_FORMAT " bytes end beyond the largest address",
                   weft_state_dict_get_name (self->outputs, position), n_bytes);
      return FALSE;
    }
  self->offsets[position] = self->n_bytes + padding;
  self->n_bytes += padding + n_bytes;
  return TRUE;
}

/**
 * weft_arena_layout_new: (constructor)
 * @outputs: what is to be loaded, such as the outputs of a plan
 * @alignment: what each offset is a multiple of, in bytes: a power of two
 * @error: return location
 *
 * Returns: (transfer full): the table
 * Errors: %WEFT_ERROR_ARGUMENT if @alignment is no power of two, %WEFT_ERROR_LIMIT if the outputs are larger than any memory
 * Since: 1.0
 */
WeftArenaLayout *
weft_arena_layout_new (WeftStateDict *outputs, guint64 alignment, GError **error)
{
  g_autoptr (WeftArenaLayout) self = NULL;
  guint n;

  g_return_val_if_fail (WEFT_IS_STATE_DICT (outputs), NULL);
  if (alignment == 0 || (alignment & (alignment - 1)) != 0)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT,
                   "arena: expected an alignment that is a power of two, found %" G_GUINT64_FORMAT " bytes",
                   alignment);
      return NULL;
    }
  self = g_object_new (WEFT_TYPE_ARENA_LAYOUT, NULL);
  n = weft_state_dict_get_n_tensors (outputs);
  self->outputs = g_object_ref (outputs);
  self->alignment = alignment;
  self->offsets = g_new (guint64, MAX (n, 1));
  for (guint i = 0; i < n; i++)
    if (!place (self, i, error))
      return NULL;
  return g_steal_pointer (&self);
}

/**
 * weft_arena_layout_get_n_bytes:
 * @self: a table
 *
 * Returns: how many bytes an arena must have
 * Since: 1.0
 */
guint64
weft_arena_layout_get_n_bytes (WeftArenaLayout *self)
{
  g_return_val_if_fail (WEFT_IS_ARENA_LAYOUT (self), 0);
  return self->n_bytes;
}

/**
 * weft_arena_layout_get_alignment:
 * @self: a table
 *
 * Returns: what each offset is a multiple of, in bytes
 * Since: 1.0
 */
guint64
weft_arena_layout_get_alignment (WeftArenaLayout *self)
{
  g_return_val_if_fail (WEFT_IS_ARENA_LAYOUT (self), 0);
  return self->alignment;
}

/**
 * weft_arena_layout_get_outputs:
 * @self: a table
 *
 * Returns: (transfer none): the names, dtypes and shapes of what is placed, in the order of the offsets
 * Since: 1.0
 */
WeftStateDict *
weft_arena_layout_get_outputs (WeftArenaLayout *self)
{
  g_return_val_if_fail (WEFT_IS_ARENA_LAYOUT (self), NULL);
  return self->outputs;
}

/**
 * weft_arena_layout_get_offset:
 * @self: a table
 * @position: position of an output
 *
 * Returns: where its bytes begin in the arena
 * Since: 1.0
 */
guint64
weft_arena_layout_get_offset (WeftArenaLayout *self, guint position)
{
  g_return_val_if_fail (WEFT_IS_ARENA_LAYOUT (self), 0);
  g_return_val_if_fail (position < weft_state_dict_get_n_tensors (self->outputs), 0);
  return self->offsets[position];
}
