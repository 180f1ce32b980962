/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/weft-state-dict.h"

#include <string.h>

#include "base/weft-text.h"

#define NAMES_BLOCK_BYTES 4096

typedef struct
{
  gchar *name;
  WeftTensor *tensor;
} Entry;

struct _WeftStateDict
{
  GObject parent_instance;

  GArray *entries;
  GStringChunk *names;
  /* Name to position + 1. */
  GHashTable *positions;
};

G_DEFINE_FINAL_TYPE (WeftStateDict, weft_state_dict, G_TYPE_OBJECT)

static void
entry_clear (gpointer user_data)
{
  weft_tensor_unref (((Entry *) user_data)->tensor);
}

static void
weft_state_dict_finalize (GObject *object)
{
  WeftStateDict *self = WEFT_STATE_DICT (object);

  g_hash_table_unref (self->positions);
  g_array_unref (self->entries);
  g_string_chunk_free (self->names);
  G_OBJECT_CLASS (weft_state_dict_parent_class)->finalize (object);
}

static void
weft_state_dict_class_init (WeftStateDictClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = weft_state_dict_finalize;
}

static void
weft_state_dict_init (WeftStateDict *self)
{
  self->entries = g_array_new (FALSE, FALSE, sizeof (Entry));
  g_array_set_clear_func (self->entries, entry_clear);
  self->names = g_string_chunk_new (NAMES_BLOCK_BYTES);
  self->positions = g_hash_table_new (weft_text_hash, g_str_equal);
}

/**
 * weft_state_dict_new:
 *
 * Returns: (transfer full): an empty state dict
 * Since: 1.0
 */
WeftStateDict *
weft_state_dict_new (void)
{
  return g_object_new (WEFT_TYPE_STATE_DICT, NULL);
}

/**
 * weft_state_dict_add:
 * @self: a state dict
 * @name: a tensor name that it does not have yet
 * @tensor: (transfer none): the tensor
 * @error: return location
 *
 * Returns: whether the tensor was added
 * Errors: %WEFT_ERROR_CONFLICT if @name is taken
 * Since: 1.0
 */
gboolean
weft_state_dict_add (WeftStateDict *self, const gchar *name, WeftTensor *tensor, GError **error)
{
  Entry entry = { g_string_chunk_insert (self->names, name), weft_tensor_ref (tensor) };
  guint first = 0;

  g_array_append_val (self->entries, entry);
  /* One look at the table for the usual case; only a second tensor of the name has to be undone. */
  if (g_hash_table_insert (self->positions, entry.name, GUINT_TO_POINTER (self->entries->len)))
    return TRUE;
  while (strcmp (g_array_index (self->entries, Entry, first).name, name) != 0)
    first++;
  g_hash_table_insert (self->positions, entry.name, GUINT_TO_POINTER (first + 1));
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_CONFLICT, "two tensors are named '%s'", name);
  g_array_set_size (self->entries, self->entries->len - 1);
  return FALSE;
}

/**
 * weft_state_dict_get_n_tensors:
 * @self: a state dict
 *
 * Returns: the number of tensors
 * Since: 1.0
 */
guint
weft_state_dict_get_n_tensors (WeftStateDict *self)
{
  return self->entries->len;
}

/**
 * weft_state_dict_get_name:
 * @self: a state dict
 * @position: position of a tensor
 *
 * Returns: (transfer none) (nullable): its name, or %NULL beyond the end
 * Since: 1.0
 */
const gchar *
weft_state_dict_get_name (WeftStateDict *self, guint position)
{
  return position < self->entries->len ? g_array_index (self->entries, Entry, position).name : NULL;
}

/**
 * weft_state_dict_get_tensor:
 * @self: a state dict
 * @position: position of a tensor
 *
 * Returns: (transfer none) (nullable): the tensor, or %NULL beyond the end
 * Since: 1.0
 */
WeftTensor *
weft_state_dict_get_tensor (WeftStateDict *self, guint position)
{
  return position < self->entries->len ? g_array_index (self->entries, Entry, position).tensor : NULL;
}

/**
 * weft_state_dict_find:
 * @self: a state dict
 * @name: a tensor name
 * @position: (out) (optional): where it stands
 *
 * Returns: whether there is such a tensor
 * Since: 1.0
 */
gboolean
weft_state_dict_find (WeftStateDict *self, const gchar *name, guint *position)
{
  gpointer found = g_hash_table_lookup (self->positions, name);

  if (found != NULL && position != NULL)
    *position = GPOINTER_TO_UINT (found) - 1;
  return found != NULL;
}

/**
 * weft_state_dict_lookup:
 * @self: a state dict
 * @name: a tensor name
 *
 * Returns: (transfer none) (nullable): the tensor, or %NULL
 * Since: 1.0
 */
WeftTensor *
weft_state_dict_lookup (WeftStateDict *self, const gchar *name)
{
  guint position;

  return weft_state_dict_find (self, name, &position) ? weft_state_dict_get_tensor (self, position) : NULL;
}

static gint
compare_entries (gconstpointer a, gconstpointer b, gpointer user_data)
{
  return weft_text_compare_natural (((const Entry *) a)->name, ((const Entry *) b)->name);
}

/**
 * weft_state_dict_sort_natural:
 * @self: a state dict
 *
 * Sorts the tensors by weft_text_compare_natural(). The sort is stable.
 *
 * Since: 1.0
 */
void
weft_state_dict_sort_natural (WeftStateDict *self)
{
  gboolean is_sorted = TRUE;

  for (guint i = 1; is_sorted && i < self->entries->len; i++)
    is_sorted = weft_text_compare_natural (g_array_index (self->entries, Entry, i - 1).name,
                                           g_array_index (self->entries, Entry, i).name)
                <= 0;
  if (is_sorted)
    return;
  g_qsort_with_data (self->entries->data, (gint) self->entries->len, sizeof (Entry), compare_entries, NULL);
  for (guint i = 0; i < self->entries->len; i++)
    g_hash_table_insert (self->positions, g_array_index (self->entries, Entry, i).name,
                         GUINT_TO_POINTER (i + 1));
}
