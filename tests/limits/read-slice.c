/* SPDX-License-Identifier: Apache-2.0 */
/* Usage: read-slice FOLDER MAPPING OUTPUT AXIS RANK WORLD_SIZE
 * Reads the part of one runtime tensor that a tensor-parallel rank holds, and prints `SLICE KEPT READ` in bytes. */
#include "weft.h"

#include <stdlib.h>

static WeftLoadPlan *
make_plan (const gchar *folder, const gchar *mapping_path, GError **error)
{
  g_autoptr (WeftLoadOptions) options = weft_load_options_new ();
  g_autoptr (WeftTransformList) mapping = weft_mapping_load (mapping_path, error);
  g_autoptr (WeftCheckpoint) checkpoint = mapping != NULL ? weft_checkpoint_open (folder, NULL, error) : NULL;

  if (checkpoint == NULL)
    return NULL;
  weft_load_options_set_mapping (options, mapping);
  return weft_load_plan_new (checkpoint, options, error);
}

static WeftTensor *
slice_output (WeftLoadPlan *plan, const gchar *name, gint axis, gint64 rank, gint64 world_size,
              GError **error)
{
  WeftTensor *tensor = weft_state_dict_lookup (weft_load_plan_get_outputs (plan), name);
  gint64 length;

  if (tensor == NULL)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_MISSING, "the plan makes no '%s'", name);
      return NULL;
    }
  length = weft_tensor_get_dim (tensor, axis) / world_size;
  return weft_tensor_slice (tensor, axis, rank * length, length, error);
}

static gboolean
read_slice (gchar **arguments, WeftTransferCounters *counters, guint64 *n_bytes, GError **error)
{
  g_autoptr (WeftLoadPlan) plan = make_plan (arguments[0], arguments[1], error);
  g_autoptr (WeftTensor) slice = NULL;
  g_autoptr (WeftStateDict) outputs = weft_state_dict_new ();
  g_autoptr (WeftMemorySink) sink = weft_memory_sink_new ();

  if (plan == NULL)
    return FALSE;
  slice =
      slice_output (plan, arguments[2], atoi (arguments[3]), atoi (arguments[4]), atoi (arguments[5]), error);
  if (slice == NULL || !weft_state_dict_add (outputs, arguments[2], slice, error))
    return FALSE;
  *n_bytes = weft_tensor_get_n_bytes (slice);
  return weft_sink_write (WEFT_SINK (sink), outputs, NULL, counters, NULL, error);
}

int
main (int argc, char **argv)
{
  g_autoptr (GError) error = NULL;
  WeftTransferCounters counters = { 0 };
  guint64 n_bytes = 0;

  if (argc != 7)
    {
      g_printerr ("usage: read-slice FOLDER MAPPING OUTPUT AXIS RANK WORLD_SIZE\n");
      return 2;
    }
  if (!read_slice (argv + 1, &counters, &n_bytes, &error))
    {
      g_printerr ("read-slice: %s\n", error->message);
      return 1;
    }
  g_print ("%" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT "\n", n_bytes,
           counters.n_bytes_kept, counters.n_bytes_read);
  return 0;
}
