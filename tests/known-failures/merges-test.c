/* SPDX-License-Identifier: Apache-2.0 */
/* Kinds of failure with merges, splits, permutations and experts, each by its id. */
#include "../pipeline/made-checkpoint-private.h"

#define MODEL "MadeModel mixtral -"

#define MERGE OP_DIM ("MergeModulelist", 0)
#define EXPERTS \
  CONVERT ("'experts.*.w1','experts.*.w3'", "'experts.gate_up'", MERGE "," OP_DIM ("Concatenate", 1))
#define SPLIT_QKV CONVERT ("'attn.qkv'", "'attn.q','attn.k','attn.v'", OP_DIM ("Split", 0))
#define CHUNK_QKV CONVERT ("'attn.qkv'", "'attn.q','attn.k','attn.v'", OP_DIM ("Chunk", 0))
#define JOIN_QKV CONVERT ("'attn.q','attn.k','attn.v'", "'attn.qkv'", OP_DIM ("Concatenate", 0))
#define GQA \
  "{'model_type':'made','hidden_size':16,'head_dim':2,'num_attention_heads':8,'num_key_value_heads':2}"

static const struct
{
  const gchar *id;
  const gchar *config;
  const gchar *mapping;
  const gchar *model_tensors;
  const gchar *published;
  const gchar *runtime;
} rows[] = {
  /* Numbers and words at one level of the name. */
  { "F15", "{'model_type':'bert'}", NULL, NULL,
    "m.0.w: F32[1] 1\nm.LayerNorm.gamma: F32[1] 3\nm.layer.w: F32[1] 2\n",
    "m.0.w: F32[1] 1\nm.LayerNorm.weight: F32[1] 3\nm.layer.w: F32[1] 2\n" },
  { "F16/by-the-model's-sizes", NULL, SPLIT_QKV, "attn.q: F32[3]\nattn.k: F32[1]\nattn.v: F32[1]",
    "attn.qkv: F32[5] 1\n", "attn.k: F32[1] 4\nattn.q: F32[3] 1 2 3\nattn.v: F32[1] 5\n" },
  /* The same experts in either layout. */
  { "F17/as-the-model", NULL,
    CONVERT ("'experts.w'", "'experts.t'", "{'type':'Transpose','dim0':1,'dim1':2,'check_dims':true}"),
    "experts.t: F32[1,2,3]", "experts.w: F32[1,2,3] 0\n", "experts.t: F32[1,2,3] 0 1 2 3 4 5\n" },
  { "F17/the-other-way", NULL,
    CONVERT ("'experts.w'", "'experts.t'", "{'type':'Transpose','dim0':1,'dim1':2,'check_dims':true}"),
    "experts.t: F32[1,2,3]", "experts.w: F32[1,3,2] 0\n", "experts.t: F32[1,2,3] 0 2 4 1 3 5\n" },
  { "F18", NULL, CONVERT ("'w'", "'t'", "{'type':'Transpose','dim0':0,'dim1':2}"), "t: F32[4,3,2]",
    "w: F32[2,3,4] 0\n", "t: F32[4,3,2] 0 12 4 16 8 20 1 13 5 17 9 21 2 14 6 18 10 22 3 15 7 19 11 23\n" },
  /* Keys have their own head count: rows of one head stay together. */
  { "F19/key-value-heads", GQA,
    CONVERT ("'k.w'", "'k.r'", "{'type':'PermuteForRope','num_heads_attribute':'num_key_value_heads'}"), NULL,
    "k.w: F32[4,1] 0\n", "k.r: F32[4,1] 0 1 2 3\n" },
  { "F19/rows-of-a-head", "{'num_attention_heads':4,'num_key_value_heads':2,'head_dim':4}",
    CONVERT ("'k.w'", "'k.r'", "{'type':'PermuteForRope','num_heads_attribute':'num_key_value_heads'}"), NULL,
    "k.w: F32[8,1] 0\n", "k.r: F32[8,1] 0 2 1 3 4 6 5 7\n" },
  /* 4 query and 2 key-value heads, rows numbered by head: each part gets its own. */
  { "F20", NULL, SPLIT_QKV, "attn.q: F32[4,1]\nattn.k: F32[2,1]\nattn.v: F32[2,1]",
    "attn.qkv: F32[8,1] 10 11 12 13 20 21 30 31\n",
    "attn.k: F32[2,1] 20 21\nattn.q: F32[4,1] 10 11 12 13\nattn.v: F32[2,1] 30 31\n" },
  /* Experts that are stacked already pass. */
  { "F23", "{'model_type':'mixtral'}", NULL, "model.layers.0.mlp.experts.gate_up_proj: F32[2,2,1]",
    "model.layers.0.mlp.experts.gate_up_proj: F32[2,2,1] 1\n",
    "model.layers.0.mlp.experts.gate_up_proj: F32[2,2,1] 1 2 3 4\n" },
  /* Stacked experts of the model, experts one by one beside it. */
  { "F24", NULL, EXPERTS, NULL,
    "layers.0.experts.gate_up: F32[2,2,1] 10\n"
    "mtp.0.experts.0.w1: F32[1,1] 20\nmtp.0.experts.0.w3: F32[1,1] 21\nmtp.0.experts.1.w1: F32[1,1] 22\nmtp.0.experts.1.w3: F32[1,1] 23\n",
    "layers.0.experts.gate_up: F32[2,2,1] 10 11 12 13\nmtp.0.experts.gate_up: F32[2,2,1] 20 21 22 23\n" },
  { "F24/3-D-experts-in-both", NULL, EXPERTS "," RENAME ("^x", "y"), NULL,
    "layers.0.experts.gate_up: F32[2,2,1] 10\nmtp.0.experts.gate_up: F32[2,2,1] 20\nlayers.1.experts.0.w1: F32[1,1] 1\n"
    "layers.1.experts.0.w3: F32[1,1] 2\n",
    "layers.0.experts.gate_up: F32[2,2,1] 10 11 12 13\nlayers.1.experts.gate_up: F32[1,2,1] 1 2\n"
    "mtp.0.experts.gate_up: F32[2,2,1] 20 21 22 23\n" },
  /* What the config calls the number of experts does not matter. */
  { "F27/num_experts", "{'model_type':'mixtral','num_experts':2}", NULL, NULL,
    "l.0.block_sparse_moe.experts.0.w2.weight: F32[1,1] 1\nl.0.block_sparse_moe.experts.1.w2.weight: F32[1,1] 2\n",
    "l.0.mlp.experts.down_proj: F32[2,1,1] 1 2\n" },
  { "F27/num_local_experts", "{'model_type':'mixtral','num_local_experts':2}", NULL, NULL,
    "l.0.block_sparse_moe.experts.0.w2.weight: F32[1,1] 1\nl.0.block_sparse_moe.experts.1.w2.weight: F32[1,1] 2\n",
    "l.0.mlp.experts.down_proj: F32[2,1,1] 1 2\n" },
  { "F27/neither", "{'model_type':'mixtral'}", NULL, NULL,
    "l.0.block_sparse_moe.experts.0.w2.weight: F32[1,1] 1\nl.0.block_sparse_moe.experts.1.w2.weight: F32[1,1] 2\n",
    "l.0.mlp.experts.down_proj: F32[2,1,1] 1 2\n" },
  /* Partners in different files. */
  { "F41", NULL, JOIN_QKV, NULL,
    "--- model-00001-of-00003.safetensors\nl.0.attn.q: F32[1] 1\nl.1.attn.v: F32[1] 9\n"
    "--- model-00002-of-00003.safetensors\nl.0.attn.k: F32[1] 3\nl.1.attn.q: F32[1] 6\n"
    "--- model-00003-of-00003.safetensors\nl.0.attn.v: F32[1] 4\nl.1.attn.k: F32[1] 8\n",
    "l.0.attn.qkv: F32[3] 1 3 4\nl.1.attn.qkv: F32[3] 6 8 9\n" },
};

static void
test_round_trip (gconstpointer position)
{
  guint i = GPOINTER_TO_UINT (position);
  g_autoptr (WeftLoadOptions) options = made_options (rows[i].mapping, MODEL, rows[i].model_tensors, NULL);

  /* These configs do not describe whole models. */
  weft_load_options_set_flags (options, WEFT_LOAD_FLAGS_OPEN);
  made_assert_round_trip (rows[i].config, rows[i].published, options, rows[i].runtime);
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
  { "F16", NULL, CONVERT ("'attn.qk'", "'attn.q','attn.k'", OP_DIM ("Chunk", 0)), NULL, "attn.qk: F32[5]",
    WEFT_ERROR_FAILED, "'attn.q'|Chunk|5|2" },
  { "F16/a-target-without-a-piece", NULL, CHUNK_QKV, NULL, "attn.qkv: F32[2]", WEFT_ERROR_FAILED,
    "'attn.q'|Chunk|2|3" },
  { "F17/in-no-layout-of-the-model", NULL,
    CONVERT ("'experts.w'", "'experts.t'", "{'type':'Transpose','dim0':1,'dim1':2,'check_dims':true}"),
    "experts.t: F32[1,2,3]", "experts.w: F32[3,2,1]", WEFT_ERROR_SHAPE, "'experts.t'|(3, 1, 2)|(1, 2, 3)" },
  { "F18", NULL, CONVERT ("'w'", "'t'", "{'type':'Transpose','dim0':0,'dim1':1}"), "t: F32[4,3,2]",
    "w: F32[2,3,4]", WEFT_ERROR_SHAPE, "'t'|(3, 2, 4)|(4, 3, 2)" },
  { "F19", GQA, CONVERT ("'k.w'", "'k.r'", "{'type':'PermuteForRope'}"), NULL, "k.w: F32[4,1]",
    WEFT_ERROR_FAILED, "'k.r'|PermuteForRope|num_key_value_heads" },
  { "F19/rows-that-divide-all-the-same", "{'num_attention_heads':8,'num_key_value_heads':2,'head_dim':16}",
    CONVERT ("'k.w'", "'k.r'", "{'type':'PermuteForRope'}"), NULL, "k.w: F32[32,1]", WEFT_ERROR_FAILED,
    "'k.r'|num_key_value_heads" },
  { "F19/head-size-from-the-hidden-size",
    "{'num_attention_heads':8,'num_key_value_heads':2,'hidden_size':64}",
    CONVERT ("'k.w'", "'k.r'", "{'type':'PermuteForRope'}"), NULL, "k.w: F32[16,1]", WEFT_ERROR_FAILED,
    "'k.r'|num_key_value_heads" },
  { "F20/parts-of-unequal-size", NULL, CHUNK_QKV, "attn.q: F32[4,1]\nattn.k: F32[2,1]\nattn.v: F32[2,1]",
    "attn.qkv: F32[8,1]", WEFT_ERROR_FAILED, "Chunk|8|3" },
  { "F23/stacked-by-a-name-that-no-rule-knows", "{'model_type':'mixtral'}", NULL,
    "model.layers.0.mlp.experts.gate_up_proj: F32[2,2,1]\nnorm: F32[1]",
    "norm: F32[1]\nmodel.layers.0.block_sparse_moe.experts.w13: F32[2,2,1]", WEFT_ERROR_MISSING,
    "'model.layers.0.mlp.experts.gate_up_proj' is missing" },
  { "F24/both-on-one-name", NULL, EXPERTS, NULL,
    "l.experts.gate_up: F32[1,2,1]\nl.experts.0.w1: F32[1,1]\nl.experts.0.w3: F32[1,1]", WEFT_ERROR_CONFLICT,
    "both become 'l.experts.gate_up'" },
  { "F25", "{'model_type':'mixtral'}", NULL,
    "norm: F32[1]\nl.0.experts.gate_up: F32[2,2,1]\nl.1.experts.gate_up: F32[2,2,1]",
    "norm: F32[1]\nl.0.ffn.experts.0.a: F32[1,1]\nl.1.ffn.experts.0.a: F32[1,1]", WEFT_ERROR_MISSING,
    "'l.0.experts.gate_up' and 1 more is missing" },
  { "F26", NULL, EXPERTS, NULL,
    "l.experts.2.w1: F32[1,1]\nl.experts.2.w3: F32[1,1]\nl.experts.3.w1: F32[1,1]\nl.experts.3.w3: F32[1,1]",
    WEFT_ERROR_FAILED, "needs numbers 0-3|found 2-3|0 is missing" },
  { "F26/renumbered", NULL, EXPERTS, "experts.gate_up: F32[4,2,1]",
    "experts.0.w1: F32[1,1]\nexperts.0.w3: F32[1,1]\nexperts.1.w1: F32[1,1]\nexperts.1.w3: F32[1,1]",
    WEFT_ERROR_SHAPE, "(2, 2, 1)|(4, 2, 1)" },
  /* One layer of many. */
  { "F28", NULL, EXPERTS, NULL,
    "l.0.experts.0.w1: F32[1,1]\nl.0.experts.0.w3: F32[1,1]\nl.1.experts.0.w1: F32[1,1]\nl.1.experts.0.w3: F32[1,2]\n"
    "l.2.experts.0.w1: F32[1,1]\nl.2.experts.0.w3: F32[1,1]",
    WEFT_ERROR_FAILED, "'l.1.experts.gate_up' cannot be converted|'experts.*.w1'|Concatenate" },
  { "F41/a-partner-is-absent", NULL, JOIN_QKV, NULL,
    "--- model-00001-of-00002.safetensors\nl.0.attn.q: F32[2]\n--- model-00002-of-00002.safetensors\nl.0.attn.k: F32[1]",
    WEFT_ERROR_FAILED, "'l.0.attn.qkv' needs a tensor for 'attn.v'" },
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

/* The bytes of a tensor of a checkpoint are a text. */
static void
assert_bytes (WeftCheckpoint *checkpoint, const gchar *name, WeftDtype dtype, const gchar *expected)
{
  WeftStateDict *tensors = weft_checkpoint_get_state_dict (checkpoint);
  g_autoptr (GBytes) bytes = NULL;
  g_autoptr (GError) error = NULL;
  WeftTensor *tensor;
  guint position;

  g_assert_true (weft_state_dict_find (tensors, name, &position));
  tensor = weft_state_dict_get_tensor (tensors, position);
  bytes = weft_tensor_read (tensor, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpint (weft_tensor_get_dtype (tensor), ==, dtype);
  g_assert_cmpmem (g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes), expected, strlen (expected));
}

/* Nothing is cast that nobody asked for: not by a list of names, and not for want of knowing the dtype. */
static void
test_f49 (void)
{
  static const gchar header[] = "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
                                "\"b\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[4,8]},"
                                "\"c\":{\"dtype\":\"C64\",\"shape\":[1],\"data_offsets\":[8,16]}}";
  static const gchar values[] = "0123456789abcdef";
  static const gchar config[] = "{\"model_type\":\"mixtral\",\"dtype\":\"bfloat16\"}";
  static const gchar *const requests[] = { "keep", "auto" };
  guint64 length = GUINT64_TO_LE ((guint64) strlen (header));
  g_autoptr (GByteArray) file = g_byte_array_new ();

  g_byte_array_append (file, (const guint8 *) &length, sizeof length);
  g_byte_array_append (file, (const guint8 *) header, strlen (header));
  g_byte_array_append (file, (const guint8 *) values, strlen (values));
  for (guint i = 0; i < G_N_ELEMENTS (requests); i++)
    {
      g_auto (MadeFolders) folders = { 0 };
      g_autoptr (WeftLoadOptions) options = weft_load_options_new ();
      g_autoptr (WeftCheckpoint) checkpoint = NULL;
      g_autoptr (GError) error = NULL;

      made_folders_init (&folders);
      fixture_write (folders.published, "model.safetensors", file->data, file->len);
      fixture_write (folders.published, "config.json", config, -1);
      weft_load_options_set_dtype (options, requests[i], &error);
      made_convert (folders.published, folders.runtime, options, &error);
      g_assert_no_error (error);
      checkpoint = made_open (folders.runtime);
      assert_bytes (checkpoint, "c", WEFT_DTYPE_C64, "89abcdef");
      if (strcmp (requests[i], "keep") == 0)
        {
          assert_bytes (checkpoint, "a", WEFT_DTYPE_F32, "0123");
          assert_bytes (checkpoint, "b", WEFT_DTYPE_BF16, "4567");
        }
      made_revert (folders.runtime, folders.back, NULL, WEFT_REVERT_FLAGS_NONE, &error);
      g_assert_no_error (error);
      made_assert_same_folder (folders.published, folders.back);
    }
}

/* Keys arrive before queries; the rule's order counts. Parts of unequal size have no exact inverse by Chunk: the plan says so. */
static void
test_f20_joined (void)
{
  g_autoptr (WeftLoadOptions) options = weft_load_options_new ();
  g_autoptr (WeftTransformList) mapping = made_mapping (JOIN_QKV);
  g_auto (MadeFolders) folders = { 0 };
  g_autoptr (WeftCheckpoint) checkpoint = NULL;
  g_autoptr (WeftLoadPlan) plan = NULL;
  g_autoptr (GError) error = NULL;
  g_autofree gchar *found = NULL;

  made_folders_init (&folders);
  weft_load_options_set_mapping (options, mapping);
  made_write (folders.published, NULL, "attn.k: F32[2,1] 20\nattn.q: F32[4,1] 10\nattn.v: F32[2,1] 30\n");
  checkpoint = made_open (folders.published);
  plan = weft_load_plan_new (checkpoint, options, &error);
  g_assert_no_error (error);
  found = made_show (weft_load_plan_get_outputs (plan));
  g_assert_cmpstr (found, ==, "attn.qkv: F32[8,1] 10 11 12 13 20 21 30 31\n");
  g_assert_false (weft_load_plan_is_reversible (plan));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autofree gchar *path = g_strdup_printf ("/known-failures/%s/comes-back", rows[i].id);
      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_round_trip);
    }
  for (guint i = 0; i < G_N_ELEMENTS (refused_rows); i++)
    {
      g_autofree gchar *path = g_strdup_printf ("/known-failures/%s/refused", refused_rows[i].id);
      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_refused);
    }
  g_test_add_func ("/known-failures/F20/joined", test_f20_joined);
  g_test_add_func ("/known-failures/F49", test_f49);
  return g_test_run ();
}
