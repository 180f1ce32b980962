/* SPDX-License-Identifier: Apache-2.0 */
/* Another class for root mean square norms; the tensors stay as they are. */
#include <string.h>

#include "weft.h"

typedef struct
{
  WeftModuleFusionSpecBase parent_instance;
} WeftRmsNorm;

WEFT_DEFINE_FUSION (WeftRmsNorm, weft_rms_norm)

/* A norm of its name with one scale, and not one that this family made. */
static gboolean
weft_rms_norm_is_fusable (WeftModuleFusionSpecBase *base, WeftModule *module, GError **error)
{
  const gchar *class_name = weft_module_get_class_name (module);
  WeftTensorSpec *weight = weft_module_find_tensor (module, "weight");

  return g_str_has_suffix (class_name, "RMSNorm") && !g_str_has_prefix (class_name, "Fused") && weight != NULL
         && weft_tensor_spec_get_shape (weight)->rank == 1 && weft_module_get_n_tensors (module) == 1
         && weft_module_get_n_children (module) == 0;
}

static void
weft_rms_norm_class_init (WeftRmsNormClass *klass)
{
  klass->parent_class.is_fusable = weft_rms_norm_is_fusable;
}

WEFT_PLUGIN_DEFINE ("rms-norm", "Replaces the class of root mean square norms", NULL, PACKAGE_VERSION,
                    "Apache-2.0", PACKAGE_ORIGIN,
                    WEFT_PLUGIN_FUSION ("rms_norm", WeftRmsNorm, weft_rms_norm));
