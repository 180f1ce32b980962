/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank gets of a converted checkpoint: the slice of each converted tensor, whatever op made it. */
#include "../pipeline/made-checkpoint-private.h"

#define GATE_UP                                             \
  CONVERT ("'experts.*.w1','experts.*.w3'", "'experts.gu'", \
           OP_DIM ("MergeModulelist", 0) "," OP_DIM ("Concatenate", 1))
#define W1_W3 \
  "experts.0.w1: F32[2,2] 100\nexperts.0.w3: F32[2,2] 300\nexperts.1.w1: F32[2,2] 110\nexperts.1.w3: F32[2,2] 310\n"
#define JOIN_QKV CONVERT ("'q','k','v'", "'qkv'", OP_DIM ("Concatenate", 0))
#define HEADS(heads, kv_heads) \
  "{'model_type':'made','num_attention_heads':" #heads ",'num_key_value_heads':" #kv_heads "}"
#define MXFP4                                                                                           \
  "{'quantization_config':{'quant_method':'compressed-tensors','format':'mxfp4-pack-quantized',"        \
  "'config_groups':{'g':{'targets':['Linear'],'format':'mxfp4-pack-quantized','weights':{'num_bits':4," \
  "'type':'float','symmetric':true,'strategy':'group','group_size':32}}}}}"
#define MXFP4_EXPERT(n) \
  "experts." #n ".w.weight_packed: U8[2,16] " #n "\nexperts." #n ".w.weight_scale: U8[2,1] 127 128\n"
#define GPTQ "{'quantization_config':{'quant_method':'gptq','bits':4,'group_size':8}}"
#define GPTQ_EXPERT(n)                                                                                     \
  "experts." #n ".w.g_idx: I32[8] 0 0 0 0 0 0 0 0\nexperts." #n ".w.qweight: I32[1,8] " #n "\nexperts." #n \
  ".w.qzeros: I32[1,1] 7\nexperts." #n ".w.scales: F16[1,8] 1\n"
#define MXFP4_SHOWN                                                                                           \
  "experts.1.w.weight_packed: U8[2,16] 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 " \
  "27 28 29 30 31 32\nexperts.1.w.weight_scale: U8[2,1] 127 128\n"
#define GPTQ_SHOWN                                                                             \
  "experts.1.w.g_idx: I32[8] 0 0 0 0 0 0 0 0\nexperts.1.w.qweight: I32[1,8] 1 2 3 4 5 6 7 8\n" \
  "experts.1.w.qzeros: I32[1,1] 7\nexperts.1.w.scales: F16[1,8] 1 2 3 4 5 6 7 8\n"
#define SPARSE                                                                                       \
  "{'quantization_config':{'quant_method':'compressed-tensors','format':'dense','config_groups':{}," \
  "'sparsity_config':{'format':'sparse-bitmask'}}}"
#define FP8_BLOCKS "{'quantization_config':{'quant_method':'fp8','weight_block_size':[4,2]}}"

static const struct
{
  const gchar *id;
  const gchar *config;
  const gchar *mapping;
  const gchar *plan;
  guint tp_size, ep_size, rank;
  const gchar *published;
  const gchar *runtime;
} rows[] = {
  { "experts", NULL, GATE_UP, "{'experts.gu':'grouped_gemm'}", 1, 2, 1, W1_W3,
    "experts.gu: F32[1,4,2] 110 111 112 113 310 311 312 313\n" },
  { "packed-experts", NULL, GATE_UP, "{'experts.gu':'packed_colwise'}", 2, 1, 1, W1_W3,
    "experts.gu: F32[2,2,2] 102 103 302 303 112 113 312 313\n" },
  { "stacked-experts", NULL, NULL, "{'gu':'packed_colwise'}", 2, 1, 1, "gu: F32[2,4,2] 0\n",
    "gu: F32[2,2,2] 2 3 6 7 10 11 14 15\n" },
  { "uneven", NULL, NULL, "{'w':'colwise'}", 2, 1, 1, "w: F32[5,1] 0\n", "w: F32[2,1] 3 4\n" },
  { "empty", NULL, NULL, "{'w':'packed_colwise'}", 4, 1, 3, "w: F32[12,1] 0\n", "w: F32[0,1]\n" },
  /* Where the reference cuts sources, which is wrong: WEFT differs. */
  { "differs/joined", NULL, JOIN_QKV, "{'qkv':'shard:0'}", 2, 1, 1,
    "k: F32[2,1] 10\nq: F32[2,1] 0\nv: F32[2,1] 20\n", "qkv: F32[3,1] 11 20 21\n" },
  { "differs/joined-segments", HEADS (2, 2), JOIN_QKV, "{'qkv':'colwise_segments'}", 2, 1, 1,
    "k: F32[2,1] 10\nq: F32[2,1] 0\nv: F32[2,1] 20\n", "qkv: F32[3,1] 1 11 21\n" },
  { "differs/packed-join", NULL, CONVERT ("'g','u'", "'gu'", OP_DIM ("Concatenate", 0)),
    "{'gu':'packed_colwise'}", 2, 1, 0, "g: F32[4,1] 0\nu: F32[4,1] 10\n", "gu: F32[4,1] 0 1 10 11\n" },
  { "differs/one-to-many", NULL, CONVERT ("'qkv'", "'q','k','v'", OP_DIM ("Chunk", 0)),
    "{'q':'colwise','k':'colwise','v':'colwise'}", 2, 1, 0, "qkv: F32[12,1] 0\n",
    "k: F32[2,1] 4 5\nq: F32[2,1] 0 1\nv: F32[2,1] 8 9\n" },
  { "differs/transposed", NULL, CONVERT ("'s'", "'w'", "{'type':'Transpose','dim0':0,'dim1':1}"),
    "{'w':'colwise'}", 2, 1, 0, "s: F32[2,4] 0\n", "w: F32[2,2] 0 4 1 5\n" },
  { "differs/packed-bias", NULL, NULL, "{'gu':'packed_colwise'}", 2, 1, 0,
    "gu.bias: F32[8] 0\ngu.weight: F32[8,1] 10\n",
    "gu.bias: F32[4] 0 1 4 5\ngu.weight: F32[4,1] 10 11 14 15\n" },
  { "differs/expert-bias", NULL, NULL, "{'e.gu_bias':'packed_colwise'}", 2, 1, 1, "e.gu_bias: F32[2,4] 0\n",
    "e.gu_bias: F32[2,2] 1 3 5 7\n" },
  /* Biases, scalars, vectors. */
  { "bias/rowwise", NULL, NULL, "{'o':'rowwise'}", 2, 1, 1,
    "o.bias: F32[4] 0\no.g: F32[4] 0\no.weight: F32[1,4] 0\n",
    "o.bias: F32[4] 0 1 2 3\no.g: F32[2] 2 3\no.weight: F32[1,2] 2 3\n" },
  { "bias/packed-rowwise", NULL, NULL, "{'o':'packed_rowwise'}", 2, 1, 1,
    "o.bias: F32[4] 0\no.weight: F32[1,4] 0\n", "o.bias: F32[4] 0 1 2 3\no.weight: F32[1,2] 1 3\n" },
  { "scalar", NULL, NULL, "{'o':'colwise'}", 2, 1, 1, "o.scale: F32[] 7\n", "o.scale: F32[] 7\n" },
  { "three-axes", NULL, NULL, "{'a':'colwise','b':'rowwise'}", 2, 1, 1, "a: F32[2,2,1] 0\nb: F32[2,1,2] 0\n",
    "a: F32[2,1,1] 1 3\nb: F32[2,1,1] 1 3\n" },
  /* Tensors over the two inner ranks, experts over all four. */
  { "mesh/tensors-and-experts", NULL, NULL, "{'q':'colwise','e':'grouped_gemm'}", 2, 4, 3,
    "e: F32[4,1] 0\nq: F32[4,1] 0\n", "e: F32[1,1] 3\nq: F32[2,1] 2 3\n" },
  { "mesh/outer-copies", NULL, NULL, "{'q':'colwise','e':'grouped_gemm'}", 2, 4, 1,
    "e: F32[4,1] 0\nq: F32[4,1] 0\n", "e: F32[1,1] 1\nq: F32[2,1] 2 3\n" },
  /* Experts in tensors of their own belong to ranks by number. */
  { "experts-by-number", NULL, NULL, "{'experts.*.w':'grouped_gemm'}", 1, 2, 1,
    "experts.0.w: F32[1] 0\nexperts.1.w: F32[1] 1\nexperts.2.w: F32[1] 2\nexperts.3.w: F32[1] 3\n",
    "experts.2.w: F32[1] 2\nexperts.3.w: F32[1] 3\n" },
  /* Fewer key and value heads than ranks. */
  { "heads/whole", HEADS (4, 2), NULL, "{'k_proj':'colwise','q_proj':'colwise'}", 4, 1, 1,
    "k_proj.weight: F32[4,1] 0\nq_proj.weight: F32[8,1] 0\n",
    "k_proj.weight: F32[2,1] 0 1\nq_proj.weight: F32[2,1] 2 3\n" },
  { "heads/enough", HEADS (4, 2), NULL, "{'k_proj':'colwise'}", 2, 1, 1, "k_proj.weight: F32[4,1] 0\n",
    "k_proj.weight: F32[2,1] 2 3\n" },
  { "heads/segments", HEADS (4, 2), NULL, "{'qkv':'colwise_segments'}", 4, 1, 3, "qkv.weight: F32[8,1] 0\n",
    "qkv.weight: F32[3,1] 3 5 7\n" },
  /* A style of the stack that the items of a list make. */
  { "items/colwise", NULL, NULL, "{'e.w':'colwise'}", 2, 1, 1, "e.w.0: F32[4,1] 0\ne.w.1: F32[4,1] 10\n",
    "e.w.0: F32[2,1] 2 3\ne.w.1: F32[2,1] 12 13\n" },
  { "items/rowwise", NULL, NULL, "{'e.w':'rowwise'}", 2, 1, 0, "e.w.0: F32[1,4] 0\ne.w.1: F32[1,4] 10\n",
    "e.w.0: F32[1,2] 0 1\ne.w.1: F32[1,2] 10 11\n" },
  { "items/vocabulary", NULL, NULL, "{'e.w':'embedding_rowwise'}", 2, 1, 1,
    "e.w.0: F32[2] 0\ne.w.1: F32[2] 10\n", "e.w.1: F32[2] 10 11\n" },
  /* Packed experts go to their ranks whole, with all that belongs to them. */
  { "packed/experts-by-number", MXFP4, NULL, "{'experts.*.w':'grouped_gemm'}", 1, 2, 1,
    MXFP4_EXPERT (0) MXFP4_EXPERT (1), MXFP4_SHOWN },
  { "packed/opaque-experts", GPTQ, NULL, "{'experts.*.w':'grouped_gemm'}", 1, 2, 1,
    GPTQ_EXPERT (0) GPTQ_EXPERT (1), GPTQ_SHOWN },
  /* Companions of what is not packed. */
  { "packed/lone-companion", FP8_BLOCKS, NULL, "{'a':'colwise'}", 2, 1, 1,
    "a.input_scale: F32[1] 3\na.weight: F32[2,1] 0\n", "a.input_scale: F32[1] 3\na.weight: F32[1,1] 1\n" },
  /* Scales are cut with their weight. */
  { "packed/rows", FP8_BLOCKS, NULL, "{'a':'colwise'}", 2, 1, 1,
    "a.weight: F8_E4M3[8,2] 0\na.weight_scale_inv: F32[2,1] 1 2\n",
    "a.weight: F8_E4M3[4,2] 8 9 10 11 12 13 14 15\na.weight_scale_inv: F32[1,1] 2\n" },
  { "packed/columns", FP8_BLOCKS, NULL, "{'a':'rowwise'}", 2, 1, 1,
    "a.weight: F8_E4M3[1,4] 0\na.weight_scale_inv: F32[1,2] 1 2\n",
    "a.weight: F8_E4M3[1,2] 2 3\na.weight_scale_inv: F32[1,1] 2\n" },
  { "packed/asked-to-replicate", FP8_BLOCKS, NULL, "{'a':'colwise','a.weight_scale_inv':'replicate'}", 2, 1,
    1, "a.weight: F8_E4M3[8,1] 0\na.weight_scale_inv: F32[2,1] 1 2\n",
    "a.weight: F8_E4M3[4,1] 4 5 6 7\na.weight_scale_inv: F32[2,1] 1 2\n" },
};

static const struct
{
  const gchar *id;
  const gchar *config;
  const gchar *plan;
  guint tp_size, ep_size;
  const gchar *published;
  WeftError code;
  const gchar *message;
} refused_rows[] = {
  { "no-plan", NULL, NULL, 2, 1, "w: F32[2] 0\n", WEFT_ERROR_MISSING,
    "*no plan says what is cut over 2 ranks*" },
  { "cleared", NULL, "{}", 2, 1, "w: F32[2] 0\n", WEFT_ERROR_MISSING, "*no plan says what is cut*" },
  { "nobody's-rule", NULL, "{'w':'colwise','v':'rowwise'}", 2, 1, "w: F32[2] 0\n", WEFT_ERROR_MISSING,
    "*the rule 'v' (rowwise) of the plan is for no module or tensor*" },
  { "one-axis", NULL, "{'w':'embedding_colwise'}", 2, 1, "w: F32[2] 0\n", WEFT_ERROR_SHAPE,
    "*'w': embedding_colwise cuts axis 1, and the tensor has one axis*" },
  { "experts-do-not-divide", NULL, "{'e':'grouped_gemm'}", 1, 2, "e: F32[5,1] 0\n", WEFT_ERROR_SHAPE,
    "*'e': 5 experts cannot be spread evenly over 2 ranks*" },
  { "an-expert-is-missing", NULL, "{'experts.*.w':'grouped_gemm'}", 1, 2,
    "experts.0.w: F32[1] 0\nexperts.2.w: F32[1] 0\nexperts.3.w: F32[1] 0\n", WEFT_ERROR_MISSING,
    "*'experts.1.w' is missing among the 4 of its list*" },
  { "no-heads", NULL, "{'w':'colwise_segments'}", 2, 1, "w: F32[6,1] 0\n", WEFT_ERROR_SHAPE,
    "*'w': colwise_segments cuts query, key and value each on its own, and 6 rows*" },
  { "through-a-block", FP8_BLOCKS, "{'a':'colwise'}", 4, 1,
    "a.weight: F8_E4M3[8,1] 0\na.weight_scale_inv: F32[2,1] 1 2\n", WEFT_ERROR_SHAPE,
    "*'a.weight_scale_inv': colwise over 4 ranks cuts through a block of 4 rows and 2 columns*sizes that would do: 2;*" },
  { "packed-opaquely", GPTQ, "{'experts.*.w':'colwise'}", 2, 1, GPTQ_EXPERT (0), WEFT_ERROR_UNSUPPORTED,
    "*'experts.0.w.weight': colwise would cut it, and it is packed (*replicate it, or ask for --dequantize*" },
  { "sparse", SPARSE, "{'a':'colwise'}", 2, 1,
    "a.bitmask: U8[2,1] 1 1\na.compressed: BF16[2] 1 2\na.row_offsets: I64[2] 0 1\na.shape: I64[2] 2 8\n",
    WEFT_ERROR_UNSUPPORTED, "*'a.weight': colwise would cut it, and it is packed (sparse)*" },
  { "no-size-would-do", FP8_BLOCKS, "{'a':'colwise'}", 2, 1,
    "a.weight: F8_E4M3[6,1] 0\na.weight_scale_inv: F32[2,1] 1 2\n", WEFT_ERROR_SHAPE,
    "*of a packed weight of shape (6, 1); replicate it, or ask for --dequantize" },
  { "a-scale-of-its-own", FP8_BLOCKS, "{'a':'colwise','a.weight_scale_inv':'rowwise'}", 2, 1,
    "a.weight: F8_E4M3[8,4] 0\na.weight_scale_inv: F32[2,2] 1 2 3 4\n", WEFT_ERROR_SHAPE,
    "*'a.weight_scale_inv': rowwise does not cut it where its weight is cut*" },
};

static WeftLoadOptions *
make_options (const gchar *mapping_text, const gchar *plan_text, guint tp_size, guint ep_size, guint rank)
{
  WeftLoadOptions *options = weft_load_options_new ();
  g_autoptr (GError) error = NULL;

  if (mapping_text != NULL)
    {
      g_autoptr (WeftTransformList) mapping = made_mapping (mapping_text);

      weft_load_options_set_mapping (options, mapping);
    }
  if (plan_text != NULL)
    {
      g_autoptr (JsonNode) root = made_json (plan_text);
      g_autoptr (WeftParallelPlan) plan = weft_parallel_plan_new_from_json (root, "plan", &error);

      g_assert_no_error (error);
      weft_load_options_set_parallel_plan (options, plan);
    }
  g_assert_true (weft_load_options_set_parallel (options, tp_size, ep_size, rank, &error));
  return options;
}

static void
test_slice (gconstpointer position)
{
  guint i = GPOINTER_TO_UINT (position);
  g_autoptr (WeftLoadOptions) options =
      make_options (rows[i].mapping, rows[i].plan, rows[i].tp_size, rows[i].ep_size, rows[i].rank);
  g_auto (MadeFolders) folders = { 0 };
  g_autoptr (WeftCheckpoint) checkpoint = NULL;
  g_autoptr (WeftLoadPlan) plan = NULL;
  g_autoptr (GError) error = NULL;
  g_autofree gchar *found = NULL;

  made_folders_init (&folders);
  made_write (folders.published, rows[i].config, rows[i].published);
  checkpoint = made_open (folders.published);
  plan = weft_load_plan_new (checkpoint, options, &error);
  g_assert_no_error (error);
  found = made_show (weft_load_plan_get_outputs (plan));
  g_assert_cmpstr (found, ==, rows[i].runtime);
}

static void
test_refused (gconstpointer position)
{
  guint i = GPOINTER_TO_UINT (position);
  g_autoptr (WeftLoadOptions) options =
      make_options (NULL, refused_rows[i].plan, refused_rows[i].tp_size, refused_rows[i].ep_size, 0);
  g_auto (MadeFolders) folders = { 0 };
  g_autoptr (WeftCheckpoint) checkpoint = NULL;
  g_autoptr (GError) error = NULL;

  made_folders_init (&folders);
  made_write (folders.published, refused_rows[i].config, refused_rows[i].published);
  checkpoint = made_open (folders.published);
  g_assert_null (weft_load_plan_new (checkpoint, options, &error));
  g_assert_error (error, WEFT_ERROR, (gint) refused_rows[i].code);
  g_test_message ("%s", error->message);
  g_assert_true (g_pattern_match_simple (refused_rows[i].message, error->message));
}

/* Sizes and ranks that do not fit. */
static void
test_options (void)
{
  static const struct
  {
    guint tp_size, ep_size, rank;
    gboolean is_right;
  } sizes[] = {
    { 1, 1, 0, TRUE },  { 2, 1, 1, TRUE },  { 2, 4, 3, TRUE },  { 4, 4, 0, TRUE },  { 0, 1, 0, FALSE },
    { 1, 0, 0, FALSE }, { 2, 3, 0, FALSE }, { 4, 2, 0, FALSE }, { 2, 1, 2, FALSE }, { 70000, 1, 0, FALSE },
  };
  static const guint mesh[] = { 2, 3 };
  static const guint wide[] = { 65536, 65536 };

  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      g_autoptr (WeftLoadOptions) options = weft_load_options_new ();
      g_autoptr (GError) error = NULL;
      gboolean ok =
          weft_load_options_set_parallel (options, sizes[i].tp_size, sizes[i].ep_size, sizes[i].rank, &error);

      g_assert_cmpint (ok, ==, sizes[i].is_right);
      g_assert_cmpint (weft_load_options_is_parallel (options), ==, ok);
      if (!ok)
        g_assert_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT);
    }
  {
    g_autoptr (WeftLoadOptions) options = weft_load_options_new ();

    g_assert_true (weft_load_options_set_mesh (options, mesh, 2, 5, NULL));
    g_assert_cmpuint (weft_load_options_get_world_size (options), ==, 6);
    g_assert_cmpuint (weft_load_options_get_rank (options), ==, 5);
    g_assert_false (weft_load_options_set_mesh (options, mesh, 2, 6, NULL));
    g_assert_false (weft_load_options_set_mesh (options, wide, 2, 0, NULL));
    g_assert_false (weft_load_options_set_mesh (options, mesh, 0, 0, NULL));
  }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autofree gchar *path = g_strdup_printf ("/slices/%s", rows[i].id);
      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_slice);
    }
  for (guint i = 0; i < G_N_ELEMENTS (refused_rows); i++)
    {
      g_autofree gchar *path = g_strdup_printf ("/slices/refused/%s", refused_rows[i].id);
      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_refused);
    }
  g_test_add_func ("/slices/options", test_options);
  return g_test_run ();
}
