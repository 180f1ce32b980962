/* SPDX-License-Identifier: Apache-2.0 */
/* The op that changes nothing: the place of an inverse that has nothing to do. */
#include "weft.h"

typedef struct
{
  WeftConversionOpsBase parent_instance;
} WeftIdentity;

WEFT_DEFINE_OP (WeftIdentity, weft_identity)

static WeftTensorGroups *
weft_identity_convert (WeftConversionOpsBase *base, WeftTensorGroups *inputs, WeftOpContext *context,
                       GError **error)
{
  return g_object_ref (inputs);
}

static void
weft_identity_class_init (WeftIdentityClass *klass)
{
  klass->parent_class.convert = weft_identity_convert;
  klass->parent_class.thread_policy = WEFT_THREAD_POLICY_ANY;
}

WEFT_PLUGIN_DEFINE ("identity", "Passes tensors on unchanged", NULL, PACKAGE_VERSION, "Apache-2.0",
                    PACKAGE_ORIGIN, WEFT_PLUGIN_OP ("Identity", WeftIdentity, weft_identity));
