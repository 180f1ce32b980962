/* SPDX-License-Identifier: Apache-2.0 */
/* A target of plan overrides: what takes the place of modules that a user selects by their paths. */
#pragma once

#include "fusion/weft-fusion-context.h"
#include "transform/weft-conversion-ops.h"
#include "transform/weft-transform-list.h"

G_BEGIN_DECLS

#define WEFT_TYPE_MODULE_REPLACEMENT (weft_module_replacement_get_type ())

/**
 * WeftModuleReplacement:
 *
 * Builds a module in place of another one. The user says which; the replacement says what it fits. Its options are the
 * properties of its class. Implementers derive from #WeftModuleReplacementBase.
 *
 * Since: 1.0
 */
WEFT_PUBLIC
G_DECLARE_INTERFACE (WeftModuleReplacement, weft_module_replacement, WEFT, MODULE_REPLACEMENT, GObject)

/**
 * WeftModuleReplacementInterface:
 * @g_iface: the parent
 * @list_module_types: the classes it takes the place of; none: any
 * @is_exact_type: whether a class that derives from one of these does not fit
 * @is_fusable: a further structural test
 * @replace: builds the replacement
 * @make_transforms: the rules from the old tensors to the new ones, relative to the module
 *
 * The slots that the runners call. #WeftModuleReplacementBase fills them from its own.
 *
 * Since: 1.0
 */
struct _WeftModuleReplacementInterface
{
  GTypeInterface g_iface;

  /**
   * WeftModuleReplacementInterface::list_module_types: (skip)
   */
  GStrv (*list_module_types) (WeftModuleReplacement *self);

  /**
   * WeftModuleReplacementInterface::is_exact_type: (skip)
   */
  gboolean (*is_exact_type) (WeftModuleReplacement *self);

  /**
   * WeftModuleReplacementInterface::is_fusable: (skip)
   */
  gboolean (*is_fusable) (WeftModuleReplacement *self, WeftModule *module, GError **error);

  /**
   * WeftModuleReplacementInterface::replace: (skip)
   */
  WeftModule *(*replace) (WeftModuleReplacement *self, WeftModule *module, const gchar *fqn,
                          WeftFusionContext *context, GError **error);

  /**
   * WeftModuleReplacementInterface::make_transforms: (skip)
   */
  WeftTransformList *(*make_transforms) (WeftModuleReplacement *self, WeftModule *replacement,
                                         WeftFusionContext *context, GError **error);
};

#define WEFT_TYPE_MODULE_REPLACEMENT_BASE (weft_module_replacement_base_get_type ())

/**
 * WeftModuleReplacementBase:
 *
 * The class that replacements derive from, in C, Python and JavaScript.
 *
 * Since: 1.0
 */
WEFT_PUBLIC
G_DECLARE_DERIVABLE_TYPE (WeftModuleReplacementBase, weft_module_replacement_base, WEFT,
                          MODULE_REPLACEMENT_BASE, GObject)

/**
 * WeftModuleReplacementBaseClass:
 * @parent_class: the parent
 * @is_fusable: (nullable): a further structural test; without it the type decides
 * @replace: builds the replacement
 * @make_transforms: (nullable): the rules, relative to the module; without them names and shapes stay
 *
 * The class structure of #WeftModuleReplacementBase.
 *
 * Since: 1.0
 */
struct _WeftModuleReplacementBaseClass
{
  GObjectClass parent_class;

  /**
   * WeftModuleReplacementBaseClass::is_fusable:
   * @self: a replacement
   * @module: a module of the right type
   * @error: return location
   *
   * Returns: whether it can be replaced; %FALSE without an error says no
   */
  gboolean (*is_fusable) (WeftModuleReplacementBase *self, WeftModule *module, GError **error);

  /**
   * WeftModuleReplacementBaseClass::replace:
   * @self: a replacement
   * @module: the module to replace
   * @fqn: its path
   * @context: what is known of the module and the model
   * @error: return location
   *
   * Keeps no state between calls. Tensors that stay are taken over from @module, as weft_module_copy() does.
   *
   * Returns: (transfer full): the module in its place, which is in no tree
   */
  WeftModule *(*replace) (WeftModuleReplacementBase *self, WeftModule *module, const gchar *fqn,
                          WeftFusionContext *context, GError **error);

  /**
   * WeftModuleReplacementBaseClass::make_transforms:
   * @self: a replacement
   * @replacement: what was built
   * @context: what is known of the module and the model
   * @error: return location
   *
   * Returns: (transfer full): new rules, whose patterns are relative to the module
   */
  WeftTransformList *(*make_transforms) (WeftModuleReplacementBase *self, WeftModule *replacement,
                                         WeftFusionContext *context, GError **error);

  /*< private >*/
  const gchar *const *module_types;
  gboolean is_exact_type;
  gpointer reserved[7];
};

/* The runners: nobody calls a slot bare. */
WEFT_PUBLIC gchar *weft_module_replacement_dup_name (WeftModuleReplacement *self);
WEFT_PUBLIC GStrv weft_module_replacement_list_module_types (WeftModuleReplacement *self);
WEFT_PUBLIC gboolean weft_module_replacement_is_exact_type (WeftModuleReplacement *self);
WEFT_PUBLIC gboolean weft_module_replacement_is_fusable (WeftModuleReplacement *self, WeftModule *module,
                                                         gboolean *is_fusable, GError **error);
WEFT_PUBLIC WeftModule *weft_module_replacement_replace (WeftModuleReplacement *self,
                                                         WeftFusionContext *context, GError **error);
WEFT_PUBLIC WeftTransformList *weft_module_replacement_make_transforms (WeftModuleReplacement *self,
                                                                        WeftModule *replacement,
                                                                        WeftFusionContext *context,
                                                                        GError **error);

/* Class data, set from the class initialiser. */
WEFT_PUBLIC void weft_module_replacement_base_class_set_module_types (WeftModuleReplacementBaseClass *klass,
                                                                      const gchar *const *types);
WEFT_PUBLIC void weft_module_replacement_base_class_set_exact_type (WeftModuleReplacementBaseClass *klass,
                                                                    gboolean is_exact_type);

/**
 * WEFT_DEFINE_REPLACEMENT: (skip)
 * @TypeName: name of the instance struct, which is defined before and begins with a #WeftModuleReplacementBase
 * @type_name: the same with underscores
 *
 * Defines the dynamic GType of a replacement. The file adds `type_name_class_init`, which sets the slots and the types.
 *
 * Since: 1.0
 */
#define WEFT_DEFINE_REPLACEMENT(TypeName, type_name)                          \
  WEFT_DEFINE_OP_WITH_PARENT (TypeName, type_name, WeftModuleReplacementBase, \
                              WEFT_TYPE_MODULE_REPLACEMENT_BASE)

G_END_DECLS
