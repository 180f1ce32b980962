/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "weft-command-entry.h"
#include "weft-command-signal.h"

static const gint watched_signals[] = { SIGINT, SIGTERM };

struct _WeftCommandSignal
{
  GCancellable *cancellable;
  GThread *watcher;
  struct sigaction previous[G_N_ELEMENTS (watched_signals)];
};

/* A handler may touch little: it notes the signal and wakes the watcher, which cancels. */
static volatile sig_atomic_t arrived_signal;
static gint wake_fd = -1;

static void
on_signal (gint number)
{
  gint saved_errno = errno;
  guint64 one = 1;

  if (arrived_signal != 0)
    _exit (WEFT_COMMAND_SIGNAL_BASE + number);
  arrived_signal = number;
  if (write (wake_fd, &one, sizeof one) < 0)
    _exit (WEFT_COMMAND_SIGNAL_BASE + number);
  errno = saved_errno;
}

static gpointer
watch (gpointer user_data)
{
  WeftCommandSignal *self = user_data;
  guint64 count = 0;

  while (read (wake_fd, &count, sizeof count) < 0 && errno == EINTR)
    ;
  if (arrived_signal != 0)
    g_cancellable_cancel (self->cancellable);
  return NULL;
}

/* Starts watching. One watch at a time: the command runs one sub-command at a time. NULL if the system has no file
 * descriptor or no thread left, and then signals act as before. */
WeftCommandSignal *
weft_command_signal_new (GCancellable *cancellable)
{
  struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
  WeftCommandSignal *self;

  g_return_val_if_fail (wake_fd < 0, NULL);
  wake_fd = eventfd (0, EFD_CLOEXEC);
  if (wake_fd < 0)
    return NULL;
  /* Beyond a limit on the size of files writing fails with an error of its own, which says more than dying does. */
  signal (SIGXFSZ, SIG_IGN);
  arrived_signal = 0;
  self = g_new0 (WeftCommandSignal, 1);
  self->cancellable = g_object_ref (cancellable);
  self->watcher = g_thread_try_new ("weft-signal", watch, self, NULL);
  if (self->watcher == NULL)
    {
      g_object_unref (self->cancellable);
      g_free (self);
      close (wake_fd);
      wake_fd = -1;
      return NULL;
    }
  for (guint i = 0; i < G_N_ELEMENTS (watched_signals); i++)
    {
      sigaction (watched_signals[i], NULL, &self->previous[i]);
      if (self->previous[i].sa_handler != SIG_IGN)
        sigaction (watched_signals[i], &action, NULL);
    }
  return self;
}

gint
weft_command_signal_get (void)
{
  return arrived_signal;
}

void
weft_command_signal_free (WeftCommandSignal *self)
{
  guint64 one = 1;

  for (guint i = 0; i < G_N_ELEMENTS (watched_signals); i++)
    sigaction (watched_signals[i], &self->previous[i], NULL);
  if (write (wake_fd, &one, sizeof one) == sizeof one)
    g_thread_join (self->watcher);
  close (wake_fd);
  wake_fd = -1;
  g_object_unref (self->cancellable);
  g_free (self);
}
