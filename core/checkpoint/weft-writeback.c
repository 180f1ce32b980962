/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/weft-writeback-private.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* @path is NULL for a start; @fd is -1 for the order to stop. */
typedef struct
{
  gint fd;
  gchar *path;
  gint journal_fd;
  gchar *line;
} Order;

struct _WeftWriteback
{
  GAsyncQueue *orders;
  GThread *thread;
  /* Belongs to the thread until it is joined. */
  GError *error;
};

static void
order_free (Order *order)
{
  g_free (order->path);
  g_free (order->line);
  g_free (order);
}

static void
push (WeftWriteback *self, Order order)
{
  g_async_queue_push (self->orders, g_memdup2 (&order, sizeof order));
}

static void
keep_error (WeftWriteback *self, const gchar *path)
{
  gint number = errno;

  if (self->error == NULL)
    g_set_error (&self->error, WEFT_ERROR, WEFT_ERROR_IO, "%s: cannot be brought to the disk: %s", path,
                 g_strerror (number));
}

/* A line says that a file is on the disk, so it is written only after that. */
static void
carry_out_finish (WeftWriteback *self, const Order *order)
{
  if (self->error == NULL)
    {
      if (fsync (order->fd) != 0)
        keep_error (self, order->path);
      else if (order->journal_fd >= 0
               && (write (order->journal_fd, order->line, strlen (order->line)) < 0
                   || fdatasync (order->journal_fd) != 0))
        keep_error (self, order->path);
    }
  if (close (order->fd) != 0)
    keep_error (self, order->path);
}

static gpointer
run (gpointer user_data)
{
  WeftWriteback *self = user_data;

  while (TRUE)
    {
      Order *order = g_async_queue_pop (self->orders);
      gboolean is_end = order->fd < 0;

      if (order->path != NULL)
        carry_out_finish (self, order);
      else if (!is_end)
        /* Only a hint: the sync at the end is what counts. */
        (void) sync_file_range (order->fd, 0, 0, SYNC_FILE_RANGE_WRITE);
      order_free (order);
      if (is_end)
        return NULL;
    }
}

WeftWriteback *
weft_writeback_new (void)
{
  WeftWriteback *self = g_new0 (WeftWriteback, 1);

  self->orders = g_async_queue_new ();
  self->thread = g_thread_new ("weft-writeback", run, self);
  return self;
}

static void
join (WeftWriteback *self)
{
  if (self->thread == NULL)
    return;
  push (self, (Order){ .fd = -1 });
  g_thread_join (g_steal_pointer (&self->thread));
}

void
weft_writeback_free (WeftWriteback *self)
{
  join (self);
  g_async_queue_unref (self->orders);
  g_clear_error (&self->error);
  g_free (self);
}

void
weft_writeback_start (WeftWriteback *self, gint fd)
{
  push (self, (Order){ .fd = fd });
}

void
weft_writeback_finish_file (WeftWriteback *self, gint fd, const gchar *path, gint journal_fd,
                            const gchar *line)
{
  push (self,
        (Order){ .fd = fd, .path = g_strdup (path), .journal_fd = journal_fd, .line = g_strdup (line) });
}

gboolean
weft_writeback_wait (WeftWriteback *self, GError **error)
{
  join (self);
  if (self->error == NULL)
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&self->error));
  return FALSE;
}
