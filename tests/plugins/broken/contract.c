/* SPDX-License-Identifier: Apache-2.0 */
/* Ops that load and then break their promises, one each. */
#include "weft.h"

#define CONTRACT_OP(TypeName, type_name)                      \
  typedef struct                                              \
  {                                                           \
    WeftConversionOpsBase parent_instance;                    \
  } TypeName;                                                 \
  WEFT_DEFINE_OP (TypeName, type_name)                        \
  static void type_name##_class_init (TypeName##Class *klass) \
  {                                                           \
    klass->parent_class.convert = type_name##_convert;        \
    klass->parent_class.dup_inverse = dup_inverse;            \
  }

static WeftConversionOpsBase *
dup_inverse (WeftConversionOpsBase *self, GError **error)
{
  return NULL;
}

static WeftTensorGroups *
weft_contract_null_convert (WeftConversionOpsBase *self, WeftTensorGroups *inputs, WeftOpContext *context,
                            GError **error)
{
  return NULL;
}

static WeftTensorGroups *
weft_contract_both_convert (WeftConversionOpsBase *self, WeftTensorGroups *inputs, WeftOpContext *context,
                            GError **error)
{
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_FAILED, "half done");
  return g_object_ref (inputs);
}

static WeftTensorGroups *
weft_contract_nothing_convert (WeftConversionOpsBase *self, WeftTensorGroups *inputs, WeftOpContext *context,
                               GError **error)
{
  return weft_tensor_groups_new ();
}

static WeftTensorGroups *
weft_contract_nameless_convert (WeftConversionOpsBase *self, WeftTensorGroups *inputs, WeftOpContext *context,
                                GError **error)
{
  return weft_op_new_output ("", weft_tensor_groups_get_tensor (inputs, 0, 0));
}

CONTRACT_OP (WeftContractNull, weft_contract_null)
CONTRACT_OP (WeftContractBoth, weft_contract_both)
CONTRACT_OP (WeftContractNothing, weft_contract_nothing)
CONTRACT_OP (WeftContractNameless, weft_contract_nameless)

WEFT_PLUGIN_DEFINE ("contract", "Ops that break their promises", NULL, "1", "Apache-2.0", "tests",
                    WEFT_PLUGIN_OP ("ContractNull", WeftContractNull, weft_contract_null),
                    WEFT_PLUGIN_OP ("ContractBoth", WeftContractBoth, weft_contract_both),
                    WEFT_PLUGIN_OP ("ContractNothing", WeftContractNothing, weft_contract_nothing),
                    WEFT_PLUGIN_OP ("ContractNameless", WeftContractNameless, weft_contract_nameless));
