/* SPDX-License-Identifier: Apache-2.0 */
/* What a caller may say about a load. */
#pragma once

#include "fusion/weft-plan-overrides.h"
#include "mapping/weft-mapping.h"
#include "mapping/weft-mapping-registry.h"
#include "model/weft-module-tree.h"
#include "parallel/weft-parallel-plan.h"
#include "quantize/weft-quantization-config.h"

G_BEGIN_DECLS

#define WEFT_TYPE_LOAD_OPTIONS (weft_load_options_get_type ())

/**
 * WeftLoadOptions:
 *
 * How a checkpoint is to be loaded. All are optional.
 *
 * Since: 1.0
 */
WEFT_PUBLIC
G_DECLARE_FINAL_TYPE (WeftLoadOptions, weft_load_options, WEFT, LOAD_OPTIONS, GObject)

/**
 * WeftLoadFlags:
 * @WEFT_LOAD_FLAGS_NONE: none of the below
 * @WEFT_LOAD_FLAGS_ALLOW_MISSING: tensors that the model has and the checkpoint lacks do not stop the load
 * @WEFT_LOAD_FLAGS_IGNORE_MISMATCHED_SIZES: tensors of another shape than the model's are left out
 * @WEFT_LOAD_FLAGS_DROP_UNEXPECTED: tensors that the model does not know are left out
 * @WEFT_LOAD_FLAGS_REFUSE_UNEXPECTED: tensors that the model does not know stop the load
 * @WEFT_LOAD_FLAGS_REFUSE_IGNORED: what is missing or unexpected stops the load even if the model says that it is no fault
 * @WEFT_LOAD_FLAGS_REFUSE_UNUSED: a rule that matches nothing stops the load, if it comes from the caller or the user and not
 *   with Weft
 * @WEFT_LOAD_FLAGS_REFUSE_NOT_REVERSIBLE: a conversion without an exact inverse stops the load
 * @WEFT_LOAD_FLAGS_REFUSE_OPEN: a model of which no tensors are known stops the load
 * @WEFT_LOAD_FLAGS_OPEN: what the config says of the tensors of the model is not looked at
 * @WEFT_LOAD_FLAGS_KEEP_NAMES: no rule is applied: names and layout stay as they are published
 *
 * What a load puts up with. Without any of them, missing, mismatched and failed tensors stop it, nothing else does.
 *
 * Since: 1.0
 */
typedef enum /*< flags >*/
{
  WEFT_LOAD_FLAGS_NONE = 0,
  WEFT_LOAD_FLAGS_ALLOW_MISSING = 1 << 0,
  WEFT_LOAD_FLAGS_IGNORE_MISMATCHED_SIZES = 1 << 1,
  WEFT_LOAD_FLAGS_DROP_UNEXPECTED = 1 << 2,
  WEFT_LOAD_FLAGS_REFUSE_UNEXPECTED = 1 << 3,
  WEFT_LOAD_FLAGS_REFUSE_IGNORED = 1 << 4,
  WEFT_LOAD_FLAGS_REFUSE_UNUSED = 1 << 5,
  WEFT_LOAD_FLAGS_REFUSE_NOT_REVERSIBLE = 1 << 6,
  WEFT_LOAD_FLAGS_REFUSE_OPEN = 1 << 7,
  WEFT_LOAD_FLAGS_OPEN = 1 << 8,
  WEFT_LOAD_FLAGS_KEEP_NAMES = 1 << 9,
} WeftLoadFlags;

WEFT_PUBLIC WeftLoadOptions *weft_load_options_new (void);

WEFT_PUBLIC gboolean weft_load_options_set_dtype (WeftLoadOptions *self, const gchar *dtype, GError **error);
WEFT_PUBLIC gboolean weft_load_options_add_key_mapping (WeftLoadOptions *self, const gchar *source_pattern,
                                                        const gchar *target_pattern, GError **error);
WEFT_PUBLIC void weft_load_options_set_mapping (WeftLoadOptions *self, WeftTransformList *mapping);
WEFT_PUBLIC void weft_load_options_set_registry (WeftLoadOptions *self, WeftMappingRegistry *registry);
WEFT_PUBLIC void weft_load_options_set_module_tree (WeftLoadOptions *self, WeftModuleTree *tree);
WEFT_PUBLIC void weft_load_options_set_class_name (WeftLoadOptions *self, const gchar *class_name);
WEFT_PUBLIC void weft_load_options_set_model_type (WeftLoadOptions *self, const gchar *model_type);
WEFT_PUBLIC void weft_load_options_set_transforms (WeftLoadOptions *self, WeftTransformList *transforms);
WEFT_PUBLIC void weft_load_options_set_target_names (WeftLoadOptions *self, const gchar *const *names);
WEFT_PUBLIC void weft_load_options_set_flags (WeftLoadOptions *self, WeftLoadFlags flags);
WEFT_PUBLIC void weft_load_options_set_max_shard_bytes (WeftLoadOptions *self, guint64 max_shard_bytes);
WEFT_PUBLIC void weft_load_options_set_is_dequantized (WeftLoadOptions *self, gboolean is_dequantized);
WEFT_PUBLIC void weft_load_options_set_dense_dtype (WeftLoadOptions *self, WeftDtype dtype);
WEFT_PUBLIC void weft_load_options_set_quantization (WeftLoadOptions *self, const gchar *scheme,
                                                     JsonNode *parameters);
WEFT_PUBLIC gboolean weft_load_options_add_dense_module (WeftLoadOptions *self, const gchar *entry,
                                                         GError **error);
WEFT_PUBLIC void weft_load_options_set_is_hashed (WeftLoadOptions *self, gboolean is_hashed);

WEFT_PUBLIC void weft_load_options_set_fusion_config (WeftLoadOptions *self, JsonNode *fusion_config,
                                                      const gchar *where);
WEFT_PUBLIC void weft_load_options_set_plan_overrides (WeftLoadOptions *self, WeftPlanOverrides *overrides);

WEFT_PUBLIC gboolean weft_load_options_set_parallel (WeftLoadOptions *self, guint tp_size, guint ep_size,
                                                     guint rank, GError **error);
WEFT_PUBLIC gboolean weft_load_options_set_mesh (WeftLoadOptions *self, const guint *sizes, gsize n_sizes,
                                                 guint rank, GError **error);
WEFT_PUBLIC void weft_load_options_set_parallel_plan (WeftLoadOptions *self, WeftParallelPlan *plan);

WEFT_PUBLIC const gchar *weft_load_options_get_dtype (WeftLoadOptions *self);
WEFT_PUBLIC WeftTransformList *weft_load_options_get_key_mapping (WeftLoadOptions *self);
WEFT_PUBLIC WeftTransformList *weft_load_options_get_mapping (WeftLoadOptions *self);
WEFT_PUBLIC WeftMappingRegistry *weft_load_options_get_registry (WeftLoadOptions *self);
WEFT_PUBLIC WeftModuleTree *weft_load_options_get_module_tree (WeftLoadOptions *self);
WEFT_PUBLIC const gchar *weft_load_options_get_class_name (WeftLoadOptions *self);
WEFT_PUBLIC const gchar *weft_load_options_get_model_type (WeftLoadOptions *self);
WEFT_PUBLIC WeftTransformList *weft_load_options_get_transforms (WeftLoadOptions *self);
WEFT_PUBLIC const gchar *const *weft_load_options_get_target_names (WeftLoadOptions *self);
WEFT_PUBLIC WeftLoadFlags weft_load_options_get_flags (WeftLoadOptions *self);
WEFT_PUBLIC guint64 weft_load_options_get_max_shard_bytes (WeftLoadOptions *self);
WEFT_PUBLIC gboolean weft_load_options_get_is_dequantized (WeftLoadOptions *self);
WEFT_PUBLIC WeftDtype weft_load_options_get_dense_dtype (WeftLoadOptions *self);
WEFT_PUBLIC gboolean weft_load_options_has_dense_modules (WeftLoadOptions *self);
WEFT_PUBLIC const gchar *weft_load_options_get_quantization_scheme (WeftLoadOptions *self);
WEFT_PUBLIC JsonNode *weft_load_options_get_quantization_parameters (WeftLoadOptions *self);
WEFT_PUBLIC gboolean weft_load_options_is_module_dense (WeftLoadOptions *self, const gchar *path);
WEFT_PUBLIC gboolean weft_load_options_get_is_hashed (WeftLoadOptions *self);
WEFT_PUBLIC JsonNode *weft_load_options_get_fusion_config (WeftLoadOptions *self);
WEFT_PUBLIC const gchar *weft_load_options_get_fusion_where (WeftLoadOptions *self);
WEFT_PUBLIC WeftPlanOverrides *weft_load_options_get_plan_overrides (WeftLoadOptions *self);
WEFT_PUBLIC gboolean weft_load_options_is_parallel (WeftLoadOptions *self);
WEFT_PUBLIC guint weft_load_options_get_world_size (WeftLoadOptions *self);
WEFT_PUBLIC guint weft_load_options_get_rank (WeftLoadOptions *self);
WEFT_PUBLIC WeftParallelPlan *weft_load_options_get_parallel_plan (WeftLoadOptions *self);

WEFT_PUBLIC WeftTransformList *weft_load_options_assemble (WeftLoadOptions *self, JsonNode *config,
                                                           const gchar *where, GError **error);

G_END_DECLS
