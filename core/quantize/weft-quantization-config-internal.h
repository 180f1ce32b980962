/* SPDX-License-Identifier: Apache-2.0 */
/* What the library alone asks of a config, and a word on quantisation that does not stand in config.json. Internal to the library: not installed. */
#pragma once

#include "quantize/weft-quantization-config.h"

/* Where ModelOpt says how weights are packed, beside config.json or in its place. */
#define WEFT_MODELOPT_FILE_NAME "hf_quant_config.json"
/* What of it is like a quantization_config. */
#define WEFT_MODELOPT_MEMBER "quantization"

/* The name in the metadata of a header that a quantization_config has where there is no config beside the file; and how
 * config.json calls it. */
#define WEFT_QUANTIZATION_METADATA_NAME "quantization_config"

/* The lists of modules that are left dense, as the methods call them; ends with NULL. */
extern const gchar *const weft_quantization_config_skip_lists[];

/* Whether all that was looked up so far was of the type that was asked for. */
gboolean weft_quantization_config_check_types (WeftQuantizationConfig *self, GError **error);
/* Whether all sub-configs that speak of quantisation say the same: one method reads a checkpoint. */
gboolean weft_quantization_config_check_one (WeftQuantizationConfig *self, GError **error);

/* Whether every entry of these lists can be read: one that cannot would match nothing. */
gboolean weft_quantization_config_check_skip_lists (WeftQuantizationConfig *self, GError **error);

/* A scheme is configured between these two: its parameters are what was asked for by then, if that went well. The second one
 * fails if there is one more. */
void weft_quantization_config_begin_parameters (WeftQuantizationConfig *self);
gboolean weft_quantization_config_end_parameters (WeftQuantizationConfig *self, gboolean is_configured,
                                                  GError **error);

/* Reads @text, which a header says, if there is nothing else. */
gboolean weft_quantization_config_read_text (WeftQuantizationConfig *self, const gchar *text, GError **error);

/* (nullable): what messages call the place that it was found at: a path in config.json, a file, or a header. */
const gchar *weft_quantization_config_get_origin (WeftQuantizationConfig *self);

/* Reads that file, if config.json says nothing. A file that is not there, or says nothing, is no error. */
gboolean weft_quantization_config_read_modelopt (WeftQuantizationConfig *self, const gchar *folder,
                                                 GError **error);
