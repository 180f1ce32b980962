/* SPDX-License-Identifier: Apache-2.0 */
/* The interface of a quantisation method, the base class that implementers derive from, and the runners. */
#pragma once

#include "checkpoint/weft-checkpoint.h"
#include "quantize/weft-packed-weight.h"
#include "quantize/weft-quantization-config.h"

G_BEGIN_DECLS

#define WEFT_TYPE_QUANTIZER (weft_quantizer_get_type ())

/**
 * WeftQuantizer:
 *
 * A quantisation method: it knows its config, the tensors that make up a weight, how they become dense values, and, where
 * the method defines it, how dense values become they. Implementers derive from #WeftQuantizerBase and register under the
 * `quant_method` that configs name. One instance serves one checkpoint.
 *
 * Since: 1.0
 */
WEFT_PUBLIC
G_DECLARE_INTERFACE (WeftQuantizer, weft_quantizer, WEFT, QUANTIZER, GObject)

#define WEFT_TYPE_QUANTIZER_BASE (weft_quantizer_base_get_type ())

/**
 * WeftQuantizerBase:
 *
 * The class that quantizers derive from, in C, Python and JavaScript.
 *
 * Since: 1.0
 */
WEFT_PUBLIC
G_DECLARE_DERIVABLE_TYPE (WeftQuantizerBase, weft_quantizer_base, WEFT, QUANTIZER_BASE, GObject)

/**
 * WeftQuantizerInterface:
 * @g_iface: the parent
 * @recognise: whether a checkpoint is of this method
 * @configure: reads the config and declares the parts
 * @describe: checks the parts of a weight and says what they are
 * @dequantize: dense values
 * @is_eligible: whether a dense weight is to be quantised
 * @quantize: sets the parts of a dense weight
 * @dup_config: the `quantization_config` of what was quantised
 *
 * The slots that the runners call. #WeftQuantizerBase fills them from its own.
 *
 * Since: 1.0
 */
struct _WeftQuantizerInterface
{
  GTypeInterface g_iface;

  /**
   * WeftQuantizerInterface::recognise: (skip)
   */
  gboolean (*recognise) (WeftQuantizer *self, WeftQuantizationConfig *config, WeftStateDict *tensors);

  /**
   * WeftQuantizerInterface::configure: (skip)
   */
  gboolean (*configure) (WeftQuantizer *self, WeftQuantizationConfig *config, GError **error);

  /**
   * WeftQuantizerInterface::describe: (skip)
   */
  gboolean (*describe) (WeftQuantizer *self, WeftPackedWeight *weight, GError **error);

  /**
   * WeftQuantizerInterface::dequantize: (skip)
   */
  WeftTensor *(*dequantize) (WeftQuantizer *self, WeftPackedWeight *weight, WeftDtype dtype, GError **error);

  /**
   * WeftQuantizerInterface::is_eligible: (skip)
   */
  gboolean (*is_eligible) (WeftQuantizer *self, WeftPackedWeight *weight);

  /**
   * WeftQuantizerInterface::quantize: (skip)
   */
  gboolean (*quantize) (WeftQuantizer *self, WeftPackedWeight *weight, GError **error);

  /**
   * WeftQuantizerInterface::dup_config: (skip)
   */
  gchar *(*dup_config) (WeftQuantizer *self, const gchar *const *skipped_modules, GError **error);
};

/**
 * WeftQuantizerBaseClass:
 * @parent_class: the parent
 * @recognise: (nullable): whether a checkpoint is of this method; the base class compares `quant_method` with the name
 *   that the class is registered under
 * @configure: reads the config and declares the parts
 * @describe: checks the parts of a weight and says what they are
 * @dequantize: dense values
 * @is_eligible: (nullable): whether a dense weight is to be quantised; the base class takes weights of two axes, and
 *   stacked ones of experts
 * @quantize: (nullable): sets the parts of a dense weight; %NULL: the method cannot quantize
 * @dup_config: (nullable): the `quantization_config` of what was quantised
 *
 * The class structure of #WeftQuantizerBase.
 *
 * Since: 1.0
 */
struct _WeftQuantizerBaseClass
{
  GObjectClass parent_class;

  /**
   * WeftQuantizerBaseClass::recognise:
   * @self: a quantizer that is not configured
   * @config: what the checkpoint's config says of quantisation, which may be nothing
   * @tensors: its tensors
   *
   * Returns: whether the checkpoint is of this method
   */
  gboolean (*recognise) (WeftQuantizerBase *self, WeftQuantizationConfig *config, WeftStateDict *tensors);

  /**
   * WeftQuantizerBaseClass::configure:
   * @self: a quantizer
   * @config: the config of a checkpoint, or the scheme and the parameters that a caller asks for
   * @error: return location
   *
   * Called once, before everything but `recognise`.
   *
   * Returns: whether the config makes sense
   */
  gboolean (*configure) (WeftQuantizerBase *self, WeftQuantizationConfig *config, GError **error);

  /**
   * WeftQuantizerBaseClass::describe:
   * @self: a quantizer
   * @weight: a weight with the parts that were found
   * @error: return location
   *
   * Calls weft_packed_weight_set_packed() for a packed one, and weft_packed_weight_set_block() for each part that ops may
   * act on. A weight that is not packed is left alone.
   *
   * Returns: %FALSE if the weight is packed and its parts do not go together
   */
  gboolean (*describe) (WeftQuantizerBase *self, WeftPackedWeight *weight, GError **error);

  /**
   * WeftQuantizerBaseClass::dequantize:
   * @self: a quantizer
   * @weight: a weight that was described as packed
   * @dtype: dtype of the values, rounded to once
   * @error: return location
   *
   * Returns: (transfer full): the dense weight, lazy
   */
  WeftTensor *(*dequantize) (WeftQuantizerBase *self, WeftPackedWeight *weight, WeftDtype dtype,
                             GError **error);

  /**
   * WeftQuantizerBaseClass::is_eligible:
   * @self: a quantizer
   * @weight: a weight with its dense values
   *
   * Returns: whether it is to be quantised
   */
  gboolean (*is_eligible) (WeftQuantizerBase *self, WeftPackedWeight *weight);

  /**
   * WeftQuantizerBaseClass::quantize:
   * @self: a quantizer
   * @weight: a weight with its dense values
   * @error: return location
   *
   * Calls weft_packed_weight_set_part() for each part.
   *
   * Returns: whether it could be quantised
   */
  gboolean (*quantize) (WeftQuantizerBase *self, WeftPackedWeight *weight, GError **error);

  /**
   * WeftQuantizerBaseClass::dup_config:
   * @self: a quantizer
   * @skipped_modules: (array zero-terminated=1): paths of modules that were left dense
   * @error: return location
   *
   * Returns: (transfer full): the `quantization_config` of the output as JSON text
   */
  gchar *(*dup_config) (WeftQuantizerBase *self, const gchar *const *skipped_modules, GError **error);

  /*< private >*/
  gpointer reserved[8];
};

/* For implementers: what a weight is stored as. */
WEFT_PUBLIC void weft_quantizer_base_add_part (WeftQuantizerBase *self, const gchar *role,
                                               const gchar *dense_ending, const gchar *stored_ending);
WEFT_PUBLIC void weft_quantizer_base_add_runtime_tensor (WeftQuantizerBase *self, const gchar *stored_ending);
WEFT_PUBLIC WeftQuantizationConfig *weft_quantizer_base_get_config (WeftQuantizerBase *self);

/* Finding one. */
WEFT_PUBLIC WeftQuantizer *weft_quantizer_new_for_checkpoint (WeftCheckpoint *checkpoint, GError **error);
WEFT_PUBLIC WeftQuantizer *weft_quantizer_new_for_config (WeftQuantizationConfig *config,
                                                          WeftStateDict *tensors, GError **error);
WEFT_PUBLIC WeftQuantizer *weft_quantizer_new_for_scheme (WeftQuantizationConfig *config, GError **error);

/* The runners: nobody calls a slot bare. */
WEFT_PUBLIC const gchar *weft_quantizer_get_name (WeftQuantizer *self);
WEFT_PUBLIC WeftQuantizationConfig *weft_quantizer_get_config (WeftQuantizer *self);
WEFT_PUBLIC gboolean weft_quantizer_describe (WeftQuantizer *self, WeftPackedWeight *weight, GError **error);
WEFT_PUBLIC WeftTensor *weft_quantizer_dequantize (WeftQuantizer *self, WeftPackedWeight *weight,
                                                   WeftDtype dtype, GError **error);
WEFT_PUBLIC gboolean weft_quantizer_is_eligible (WeftQuantizer *self, WeftPackedWeight *weight);
WEFT_PUBLIC gboolean weft_quantizer_quantize (WeftQuantizer *self, WeftPackedWeight *weight, GError **error);
WEFT_PUBLIC gboolean weft_quantizer_measure (WeftQuantizer *self, WeftPackedWeight *weight, gdouble *max_abs,
                                             gdouble *relative_rms, gdouble *sqnr, GCancellable *cancellable,
                                             GError **error);
WEFT_PUBLIC gchar *weft_quantizer_dup_config (WeftQuantizer *self, const gchar *const *skipped_modules,
                                              GError **error);

/* Names. */
WEFT_PUBLIC gchar *weft_quantizer_find_part (WeftQuantizer *self, const gchar *key, const gchar **role);
WEFT_PUBLIC gchar *weft_quantizer_dup_key (WeftQuantizer *self, const gchar *dense_name, const gchar *role);
WEFT_PUBLIC gboolean weft_quantizer_is_runtime_tensor (WeftQuantizer *self, const gchar *key);

/**
 * WEFT_DEFINE_QUANTIZER: (skip)
 * @TypeName: name of the instance struct, which is defined before and begins with a #WeftQuantizerBase
 * @type_name: the same with underscores
 *
 * Defines the dynamic GType of a quantizer. The file adds `type_name_class_init`, which sets the slots.
 *
 * Since: 1.0
 */
#define WEFT_DEFINE_QUANTIZER(TypeName, type_name)                      \
  typedef struct                                                        \
  {                                                                     \
    WeftQuantizerBaseClass parent_class;                                \
  } TypeName##Class;                                                    \
  GType type_name##_get_type (void);                                    \
  G_DEFINE_DYNAMIC_TYPE (TypeName, type_name, WEFT_TYPE_QUANTIZER_BASE) \
  static void type_name##_class_finalize (TypeName##Class *klass) {}    \
  static void type_name##_init (TypeName *self) {}

/**
 * WEFT_PLUGIN_QUANTIZER: (skip)
 * @name: the `quant_method`, a string
 * @TypeName: name of its GType in camel case
 * @type_name: the same with underscores
 *
 * Since: 1.0
 */
#define WEFT_PLUGIN_QUANTIZER(name, TypeName, type_name) \
  WEFT_PLUGIN_FEATURE (WEFT_FEATURE_KIND_QUANTIZER, name, TypeName, type_name)

G_END_DECLS
