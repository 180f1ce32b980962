/* SPDX-License-Identifier: Apache-2.0 */
/* An op that would work, for plugins that are broken elsewhere. */
#include "weft.h"

#define BROKEN_OP(TypeName, type_name)                                                                 \
  typedef struct                                                                                       \
  {                                                                                                    \
    WeftConversionOpsBase parent_instance;                                                             \
  } TypeName;                                                                                          \
  WEFT_DEFINE_OP (TypeName, type_name)                                                                 \
  static WeftTensorGroups *type_name##_convert (WeftConversionOpsBase *self, WeftTensorGroups *inputs, \
                                                WeftOpContext *context, GError **error)                \
  {                                                                                                    \
    return g_object_ref (inputs);                                                                      \
  }                                                                                                    \
  static void type_name##_class_init (TypeName##Class *klass)                                          \
  {                                                                                                    \
    klass->parent_class.convert = type_name##_convert;                                                 \
  }

#define BROKEN_DEFINE(id, init, ...) \
  WEFT_PLUGIN_DEFINE (id, "A broken plugin", init, "1", "Apache-2.0", "tests", __VA_ARGS__)
