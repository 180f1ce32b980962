/* SPDX-License-Identifier: Apache-2.0 */
#include "weft-command-job.h"

#include <string.h>

#include <glib/gstdio.h>

#include "plugin/weft-plugin-registry.h"
#include "weft-command-output.h"

/* So many letters of a digest tell contents apart. */
#define N_DIGEST_LETTERS 12

/* What the ranks of a job must have in common: names, and a value each (NULL: none). */
typedef struct
{
  GPtrArray *names;
  GPtrArray *values;
} Claims;

static void
add_claim (Claims *claims, const gchar *name, gchar *value)
{
  g_ptr_array_add (claims->names, g_strdup (name));
  g_ptr_array_add (claims->values, value);
}

static void
hash_status (GChecksum *checksum, const gchar *path, const gchar *name)
{
  GStatBuf status;
  g_autofree gchar *text = NULL;

  if (g_stat (path, &status) != 0 || !S_ISREG (status.st_mode))
    return;
  text = g_strdup_printf ("%s %" G_GINT64_FORMAT " %" G_GINT64_FORMAT ".%ld\n", name, (gint64) status.st_size,
                          (gint64) status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
  g_checksum_update (checksum, (const guchar *) text, -1);
}

static gint
compare_names (gconstpointer a, gconstpointer b)
{
  return strcmp (*(const gchar *const *) a, *(const gchar *const *) b);
}

/* The files in a folder, by name, size and time: the weights are too many bytes to be read for this. */
static void
hash_folder (GChecksum *checksum, const gchar *path)
{
  g_autoptr (GDir) folder = g_dir_open (path, 0, NULL);
  g_autoptr (GPtrArray) names = g_ptr_array_new_with_free_func (g_free);
  const gchar *name;

  while (folder != NULL && (name = g_dir_read_name (folder)) != NULL)
    g_ptr_array_add (names, g_strdup (name));
  g_ptr_array_sort (names, compare_names);
  for (guint i = 0; i < names->len; i++)
    {
      g_autofree gchar *entry = g_build_filename (path, names->pdata[i], NULL);

      hash_status (checksum, entry, names->pdata[i]);
    }
}

/* An absolute path and, if @with_content, what is there: of a file of rules its bytes, of weights name, size and time. */
static gchar *
describe_path (const gchar *path, gboolean with_content)
{
  g_autofree gchar *absolute = g_canonicalize_filename (path, NULL);
  g_autofree gchar *shown = g_filename_display_name (absolute);
  g_autoptr (GChecksum) checksum = g_checksum_new (G_CHECKSUM_SHA256);
  g_autofree gchar *text = NULL;
  gsize n_bytes;

  if (!with_content || !g_file_test (absolute, G_FILE_TEST_EXISTS))
    return g_steal_pointer (&shown);
  if (g_file_test (absolute, G_FILE_TEST_IS_DIR))
    hash_folder (checksum, absolute);
  else if (g_str_has_suffix (absolute, ".safetensors"))
    hash_status (checksum, absolute, "");
  else if (g_file_get_contents (absolute, &text, &n_bytes, NULL))
    g_checksum_update (checksum, (const guchar *) text, (gssize) n_bytes);
  return g_strdup_printf ("%s (content %.*s)", shown, N_DIGEST_LETTERS, g_checksum_get_string (checksum));
}

/* Options that may differ from rank to rank, for the output is the same. */
static gboolean
is_own_matter (const GOptionEntry *option)
{
  static const gchar *const names[] = { "io", "no-sync", "threads", NULL };

  return g_strv_contains (names, option->long_name);
}

/* What a rank was given for an option; NULL: nothing. */
static gchar *
describe_option (const GOptionEntry *option, gpointer storage)
{
  static const gchar *const outputs[] = { "output", "error-report", NULL };
  const gpointer member = (guint8 *) storage + GPOINTER_TO_SIZE (option->arg_data);
  const gchar *text = NULL;

  switch (option->arg)
    {
    case G_OPTION_ARG_NONE:
      return *(const gboolean *) member ? g_strdup ("") : NULL;
    case G_OPTION_ARG_INT:
      return g_strdup_printf ("%d", *(const gint *) member);
    case G_OPTION_ARG_STRING_ARRAY:
      return *(gchar ***) member != NULL ? g_strjoinv (" ", *(gchar ***) member) : NULL;
    default:
      text = *(gchar *const *) member;
      return text == NULL || option->arg != G_OPTION_ARG_FILENAME
                 ? g_strdup (text)
                 : describe_path (text, !g_strv_contains (outputs, option->long_name));
    }
}

static gchar *
describe_plugins (void)
{
  GListModel *plugins = G_LIST_MODEL (weft_plugin_registry_get_default ());
  guint n = g_list_model_get_n_items (plugins);
  g_autoptr (GChecksum) checksum = g_checksum_new (G_CHECKSUM_SHA256);

  for (guint i = 0; i < n; i++)
    {
      g_autoptr (WeftPlugin) plugin = g_list_model_get_item (plugins, i);
      const gchar *version = weft_plugin_get_version (plugin);
      g_autofree gchar *text =
          g_strdup_printf ("%s %s\n", weft_plugin_get_id (plugin), version != NULL ? version : "");

      g_checksum_update (checksum, (const guchar *) text, -1);
    }
  return g_strdup_printf ("(%u of them, %.*s)", n, N_DIGEST_LETTERS, g_checksum_get_string (checksum));
}

/* Compares all that decides the output, so that ranks that were started in different ways make nothing. */
static gboolean
check_same (WeftCommandCall *call, GError **error)
{
  g_autoptr (GPtrArray) names = g_ptr_array_new_with_free_func (g_free);
  g_autoptr (GPtrArray) values = g_ptr_array_new_with_free_func (g_free);
  Claims claims = { names, values };

  add_claim (&claims, "weft", g_strconcat (WEFT_VERSION, " ", call->entry->name, NULL));
  add_claim (&claims, "plugins", describe_plugins ());
  for (const GOptionEntry *option = call->entry->options; option != NULL && option->long_name != NULL;
       option++)
    if (!is_own_matter (option))
      {
        g_autofree gchar *name = g_strconcat ("--", option->long_name, NULL);

        add_claim (&claims, name, describe_option (option, call->options));
      }
  for (guint i = 0; i < call->n_arguments; i++)
    add_claim (&claims, call->entry->arguments, describe_path (call->arguments[i], TRUE));
  g_ptr_array_add (names, NULL);
  return weft_job_check_same (call->job, (const gchar *const *) names->pdata,
                              (const gchar *const *) values->pdata, error);
}

gboolean
weft_command_join_job (WeftCommandCall *call, GError **error)
{
  g_autoptr (WeftCommunicator) communicator = weft_communicator_open ("mpi", error);

  if (communicator == NULL)
    {
      g_prefix_error (error, "--mpi: ");
      return FALSE;
    }
  call->job = weft_job_new (communicator, call->cancellable);
  if (!weft_command_speaks (call))
    {
      call->is_quiet = TRUE;
      call->is_json = FALSE;
    }
  return check_same (call, error);
}

gboolean
weft_command_speaks (const WeftCommandCall *call)
{
  return call->job == NULL || weft_job_get_rank (call->job) == 0;
}

void
weft_command_share_sink (WeftCommandCall *call, WeftSafetensorsSink *sink)
{
  if (call->job != NULL)
    weft_safetensors_sink_set_job (sink, call->job);
}

void
weft_command_sum_counters (WeftCommandCall *call, WeftTransferCounters *counters)
{
  guint64 values[] = { counters->n_bytes_kept, counters->n_bytes_read, counters->n_bytes_written };

  if (call->job == NULL)
    return;
  weft_job_sum (call->job, values, G_N_ELEMENTS (values));
  counters->n_bytes_kept = values[0];
  counters->n_bytes_read = values[1];
  counters->n_bytes_written = values[2];
}

gint
weft_command_end_job (WeftCommandCall *call, gint code, GError **error)
{
  if (*error == NULL && code == WEFT_COMMAND_DONE && weft_job_agree (call->job, error))
    return code;
  if (!weft_job_fail (call->job, error))
    {
      weft_command_print_error (call, *error);
      weft_job_abort (call->job);
    }
  return WEFT_COMMAND_FAILED;
}
