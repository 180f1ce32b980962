/* SPDX-License-Identifier: Apache-2.0 */
/* A family of fusions: which modules it replaces, by which class, and how their weights get there and back. */
#pragma once

#include "fusion/weft-fusion-context.h"
#include "transform/weft-conversion-ops.h"
#include "transform/weft-transform-list.h"

G_BEGIN_DECLS

#define WEFT_TYPE_MODULE_FUSION_SPEC (weft_module_fusion_spec_get_type ())

/**
 * WeftModuleFusionSpec:
 *
 * A family of fusions, switched on by its name in `fusion_config`. Its options are the properties of its class. Implementers
 * derive from #WeftModuleFusionSpecBase.
 *
 * Since: 1.0
 */
WEFT_PUBLIC
G_DECLARE_INTERFACE (WeftModuleFusionSpec, weft_module_fusion_spec, WEFT, MODULE_FUSION_SPEC, GObject)

/**
 * WeftModuleFusionSpecInterface:
 * @g_iface: the parent
 * @list_target_patterns: regular expressions, one of which is found in the path of each candidate; none: every module is one
 * @is_fusable: the structural test, which decides
 * @make_fused_class: name of the class in place of that of a module
 * @fuse_module: changes the copy of a module to what the new class builds; %NULL: what the rules say
 * @make_transforms: the rules from the old tensors to the new ones, relative to the module
 * @list_parallel_styles: how the new tensors are cut on several ranks
 *
 * The slots that the runners call. #WeftModuleFusionSpecBase fills them from its own.
 *
 * Since: 1.0
 */
struct _WeftModuleFusionSpecInterface
{
  GTypeInterface g_iface;

  /**
   * WeftModuleFusionSpecInterface::list_target_patterns: (skip)
   */
  GStrv (*list_target_patterns) (WeftModuleFusionSpec *self);

  /**
   * WeftModuleFusionSpecInterface::is_fusable: (skip)
   */
  gboolean (*is_fusable) (WeftModuleFusionSpec *self, WeftModule *module, GError **error);

  /**
   * WeftModuleFusionSpecInterface::make_fused_class: (skip)
   */
  gchar *(*make_fused_class) (WeftModuleFusionSpec *self, const gchar *class_name, GError **error);

  /**
   * WeftModuleFusionSpecInterface::fuse_module: (skip)
   */
  gboolean (*fuse_module) (WeftModuleFusionSpec *self, WeftModule *fused, WeftFusionContext *context,
                           gboolean *is_done, GError **error);

  /**
   * WeftModuleFusionSpecInterface::make_transforms: (skip)
   */
  WeftTransformList *(*make_transforms) (WeftModuleFusionSpec *self, WeftFusionContext *context,
                                         GError **error);

  /**
   * WeftModuleFusionSpecInterface::list_parallel_styles: (skip)
   */
  GVariant *(*list_parallel_styles) (WeftModuleFusionSpec *self, WeftFusionContext *context);
};

#define WEFT_TYPE_MODULE_FUSION_SPEC_BASE (weft_module_fusion_spec_base_get_type ())

/**
 * WeftModuleFusionSpecBase:
 *
 * The class that families derive from, in C, Python and JavaScript.
 *
 * Since: 1.0
 */
WEFT_PUBLIC
G_DECLARE_DERIVABLE_TYPE (WeftModuleFusionSpecBase, weft_module_fusion_spec_base, WEFT,
                          MODULE_FUSION_SPEC_BASE, GObject)

/**
 * WeftModuleFusionSpecBaseClass:
 * @parent_class: the parent
 * @is_fusable: whether the family can replace a module
 * @make_fused_class: (nullable): name of the new class; `Fused` and the old name if there is no such function
 * @fuse_module: (nullable): changes the copy of a module; what the rules make of its tensors if there is no such function
 * @make_transforms: (nullable): the rules, relative to the module; without them names and shapes stay
 * @list_parallel_styles: (nullable): styles of the new tensors
 *
 * The class structure of #WeftModuleFusionSpecBase.
 *
 * Since: 1.0
 */
struct _WeftModuleFusionSpecBaseClass
{
  GObjectClass parent_class;

  /**
   * WeftModuleFusionSpecBaseClass::is_fusable:
   * @self: a family
   * @module: a module of the skeleton
   * @error: return location
   *
   * Returns: whether the family can replace it; %FALSE without an error says no
   */
  gboolean (*is_fusable) (WeftModuleFusionSpecBase *self, WeftModule *module, GError **error);

  /**
   * WeftModuleFusionSpecBaseClass::make_fused_class:
   * @self: a family
   * @class_name: the class of a module
   * @error: return location
   *
   * Returns: (transfer full): the class in its place
   */
  gchar *(*make_fused_class) (WeftModuleFusionSpecBase *self, const gchar *class_name, GError **error);

  /**
   * WeftModuleFusionSpecBaseClass::fuse_module:
   * @self: a family
   * @fused: a copy of the module, under its new class
   * @context: what is known of the module and the model
   * @error: return location
   *
   * Gives @fused the children and tensors that the new class has.
   *
   * Returns: whether it could
   */
  gboolean (*fuse_module) (WeftModuleFusionSpecBase *self, WeftModule *fused, WeftFusionContext *context,
                           GError **error);

  /**
   * WeftModuleFusionSpecBaseClass::make_transforms:
   * @self: a family
   * @context: what is known of the module and the model
   * @error: return location
   *
   * Returns: (transfer full): new rules, whose patterns are relative to the module
   */
  WeftTransformList *(*make_transforms) (WeftModuleFusionSpecBase *self, WeftFusionContext *context,
                                         GError **error);

  /**
   * WeftModuleFusionSpecBaseClass::list_parallel_styles:
   * @self: a family
   * @context: what is known of the module and the model
   *
   * Returns: (transfer full): a dictionary (`a{ss}`) from a name relative to the module to its style
   */
  GVariant *(*list_parallel_styles) (WeftModuleFusionSpecBase *self, WeftFusionContext *context);

  /*< private >*/
  const gchar *const *target_patterns;
  gpointer reserved[7];
};

/* The runners: nobody calls a slot bare. */
WEFT_PUBLIC const gchar *weft_module_fusion_spec_get_name (WeftModuleFusionSpec *self);
WEFT_PUBLIC GStrv weft_module_fusion_spec_list_target_patterns (WeftModuleFusionSpec *self);
WEFT_PUBLIC gboolean weft_module_fusion_spec_is_fusable (WeftModuleFusionSpec *self, WeftModule *module,
                                                         gboolean *is_fusable, GError **error);
WEFT_PUBLIC gchar *weft_module_fusion_spec_make_fused_class (WeftModuleFusionSpec *self,
                                                             const gchar *class_name, GError **error);
WEFT_PUBLIC WeftModule *weft_module_fusion_spec_fuse (WeftModuleFusionSpec *self, WeftFusionContext *context,
                                                      GError **error);
WEFT_PUBLIC WeftTransformList *weft_module_fusion_spec_make_transforms (WeftModuleFusionSpec *self,
                                                                        WeftFusionContext *context,
                                                                        GError **error);
WEFT_PUBLIC GVariant *weft_module_fusion_spec_list_parallel_styles (WeftModuleFusionSpec *self,
                                                                    WeftFusionContext *context);

/* Class data, set from the class initialiser. */
WEFT_PUBLIC void weft_module_fusion_spec_base_class_set_target_patterns (WeftModuleFusionSpecBaseClass *klass,
                                                                         const gchar *const *patterns);

/* For implementers: a converter whose ops are given as JSON, appended to a list of rules. */
WEFT_PUBLIC gboolean weft_fusion_append_converter (WeftTransformList *rules, const gchar *const *sources,
                                                   const gchar *const *targets, const gchar *operations,
                                                   GError **error);

/**
 * WEFT_DEFINE_FUSION: (skip)
 * @TypeName: name of the instance struct, which is defined before and begins with a #WeftModuleFusionSpecBase
 * @type_name: the same with underscores
 *
 * Defines the dynamic GType of a family. The file adds `type_name_class_init`, which sets the slots and the patterns.
 *
 * Since: 1.0
 */
#define WEFT_DEFINE_FUSION(TypeName, type_name)                              \
  WEFT_DEFINE_OP_WITH_PARENT (TypeName, type_name, WeftModuleFusionSpecBase, \
                              WEFT_TYPE_MODULE_FUSION_SPEC_BASE)

G_END_DECLS
