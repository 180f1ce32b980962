/* SPDX-License-Identifier: Apache-2.0 */
/* Ops from JSON and back, classes with properties of their own, chains, and what ops ask of their groups. */
#include <string.h>

#include "weft.h"

/* Parameters of an op: what it writes back, or the error. */
static const struct
{
  const gchar *op;
  const gchar *parameters;
  const gchar *written;
  const gchar *message;
} parameter_cases[] = {
  { "Chunk", "{}", "{'type':'Chunk','dim':0,'num_shards_attribute':null}", NULL },
  { "Chunk", "{'dim':-1,'num_shards_attribute':'n'}", "{'type':'Chunk','dim':-1,'num_shards_attribute':'n'}",
    NULL },
  { "Chunk", "{'dim':null}", "{'type':'Chunk','dim':0,'num_shards_attribute':null}", NULL },
  { "Chunk", "{'type':'Chunk','dim':2}", "{'type':'Chunk','dim':2,'num_shards_attribute':null}", NULL },
  { "Chunk", "{'dim':16}", NULL,
    "rule 3: Chunk: parameter 'dim' is out of range: found 16, the nearest allowed is 15" },
  { "Chunk", "{'dim':1.5}", NULL, "rule 3: Chunk: parameter 'dim' must be a whole number, found 1.5" },
  { "Chunk", "{'dim':'1'}", NULL, "rule 3: Chunk: parameter 'dim' must be a whole number, found \"1\"" },
  { "Chunk", "{'num_shards_attribute':7}", NULL,
    "rule 3: Chunk: parameter 'num_shards_attribute' must be a string, found 7" },
  { "Chunk", "{'axis':1}", NULL,
    "rule 3: Chunk: parameter 'axis' is unknown, expected one of: dim, num_shards_attribute" },
  { "Concatenate", "{}", "{'type':'Concatenate','dim':0,'num_shards_attribute':null}", NULL },
  { "Concatenate", "{'sizes':[4,2],'groups':2}",
    "{'type':'Concatenate','dim':0,'num_shards_attribute':null,'sizes':[4,2],'groups':2}", NULL },
  { "Concatenate", "{'groups':0}", NULL,
    "rule 3: Concatenate: parameter 'groups' is out of range: found 0, the nearest allowed is 1" },
  { "Split", "{}", "{'type':'Split','dim':0}", NULL },
  { "Identity", "{'axis':1}", NULL, "rule 3: Identity: parameter 'axis' is unknown, expected none" },
  { "Interleave", "{'inverse':true}", "{'type':'Interleave','dim':0,'inverse':true}", NULL },
  { "Interleave", "{'inverse':1}", NULL,
    "rule 3: Interleave: parameter 'inverse' must be true or false, found 1" },
  { "SubtractOne", "{'offset':2}", "{'type':'SubtractOne','offset':2.0}", NULL },
  { "SubtractOne", "{'offset':'2'}", NULL,
    "rule 3: SubtractOne: parameter 'offset' must be a number, found \"2\"" },
  { "Cast", "{'dtype':'BF16'}", "{'type':'Cast','dtype':'BF16'}", NULL },
  { "Cast", "{}", NULL, "rule 3: Cast: parameter 'dtype' (the name of a dtype) is required" },
  { "Cast", "{'dtype':'Q4'}", NULL,
    "rule 3: Cast: parameter 'dtype' must be the name of a dtype, found \"Q4\"" },
  { "LinearToConv3d", "{'in_channels':3}", "{'type':'LinearToConv3d','in_channels':3,'kernel_size':[3]}",
    NULL },
  { "LinearToConv3d", "{'in_channels':3,'kernel_size':2}",
    "{'type':'LinearToConv3d','in_channels':3,'kernel_size':[2]}", NULL },
  { "LinearToConv3d", "{'in_channels':3,'kernel_size':['a']}", NULL,
    "rule 3: LinearToConv3d: parameter 'kernel_size' must be a whole number or a list of them, found [\"a\"]" },
  { "PermuteForRope", "{'permute_layer_names':['q','k']}",
    "{'type':'PermuteForRope','subconfig_key':null,'permute_layer_names':['q','k'],'inverse':false}", NULL },
  { "PermuteForRope", "{'num_heads_attribute':'n'}",
    "{'type':'PermuteForRope','subconfig_key':null,'permute_layer_names':null,'inverse':false,'num_heads_attribute':'n'}",
    NULL },
  { "PermuteForRope", "{'permute_layer_names':'q'}", NULL,
    "rule 3: PermuteForRope: parameter 'permute_layer_names' must be a list of strings, found \"q\"" },
};

/* JSON with single quotes, which C strings carry better. */
static JsonNode *
parse (const gchar *text)
{
  g_autofree gchar *quoted = g_strdelimit (g_strdup (text), "'", '"');
  g_autoptr (GError) error = NULL;
  JsonNode *node = weft_json_parse (quoted, -1, "test", &error);

  g_assert_no_error (error);
  return node;
}

static void
assert_written (WeftConversionOps *op, const gchar *expected)
{
  g_autoptr (JsonNode) node = parse (expected);
  g_autoptr (JsonObject) written = weft_op_to_json (op);

  g_assert_true (json_object_equal (written, json_node_get_object (node)));
}

static void
test_parameters (gconstpointer position)
{
  guint i = GPOINTER_TO_UINT (position);
  g_autoptr (JsonNode) node = parse (parameter_cases[i].parameters);
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftConversionOps) op =
      weft_op_new (parameter_cases[i].op, json_node_get_object (node), "rule 3", &error);

  if (parameter_cases[i].message == NULL)
    {
      g_assert_no_error (error);
      assert_written (op, parameter_cases[i].written);
      return;
    }
  g_assert_null (op);
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT);
  g_assert_cmpstr (error->message, ==, parameter_cases[i].message);
}

/* A class with a plain property, as Python and JavaScript make them: it is a parameter like the declared ones. */

typedef struct
{
  WeftConversionOpsBase parent_instance;
  gint factor;
} PlainOp;

typedef struct
{
  WeftConversionOpsBaseClass parent_class;
} PlainOpClass;

GType plain_op_get_type (void);
G_DEFINE_TYPE (PlainOp, plain_op, WEFT_TYPE_CONVERSION_OPS_BASE)

static void
plain_op_set_property (GObject *object, guint id, const GValue *value, GParamSpec *pspec)
{
  ((PlainOp *) object)->factor = g_value_get_int (value);
}

static void
plain_op_get_property (GObject *object, guint id, GValue *value, GParamSpec *pspec)
{
  g_value_set_int (value, ((PlainOp *) object)->factor);
}

static void
plain_op_class_init (PlainOpClass *klass)
{
  G_OBJECT_CLASS (klass)->set_property = plain_op_set_property;
  G_OBJECT_CLASS (klass)->get_property = plain_op_get_property;
  g_object_class_install_property (
      G_OBJECT_CLASS (klass), 1,
      g_param_spec_int ("the-factor", NULL, NULL, 0, 9, 2, G_PARAM_READWRITE | G_PARAM_CONSTRUCT));
}

static void
plain_op_init (PlainOp *self)
{
}

static void
test_plain_class (void)
{
  g_autoptr (JsonNode) good = parse ("{'the_factor':7}");
  g_autoptr (JsonNode) bad = parse ("{'the_factor':17}");
  g_autoptr (WeftConversionOps) op = NULL;
  g_autoptr (WeftOpContext) context =
      weft_op_context_new ((const gchar *[]){ "a", NULL }, (const gchar *[]){ "b", NULL });
  g_autoptr (WeftTensorGroups) inputs = weft_tensor_groups_new ();
  g_autoptr (GError) error = NULL;

  g_assert_true (weft_plugin_registry_register (weft_plugin_registry_get_default (), WEFT_FEATURE_KIND_OP,
                                                "Plain", plain_op_get_type (), &error));
  op = weft_op_new ("Plain", json_node_get_object (good), NULL, &error);
  g_assert_no_error (error);
  assert_written (op, "{'type':'Plain','the_factor':7}");
  g_assert_null (weft_op_new ("Plain", json_node_get_object (bad), NULL, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT);
  g_clear_error (&error);

  /* It has neither slot. */
  g_assert_null (weft_conversion_ops_convert (op, inputs, context, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_PLUGIN_CONTRACT);
  g_assert_cmpstr (error->message, ==, "runtime/Plain: class 'PlainOp' has no convert");
  g_clear_error (&error);
  g_assert_null (weft_conversion_ops_dup_inverse (op, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_NOT_REVERSIBLE);
}

/* Transposition within an axis: which indices come out. */
static const struct
{
  gint64 factors[4];
  const gchar *order;
} orders[] = {
  { { 1, 3, 2, 1 }, "0 2 4 1 3 5" },
  { { 1, 2, 3, 1 }, "0 3 1 4 2 5" },
  { { 2, 2, 2, 1 }, "0 2 1 3 4 6 5 7" },
  { { 1, 2, 2, 2 }, "0 1 4 5 2 3 6 7" },
  { { 2, 3, 2, 1 }, "0 2 4 1 3 5 6 8 10 7 9 11" },
  { { 1, 1, 1, 3 }, "0 1 2" },
};

static void
test_transpose_within_axis (void)
{
  guint8 codes[12];

  for (guint8 i = 0; i < G_N_ELEMENTS (codes); i++)
    codes[i] = i;
  for (guint i = 0; i < G_N_ELEMENTS (orders); i++)
    {
      const gint64 *f = orders[i].factors;
      gint64 length = f[0] * f[1] * f[2] * f[3];
      g_autoptr (GBytes) bytes = g_bytes_new (codes, (gsize) length);
      g_autoptr (WeftTensor) tensor =
          weft_tensor_new_from_bytes (WEFT_DTYPE_U8, (gint64[]){ 1, length }, 2, bytes, NULL);
      g_autoptr (WeftTensor) result =
          weft_op_transpose_within_axis (tensor, -1, f[0], f[1], f[2], f[3], NULL);
      g_autoptr (GBytes) found = weft_tensor_read (result, NULL, NULL);
      g_autoptr (GString) text = g_string_new (NULL);

      for (gsize j = 0; j < g_bytes_get_size (found); j++)
        g_string_append_printf (text, "%s%u", j > 0 ? " " : "",
                                ((const guint8 *) g_bytes_get_data (found, NULL))[j]);
      g_assert_cmpstr (text->str, ==, orders[i].order);
    }
}

static void
test_bounds (void)
{
  g_autoptr (WeftTensor) tensor =
      weft_tensor_new_unreadable (WEFT_DTYPE_F32, (gint64[]){ 1 << 20, 0 }, 2, NULL);
  g_autoptr (GError) error = NULL;

  g_assert_null (weft_op_transpose_within_axis (tensor, 0, G_MAXINT64, 4, 4, 1, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE);
  g_clear_error (&error);
  g_assert_null (weft_op_split_evenly (tensor, 0, 1 << 20, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_LIMIT);
  g_clear_error (&error);
  g_assert_null (weft_op_unstack (tensor, 0, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_LIMIT);
  g_clear_error (&error);
  g_assert_null (weft_op_unstack (tensor, 1, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE);
  g_clear_error (&error);
  g_assert_null (weft_op_split_evenly (tensor, 0, 3, &error));
  g_assert_cmpstr (error->message, ==,
                   "(1048576, 0) cannot be cut in 3 equal parts on axis 0: 1048576 does not divide");
}

static void
test_outputs (void)
{
  g_autoptr (WeftTensor) tensor = weft_tensor_new_unreadable (WEFT_DTYPE_F32, (gint64[]){ 1 }, 1, NULL);
  g_autoptr (WeftTensorGroups) outputs = weft_op_new_output ("a", tensor);
  g_autofree gchar *name = weft_op_expand_star ("e.*.w.*", 12);
  g_autoptr (GError) error = NULL;

  g_assert_cmpstr (name, ==, "e.12.w.12");
  g_assert_true (weft_op_add_output (outputs, "b", tensor, &error));
  g_assert_false (weft_op_add_output (outputs, "a", tensor, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_CONFLICT);
}

/* Parameters that were named go before the tensors of a state dict, and both are shared. */
static void
test_parameters_of_context (void)
{
  static const gchar *const nothing[] = { NULL };
  g_autoptr (WeftOpContext) facts = weft_op_context_new (nothing, nothing);
  g_autoptr (WeftOpContext) context = weft_op_context_new (nothing, nothing);
  g_autoptr (WeftStateDict) published = weft_state_dict_new ();
  g_autoptr (WeftTensor) tensor = weft_tensor_new_unreadable (WEFT_DTYPE_F32, (gint64[]){ 3 }, 1, NULL);
  g_autoptr (WeftShape) named = weft_shape_new ((gint64[]){ 5 }, 1);
  g_autoptr (WeftShape) shape_a = NULL;
  g_autoptr (WeftShape) shape_b = NULL;

  g_assert_false (weft_op_context_has_parameters (facts));
  g_assert_true (weft_state_dict_add (published, "a", tensor, NULL)
                 && weft_state_dict_add (published, "b", tensor, NULL));
  weft_op_context_set_state_dict (facts, published);
  weft_op_context_add_parameter (facts, "b", named, WEFT_DTYPE_BF16);
  weft_op_context_share_parameters (context, facts);
  g_assert_true (weft_op_context_has_parameters (context));
  shape_a = weft_op_context_get_parameter_shape (context, "a");
  shape_b = weft_op_context_get_parameter_shape (context, "b");
  g_assert_true (weft_shape_equal (shape_a, weft_tensor_get_shape (tensor)));
  g_assert_true (weft_shape_equal (shape_b, named));
  g_assert_cmpint (weft_op_context_get_parameter_dtype (context, "a"), ==, WEFT_DTYPE_F32);
  g_assert_cmpint (weft_op_context_get_parameter_dtype (context, "b"), ==, WEFT_DTYPE_BF16);
  g_assert_cmpint (weft_op_context_get_parameter_dtype (context, "c"), ==, WEFT_DTYPE_INVALID);
}

/* The head-size check of rotary permutations: rows, config, error. */
static const struct
{
  gint64 rows;
  const gchar *config;
  const gchar *message;
} rope_cases[] = {
  { 8, "{'num_attention_heads':4,'num_key_value_heads':2,'head_dim':2}", NULL },
  { 4, "{'num_attention_heads':4,'num_key_value_heads':2,'head_dim':2}",
    "rope/PermuteForRope: 4 rows are not num_attention_heads (4) heads of 2: set num_heads_attribute to 'num_key_value_heads' (2)" },
  { 4, "{'num_attention_heads':4,'num_key_value_heads':1,'hidden_size':16}",
    "rope/PermuteForRope: 4 rows are not num_attention_heads (4) heads of 4: set num_heads_attribute to 'num_key_value_heads' (1)" },
  { 24, "{'num_attention_heads':4,'head_dim':2}",
    "rope/PermuteForRope: 24 rows are not num_attention_heads (4) heads of 2" },
  { 8, "{'num_attention_heads':4}", NULL },
  /* A head size that the model does not use. */
  { 16, "{'num_attention_heads':4,'head_dim':8,'hidden_size':16}", NULL },
  { 32, "{'num_attention_heads':4,'head_dim':8,'hidden_size':16}", NULL },
  { 8, "{'num_attention_heads':4,'head_dim':8,'hidden_size':16}",
    "rope/PermuteForRope: 8 rows are not num_attention_heads (4) heads of 8 or 4" },
  { 8, "{'num_attention_heads':4,'num_key_value_heads':2,'head_dim':8,'hidden_size':16}",
    "rope/PermuteForRope: 8 rows are not num_attention_heads (4) heads of 8 or 4: set num_heads_attribute to 'num_key_value_heads' (2)" },
};

static void
test_rope_heads (gconstpointer position)
{
  guint i = GPOINTER_TO_UINT (position);
  g_autoptr (WeftOpContext) context =
      weft_op_context_new ((const gchar *[]){ "a", NULL }, (const gchar *[]){ "b", NULL });
  g_autoptr (JsonNode) config = parse (rope_cases[i].config);
  g_autoptr (WeftTensor) tensor =
      weft_tensor_new_unreadable (WEFT_DTYPE_F32, (gint64[]){ rope_cases[i].rows, 3 }, 2, NULL);
  g_autoptr (WeftTensorGroups) inputs = weft_op_new_output ("a", tensor);
  g_autoptr (WeftTensorGroups) outputs = NULL;
  g_autoptr (WeftConversionOps) op = weft_op_new ("PermuteForRope", NULL, NULL, NULL);
  g_autoptr (GError) error = NULL;

  weft_op_context_set_config (context, config);
  outputs = weft_conversion_ops_convert (op, inputs, context, &error);
  if (rope_cases[i].message == NULL)
    g_assert_no_error (error);
  else
    g_assert_cmpstr (error != NULL ? error->message : NULL, ==, rope_cases[i].message);
  g_assert_true ((outputs == NULL) == (error != NULL));
}

/* How many patterns an op can take: the chains `OP, Chunk` need ops that make one tensor under the first of several
 * targets, or that refuse because they cannot tell which one is meant. */
static const struct
{
  const gchar *op;
  guint n_sources;
  guint n_targets;
  const gchar *outputs; /* names, or NULL for a refusal */
  const gchar *parameters;
} cardinality_cases[] = {
  { "Chunk", 1, 2, "t0 t1" },
  { "Chunk", 2, 1, NULL },
  { "Concatenate", 2, 1, "t0" },
  { "Concatenate", 1, 2, NULL },
  { "ConcatenateRows", 1, 2, NULL },
  { "Interleave", 1, 1, "t0" },
  { "Interleave", 1, 2, "t0" },
  { "MergeModulelist", 1, 2, NULL },
  { "MergeModulelist", 2, 1, "s0 s1" },
  { "SplitModulelist", 1, 2, NULL },
  { "Transpose", 1, 1, "t0" },
  { "Transpose", 1, 2, "s0" },
  { "Transpose", 2, 1, NULL },
  { "PermuteRows", 1, 2, "t0", "{'permutation':[3,2,1,0]}" },
  { "BitNetDeserialize", 1, 2, "t0" },
  { "PermuteForRope", 1, 1, "t0" },
  { "PermuteForRope", 1, 2, "s0" },
  { "PermuteForRope", 2, 1, "s0 s1" },
  { "VisionUnfuseAndPermuteForRope", 1, 2, "t0 t1" },
  { "VisionFuseAndPermuteForRope", 2, 1, "t0" },
  { "Inkling2LoopDequantizeExperts", 1, 2, "t0" },
  { "Inkling2LoopMergeMessageQueries", 2, 1, "t0" },
  { "Inkling2LoopMergeMessageQueries", 2, 2, "t0" },
  { "Inkling2LoopMergeMessageQueries", 1, 1, NULL },
  { "Inkling2UnpadVocab", 1, 2, "t0" },
  { "PermuteDims", 1, 1, "t0", "{'dims':[1,0]}" },
  { "PermuteDims", 2, 1, NULL, "{'dims':[1,0]}" },
  { "FlattenDims", 1, 1, "t0" },
  { "FlattenDims", 2, 1, NULL },
  { "PeftConcatenate", 2, 2, NULL },
  { "SubtractOne", 1, 2, "t0" },
  { "LogNegate", 1, 2, "t0" },
  { "Identity", 1, 2, "s0" },
};

static void
test_cardinality (gconstpointer position)
{
  guint i = GPOINTER_TO_UINT (position);
  const gchar *sources[] = { "s0", cardinality_cases[i].n_sources > 1 ? "s1" : NULL, NULL };
  const gchar *targets[] = { "t0", cardinality_cases[i].n_targets > 1 ? "t1" : NULL, NULL };
  g_autoptr (WeftOpContext) context = weft_op_context_new (sources, targets);
  g_autoptr (JsonNode) config = parse ("{'unpadded_vocab_size':3}");
  g_autoptr (WeftTensor) tensor = weft_tensor_new_unreadable (WEFT_DTYPE_F32, (gint64[]){ 4, 6 }, 2, NULL);
  g_autoptr (WeftTensorGroups) inputs = weft_tensor_groups_new ();
  g_autoptr (WeftTensorGroups) outputs = NULL;
  g_autoptr (GString) names = g_string_new (NULL);
  g_autoptr (JsonNode) parameters =
      parse (cardinality_cases[i].parameters != NULL ? cardinality_cases[i].parameters : "{}");
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftConversionOps) op =
      weft_op_new (cardinality_cases[i].op, json_node_get_object (parameters), NULL, &error);

  g_assert_no_error (error);
  weft_op_context_set_config (context, config);
  for (guint j = 0; j < cardinality_cases[i].n_sources; j++)
    weft_tensor_groups_set (inputs, sources[j], tensor);
  outputs = weft_conversion_ops_convert (op, inputs, context, &error);
  if (cardinality_cases[i].outputs == NULL)
    {
      g_assert_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT);
      return;
    }
  g_assert_no_error (error);
  for (guint j = 0; j < weft_tensor_groups_get_n_groups (outputs); j++)
    g_string_append_printf (names, "%s%s", j > 0 ? " " : "", weft_tensor_groups_get_name (outputs, j));
  g_assert_cmpstr (names->str, ==, cardinality_cases[i].outputs);
}

/* Joining parts of several lengths, and cutting them apart again: rows are numbered through the parts. */
static const struct
{
  const gchar *parameters;
  gint64 lengths[3]; /* 0: no such part */
  const gchar *joined;
  const gchar *inverse; /* or the message */
  const gchar *message;
} join_cases[] = {
  { "{}", { 2, 2 }, "0 1 2 3", "{'type':'Chunk','dim':0,'num_shards_attribute':null}", NULL },
  { "{'sizes':[4,1,2]}", { 4, 1, 2 }, "0 1 2 3 4 5 6", "{'type':'Split','dim':0,'sizes':[4,1,2]}", NULL },
  { "{'sizes':[2,0]}", { 2, -1 }, "0 1", "{'type':'Split','dim':0,'sizes':[2,0]}", NULL },
  /* 4 query rows, 2 key rows and 2 value rows in 2 groups. */
  { "{'sizes':[4,2,2],'groups':2}",
    { 4, 2, 2 },
    "0 1 4 6 2 3 5 7",
    "{'type':'Split','dim':0,'sizes':[4,2,2],'groups':2}",
    NULL },
  { "{'dim':-1,'sizes':[2,1]}", { 2, 1 }, "0 1 2", "{'type':'Split','dim':-1,'sizes':[2,1]}", NULL },
  { "{'sizes':[4,2]}",
    { 4, 1 },
    NULL,
    NULL,
    "concatenate/Concatenate: tensor 1 has extent 1 on axis 0, 'sizes' says 2" },
  { "{'sizes':[4,2]}",
    { 4, 1, 1 },
    NULL,
    NULL,
    "concatenate/Concatenate: 'sizes' is about 2 tensors, there are 3 to join" },
  { "{'sizes':[4,3],'groups':2}",
    { 4, 3 },
    NULL,
    NULL,
    "concatenate/Concatenate: axis 0 has extent 3, which cannot be cut in 2 equal groups" },
};

static WeftTensorGroups *
make_numbered_parts (guint i, WeftOpContext **context, gint64 *n_rows)
{
  static const gchar *const names[] = { "a", "b", "c", NULL };
  const gchar *sources[4] = { NULL };
  WeftTensorGroups *inputs = weft_tensor_groups_new ();

  *n_rows = 0;
  for (guint j = 0; j < 3 && join_cases[i].lengths[j] != 0; j++)
    {
      gint64 length = MAX (join_cases[i].lengths[j], 0);
      guint8 rows[8];
      g_autoptr (GBytes) bytes = NULL;
      g_autoptr (WeftTensor) tensor = NULL;

      for (guint row = 0; row < length; row++)
        rows[row] = (guint8) (*n_rows)++;
      bytes = g_bytes_new (rows, (gsize) length);
      tensor = weft_tensor_new_from_bytes (WEFT_DTYPE_U8, &length, 1, bytes, NULL);
      sources[j] = names[j];
      weft_tensor_groups_set (inputs, names[j], tensor);
    }
  *context = weft_op_context_new (sources, (const gchar *[]){ "t", NULL });
  return inputs;
}

static void
test_join (gconstpointer position)
{
  guint i = GPOINTER_TO_UINT (position);
  gint64 n_rows;
  g_autoptr (WeftOpContext) context = NULL;
  g_autoptr (WeftOpContext) back_context = NULL;
  g_autoptr (WeftTensorGroups) inputs = make_numbered_parts (i, &context, &n_rows);
  g_autoptr (JsonNode) parameters = parse (join_cases[i].parameters);
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftConversionOps) op =
      weft_op_new ("Concatenate", json_node_get_object (parameters), NULL, &error);
  g_autoptr (WeftTensorGroups) outputs = weft_conversion_ops_convert (op, inputs, context, &error);
  g_autoptr (WeftConversionOps) inverse = NULL;
  g_autoptr (WeftTensorGroups) back = NULL;
  g_autoptr (GBytes) found = NULL;
  g_autoptr (GString) text = g_string_new (NULL);

  if (join_cases[i].message != NULL)
    {
      g_assert_cmpstr (error != NULL ? error->message : NULL, ==, join_cases[i].message);
      return;
    }
  g_assert_no_error (error);
  found = weft_tensor_read (weft_tensor_groups_get_tensor (outputs, 0, 0), NULL, NULL);
  for (gsize j = 0; j < g_bytes_get_size (found); j++)
    g_string_append_printf (text, "%s%u", j > 0 ? " " : "",
                            ((const guint8 *) g_bytes_get_data (found, NULL))[j]);
  g_assert_cmpstr (text->str, ==, join_cases[i].joined);
  inverse = weft_conversion_ops_dup_inverse (op, NULL);
  assert_written (inverse, join_cases[i].inverse);
  back_context =
      weft_op_context_new ((const gchar *[]){ "t", NULL }, weft_op_context_get_source_patterns (context));
  back = weft_conversion_ops_convert (inverse, outputs, back_context, &error);
  g_assert_no_error (error);
  for (guint j = 0; j < weft_tensor_groups_get_n_groups (inputs); j++)
    g_assert_true (weft_tensor_is_same (weft_tensor_groups_get_tensor (back, j, 0),
                                        weft_tensor_groups_get_tensor (inputs, j, 0)));
}

/* Groups without sizes: the parts could not be told apart. */
static void
test_groups_need_sizes (void)
{
  g_autoptr (JsonNode) parameters = parse ("{'groups':2}");
  g_autoptr (WeftConversionOps) op =
      weft_op_new ("Concatenate", json_node_get_object (parameters), NULL, NULL);
  g_autoptr (GError) error = NULL;

  g_assert_null (weft_conversion_ops_dup_inverse (op, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_NOT_REVERSIBLE);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (parameter_cases); i++)
    {
      g_autofree gchar *path = g_strdup_printf ("/ops/parameters/%u-%s", i, parameter_cases[i].op);

      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_parameters);
    }
  for (guint i = 0; i < G_N_ELEMENTS (rope_cases); i++)
    {
      g_autofree gchar *path = g_strdup_printf ("/ops/rope-heads/%u", i);

      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_rope_heads);
    }
  for (guint i = 0; i < G_N_ELEMENTS (join_cases); i++)
    {
      g_autofree gchar *path = g_strdup_printf ("/ops/join/%u", i);

      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_join);
    }
  g_test_add_func ("/ops/groups-need-sizes", test_groups_need_sizes);
  for (guint i = 0; i < G_N_ELEMENTS (cardinality_cases); i++)
    {
      g_autofree gchar *path =
          g_strdup_printf ("/ops/cardinality/%s/%u-%u", cardinality_cases[i].op,
                           cardinality_cases[i].n_sources, cardinality_cases[i].n_targets);

      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_cardinality);
    }
  g_test_add_func ("/ops/plain-class", test_plain_class);
  g_test_add_func ("/ops/transpose-within-axis", test_transpose_within_axis);
  g_test_add_func ("/ops/bounds", test_bounds);
  g_test_add_func ("/ops/outputs", test_outputs);
  g_test_add_func ("/ops/parameters-of-context", test_parameters_of_context);
  return g_test_run ();
}
