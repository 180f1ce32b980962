/* SPDX-License-Identifier: Apache-2.0 */
#include "weft-command-parallel.h"

#define MAX_WORLD_SIZE 65536

/* `8`, or a mesh as `2x4`, outermost size first. */
static GArray *
parse_mesh (const gchar *text, GError **error)
{
  g_autoptr (GArray) sizes = g_array_new (FALSE, FALSE, sizeof (guint));
  g_auto (GStrv) words = g_strsplit (text, "x", -1);

  for (guint i = 0; words[i] != NULL; i++)
    {
      guint64 size = 0;
      guint value;

      if (!g_ascii_string_to_unsigned (words[i], 10, 1, MAX_WORLD_SIZE, &size, NULL))
        {
          weft_command_set_usage_error (error,
                                        "'%s' is no number of ranks, from 1 to %d; write 8, or a mesh as 2x4",
                                        text, MAX_WORLD_SIZE);
          return NULL;
        }
      value = (guint) size;
      g_array_append_val (sizes, value);
    }
  if (sizes->len > 0)
    return g_steal_pointer (&sizes);
  weft_command_set_usage_error (error, "--world-size needs a number of ranks");
  return NULL;
}

/* A number of ranks; 1 if it was not given. */
static gboolean
parse_size (const gchar *text, guint *size, GError **error)
{
  guint64 value = 1;

  if (text != NULL && !g_ascii_string_to_unsigned (text, 10, 1, G_MAXUINT, &value, NULL))
    {
      weft_command_set_usage_error (
          error, "'%s' is no number of ranks: --tp-size and --ep-size are numbers of ranks, from 1 on", text);
      return FALSE;
    }
  *size = (guint) value;
  return TRUE;
}

/* A size that was not given is 1; both, or the sizes of a mesh. */
static gboolean
set_sizes (const WeftCommandParallel *parallel, WeftLoadOptions *load_options, guint rank, GError **error)
{
  g_autoptr (GArray) mesh = NULL;
  guint tp_size, ep_size;

  if (!parse_size (parallel->tp_size, &tp_size, error) || !parse_size (parallel->ep_size, &ep_size, error))
    return FALSE;
  if (parallel->world_size == NULL)
    return weft_load_options_set_parallel (load_options, tp_size, ep_size, rank, error);
  mesh = parse_mesh (parallel->world_size, error);
  return mesh != NULL
         && weft_load_options_set_mesh (load_options, (const guint *) (gpointer) mesh->data, mesh->len, rank,
                                        error);
}

static gboolean
is_asked (const WeftCommandParallel *parallel)
{
  return parallel->tp_size != NULL || parallel->ep_size != NULL || parallel->world_size != NULL;
}

gboolean
weft_command_read_ranks (const WeftCommandParallel *parallel, guint *first, guint *n_ranks, GError **error)
{
  g_autoptr (WeftLoadOptions) sizes = weft_load_options_new ();
  guint64 rank = 0;

  *first = *n_ranks = 0;
  if (!is_asked (parallel) && (parallel->rank != NULL || parallel->plan != NULL))
    {
      weft_command_set_usage_error (error, "a rank or a plan needs the number of ranks (--tp-size)");
      return FALSE;
    }
  if (parallel->rank != NULL
      && !g_ascii_string_to_unsigned (parallel->rank, 10, 0, MAX_WORLD_SIZE, &rank, NULL))
    {
      weft_command_set_usage_error (error, "'%s' is no rank; ranks are numbers, from 0 on", parallel->rank);
      return FALSE;
    }
  if (!is_asked (parallel))
    return TRUE;
  if (!set_sizes (parallel, sizes, (guint) rank, error))
    return FALSE;
  *first = (guint) rank;
  *n_ranks = parallel->rank != NULL ? 1 : weft_load_options_get_world_size (sizes);
  return TRUE;
}

gboolean
weft_command_set_parallel (const WeftCommandParallel *parallel, WeftLoadOptions *load_options, GError **error)
{
  g_autoptr (WeftParallelPlan) plan = NULL;

  if (!is_asked (parallel))
    return TRUE;
  if (!set_sizes (parallel, load_options, parallel->current, error))
    return FALSE;
  if (parallel->plan == NULL)
    return TRUE;
  plan = weft_parallel_plan_load (parallel->plan, error);
  weft_load_options_set_parallel_plan (load_options, plan);
  return plan != NULL;
}
