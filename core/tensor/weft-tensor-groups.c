/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/weft-tensor-groups.h"

#include "base/weft-text.h"

#define TEXTS_BLOCK_BYTES 4096

typedef struct
{
  const gchar *name;
  /* (nullable): of a group that is no list; most outputs of ops are none. */
  WeftTensor *tensor;
  /* (nullable): of a list. */
  GPtrArray *tensors;
  /* (nullable): the keys that the tensors came from; the outputs of ops have none. */
  GPtrArray *origins;
} Group;

struct _WeftTensorGroups
{
  GObject parent_instance;

  GArray *groups;
  /* Name to position + 1. */
  GHashTable *positions;
  /* Names and origins: a list of experts has hundreds. */
  GStringChunk *texts;
};

G_DEFINE_FINAL_TYPE (WeftTensorGroups, weft_tensor_groups, G_TYPE_OBJECT)

static void
group_clear (gpointer user_data)
{
  Group *group = user_data;

  g_clear_pointer (&group->tensor, weft_tensor_unref);
  g_clear_pointer (&group->tensors, g_ptr_array_unref);
  g_clear_pointer (&group->origins, g_ptr_array_unref);
}

static void
weft_tensor_groups_finalize (GObject *object)
{
  WeftTensorGroups *self = WEFT_TENSOR_GROUPS (object);

  g_hash_table_unref (self->positions);
  g_array_unref (self->groups);
  g_string_chunk_free (self->texts);
  G_OBJECT_CLASS (weft_tensor_groups_parent_class)->finalize (object);
}

static void
weft_tensor_groups_class_init (WeftTensorGroupsClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = weft_tensor_groups_finalize;
}

static void
weft_tensor_groups_init (WeftTensorGroups *self)
{
  self->groups = g_array_new (FALSE, FALSE, sizeof (Group));
  g_array_set_clear_func (self->groups, group_clear);
  self->texts = g_string_chunk_new (TEXTS_BLOCK_BYTES);
  self->positions = g_hash_table_new (weft_text_hash, g_str_equal);
}

/**
 * weft_tensor_groups_new:
 *
 * Returns: (transfer full): an empty map
 * Since: 1.0
 */
WeftTensorGroups *
weft_tensor_groups_new (void)
{
  return g_object_new (WEFT_TYPE_TENSOR_GROUPS, NULL);
}

/* The result holds until another group is made. */
static Group *
ensure_group (WeftTensorGroups *self, const gchar *name)
{
  gpointer position = g_hash_table_lookup (self->positions, name);
  Group group = { NULL };

  if (position != NULL)
    return &g_array_index (self->groups, Group, GPOINTER_TO_UINT (position) - 1);
  group.name = g_string_chunk_insert (self->texts, name);
  g_array_append_val (self->groups, group);
  g_hash_table_insert (self->positions, (gpointer) group.name, GUINT_TO_POINTER (self->groups->len));
  return &g_array_index (self->groups, Group, self->groups->len - 1);
}

/* A bare tensor becomes the first of the list. */
static Group *
ensure_list (WeftTensorGroups *self, const gchar *name)
{
  Group *group = ensure_group (self, name);

  if (group->tensors == NULL)
    group->tensors = g_ptr_array_new_with_free_func ((GDestroyNotify) weft_tensor_unref);
  if (group->tensor != NULL)
    g_ptr_array_add (group->tensors, g_steal_pointer (&group->tensor));
  return group;
}

/**
 * weft_tensor_groups_set:
 * @self: a map
 * @name: a name
 * @tensor: (transfer none): its one tensor
 *
 * Gives @name one bare tensor, in place of what it had.
 *
 * Since: 1.0
 */
void
weft_tensor_groups_set (WeftTensorGroups *self, const gchar *name, WeftTensor *tensor)
{
  Group *group = ensure_group (self, name);
  WeftTensor *previous = group->tensor;

  group->tensor = weft_tensor_ref (tensor);
  g_clear_pointer (&previous, weft_tensor_unref);
  g_clear_pointer (&group->tensors, g_ptr_array_unref);
  g_clear_pointer (&group->origins, g_ptr_array_unref);
}

/**
 * weft_tensor_groups_append:
 * @self: a map
 * @name: a name
 * @tensor: (transfer none): the next tensor of its list
 * @origin: (nullable): the key that the tensor came from, for messages
 *
 * Since: 1.0
 */
void
weft_tensor_groups_append (WeftTensorGroups *self, const gchar *name, WeftTensor *tensor, const gchar *origin)
{
  Group *group = ensure_list (self, name);

  g_ptr_array_add (group->tensors, weft_tensor_ref (tensor));
  if (origin == NULL)
    return;
  if (group->origins == NULL)
    group->origins = g_ptr_array_new ();
  g_ptr_array_set_size (group->origins, (gint) group->tensors->len);
  group->origins->pdata[group->tensors->len - 1] = g_string_chunk_insert (self->texts, origin);
}

/**
 * weft_tensor_groups_append_list:
 * @self: a map
 * @name: a name
 *
 * Makes sure that @name has a list, empty at first.
 *
 * Since: 1.0
 */
void
weft_tensor_groups_append_list (WeftTensorGroups *self, const gchar *name)
{
  ensure_list (self, name);
}

/**
 * weft_tensor_groups_get_n_groups:
 * @self: a map
 *
 * Returns: the number of names
 * Since: 1.0
 */
guint
weft_tensor_groups_get_n_groups (WeftTensorGroups *self)
{
  return self->groups->len;
}

static Group *
get_group (WeftTensorGroups *self, guint group)
{
  g_return_val_if_fail (group < self->groups->len, NULL);
  return &g_array_index (self->groups, Group, group);
}

/**
 * weft_tensor_groups_get_name:
 * @self: a map
 * @group: position of a name
 *
 * Returns: (transfer none): the name
 * Since: 1.0
 */
const gchar *
weft_tensor_groups_get_name (WeftTensorGroups *self, guint group)
{
  Group *found = get_group (self, group);

  return found != NULL ? found->name : NULL;
}

/**
 * weft_tensor_groups_is_list:
 * @self: a map
 * @group: position of a name
 *
 * Returns: whether the name has a list; %FALSE for a bare tensor
 * Since: 1.0
 */
gboolean
weft_tensor_groups_is_list (WeftTensorGroups *self, guint group)
{
  Group *found = get_group (self, group);

  return found != NULL && found->tensors != NULL;
}

/**
 * weft_tensor_groups_get_n_tensors:
 * @self: a map
 * @group: position of a name
 *
 * Returns: the number of tensors under that name
 * Since: 1.0
 */
guint
weft_tensor_groups_get_n_tensors (WeftTensorGroups *self, guint group)
{
  Group *found = get_group (self, group);

  if (found == NULL)
    return 0;
  return found->tensors != NULL ? found->tensors->len : 1;
}

/**
 * weft_tensor_groups_get_tensor:
 * @self: a map
 * @group: position of a name
 * @position: position in its list; 0 for a bare tensor
 *
 * Returns: (transfer none) (nullable): the tensor, or %NULL if there is none
 * Since: 1.0
 */
WeftTensor *
weft_tensor_groups_get_tensor (WeftTensorGroups *self, guint group, guint position)
{
  Group *found = get_group (self, group);

  if (found == NULL || found->tensors == NULL)
    return found != NULL && position == 0 ? found->tensor : NULL;
  return position < found->tensors->len ? found->tensors->pdata[position] : NULL;
}

/**
 * weft_tensor_groups_get_origin:
 * @self: a map
 * @group: position of a name
 * @position: position in its list
 *
 * Returns: (transfer none) (nullable): the key that the tensor came from, if it is known
 * Since: 1.0
 */
const gchar *
weft_tensor_groups_get_origin (WeftTensorGroups *self, guint group, guint position)
{
  Group *found = get_group (self, group);

  return found != NULL && found->origins != NULL && position < found->origins->len
             ? found->origins->pdata[position]
             : NULL;
}

/**
 * weft_tensor_groups_find:
 * @self: a map
 * @name: a name
 * @group: (out) (optional): its position
 *
 * Returns: whether the map has @name
 * Since: 1.0
 */
gboolean
weft_tensor_groups_find (WeftTensorGroups *self, const gchar *name, guint *group)
{
  gpointer position = g_hash_table_lookup (self->positions, name);

  if (position != NULL && group != NULL)
    *group = GPOINTER_TO_UINT (position) - 1;
  return position != NULL;
}
