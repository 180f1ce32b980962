/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/weft-guard-private.h"

#include <setjmp.h>
#include <signal.h>
#include <string.h>

/* Where this thread continues if an access fails; NULL outside of guarded code. Volatile, since only the handler reads
 * it: else the compiler drops the store before a copy that it inlines. */
static __thread sigjmp_buf *volatile landing;
static struct sigaction previous_action;

static void
on_sigbus (int signal_number, siginfo_t *details, void *machine_context)
{
  if (landing != NULL)
    siglongjmp (*landing, 1);
  /* Not ours: do what would have been done without us. */
  if ((previous_action.sa_flags & SA_SIGINFO) != 0 && previous_action.sa_sigaction != NULL)
    previous_action.sa_sigaction (signal_number, details, machine_context);
  else if (previous_action.sa_handler != SIG_DFL && previous_action.sa_handler != SIG_IGN)
    previous_action.sa_handler (signal_number);
  else
    {
      signal (signal_number, SIG_DFL);
      raise (signal_number);
    }
}

static void
install_handler (void)
{
  static gsize once;

  if (g_once_init_enter (&once))
    {
      struct sigaction action = { .sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO | SA_NODEFER };

      sigemptyset (&action.sa_mask);
      sigaction (SIGBUS, &action, &previous_action);
      g_once_init_leave (&once, 1);
    }
}

gboolean
weft_guard_copy (gpointer destination, gconstpointer source, gsize n_bytes)
{
  sigjmp_buf here;

  install_handler ();
  /* SA_NODEFER leaves the signal unblocked, so the mask need not be saved. */
  if (sigsetjmp (here, 0) != 0)
    {
      landing = NULL;
      return FALSE;
    }
  landing = &here;
  memcpy (destination, source, n_bytes);
  landing = NULL;
  return TRUE;
}
