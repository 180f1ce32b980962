/* SPDX-License-Identifier: Apache-2.0 */
/* The interface of a conversion op, the base class that implementers derive from, and the runner that calls them. */
#pragma once

#include "tensor/weft-tensor-groups.h"
#include "transform/weft-op-context.h"

G_BEGIN_DECLS

/**
 * WeftOpTraits:
 * @WEFT_OP_TRAITS_NONE: a layout op with one-to-many or many-to-one cardinality
 * @WEFT_OP_TRAITS_MANY_TO_MANY: may stand in a converter with several sources and several targets
 * @WEFT_OP_TRAITS_EXPANDS_STAR: names its outputs by numbers put in place of a `*` of its targets
 * @WEFT_OP_TRAITS_STACKS_LIST: the order in a collected list is an axis of its output, so that the list must be complete
 * @WEFT_OP_TRAITS_NEEDS_VALUES: computes values, so that no layout proof is possible
 * @WEFT_OP_TRAITS_DROPS_ZEROS: drops elements that should all be zero, and its inverse puts zeros there: it is
 *   reversible on the condition that they are, which is checked while converting
 * @WEFT_OP_TRAITS_CONSUMES_COMPANIONS: takes companions (scales, zero points) into their weight, so that later ops of
 *   the chain do not miss the source patterns of the companions
 *
 * What an op's class may do. Class data, declared once.
 *
 * Since: 1.0
 */
typedef enum /*< flags >*/
{
  WEFT_OP_TRAITS_NONE = 0,
  WEFT_OP_TRAITS_MANY_TO_MANY = 1 << 0,
  WEFT_OP_TRAITS_EXPANDS_STAR = 1 << 1,
  WEFT_OP_TRAITS_STACKS_LIST = 1 << 2,
  WEFT_OP_TRAITS_NEEDS_VALUES = 1 << 3,
  WEFT_OP_TRAITS_DROPS_ZEROS = 1 << 4,
  WEFT_OP_TRAITS_CONSUMES_COMPANIONS = 1 << 5,
} WeftOpTraits;

/**
 * WeftThreadPolicy:
 * @WEFT_THREAD_POLICY_OWNER: called only on the thread that called into Weft
 * @WEFT_THREAD_POLICY_SERIAL: called on any thread, one call at a time
 * @WEFT_THREAD_POLICY_ANY: called on any thread at any time
 *
 * Where the functions of a plugin's class may be called.
 *
 * Since: 1.0
 */
typedef enum
{
  WEFT_THREAD_POLICY_OWNER,
  WEFT_THREAD_POLICY_SERIAL,
  WEFT_THREAD_POLICY_ANY,
} WeftThreadPolicy;

#define WEFT_TYPE_CONVERSION_OPS (weft_conversion_ops_get_type ())

/**
 * WeftConversionOps:
 *
 * One step of a converter: a function from named groups of lazy tensors to named lazy tensors. Implementers derive
 * from #WeftConversionOpsBase.
 *
 * Since: 1.0
 */
WEFT_PUBLIC
G_DECLARE_INTERFACE (WeftConversionOps, weft_conversion_ops, WEFT, CONVERSION_OPS, GObject)

/**
 * WeftConversionOpsInterface:
 * @g_iface: the parent
 * @convert: makes the outputs; never reads an element
 * @dup_inverse: a new op that undoes this one, or %NULL with %WEFT_ERROR_NOT_REVERSIBLE
 * @get_traits: what the class may do
 * @get_thread_policy: where its functions may be called
 *
 * The slots that the runner calls. #WeftConversionOpsBase fills them from its own.
 *
 * Since: 1.0
 */
struct _WeftConversionOpsInterface
{
  GTypeInterface g_iface;

  /**
   * WeftConversionOpsInterface::convert: (skip)
   */
  WeftTensorGroups *(*convert) (WeftConversionOps *self, WeftTensorGroups *inputs, WeftOpContext *context,
                                GError **error);

  /**
   * WeftConversionOpsInterface::dup_inverse: (skip)
   */
  WeftConversionOps *(*dup_inverse) (WeftConversionOps *self, GError **error);

  /**
   * WeftConversionOpsInterface::get_traits: (skip)
   */
  WeftOpTraits (*get_traits) (WeftConversionOps *self);

  /**
   * WeftConversionOpsInterface::get_thread_policy: (skip)
   */
  WeftThreadPolicy (*get_thread_policy) (WeftConversionOps *self);
};

#define WEFT_TYPE_CONVERSION_OPS_BASE (weft_conversion_ops_base_get_type ())

/**
 * WeftConversionOpsBase:
 *
 * The class that ops derive from, in C, Python and JavaScript.
 *
 * Since: 1.0
 */
WEFT_PUBLIC
G_DECLARE_DERIVABLE_TYPE (WeftConversionOpsBase, weft_conversion_ops_base, WEFT, CONVERSION_OPS_BASE, GObject)

/**
 * WeftConversionOpsBaseClass:
 * @parent_class: the parent
 * @convert: makes the outputs out of the inputs by composing lazy tensors
 * @dup_inverse: a new op that undoes this one
 * @get_traits: (nullable): what the op may do, if its parameters decide
 * @traits: what the class may do
 * @thread_policy: where its functions may be called
 *
 * The class structure of #WeftConversionOpsBase.
 *
 * Since: 1.0
 */
struct _WeftConversionOpsBaseClass
{
  GObjectClass parent_class;

  /**
   * WeftConversionOpsBaseClass::convert:
   * @self: an op
   * @inputs: named groups of lazy tensors
   * @context: what the op may ask about the conversion
   * @error: return location
   *
   * Returns: (transfer full): named lazy tensors
   */
  WeftTensorGroups *(*convert) (WeftConversionOpsBase *self, WeftTensorGroups *inputs, WeftOpContext *context,
                                GError **error);

  /**
   * WeftConversionOpsBaseClass::dup_inverse:
   * @self: an op
   * @error: return location
   *
   * Returns: (transfer full) (nullable): a new op that undoes this one
   */
  WeftConversionOpsBase *(*dup_inverse) (WeftConversionOpsBase *self, GError **error);

  /**
   * WeftConversionOpsBaseClass::get_traits:
   * @self: an op
   *
   * Only for an op whose parameters decide; others set the traits of the class.
   *
   * Returns: what the op may do
   */
  WeftOpTraits (*get_traits) (WeftConversionOpsBase *self);

  WeftOpTraits traits;
  WeftThreadPolicy thread_policy;

  /*< private >*/
  gpointer reserved[7];
};

/* The runners: nobody calls a slot bare. */
WEFT_PUBLIC WeftTensorGroups *weft_conversion_ops_convert (WeftConversionOps *self, WeftTensorGroups *inputs,
                                                           WeftOpContext *context, GError **error);
WEFT_PUBLIC WeftConversionOps *weft_conversion_ops_dup_inverse (WeftConversionOps *self, GError **error);
WEFT_PUBLIC WeftOpTraits weft_conversion_ops_get_traits (WeftConversionOps *self);
WEFT_PUBLIC WeftThreadPolicy weft_conversion_ops_get_thread_policy (WeftConversionOps *self);
WEFT_PUBLIC const gchar *weft_conversion_ops_get_name (WeftConversionOps *self);

/* Class data that Python and JavaScript set from their class initialiser; C sets the members. */
WEFT_PUBLIC void weft_conversion_ops_base_class_set_traits (WeftConversionOpsBaseClass *klass,
                                                            WeftOpTraits traits);
WEFT_PUBLIC void weft_conversion_ops_base_class_set_thread_policy (WeftConversionOpsBaseClass *klass,
                                                                   WeftThreadPolicy policy);

/* Making ops by name. The name is the JSON "type", as `MergeModulelist`; parameters are JSON members. */
WEFT_PUBLIC WeftConversionOps *weft_op_new (const gchar *name, JsonObject *parameters, const gchar *where,
                                            GError **error);
WEFT_PUBLIC JsonObject *weft_op_to_json (WeftConversionOps *self);
WEFT_PUBLIC WeftTensorGroups *weft_op_chain_convert (GPtrArray *ops, WeftTensorGroups *inputs,
                                                     WeftOpContext *context, GError **error);
WEFT_PUBLIC GPtrArray *weft_op_chain_dup_inverse (GPtrArray *ops, GError **error);

/**
 * WEFT_DEFINE_OP_WITH_PARENT: (skip)
 * @TypeName: name of the instance struct, which is defined before and begins with that of the parent
 * @type_name: the same with underscores
 * @ParentName: name of the parent's instance struct
 * @PARENT_TYPE: its GType
 *
 * Defines a dynamic GType whose class differs from its parent's in `type_name_class_init` only.
 *
 * Since: 1.0
 */
#define WEFT_DEFINE_OP_WITH_PARENT(TypeName, type_name, ParentName, PARENT_TYPE) \
  typedef struct                                                                 \
  {                                                                              \
    ParentName##Class parent_class;                                              \
  } TypeName##Class;                                                             \
  GType type_name##_get_type (void);                                             \
  G_DEFINE_DYNAMIC_TYPE (TypeName, type_name, PARENT_TYPE)                       \
  static void type_name##_class_finalize (TypeName##Class *klass) {}             \
  static void type_name##_init (TypeName *self) {}

/**
 * WEFT_DEFINE_OP: (skip)
 * @TypeName: name of the instance struct, which is defined before and begins with a #WeftConversionOpsBase
 * @type_name: the same with underscores
 *
 * Defines the dynamic GType of an op. The file adds `type_name_class_init`, which sets the slots, the traits and
 * declares the parameters.
 *
 * Since: 1.0
 */
#define WEFT_DEFINE_OP(TypeName, type_name) \
  WEFT_DEFINE_OP_WITH_PARENT (TypeName, type_name, WeftConversionOpsBase, WEFT_TYPE_CONVERSION_OPS_BASE)

G_END_DECLS
