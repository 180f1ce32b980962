/* SPDX-License-Identifier: Apache-2.0 */
/* Kinds of failure with scales, dtypes and packed weights, each by its id. */
#include "../pipeline/made-checkpoint-private.h"

#define MODEL "MadeModel mixtral -"

#define FP8(more) "{'quantization_config':{'quant_method':'fp8'" more "}}"
#define BLOCK(rows, columns) ",'weight_block_size':[" #rows "," #columns "]"
#define PER_TENSOR ",'weight_block_size':null"
#define NVFP4 "{'quantization_config':{'quant_method':'modelopt','quant_algo':'NVFP4'}}"
#define INT_PACKED(bits, group)                                                            \
  "{'quantization_config':{'quant_method':'compressed-tensors','format':'pack-quantized'," \
  "'config_groups':{'g':{'targets':['Linear'],'weights':{'num_bits':" #bits                \
  ",'type':'int','symmetric':true,'strategy':'group','group_size':" #group "}}}}}"
#define MERGE OP_DIM ("MergeModulelist", 0)
#define EXPERTS                                                                     \
  CONVERT ("'experts.*.w1.weight','experts.*.w3.weight'", "'experts.gate_up_proj'", \
           MERGE "," OP_DIM ("Concatenate", 1))                                     \
  "," CONVERT ("'experts.*.w2.weight'", "'experts.down_proj'", MERGE)
#define JOIN_QKV CONVERT ("'q.weight','k.weight','v.weight'", "'qkv.weight'", OP_DIM ("Concatenate", 0))
#define SPLIT_QKV CONVERT ("'qkv.weight'", "'q.weight','k.weight','v.weight'", OP_DIM ("Chunk", 0))

/* Codes and companions as they are, and every byte of them back. */
static const struct
{
  const gchar *id;
  const gchar *config;
  const gchar *mapping;
  const gchar *model_tensors;
  const gchar *published;
  const gchar *runtime;
} carried_rows[] = {
  /* A rule that finds the weight also finds the beginning of its scale's name. */
  { "F35", FP8 (BLOCK (1, 2)), RENAME ("gate_up_proj", "gate_up") "," EXPERTS, NULL,
    "l.experts.0.w1.weight: F8_E4M3[2,2] 1\nl.experts.0.w1.weight_scale_inv: F32[2,1] 2\n"
    "l.experts.0.w3.weight: F8_E4M3[2,2] 5\nl.experts.0.w3.weight_scale_inv: F32[2,1] 4\n"
    "l.x.gate_up_proj: F8_E4M3[1,2] 1\nl.x.gate_up_proj_scale_inv: F32[1,1] 3\n",
    "l.experts.gate_up_proj: F8_E4M3[1,4,2] 1 2 3 4 5 6 7 8\nl.experts.gate_up_proj_scale_inv: F32[1,4,1] 2 3 4 5\n"
    "l.x.gate_up: F8_E4M3[1,2] 1 2\nl.x.gate_up_scale_inv: F32[1,1] 3\n" },
  /* The spelling of each scale comes back. */
  { "F36/known-spellings", FP8 (BLOCK (2, 2)), RENAME ("^a", "b"), NULL,
    "a.0.scale: F32[1,1] 2\na.0.weight: F8_E4M3[2,2] 1\na.1.weight: F8_E4M3[2,2] 1\na.1.weight_scale_inv: F32[1,1] 3\n",
    "b.0.weight: F8_E4M3[2,2] 1 2 3 4\nb.0.weight_scale_inv: F32[1,1] 2\n"
    "b.1.weight: F8_E4M3[2,2] 1 2 3 4\nb.1.weight_scale_inv: F32[1,1] 3\n" },
  /* One scale for all of what is cut: each part has it too. */
  { "F39", FP8 (PER_TENSOR), SPLIT_QKV, NULL, "qkv.weight: F8_E4M3[6,1] 1\nqkv.weight_scale: F32[] 7\n",
    "k.weight: F8_E4M3[2,1] 3 4\nk.weight_scale: F32[] 7\nq.weight: F8_E4M3[2,1] 1 2\nq.weight_scale: F32[] 7\n"
    "v.weight: F8_E4M3[2,1] 5 6\nv.weight_scale: F32[] 7\n" },
  { "F39/equal-scales-are-shared", FP8 (PER_TENSOR), JOIN_QKV, NULL,
    "k.weight: F8_E4M3[1,1] 2\nk.weight_scale: F32[1] 7\nq.weight: F8_E4M3[1,1] 1\nq.weight_scale: F32[1] 7\n"
    "v.weight: F8_E4M3[1,1] 3\nv.weight_scale: F32[1] 7\n",
    "qkv.weight: F8_E4M3[3,1] 1 2 3\nqkv.weight_scale: F32[1] 7\n" },
  /* Different ones become one for each row. */
  { "F39/different-scales-become-rows", FP8 (PER_TENSOR), JOIN_QKV, NULL,
    "k.weight: F8_E4M3[1,2] 2\nk.weight_scale: F32[] 8\nq.weight: F8_E4M3[1,2] 1\nq.weight_scale: F32[] 7\n"
    "v.weight: F8_E4M3[1,2] 3\nv.weight_scale: F32[] 9\n",
    "qkv.weight: F8_E4M3[3,2] 1 2 2 3 3 4\nqkv.weight_scale: F32[3,1] 7 8 9\n" },
  /* Partners, and their scales, in different files. */
  { "F41", FP8 (BLOCK (1, 1)), JOIN_QKV, NULL,
    "--- model-00001-of-00003.safetensors\nq.weight: F8_E4M3[1,1] 1\nv.weight_scale_inv: F32[1,1] 6\n"
    "--- model-00002-of-00003.safetensors\nk.weight: F8_E4M3[1,1] 2\nq.weight_scale_inv: F32[1,1] 4\n"
    "--- model-00003-of-00003.safetensors\nk.weight_scale_inv: F32[1,1] 5\nv.weight: F8_E4M3[1,1] 3\n",
    "qkv.weight: F8_E4M3[3,1] 1 2 3\nqkv.weight_scale_inv: F32[3,1] 4 5 6\n" },
  { "F43/packed", "{'quantization_config':{'quant_method':'mxfp4'}}", RENAME ("^m", "model"), NULL,
    "m.experts.down_proj_blocks: U8[1,2,1,16] 0\nm.experts.down_proj_scales: U8[1,2,1] 127\n",
    "model.experts.down_proj_blocks: U8[1,2,1,16] 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 "
    "27 28 29 30 31\nmodel.experts.down_proj_scales: U8[1,2,1] 127 128\n" },
  /* A model that knows dense weights finds them in packed ones, and nothing unknown beside them. */
  { "F46", FP8 (BLOCK (2, 2)), EXPERTS,
    "l.experts.gate_up_proj: BF16[2,4,2]\nl.experts.down_proj: BF16[2,2,2]\nnorm: BF16[1]",
    "l.experts.0.w1.weight: F8_E4M3[2,2] 1\nl.experts.0.w1.weight_scale_inv: F32[1,1] 1\n"
    "l.experts.0.w2.weight: F8_E4M3[2,2] 2\nl.experts.0.w2.weight_scale_inv: F32[1,1] 2\n"
    "l.experts.0.w3.weight: F8_E4M3[2,2] 3\nl.experts.0.w3.weight_scale_inv: F32[1,1] 3\n"
    "l.experts.1.w1.weight: F8_E4M3[2,2] 4\nl.experts.1.w1.weight_scale_inv: F32[1,1] 4\n"
    "l.experts.1.w2.weight: F8_E4M3[2,2] 5\nl.experts.1.w2.weight_scale_inv: F32[1,1] 5\n"
    "l.experts.1.w3.weight: F8_E4M3[2,2] 6\nl.experts.1.w3.weight_scale_inv: F32[1,1] 6\nnorm: BF16[1] 1\n",
    "l.experts.down_proj: F8_E4M3[2,2,2] 2 3 4 5 5 6 7 8\nl.experts.down_proj_scale_inv: F32[2,1,1] 2 5\n"
    "l.experts.gate_up_proj: F8_E4M3[2,4,2] 1 2 3 4 3 4 5 6 4 5 6 7 6 7 8 9\n"
    "l.experts.gate_up_proj_scale_inv: F32[2,2,1] 1 3 4 6\nnorm: BF16[1] 1\n" },
  /* Scalars of experts that are stacked, and of halves that are joined. */
  { "F50", FP8 (PER_TENSOR), EXPERTS, NULL,
    "l.experts.0.w1.weight: F8_E4M3[1,2] 1\nl.experts.0.w1.weight_scale: F32[] 1\n"
    "l.experts.0.w2.weight: F8_E4M3[1,2] 2\nl.experts.0.w2.weight_scale: F32[] 2\n"
    "l.experts.0.w3.weight: F8_E4M3[1,2] 3\nl.experts.0.w3.weight_scale: F32[] 3\n"
    "l.experts.1.w1.weight: F8_E4M3[1,2] 4\nl.experts.1.w1.weight_scale: F32[] 4\n"
    "l.experts.1.w2.weight: F8_E4M3[1,2] 5\nl.experts.1.w2.weight_scale: F32[] 5\n"
    "l.experts.1.w3.weight: F8_E4M3[1,2] 6\nl.experts.1.w3.weight_scale: F32[] 6\n",
    "l.experts.down_proj: F8_E4M3[2,1,2] 2 3 5 6\nl.experts.down_proj_weight_scale: F32[2] 2 5\n"
    "l.experts.gate_up_proj: F8_E4M3[2,2,2] 1 2 3 4 4 5 6 7\nl.experts.gate_up_proj_weight_scale: F32[2,2,1] 1 3 4 6\n" },
};

static void
test_carried (gconstpointer position)
{
  guint i = GPOINTER_TO_UINT (position);
  g_autoptr (WeftLoadOptions) options =
      made_options (carried_rows[i].mapping, MODEL, carried_rows[i].model_tensors, NULL);

  made_assert_round_trip (carried_rows[i].config, carried_rows[i].published, options,
                          carried_rows[i].runtime);
}

/* Dense values. */
static const struct
{
  const gchar *id;
  const gchar *config;
  const gchar *mapping;
  const gchar *published;
  const gchar *runtime;
} dense_rows[] = {
  /* 6 rows and 2 scales are blocks of 4, not of 3. */
  { "F37", FP8 (BLOCK (4, 1)), NULL, "a.weight: F8_E4M3[6,1] 1 1 1 1 1 1\na.weight_scale_inv: F32[2,1] 2\n",
    "a.weight: BF16[6,1] 2 2 2 2 3 3\n" },
  { "F38", FP8 (BLOCK (4, 2)), NULL,
    "a.weight: F8_E4M3[5,3] 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1\na.weight_scale_inv: F32[2,2] 2\n",
    "a.weight: BF16[5,3] 2 2 3 2 2 3 2 2 3 2 2 3 4 4 5\n" },
  /* Two codes of E2M1 a byte: 0x22 is 1 and 1. gate and up have their own global scales. */
  { "F40/dequantized", NVFP4,
    CONVERT ("'gate.weight','up.weight'", "'gate_up.weight'", OP_DIM ("Concatenate", 0)),
    "gate.weight: U8[1,8] 34 34 34 34 34 34 34 34\ngate.weight_scale: F8_E4M3[1,1] 1\ngate.weight_scale_2: F32[] 2\n"
    "up.weight: U8[1,8] 34 34 34 34 34 34 34 34\nup.weight_scale: F8_E4M3[1,1] 1\nup.weight_scale_2: F32[] 20\n",
    "gate_up.weight: BF16[2,16] 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 20 20 20 20 20 20 20 20 20 20 20 20 20 20 20 20\n" },
  /* The last two axes are swapped: [E, R, G, 16] gives [E, 32 G, R]. */
  { "F43", "{'quantization_config':{'quant_method':'mxfp4'}}", NULL,
    "experts.down_proj_blocks: U8[1,2,1,16] 34 34 34 34 34 34 34 34 34 34 34 34 34 34 34 34 "
    "66 66 66 66 66 66 66 66 66 66 66 66 66 66 66 66\nexperts.down_proj_scales: U8[1,2,1] 127 128\n",
    "experts.down_proj: BF16[1,32,2] 1 2 1 4 1 2 1 4 1 2 1 4 1 2 1 4 1 2 1 4 1 2 1 4 1 2 1 4 1 2 1 4 1 2 1 4 1 2 1 4 1 2 1 4 1 2 1 4 1 2 1 4 1 2 1 4 1 2 1 4 1 2 1 4\n" },
  /* A group that does not divide the columns. */
  { "F48", INT_PACKED (4, 4), NULL,
    "a.weight_packed: I32[1,1] 10066329\na.weight_scale: F32[1,2] 1 2\na.weight_shape: I64[2] 1 6\n",
    "a.weight: F32[1,6] 1 1 1 1 2 2\n" },
  /* 3-bit codes in either layout: 32 of them fill 3 words, or, ten to a word, 4. Code 0 is -4. */
  { "F48/3-bit-dense", INT_PACKED (3, 32), NULL,
    "a.weight_packed: I32[1,3] 0 0 0\na.weight_scale: F32[1,1] 1\na.weight_shape: I64[2] 1 32\n",
    "a.weight: F32[1,32] -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4\n" },
  { "F48/3-bit-padded", INT_PACKED (3, 32), NULL,
    "a.weight_packed: I32[1,4] 0 0 0 0\na.weight_scale: F32[1,1] 1\na.weight_shape: I64[2] 1 32\n",
    "a.weight: F32[1,32] -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4 -4\n" },
};

static void
test_dense (gconstpointer position)
{
  guint i = GPOINTER_TO_UINT (position);
  g_autoptr (WeftLoadOptions) options = made_options (dense_rows[i].mapping, NULL, NULL, NULL);
  g_auto (MadeFolders) folders = { 0 };
  g_autoptr (GError) error = NULL;
  g_autofree gchar *found = NULL;
  g_autoptr (GBytes) config = NULL;

  made_folders_init (&folders);
  made_write (folders.published, dense_rows[i].config, dense_rows[i].published);
  weft_load_options_set_is_dequantized (options, TRUE);
  made_convert (folders.published, folders.runtime, options, &error);
  g_assert_no_error (error);
  found = made_show_folder (folders.runtime);
  g_assert_cmpstr (found, ==, dense_rows[i].runtime);
  /* Nobody takes it for packed any more. */
  config = fixture_read (folders.runtime, "config.json");
  g_assert_cmpmem (g_bytes_get_data (config, NULL), g_bytes_get_size (config), "{}", 2);
  g_assert_false (made_revert (folders.runtime, folders.back, NULL, WEFT_REVERT_FLAGS_NONE, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_NOT_REVERSIBLE);
}

static const struct
{
  const gchar *id;
  const gchar *config;
  const gchar *mapping;
  const gchar *model_tensors;
  const gchar *published;
  gint code;
  const gchar *message;
} refused_rows[] = {
  { "F36", FP8 (BLOCK (1, 1)), NULL, NULL, "a.weight: F8_E4M3[1,1]\na.factor: F32[1,1]", WEFT_ERROR_MISSING,
    "'a.weight' is stored as F8_E4M3|no scale" },
  { "F36/a-scale-of-whole-numbers", FP8 (BLOCK (1, 1)), NULL, NULL,
    "a.weight: F8_E4M3[1,1]\na.weight_scale_inv: I32[1,1]", WEFT_ERROR_DTYPE,
    "'a.weight'|stored as I32|F8_E8M0" },
  { "F36/a-scale-that-is-a-code", FP8 (BLOCK (1, 1)), NULL, NULL,
    "a.weight: F8_E4M3[1,1]\na.weight_scale_inv: F8_E4M3[1,1]", WEFT_ERROR_DTYPE,
    "'a.weight'|stored as F8_E4M3" },
  { "F37/a-grid-of-no-blocks", FP8 (BLOCK (4, 4)), NULL, NULL,
    "a.weight: F8_E4M3[5,5]\na.weight_scale_inv: F32[3,3]", WEFT_ERROR_SHAPE,
    "'a.weight'|(3, 3)|(5, 5)|4 x 4" },
  /* Blocks of 2 rows do not end where the first weight of 3 rows does. */
  { "F38/blocks-that-are-joined", FP8 (BLOCK (2, 1)), JOIN_QKV, NULL,
    "k.weight: F8_E4M3[3,1]\nk.weight_scale_inv: F32[2,1]\nq.weight: F8_E4M3[3,1]\nq.weight_scale_inv: F32[2,1]\n"
    "v.weight: F8_E4M3[3,1]\nv.weight_scale_inv: F32[2,1]",
    WEFT_ERROR_FAILED, "the scale of 'k.weight'|2 rows|--dequantize" },
  /* Blocks of 2 rows run on from the third row of w1 into w3. */
  { "F50/blocks-that-run-on", FP8 (BLOCK (2, 2)), EXPERTS, NULL,
    "l.experts.0.w1.weight: F8_E4M3[3,2]\nl.experts.0.w1.weight_scale_inv: F32[2,1]\n"
    "l.experts.0.w3.weight: F8_E4M3[3,2]\nl.experts.0.w3.weight_scale_inv: F32[2,1]",
    WEFT_ERROR_FAILED, "the scale of 'l.experts.0.w1.weight'|2 rows|--dequantize" },
  { "F40", NVFP4, CONVERT ("'gate.weight','up.weight'", "'gate_up.weight'", OP_DIM ("Concatenate", 0)), NULL,
    "gate.weight: U8[1,8]\ngate.weight_scale: F8_E4M3[1,1] 1\ngate.weight_scale_2: F32[] 2\n"
    "up.weight: U8[1,8]\nup.weight_scale: F8_E4M3[1,1] 1\nup.weight_scale_2: F32[] 20",
    WEFT_ERROR_FAILED, "global_scale of 'gate.weight'|different values|--dequantize" },
  /* A value projection that is the key's: the model says so, or it is missing. */
  { "F42", FP8 (BLOCK (1, 1)), RENAME ("^key", "k"), "k.weight: BF16[1,1]\nv.weight: BF16[1,1]",
    "key.weight: F8_E4M3[1,1]\nkey.weight_scale_inv: F32[1,1]", WEFT_ERROR_MISSING, "'v.weight' is missing" },
  { "F45", INT_PACKED (4, 32), NULL, NULL, "a.weight_packed: I32[1,4]\na.weight_shape: I64[2] 1 32",
    WEFT_ERROR_MISSING, "'a.weight'|scale" },
  { "F45/no-config", NULL, RENAME ("^old", "norm"), "a.weight: BF16[1,32]\nnorm: BF16[1]",
    "a.weight_packed: I32[1,4]\nold: BF16[1]", WEFT_ERROR_MISSING, "'a.weight' is missing" },
  { "F45/unknown-method", "{'quantization_config':{'quant_method':'made-up'}}", NULL, NULL, "a: F32[1]",
    WEFT_ERROR_UNSUPPORTED, "'made-up'|fp8" },
  { "F45/no-method", "{'text_config':{'quantization_config':{'bits':4}}}", NULL, NULL, "a: F32[1]",
    WEFT_ERROR_UNSUPPORTED, "text_config.quantization_config: there is no quant_method" },
  { "F45/mistyped-method", "{'quantization_config':{'quant_method':3}}", NULL, NULL, "a: F32[1]",
    WEFT_ERROR_FORMAT, "quantization_config: expected 'quant_method' to be a text, found 3" },
  { "F45/mistyped-bits", "{'quantization_config':{'quant_method':'gptq','bits':'four'}}", NULL, NULL,
    "a: F32[1]", WEFT_ERROR_FORMAT,
    "quantization_config: expected 'bits' to be a whole number, found \"four\"" },
  { "F45/two-methods",
    "{'a':{'quantization_config':{'quant_method':'fp8'}},'b':{'quantization_config':{'quant_method':'awq'}}}",
    NULL, NULL, "a: F32[1]", WEFT_ERROR_UNSUPPORTED,
    "a.quantization_config and b.quantization_config differ" },
};

static void
test_refused (gconstpointer position)
{
  guint i = GPOINTER_TO_UINT (position);
  g_autoptr (WeftLoadOptions) options =
      made_options (refused_rows[i].mapping, MODEL, refused_rows[i].model_tensors, NULL);

  made_assert_refused (refused_rows[i].config, refused_rows[i].published, options, refused_rows[i].code,
                       refused_rows[i].message);
}

/* A line of text as the bytes of a U8 tensor. */
static gchar *
make_text_tensor (const gchar *name, const gchar *text)
{
  GString *line = g_string_new (NULL);

  g_string_printf (line, "%s: U8[%" G_GSIZE_FORMAT "]", name, strlen (text));
  for (; *text != '\0'; text++)
    g_string_append_printf (line, " %u", (guint) *text);
  return g_string_free (line, FALSE);
}

/* Experts of nf4: merging their bytes would mix blocks that run on over rows, so it is refused; dense values merge. */
static void
test_f44 (void)
{
  g_autoptr (GString) tensors = g_string_new (NULL);
  g_autoptr (WeftTransformList) mapping =
      made_mapping (CONVERT ("'experts.*.w.weight'", "'experts.w'", MERGE));
  g_autoptr (WeftLoadOptions) options = weft_load_options_new ();
  static const gchar config[] = "{'quantization_config':{'quant_method':'bitsandbytes','load_in_4bit':true}}";
  g_auto (MadeFolders) folders = { 0 };
  g_autoptr (GError) error = NULL;
  g_autofree gchar *found = NULL;

  made_folders_init (&folders);
  for (guint i = 0; i < 2; i++)
    {
      g_autofree gchar *name = g_strdup_printf ("experts.%u.w.weight.quant_state.bitsandbytes__nf4", i);
      g_autofree gchar *state = make_text_tensor (
          name, "{\"quant_type\": \"nf4\", \"blocksize\": 64, \"dtype\": \"bfloat16\", \"shape\": [1, 2]}");

      g_string_append_printf (tensors,
                              "experts.%u.w.weight: U8[1,1] 240\nexperts.%u.w.weight.absmax: F32[1] %u\n"
                              "experts.%u.w.weight.quant_map: F32[16] -8\n%s\n",
                              i, i, i + 1, i, state);
    }
  weft_load_options_set_mapping (options, mapping);
  made_assert_refused (config, tensors->str, options, WEFT_ERROR_FAILED, "experts.0.w.weight|--dequantize");
  weft_load_options_set_is_dequantized (options, TRUE);
  made_write (folders.published, config, tensors->str);
  made_convert (folders.published, folders.runtime, options, &error);
  g_assert_no_error (error);
  found = made_show_folder (folders.runtime);
  /* The first element is in the high nibble: 15, then 0. */
  g_assert_cmpstr (found, ==, "experts.w: BF16[2,1,2] 7 -8 14 -16\n");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (carried_rows); i++)
    {
      g_autofree gchar *path = g_strdup_printf ("/known-failures/%s/comes-back", carried_rows[i].id);
      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_carried);
    }
  for (guint i = 0; i < G_N_ELEMENTS (dense_rows); i++)
    {
      g_autofree gchar *path = g_strdup_printf ("/known-failures/%s/dense", dense_rows[i].id);
      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_dense);
    }
  for (guint i = 0; i < G_N_ELEMENTS (refused_rows); i++)
    {
      g_autofree gchar *path = g_strdup_printf ("/known-failures/%s/refused", refused_rows[i].id);
      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_refused);
    }
  g_test_add_func ("/known-failures/F44", test_f44);
  return g_test_run ();
}
