/* SPDX-License-Identifier: Apache-2.0 */
#include "fusion/weft-fusion-runner-private.h"

#include "plugin/weft-plugin-registry.h"

gchar *
weft_fusion_dup_feature_name (GObject *feature)
{
  GType type = G_OBJECT_TYPE (feature);
  const gchar *plugin_id = weft_feature_get_plugin_id (type);

  if (plugin_id == NULL)
    return g_strdup (g_type_name (type));
  return g_strdup_printf ("%s/%s", plugin_id, weft_feature_get_name (type));
}

gboolean
weft_fusion_check_result (GObject *feature, const gchar *slot, gpointer result, GError *local_error,
                          GError **error)
{
  g_autofree gchar *name = weft_fusion_dup_feature_name (feature);

  if (local_error == NULL && result != NULL)
    return TRUE;
  if (local_error == NULL)
    g_set_error (error, WEFT_ERROR, WEFT_ERROR_PLUGIN_CONTRACT, "%s: %s returned NULL without an error", name,
                 slot);
  else if (result == NULL)
    g_propagate_prefixed_error (error, g_steal_pointer (&local_error), "%s: ", name);
  else
    g_set_error (error, WEFT_ERROR, WEFT_ERROR_PLUGIN_CONTRACT, "%s: %s returned a result and the error '%s'",
                 name, slot, local_error->message);
  g_clear_error (&local_error);
  return FALSE;
}

gboolean
weft_fusion_check_answer (GObject *feature, const gchar *slot, gboolean answer, GError *local_error,
                          GError **error)
{
  g_autofree gchar *name = NULL;

  if (local_error == NULL)
    return TRUE;
  name = weft_fusion_dup_feature_name (feature);
  if (answer)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_PLUGIN_CONTRACT, "%s: %s returned TRUE and the error '%s'",
                   name, slot, local_error->message);
      g_error_free (local_error);
    }
  else
    g_propagate_prefixed_error (error, local_error, "%s: ", name);
  return FALSE;
}
