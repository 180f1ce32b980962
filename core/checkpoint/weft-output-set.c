/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/weft-output-set-private.h"

#include "checkpoint/weft-checkpoint-files-private.h"
#include "checkpoint/weft-rank-folder.h"
#include "checkpoint/weft-replaceable-private.h"

struct _WeftOutputSet
{
  GObject parent_instance;

  WeftOutputTransaction *transaction;
  WeftOutputFlags flags;
  GStrv members;
  /* Files beside the weights of what is replaced: names in the replaced folder, and the same in the one that each belongs to. */
  GHashTable *others;
};

G_DEFINE_FINAL_TYPE (WeftOutputSet, weft_output_set, G_TYPE_OBJECT)

static void
weft_output_set_finalize (GObject *object)
{
  WeftOutputSet *self = WEFT_OUTPUT_SET (object);

  g_clear_pointer (&self->transaction, weft_output_transaction_free);
  g_strfreev (self->members);
  g_hash_table_unref (self->others);
  G_OBJECT_CLASS (weft_output_set_parent_class)->finalize (object);
}

static void
weft_output_set_class_init (WeftOutputSetClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = weft_output_set_finalize;
}

static void
weft_output_set_init (WeftOutputSet *self)
{
  self->others = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
}

/**
 * weft_output_set_new:
 * @path: (type filename): the folder that all will be in; it does not exist yet, or is replaced
 * @members: (array zero-terminated=1): names of the outputs, folders in @path
 * @flags: how the set comes to its place; %WEFT_OUTPUT_FLAGS_IN_PLACE and %WEFT_OUTPUT_FLAGS_SINGLE_FILE are not for sets
 * @error: return location
 *
 * While it is being written the set lies in a folder @path with `.weft-partial` appended. Each member is written there by a sink of
 * weft_safetensors_sink_new_in_set(). Several processes may write members, if all see one file system: each makes the set, one of them
 * begins before and publishes after. What has begun and is not published when the set is freed stays if
 * %WEFT_OUTPUT_FLAGS_RESUME can take it up.
 *
 * Returns: (transfer full): a set; nothing is changed yet
 * Errors: %WEFT_ERROR_EXISTS if @path exists and is not to be replaced, or holds no checkpoint and none of ranks;
 *   %WEFT_ERROR_MISSING if the folder that @path is in does not exist
 * Since: 1.0
 */
WeftOutputSet *
weft_output_set_new (const gchar *path, const gchar *const *members, WeftOutputFlags flags, GError **error)
{
  g_autoptr (WeftOutputSet) self = NULL;

  g_return_val_if_fail (path != NULL && members != NULL && members[0] != NULL, NULL);
  g_return_val_if_fail ((flags & (WEFT_OUTPUT_FLAGS_IN_PLACE | WEFT_OUTPUT_FLAGS_SINGLE_FILE)) == 0, NULL);
  self = g_object_new (WEFT_TYPE_OUTPUT_SET, NULL);
  self->members = g_strdupv ((GStrv) members);
  self->flags = flags;
  self->transaction = weft_output_transaction_new (path, WEFT_OUTPUT_SHAPE_SET, flags, error);
  return self->transaction != NULL ? g_steal_pointer (&self) : NULL;
}

/* Says what may go of a checkpoint at @name in the folder that is replaced ("" for itself). */
static gboolean
add_replaceable (WeftOutputSet *self, const gchar *name, GError **error)
{
  const gchar *replaced = weft_output_transaction_get_replaced (self->transaction);
  g_autofree gchar *folder = g_build_filename (replaced, *name != '\0' ? name : NULL, NULL);
  g_autoptr (WeftCheckpoint) old = weft_checkpoint_open_full (folder, NULL, WEFT_IO_BACKEND_PREAD,
                                                              WEFT_CHECKPOINT_FLAGS_LENIENT, NULL, NULL);
  g_auto (GStrv) others = NULL;
  g_auto (GStrv) weights = NULL;
  g_auto (GStrv) skipped = NULL;

  if (old != NULL)
    weft_replaceable_add_weights (self->transaction, replaced, old);
  if (!weft_checkpoint_files_list (folder, &others, &weights, &skipped, error))
    return FALSE;
  for (guint i = 0; others[i] != NULL; i++)
    {
      g_autofree gchar *path =
          *name != '\0' ? g_build_filename (name, others[i], NULL) : g_strdup (others[i]);

      weft_output_transaction_add_replaceable (self->transaction, path);
      g_hash_table_insert (self->others, g_steal_pointer (&path), g_strdup (others[i]));
    }
  return TRUE;
}

static gboolean
add_all_replaceable (WeftOutputSet *self, GError **error)
{
  const gchar *replaced = weft_output_transaction_get_replaced (self->transaction);
  g_auto (GStrv) ranks = replaced != NULL ? weft_rank_folders_list (replaced) : NULL;

  if (replaced != NULL && weft_checkpoint_files_is_folder (replaced) && !add_replaceable (self, "", error))
    return FALSE;
  for (guint i = 0; ranks != NULL && ranks[i] != NULL; i++)
    if (!add_replaceable (self, ranks[i], error))
      return FALSE;
  return TRUE;
}

/**
 * weft_output_set_begin:
 * @self: a set
 * @error: return location
 *
 * Makes the folder that members are written in, or takes up that of an interrupted run.
 *
 * Returns: whether members can be written
 * Errors: %WEFT_ERROR_CONFLICT if another run writes this set; %WEFT_ERROR_EXISTS if something else has the name of its
 *   partial folder; %WEFT_ERROR_IO
 * Since: 1.0
 */
gboolean
weft_output_set_begin (WeftOutputSet *self, GError **error)
{
  g_return_val_if_fail (WEFT_IS_OUTPUT_SET (self), FALSE);
  return weft_output_transaction_begin_set (self->transaction, (const gchar *const *) self->members, error)
         && add_all_replaceable (self, error);
}

/* Files beside old weights go if the new members have them too. All members have the same. */
static void
keep_others (WeftOutputSet *self)
{
  g_autofree gchar *member = weft_output_transaction_get_member_path (self->transaction, self->members[0]);
  GHashTableIter iter;
  gpointer old_name, name;

  g_hash_table_iter_init (&iter, self->others);
  while (g_hash_table_iter_next (&iter, &old_name, &name))
    {
      g_autofree gchar *path = g_build_filename (member, name, NULL);

      if (!g_file_test (path, G_FILE_TEST_EXISTS))
        weft_output_transaction_keep (self->transaction, old_name);
    }
}

/**
 * weft_output_set_publish:
 * @self: a set that has begun, all members of which are written
 * @error: return location
 *
 * Gives the set its name, in one step.
 *
 * Returns: whether all members are in their place
 * Errors: %WEFT_ERROR_EXISTS if something has come to have the name meanwhile; %WEFT_ERROR_IO
 * Since: 1.0
 */
gboolean
weft_output_set_publish (WeftOutputSet *self, GError **error)
{
  g_return_val_if_fail (WEFT_IS_OUTPUT_SET (self), FALSE);
  keep_others (self);
  return weft_output_transaction_publish_set (self->transaction, (const gchar *const *) self->members, error);
}

/**
 * weft_output_set_get_kept_path:
 * @self: a set that was published
 *
 * Returns: (type filename) (nullable): the folder with what is left of the one that was replaced, as
 *   weft_safetensors_sink_get_kept_path() says, or %NULL if nothing is left
 * Since: 1.0
 */
const gchar *
weft_output_set_get_kept_path (WeftOutputSet *self)
{
  g_return_val_if_fail (WEFT_IS_OUTPUT_SET (self), NULL);
  return weft_output_transaction_get_kept_path (self->transaction);
}

WeftOutputTransaction *
weft_output_set_get_transaction (WeftOutputSet *self)
{
  return self->transaction;
}

WeftOutputFlags
weft_output_set_get_member_flags (WeftOutputSet *self)
{
  return self->flags & (WEFT_OUTPUT_FLAGS_RESUME | WEFT_OUTPUT_FLAGS_NO_SYNC);
}
