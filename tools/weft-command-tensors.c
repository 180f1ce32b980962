/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

#include "checkpoint/weft-checkpoint.h"
#include "checkpoint/weft-shard-layout.h"
#include "tensor/weft-transfer.h"
#include "weft-command-output.h"
#include "weft-command-tensors.h"

WeftStateDict *
weft_command_open_tensors (const gchar *path, WeftCommandCall *call, GError **error)
{
  g_autoptr (WeftCheckpoint) checkpoint = weft_checkpoint_open (path, call->cancellable, error);

  return checkpoint != NULL ? g_object_ref (weft_checkpoint_get_state_dict (checkpoint)) : NULL;
}

static gboolean
fail_io (const gchar *path, GError **error)
{
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_IO, "%s: cannot be written: %s", path, g_strerror (errno));
  return FALSE;
}

static gboolean
write_bytes (gint fd, gconstpointer bytes, gsize n_bytes, guint64 offset)
{
  const guint8 *at = bytes;

  while (n_bytes > 0)
    {
      gssize n = pwrite (fd, at, n_bytes, (off_t) offset);

      if (n < 0 && errno == EINTR)
        continue;
      if (n <= 0)
        return FALSE;
      at += n;
      offset += (guint64) n;
      n_bytes -= (gsize) n;
    }
  return TRUE;
}

static gboolean
write_header (gint fd, WeftShardLayout *layout)
{
  gsize n_bytes = 0;
  gconstpointer json = g_bytes_get_data (weft_shard_layout_get_header (layout, 0), &n_bytes);
  guint64 length = GUINT64_TO_LE ((guint64) n_bytes);

  return ftruncate (fd, (off_t) weft_shard_layout_get_file_size (layout, 0)) == 0
         && write_bytes (fd, &length, sizeof length, 0) && write_bytes (fd, json, n_bytes, sizeof length);
}

static gboolean
fill (gint fd, WeftShardLayout *layout, WeftCommandCall *call, GError **error)
{
  WeftStateDict *outputs = weft_shard_layout_get_outputs (layout);
  guint n_tensors = weft_shard_layout_get_n_tensors (layout, 0);
  g_autofree WeftTransfer *transfers = g_new0 (WeftTransfer, MAX (n_tensors, 1));
  WeftTransferOptions options = { .struct_size = sizeof options,
                                  .n_threads = weft_transfer_get_default_n_threads (),
                                  .progress = weft_command_progress,
                                  .progress_data = call };

  for (guint i = 0; i < n_tensors; i++)
    {
      guint position = weft_shard_layout_get_tensor (layout, 0, i);

      transfers[i].tensor = weft_state_dict_get_tensor (outputs, position);
      transfers[i].name = weft_state_dict_get_name (outputs, position);
      transfers[i].offset = weft_shard_layout_get_tensor_offset (layout, 0, i);
      transfers[i].fd = fd;
    }
  return weft_transfer_execute (transfers, n_tensors, &options, NULL, call->cancellable, error);
}

/* Gives the finished file its name, unless that is taken by now. */
static gboolean
publish (const gchar *partial, const gchar *path, GError **error)
{
  gint result = renameat2 (AT_FDCWD, partial, AT_FDCWD, path, RENAME_NOREPLACE);

  if (result != 0 && (errno == EINVAL || errno == ENOSYS) && access (path, F_OK) != 0)
    result = rename (partial, path);
  return result == 0 || fail_io (path, error);
}

static gboolean
write_partial (const gchar *partial, const gchar *path, WeftShardLayout *layout, WeftCommandCall *call,
               GError **error)
{
  gint fd = open (partial, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  gboolean is_written;

  if (fd < 0)
    return fail_io (partial, error);
  is_written = write_header (fd, layout) ? fill (fd, layout, call, error) : fail_io (partial, error);
  if (is_written && fsync (fd) != 0)
    is_written = fail_io (partial, error);
  close (fd);
  is_written = is_written && publish (partial, path, error);
  if (!is_written)
    unlink (partial);
  return is_written;
}

/* Writes all tensors to one new file. It gets its name when it is complete and on the disk; an existing file stays. */
gboolean
weft_command_write_tensors (const gchar *path, WeftStateDict *tensors, WeftCommandCall *call, GError **error)
{
  g_autofree gchar *partial = g_strconcat (path, ".weft-partial", NULL);
  g_autoptr (WeftShardLayout) layout = NULL;

  if (access (path, F_OK) == 0)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_EXISTS,
                   "%s: exists already; remove it or choose another name", path);
      return FALSE;
    }
  layout = weft_shard_layout_new_by_size (tensors, G_MAXUINT64, NULL, NULL, error);
  return layout != NULL && write_partial (partial, path, layout, call, error);
}
