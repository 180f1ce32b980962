/* SPDX-License-Identifier: Apache-2.0 */
#include "fusion/weft-module-tensors-private.h"

gchar *
weft_module_tensors_join (const gchar *prefix, const gchar *name)
{
  return prefix[0] != '\0' ? g_strconcat (prefix, ".", name, NULL) : g_strdup (name);
}

WeftStateDict *
weft_module_tensors_to_state_dict (WeftModule *module, const gchar *prefix, GError **error)
{
  g_auto (GStrv) names = weft_module_list_tensors (module);
  g_autoptr (WeftStateDict) state_dict = weft_state_dict_new ();

  for (guint i = 0; names[i] != NULL; i++)
    {
      WeftTensorSpec *spec = weft_module_find_tensor (module, names[i]);
      const WeftShape *shape = weft_tensor_spec_get_shape (spec);
      g_autofree gchar *name = weft_module_tensors_join (prefix, names[i]);
      g_autoptr (WeftTensor) tensor = NULL;

      if (!weft_tensor_spec_is_persistent (spec))
        continue;
      tensor =
          weft_tensor_new_unreadable (weft_tensor_spec_get_dtype (spec), shape->dims, shape->rank, error);
      if (tensor == NULL || !weft_state_dict_add (state_dict, name, tensor, error))
        {
          g_prefix_error (error, "'%s': ", name);
          return NULL;
        }
    }
  return g_steal_pointer (&state_dict);
}
