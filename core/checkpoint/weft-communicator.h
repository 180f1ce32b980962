/* SPDX-License-Identifier: Apache-2.0 */
/* The processes of one job: who they are, and the few things that they do together. */
#pragma once

#include <gio/gio.h>

#include "base/weft-error.h"

G_BEGIN_DECLS

#define WEFT_TYPE_COMMUNICATOR (weft_communicator_get_type ())

/**
 * WeftCommunicator:
 *
 * A group of processes (ranks), on one machine or on many, that run the same program. The library implements none; a module
 * does it over MPI, and an engine may do it over what it has. All is called on one thread.
 *
 * Since: 1.0
 */
WEFT_PUBLIC
G_DECLARE_INTERFACE (WeftCommunicator, weft_communicator, WEFT, COMMUNICATOR, GObject)

/**
 * WeftCommunicatorInterface:
 * @g_iface: the parent
 * @get_rank: the number of this process, from 0
 * @get_size: how many processes there are
 * @start_sum: begins to add up, element by element, the values of all ranks; they are the communicator's until @test_sum
 *   says that they are summed. There is one sum at a time
 * @test_sum: goes on with the sum, without waiting; whether the values are those of all ranks now
 * @broadcast: fills the bytes on every rank with those of one rank, and waits for them
 * @abort: ends all processes of the job, this one too, at once
 *
 * The slots of a communicator, for those written in C. Ranks call @start_sum and @broadcast in the same order, with the same
 * sizes. What goes wrong below (a rank that is gone, a broken network) ends the job; it is not reported.
 *
 * Since: 1.0
 */
struct _WeftCommunicatorInterface
{
  GTypeInterface g_iface;

  /**
   * WeftCommunicatorInterface::get_rank: (skip)
   */
  guint (*get_rank) (WeftCommunicator *self);

  /**
   * WeftCommunicatorInterface::get_size: (skip)
   */
  guint (*get_size) (WeftCommunicator *self);

  /**
   * WeftCommunicatorInterface::start_sum: (skip)
   */
  void (*start_sum) (WeftCommunicator *self, guint64 *values, gsize n_values);

  /**
   * WeftCommunicatorInterface::test_sum: (skip)
   */
  gboolean (*test_sum) (WeftCommunicator *self);

  /**
   * WeftCommunicatorInterface::broadcast: (skip)
   */
  void (*broadcast) (WeftCommunicator *self, guint root, gpointer bytes, gsize n_bytes);

  /**
   * WeftCommunicatorInterface::abort: (skip)
   */
  void (*abort) (WeftCommunicator *self, gint exit_code);
};

WEFT_PUBLIC WeftCommunicator *weft_communicator_open (const gchar *name, GError **error);

G_END_DECLS
