/* SPDX-License-Identifier: Apache-2.0 */
#include "pipeline/weft-proofs-private.h"

#include "tensor/weft-transfer.h"

typedef struct
{
  WeftConversion *conversion;
  gboolean is_done;
  gboolean ok;
  GError *error;
} Proof;

struct _WeftProofs
{
  WeftStateDict *published;
  WeftOpContext *facts;
  /* NULL: all is done by the owner. */
  GThreadPool *pool;
  /* In the order in which they were added; the owner's. */
  GQueue proofs;
  /* For what a thread says of its proof. */
  GMutex lock;
  GCond done;
};

static void
proof_free (gpointer user_data)
{
  Proof *proof = user_data;

  g_clear_error (&proof->error);
  g_free (proof);
}

static void
prove (gpointer item, gpointer user_data)
{
  Proof *proof = item;
  WeftProofs *self = user_data;
  GError *error = NULL;
  const gboolean ok = weft_conversion_prove (proof->conversion, self->published, self->facts, &error);

  g_mutex_lock (&self->lock);
  proof->ok = ok;
  proof->error = error;
  proof->is_done = TRUE;
  g_cond_signal (&self->done);
  g_mutex_unlock (&self->lock);
}

WeftProofs *
weft_proofs_new (WeftStateDict *published, WeftOpContext *facts)
{
  WeftProofs *self = g_new0 (WeftProofs, 1);
  const guint n_threads = weft_transfer_get_default_n_threads ();

  self->published = g_object_ref (published);
  self->facts = g_object_ref (facts);
  g_queue_init (&self->proofs);
  g_mutex_init (&self->lock);
  g_cond_init (&self->done);
  /* Without threads all is done by the owner, and no slower than it can. */
  self->pool = n_threads > 1 ? g_thread_pool_new (prove, self, (gint) n_threads, TRUE, NULL) : NULL;
  if (self->pool != NULL && g_thread_pool_get_num_threads (self->pool) == 0)
    g_thread_pool_free (g_steal_pointer (&self->pool), TRUE, TRUE);
  return self;
}

void
weft_proofs_free (WeftProofs *self)
{
  /* After a failure nobody asks for what is still waiting. */
  if (self->pool != NULL)
    g_thread_pool_free (self->pool, TRUE, TRUE);
  g_queue_clear_full (&self->proofs, proof_free);
  g_mutex_clear (&self->lock);
  g_cond_clear (&self->done);
  g_object_unref (self->published);
  g_object_unref (self->facts);
  g_free (self);
}

static gboolean
may_run_anywhere (GPtrArray *ops)
{
  for (guint i = 0; i < ops->len; i++)
    if (weft_conversion_ops_get_thread_policy (ops->pdata[i]) != WEFT_THREAD_POLICY_ANY)
      return FALSE;
  return TRUE;
}

/* Whether the proof calls nothing but what may be called on any thread. A renaming calls nothing and takes no time. */
static gboolean
is_for_pool (WeftConversion *conversion)
{
  g_autoptr (GPtrArray) inverses = NULL;
  GPtrArray *ops =
      conversion->converter != NULL ? weft_weight_converter_get_operations (conversion->converter) : NULL;

  if (ops == NULL || !may_run_anywhere (ops))
    return FALSE;
  inverses = weft_op_chain_dup_inverse (ops, NULL);
  return inverses != NULL && may_run_anywhere (inverses);
}

void
weft_proofs_add (WeftProofs *self, WeftConversion *conversion)
{
  Proof *proof = g_new0 (Proof, 1);

  proof->conversion = conversion;
  g_queue_push_tail (&self->proofs, proof);
  if (self->pool != NULL && is_for_pool (conversion))
    g_thread_pool_push (self->pool, proof, NULL);
  else
    prove (proof, self);
}

gboolean
weft_proofs_finish_next (WeftProofs *self, GError **error)
{
  Proof *proof = g_queue_pop_head (&self->proofs);
  gboolean ok;

  g_mutex_lock (&self->lock);
  while (!proof->is_done)
    g_cond_wait (&self->done, &self->lock);
  g_mutex_unlock (&self->lock);
  ok = proof->ok;
  if (!ok)
    g_propagate_error (error, g_steal_pointer (&proof->error));
  proof_free (proof);
  return ok;
}
