/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/weft-communicator.h"

#include <string.h>

#include "plugin/weft-plugin-internal.h"

G_DEFINE_INTERFACE (WeftCommunicator, weft_communicator, G_TYPE_OBJECT)

static void
weft_communicator_default_init (G_GNUC_UNUSED WeftCommunicatorInterface *iface)
{
}

static gboolean
is_name (const gchar *text)
{
  return *text != '\0' && strspn (text, "abcdefghijklmnopqrstuvwxyz0123456789-") == strlen (text);
}

/**
 * weft_communicator_open:
 * @name: what the processes of the job talk over: `mpi`
 * @error: return location
 *
 * Opens the module `communicators/weft-NAME.so` of the plugin path, and with it the library that it is linked to, then
 * joins the job that this process was started in. A process that was started alone is a job of one rank. It can be opened
 * again after it was freed. A communicator that is a #GInitable is initialized.
 *
 * Returns: (transfer full): the communicator of all processes of the job
 * Errors: %WEFT_ERROR_PLUGIN if the module is not installed or cannot be used
 * Since: 1.0
 */
WeftCommunicator *
weft_communicator_open (const gchar *name, GError **error)
{
  static GMutex lock;
  static GHashTable *types;
  GType type;

  g_return_val_if_fail (name != NULL && is_name (name), NULL);
  g_mutex_lock (&lock);
  if (types == NULL)
    types = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  type = GPOINTER_TO_SIZE (g_hash_table_lookup (types, name));
  if (type == G_TYPE_INVALID)
    {
      type = weft_plugin_load_type ("communicators", name, WEFT_FEATURE_KIND_COMMUNICATOR, error);
      if (type != G_TYPE_INVALID)
        g_hash_table_insert (types, g_strdup (name), GSIZE_TO_POINTER (type));
    }
  g_mutex_unlock (&lock);
  if (type == G_TYPE_INVALID)
    return NULL;
  if (g_type_is_a (type, WEFT_TYPE_COMMUNICATOR))
    return g_type_is_a (type, G_TYPE_INITABLE) ? g_initable_new (type, NULL, error, NULL)
                                               : g_object_new (type, NULL);
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_PLUGIN, "the module '%s' holds no communicator", name);
  return NULL;
}
