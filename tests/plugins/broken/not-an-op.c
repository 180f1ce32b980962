/* SPDX-License-Identifier: Apache-2.0 */
/* Registers a class that is no op as one. */
#include "weft.h"

typedef struct
{
  GObject parent_instance;
} WeftNotAnOp;

WEFT_DEFINE_OP_WITH_PARENT (WeftNotAnOp, weft_not_an_op, GObject, G_TYPE_OBJECT)

static void
weft_not_an_op_class_init (WeftNotAnOpClass *klass)
{
}

WEFT_PLUGIN_DEFINE ("not-an-op", "A broken plugin", NULL, "1", "Apache-2.0", "tests",
                    WEFT_PLUGIN_OP ("NotAnOp", WeftNotAnOp, weft_not_an_op));
