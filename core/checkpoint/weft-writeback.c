/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/weft-writeback-private.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

typedef enum
{
  ORDER_START,
  ORDER_FINISH_FILE,
  ORDER_NOTE,
  ORDER_STOP,
} OrderKind;

typedef struct
{
  OrderKind kind;
  gint fd;
  gchar *path;
  WeftDurableFunc durable;
  gpointer durable_data;
  gchar *line;
} Order;

struct _WeftWriteback
{
  GAsyncQueue *orders;
  /* NULL where none can be started. */
  GThread *thread;
  /* Orders that are not carried out yet. */
  gint n_open;
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
keep_error (WeftWriteback *self, const gchar *path)
{
  gint number = errno;

  if (self->error == NULL)
    g_set_error (&self->error, WEFT_ERROR, WEFT_ERROR_IO, "%s: cannot be brought to the disk: %s", path,
                 g_strerror (number));
}

/* What is told of a file is that it is on the disk, so it is told only after that. */
static void
carry_out_finish (WeftWriteback *self, const Order *order)
{
  if (self->error == NULL)
    {
      if (fsync (order->fd) != 0)
        keep_error (self, order->path);
      else if (order->durable != NULL)
        order->durable (order->durable_data);
    }
  if (close (order->fd) != 0)
    keep_error (self, order->path);
}

static void
carry_out_note (WeftWriteback *self, const Order *order)
{
  if (self->error == NULL
      && (write (order->fd, order->line, strlen (order->line)) < 0 || fdatasync (order->fd) != 0))
    keep_error (self, order->path);
}

static void
carry_out (WeftWriteback *self, const Order *order)
{
  if (order->kind == ORDER_FINISH_FILE)
    carry_out_finish (self, order);
  else if (order->kind == ORDER_NOTE)
    carry_out_note (self, order);
  else if (order->kind == ORDER_START)
    /* Only a hint: the sync at the end is what counts. */
    (void) sync_file_range (order->fd, 0, 0, SYNC_FILE_RANGE_WRITE);
}

/* Without a thread the caller waits for the disk. */
static void
push (WeftWriteback *self, Order order)
{
  if (self->thread != NULL)
    {
      g_atomic_int_inc (&self->n_open);
      g_async_queue_push (self->orders, g_memdup2 (&order, sizeof order));
      return;
    }
  carry_out (self, &order);
  g_free (order.path);
  g_free (order.line);
}

static gpointer
run (gpointer user_data)
{
  WeftWriteback *self = user_data;

  while (TRUE)
    {
      Order *order = g_async_queue_pop (self->orders);
      gboolean is_end = order->kind == ORDER_STOP;

      carry_out (self, order);
      order_free (order);
      g_atomic_int_add (&self->n_open, -1);
      if (is_end)
        return NULL;
    }
}

WeftWriteback *
weft_writeback_new (void)
{
  WeftWriteback *self = g_new0 (WeftWriteback, 1);

  self->orders = g_async_queue_new ();
  self->thread = g_thread_try_new ("weft-writeback", run, self, NULL);
  return self;
}

static void
join (WeftWriteback *self)
{
  if (self->thread == NULL)
    return;
  push (self, (Order){ .kind = ORDER_STOP });
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
  push (self, (Order){ .kind = ORDER_START, .fd = fd });
}

void
weft_writeback_finish_file (WeftWriteback *self, gint fd, const gchar *path, WeftDurableFunc durable,
                            gpointer user_data)
{
  push (self, (Order){ .kind = ORDER_FINISH_FILE,
                       .fd = fd,
                       .path = g_strdup (path),
                       .durable = durable,
                       .durable_data = user_data });
}

void
weft_writeback_note (WeftWriteback *self, gint journal_fd, const gchar *path, const gchar *line)
{
  push (self,
        (Order){ .kind = ORDER_NOTE, .fd = journal_fd, .path = g_strdup (path), .line = g_strdup (line) });
}

gboolean
weft_writeback_is_idle (WeftWriteback *self)
{
  return g_atomic_int_get (&self->n_open) == 0;
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
