/* SPDX-License-Identifier: Apache-2.0 */
/* Families: what fusion_config may say, which modules a family fits, and what families do beside each other. */
#include "made-model-private.h"

/* A family from outside that wants what gate_up wants, and one that wants a tensor of it from above. */

typedef struct
{
  WeftModuleFusionSpecBase parent_instance;
} MadeRival;

typedef struct
{
  WeftModuleFusionSpecBaseClass parent_class;
} MadeRivalClass;

GType made_rival_get_type (void);
G_DEFINE_TYPE (MadeRival, made_rival, WEFT_TYPE_MODULE_FUSION_SPEC_BASE)

static gboolean
made_rival_is_fusable (WeftModuleFusionSpecBase *base, WeftModule *module, GError **error)
{
  return strcmp (weft_module_get_class_name (module), "LlamaMLP") == 0;
}

static void
made_rival_class_init (MadeRivalClass *klass)
{
  klass->parent_class.is_fusable = made_rival_is_fusable;
}

static void
made_rival_init (MadeRival *self)
{
}

typedef MadeRival MadeAbove;
typedef MadeRivalClass MadeAboveClass;

GType made_above_get_type (void);
G_DEFINE_TYPE (MadeAbove, made_above, WEFT_TYPE_MODULE_FUSION_SPEC_BASE)

static gboolean
made_above_is_fusable (WeftModuleFusionSpecBase *base, WeftModule *module, GError **error)
{
  return strcmp (weft_module_get_class_name (module), "TinyLayer") == 0;
}

static WeftTransformList *
made_above_make_transforms (WeftModuleFusionSpecBase *base, WeftFusionContext *context, GError **error)
{
  g_autoptr (WeftTransformList) rules = weft_transform_list_new ();

  return weft_transform_list_append_renaming (rules, "^mlp\\.up_proj", "^mlp.wide_proj", error)
             ? g_steal_pointer (&rules)
             : NULL;
}

static void
made_above_class_init (MadeAboveClass *klass)
{
  klass->parent_class.is_fusable = made_above_is_fusable;
  klass->parent_class.make_transforms = made_above_make_transforms;
}

static void
made_above_init (MadeAbove *self)
{
}

#define BOTH_MLPS "model.layers.0.mlp model.layers.1.mlp"
#define BOTH_NORMS "model.layers.0.norm model.layers.1.norm"

/* Configs: what is replaced, or the message. */
static const struct
{
  const gchar *name;
  const gchar *config;
  const gchar *replaced;
  gint code;
  const gchar *message;
} configs[] = {
  { "null", "null", "", 0, NULL },
  { "empty", "{}", "", 0, NULL },
  { "true", "{'gate_up':true}", BOTH_MLPS, 0, NULL },
  { "map", "{'gate_up':{}}", BOTH_MLPS, 0, NULL },
  { "false", "{'gate_up':false}", "", 0, NULL },
  { "several", "{'rms_norm':true,'gate_up':true}",
    "model.layers.0.mlp model.layers.0.norm model.layers.1.mlp model.layers.1.norm", 0, NULL },
  { "within-one-another", "{'Above':true,'rms_norm':true}",
    "model.layers.0 model.layers.0.norm model.layers.1 model.layers.1.norm", 0, NULL },
  { "unknown", "{'gate_upp':true}", NULL, WEFT_ERROR_MISSING,
    "asked: fusion_config.gate_upp: fusion 'gate_upp' is unknown|known families: |gate_up, " },
  { "unknown-and-off", "{'gate_upp':false}", NULL, WEFT_ERROR_MISSING, "fusion 'gate_upp' is unknown" },
  { "number", "{'gate_up':1}", NULL, WEFT_ERROR_ARGUMENT,
    "asked: fusion_config.gate_up: expected true, false or a map of options, found 1" },
  { "null-value", "{'gate_up':null}", NULL, WEFT_ERROR_ARGUMENT,
    "expected true, false or a map of options, found null" },
  { "text", "{'gate_up':'on'}", NULL, WEFT_ERROR_ARGUMENT,
    "expected true, false or a map of options, found \"on\"" },
  { "list", "['gate_up']", NULL, WEFT_ERROR_ARGUMENT, "asked: fusion_config must be a map" },
  { "unknown-option", "{'gate_up':{'fast':true}}", NULL, WEFT_ERROR_ARGUMENT,
    "fusion_config.gate_up: gate_up: parameter 'fast' is unknown, expected none" },
  { "fits-nothing", "{'qkv':true}", NULL, WEFT_ERROR_MISSING,
    "asked: family 'qkv' fits no module of this model: |modules were tried" },
  { "patterns-hit-nothing", "{'patch_embeddings':true}", NULL, WEFT_ERROR_MISSING,
    "family 'patch_embeddings' fits no module of this model: its target patterns hit no path" },
  { "one-module-for-two", "{'gate_up':true,'Rival':true}", NULL, WEFT_ERROR_CONFLICT,
    "fusion 'gate_up' (asked) and fusion 'Rival' (asked) both want to replace 'model.layers.0.mlp'" },
  { "one-tensor-for-two", "{'gate_up':true,'Above':true}", NULL, WEFT_ERROR_CONFLICT,
    "fusion 'Above' (asked): 'model.layers.0': |'model.layers.0.mlp.up_proj.weight' is taken in by fusion 'gate_up' (asked) already" },
};

static WeftReplacementPlan *
compile (WeftReplacementExecutor *executor, const gchar *config, WeftFusionOrigin origin, GError **error)
{
  g_autoptr (JsonNode) root = made_json (config);

  return weft_replacement_executor_compile_fusions (executor, root, "asked", origin, error);
}

static void
test_config (gconstpointer position)
{
  guint i = GPOINTER_TO_UINT (position);
  g_autoptr (WeftReplacementExecutor) executor = made_executor ("{}");
  g_autofree gchar *before = made_show (executor);
  g_autofree gchar *after = NULL;
  g_autofree gchar *replaced = NULL;
  g_auto (GStrv) fqns = NULL;
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftReplacementPlan) plan =
      compile (executor, configs[i].config, WEFT_FUSION_ORIGIN_ASKED, &error);

  if (configs[i].message == NULL)
    {
      g_assert_no_error (error);
      g_assert_true (weft_replacement_executor_apply (executor, plan, &error));
      fqns = weft_replacement_executor_list_replaced (executor);
      replaced = g_strjoinv (" ", fqns);
      g_assert_cmpstr (replaced, ==, configs[i].replaced);
      return;
    }
  g_assert_false (plan != NULL && weft_replacement_executor_apply (executor, plan, &error));
  g_assert_error (error, WEFT_ERROR, configs[i].code);
  made_assert_message (error, configs[i].message);
  after = made_show (executor);
  g_assert_cmpstr (after, ==, before);
}

/* A stored config that fits nothing is noted. */
static void
test_stored (void)
{
  g_autoptr (WeftReplacementExecutor) executor = made_executor ("{}");
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftReplacementPlan) plan =
      compile (executor, "{'qkv':true,'gate_up':true}", WEFT_FUSION_ORIGIN_STORED, &error);
  g_auto (GStrv) notes = NULL;

  g_assert_no_error (error);
  notes = weft_replacement_plan_list_notes (plan);
  g_assert_cmpuint (g_strv_length (notes), ==, 1);
  g_assert_nonnull (strstr (notes[0], "family 'qkv' fits no module"));
  g_assert_cmpuint (weft_replacement_plan_get_n_modules (plan), ==, 2);
}

/* A module that a family replaced is not replaced again by path. */
static void
test_family_then_override (void)
{
  g_autoptr (WeftReplacementExecutor) executor = made_executor ("{}");
  g_autoptr (WeftReplacementPlan) plan =
      compile (executor, "{'gate_up':true}", WEFT_FUSION_ORIGIN_ASKED, NULL);
  g_autoptr (WeftPlanOverrides) overrides =
      made_overrides ("- match: model.layers.0.mlp\n  replace_module: {_target_: runtime.Any}\n", NULL);
  g_autoptr (GError) error = NULL;

  g_assert_true (weft_replacement_executor_apply (executor, plan, NULL));
  g_assert_null (weft_replacement_executor_compile_overrides (executor, overrides, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_CONFLICT);
  made_assert_message (error, "'model.layers.0.mlp' is replaced already, by fusion 'gate_up' (asked)");
}

/* Structures of one module: whether a family fits it, or what making its rules says. */
static const struct
{
  const gchar *name;
  const gchar *family;
  const gchar *options;
  const gchar *path;
  const gchar *modules; /* more modules, as JSON */
  const gchar *tensors; /* `name [shape]`, or `name [shape] dtype`, relative to the path, by comma */
  const gchar *config;
  gboolean fits;
  const gchar *message;
} structures[] = {
#define QKV(k, v) "q_proj.weight [8;4],k_proj.weight " k ",v_proj.weight " v
  { "equal-heads", "qkv", "{}", "attn", "", QKV ("[8;4]", "[8;4]"), "{}", TRUE, NULL },
  { "grouped-heads", "qkv", "{}", "attn", "", QKV ("[2;4]", "[2;4]"), "{}", TRUE, NULL },
  { "value-of-another-size", "qkv", "{}", "attn", "", QKV ("[8;4]", "[6;4]"), "{}", TRUE, NULL },
  { "biases", "qkv", "{}", "attn", "",
    QKV ("[2;4]", "[2;4]") ",q_proj.bias [8],k_proj.bias [2],v_proj.bias [2]", "{}", TRUE, NULL },
  { "one-bias-missing", "qkv", "{}", "attn", "", QKV ("[2;4]", "[2;4]") ",q_proj.bias [8],v_proj.bias [2]",
    "{}", FALSE, NULL },
  { "other-dtype", "qkv", "{}", "attn", "", QKV ("[8;4]", "[8;4] bfloat16"), "{}", FALSE, NULL },
  { "other-input", "qkv", "{}", "attn", "", QKV ("[2;5]", "[2;5]"), "{}", FALSE, NULL },
  { "cross-attention", "qkv", "{}", "encoder_attn", "", QKV ("[8;4]", "[8;4]"), "{}", FALSE, NULL },
  { "no-value", "qkv", "{}", "attn", "", "q_proj.weight [8;4],k_proj.weight [8;4]", "{}", FALSE, NULL },
  { "interleaved", "qkv", "{'layout':'interleaved'}", "attn", "", QKV ("[2;4]", "[2;4]"),
    "{'num_attention_heads':8,'num_key_value_heads':2}", TRUE, NULL },
  { "interleaved-equal-heads", "qkv", "{'layout':'interleaved'}", "attn", "", QKV ("[8;4]", "[8;4]"),
    "{'num_attention_heads':8}", TRUE, NULL },
  { "interleaved-without-heads", "qkv", "{'layout':'interleaved'}", "attn", "", QKV ("[2;4]", "[2;4]"), "{}",
    TRUE, "made/config.json: 'num_attention_heads' must be a whole number, found nothing" },
  { "interleaved-odd-groups", "qkv", "{'layout':'interleaved'}", "attn", "", QKV ("[2;4]", "[2;4]"),
    "{'num_key_value_heads':3}", TRUE, "cannot be cut in 3 equal groups" },
  { "unknown-layout", "qkv", "{'layout':'mixed'}", "attn", "", QKV ("[2;4]", "[2;4]"), "{}", TRUE,
    "qkv/qkv: layout must be blocks or interleaved, found 'mixed'" },
  { "gated", "gate_up", "{}", "mlp", "", "gate_proj.weight [6;4],up_proj.weight [6;4],down_proj.weight [4;6]",
    "{}", TRUE, NULL },
  { "gated-with-biases", "gate_up", "{}", "mlp", "",
    "gate_proj.weight [6;4],gate_proj.bias [6],up_proj.weight [6;4],up_proj.bias [6]", "{}", TRUE, NULL },
  { "gate-with-bias-alone", "gate_up", "{}", "mlp", "",
    "gate_proj.weight [6;4],gate_proj.bias [6],up_proj.weight [6;4]", "{}", FALSE, NULL },
  { "projections-that-the-skeleton-does-not-list", "gate_up", "{}", "mlp", "{'fqn':'mlp','class':'MLP'}",
    "gate_proj.weight [6;4],up_proj.weight [6;4],down_proj.weight [4;6]", "{}", TRUE, NULL },
  { "unequal-projections", "gate_up", "{}", "mlp", "", "gate_proj.weight [6;4],up_proj.weight [5;4]", "{}",
    FALSE, NULL },
  { "stacked-projections", "gate_up", "{}", "mlp", "", "gate_proj.weight [2;6;4],up_proj.weight [2;6;4]",
    "{}", FALSE, NULL },
#define EXPERT(n, gate, up, down) \
#n "." gate ".weight [6;4]," #n "." up ".weight [6;4]," #n "." down ".weight [4;6]"
  { "experts", "moe_experts", "{}", "experts", "",
    EXPERT (0, "gate_proj", "up_proj", "down_proj") "," EXPERT (1, "gate_proj", "up_proj", "down_proj"), "{}",
    TRUE, NULL },
  { "experts-of-mixtral", "moe_experts", "{}", "experts", "",
    EXPERT (0, "w1", "w3", "w2") "," EXPERT (1, "w1", "w3", "w2"), "{}", TRUE, NULL },
  { "one-expert", "moe_experts", "{}", "experts", "", EXPERT (0, "w1", "w3", "w2"), "{}", FALSE, NULL },
  { "experts-with-more", "moe_experts", "{}", "experts", "",
    EXPERT (0, "w1", "w3", "w2") "," EXPERT (1, "w1", "w3", "w2") ",1.scale [1]", "{}", FALSE, NULL },
  { "experts-of-two-dtypes", "moe_experts", "{}", "experts", "",
    EXPERT (0, "w1", "w3",
            "w2") ",1.w1.weight [6;4] bfloat16,1.w3.weight [6;4] bfloat16,1.w2.weight [4;6] bfloat16",
    "{}", FALSE, NULL },
  { "experts-of-two-sizes", "moe_experts", "{}", "experts", "",
    EXPERT (0, "w1", "w3", "w2") ",1.w1.weight [5;4],1.w3.weight [5;4],1.w2.weight [4;5]", "{}", FALSE,
    NULL },
#define CONV_OF(kernel, stride, padding, dilation, groups)                                                                    \
  "{'fqn':'patch_embed','class':'PatchEmbed'},{'fqn':'patch_embed.proj','class':'Conv3d','attributes':{'kernel_size':" kernel \
  ",'stride':" stride ",'padding':" padding ",'dilation':" dilation ",'groups':" groups "}}"
#define CONV(stride, padding, dilation, groups) CONV_OF ("[2,2,2]", stride, padding, dilation, groups)
#define VIDEO "proj.weight [8;3;2;2;2],proj.bias [8]"
#define SIZES "{'in_channels':3,'temporal_patch_size':2,'patch_size':2}"
  { "patches", "patch_embeddings", "{}", "patch_embed", CONV ("[2,2,2]", "[0,0,0]", "[1,1,1]", "1"), VIDEO,
    SIZES, TRUE, NULL },
  { "patches-in-vision-config", "patch_embeddings", "{}", "patch_embed",
    CONV ("[2,2,2]", "[0,0,0]", "[1,1,1]", "1"), VIDEO,
    "{'vision_config':{'in_channels':3,'temporal_patch_size':2,'patch_size':[2,2]}}", TRUE, NULL },
  { "no-channels", "patch_embeddings", "{}", "patch_embed", CONV ("[2,2,2]", "[0,0,0]", "[1,1,1]", "1"),
    VIDEO, "{'temporal_patch_size':2,'patch_size':2}", TRUE,
    "made/config.json: 'in_channels' must be a whole number" },
  { "no-patch-size", "patch_embeddings", "{}", "patch_embed", CONV ("[2,2,2]", "[0,0,0]", "[1,1,1]", "1"),
    VIDEO, "{'vision_config':{'in_channels':3,'temporal_patch_size':2}}", TRUE,
    "made/config.json: 'vision_config.patch_size' must be a whole number" },
  { "patch-size-in-text", "patch_embeddings", "{}", "patch_embed",
    CONV ("[2,2,2]", "[0,0,0]", "[1,1,1]", "1"), VIDEO,
    "{'in_channels':3,'temporal_patch_size':2,'patch_size':[2,'2']}", TRUE,
    "made/config.json: 'patch_size' must hold whole numbers, found a text" },
  { "sizes-of-another-patch", "patch_embeddings", "{}", "patch_embed",
    CONV ("[2,2,2]", "[0,0,0]", "[1,1,1]", "1"), VIDEO,
    "{'in_channels':3,'temporal_patch_size':2,'patch_size':3}", TRUE, "proj.weight" },
  { "overlap", "patch_embeddings", "{}", "patch_embed", CONV ("[1,2,2]", "[0,0,0]", "[1,1,1]", "1"), VIDEO,
    SIZES, FALSE, NULL },
  { "padding", "patch_embeddings", "{}", "patch_embed", CONV ("[2,2,2]", "[0,1,1]", "[1,1,1]", "1"), VIDEO,
    SIZES, FALSE, NULL },
  { "padding-as-text", "patch_embeddings", "{}", "patch_embed", CONV ("[2,2,2]", "'valid'", "[1,1,1]", "1"),
    VIDEO, SIZES, FALSE, NULL },
  { "dilation", "patch_embeddings", "{}", "patch_embed", CONV ("[2,2,2]", "[0,0,0]", "[1,2,2]", "1"), VIDEO,
    SIZES, FALSE, NULL },
  { "groups", "patch_embeddings", "{}", "patch_embed", CONV ("[2,2,2]", "[0,0,0]", "[1,1,1]", "3"), VIDEO,
    SIZES, FALSE, NULL },
#define IMAGE \
  "{'fqn':'patch_embed','class':'PatchEmbed'},{'fqn':'patch_embed.proj','class':'Conv2d','attributes':{'kernel_size':[2,2],'stride':[2,2],'padding':[0,0],'dilation':[1,1],'groups':1}}"
  { "image-without-option", "patch_embeddings", "{}", "patch_embed", IMAGE, "proj.weight [8;3;2;2]", SIZES,
    FALSE, NULL },
  { "image", "patch_embeddings", "{'conv2d':true}", "patch_embed", IMAGE,
    "proj.weight [8;3;2;2],proj.bias [8]", "{}", TRUE, NULL },
#define NORM(class_name) "{'fqn':'norm','class':'" class_name "'}"
  { "norm", "rms_norm", "{}", "norm", NORM ("LlamaRMSNorm"), "weight [4]", "{}", TRUE, NULL },
  { "norm-of-layers", "rms_norm", "{}", "norm", NORM ("LayerNorm"), "weight [4],bias [4]", "{}", FALSE,
    NULL },
  { "norm-with-bias", "rms_norm", "{}", "norm", NORM ("OddRMSNorm"), "weight [4],bias [4]", "{}", FALSE,
    NULL },
};

/* `q_proj.weight [8;4],...` below @path, as members of a tree. */
static gchar *
write_tensors (const gchar *path, const gchar *tensors)
{
  g_auto (GStrv) lines = g_strsplit (tensors, ",", -1);
  GString *text = g_string_new (NULL);

  for (guint i = 0; lines[i] != NULL; i++)
    {
      g_auto (GStrv) words = g_strsplit (lines[i], " ", 3);

      g_strdelimit (words[1], ";", ',');
      g_string_append_printf (text, "%s{'name':'%s.%s','shape':%s,'dtype':'%s'}", i > 0 ? "," : "", path,
                              words[0], words[1], words[2] != NULL ? words[2] : "float32");
    }
  return g_string_free (text, FALSE);
}

static void
test_structure (gconstpointer position)
{
  guint i = GPOINTER_TO_UINT (position);
  g_autofree gchar *tensors = write_tensors (structures[i].path, structures[i].tensors);
  g_autofree gchar *modules =
      structures[i].modules[0] != '\0'
          ? g_strdup_printf ("'modules':[{'fqn':'','class':'M'},%s],", structures[i].modules)
          : g_strdup ("");
  g_autofree gchar *text =
      g_strdup_printf ("{'class':'M','model_type':'m',%s'tensors':[%s]}", modules, tensors);
  g_autofree gchar *config = g_strdup_printf ("{'%s':%s}", structures[i].family, structures[i].options);
  g_autoptr (JsonNode) root = made_json (text);
  g_autoptr (JsonNode) model_config = made_json (structures[i].config);
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftModuleTree) tree = weft_module_tree_new_from_json (root, "made", &error);
  g_autoptr (WeftReplacementExecutor) executor = NULL;
  g_autoptr (WeftReplacementPlan) plan = NULL;
  g_auto (GStrv) replaced = NULL;

  g_assert_no_error (error);
  executor = weft_replacement_executor_new (tree, model_config, "made/config.json");
  plan = compile (executor, config, WEFT_FUSION_ORIGIN_STORED, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (weft_replacement_plan_get_n_modules (plan), ==, structures[i].fits ? 1 : 0);
  if (structures[i].message != NULL)
    {
      g_assert_false (weft_replacement_executor_apply (executor, plan, &error));
      made_assert_message (error, structures[i].message);
      return;
    }
  weft_replacement_executor_apply (executor, plan, &error);
  g_assert_no_error (error);
  replaced = weft_replacement_executor_list_replaced (executor);
  g_assert_cmpuint (g_strv_length (replaced), ==, structures[i].fits ? 1 : 0);
}

/* Families come in the order in which the user wrote them. */
static void
test_order (void)
{
  g_autoptr (WeftReplacementExecutor) executor = made_executor ("{}");
  g_autoptr (WeftReplacementPlan) plan =
      compile (executor, "{'rms_norm':true,'gate_up':true}", WEFT_FUSION_ORIGIN_ASKED, NULL);
  static const gchar *const expected[] = { "model.layers.0.norm", "model.layers.1.norm", "model.layers.0.mlp",
                                           "model.layers.1.mlp" };

  g_assert_cmpuint (weft_replacement_plan_get_n_modules (plan), ==, G_N_ELEMENTS (expected));
  for (guint i = 0; i < G_N_ELEMENTS (expected); i++)
    {
      g_auto (GStrv) fqns = weft_replacement_plan_list_fqns (plan, i);

      g_assert_cmpstr (fqns[0], ==, expected[i]);
    }
}

static WeftReplacementExecutor *
open_tree (const gchar *text, const gchar *model_config)
{
  g_autoptr (JsonNode) config = made_json (model_config);
  g_autoptr (JsonNode) root = made_json (text);
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftModuleTree) tree = weft_module_tree_new_from_json (root, "made", &error);

  g_assert_no_error (error);
  return weft_replacement_executor_new (tree, config, "made/config.json");
}

/* Of one class, the instances that fit are replaced, and no others. */
static void
test_mixed (void)
{
  g_autoptr (WeftReplacementExecutor) executor = open_tree (
      "{'class':'M','model_type':'m','modules':[{'fqn':'','class':'M'},{'fqn':'a','class':'MLP'},{'fqn':'b','class':'MLP'}],'tensors':[" MADE_TENSOR (
          "a.gate_proj.weight",
          "[6,4]") "," MADE_TENSOR ("a.up_proj.weight",
                                    "[6,4]") "," MADE_TENSOR ("b.gate_proj.weight",
                                                              "[6,4]") "," MADE_TENSOR ("b.up_proj.weight",
                                                                                        "[5,4]") "]}",
      "{}");
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftReplacementPlan) plan =
      compile (executor, "{'gate_up':true}", WEFT_FUSION_ORIGIN_ASKED, &error);
  g_autoptr (WeftModule) a = NULL;
  g_autoptr (WeftModule) b = NULL;

  g_assert_no_error (error);
  weft_replacement_executor_apply (executor, plan, &error);
  g_assert_no_error (error);
  a = weft_module_tree_find_module (weft_replacement_executor_get_tree (executor), "a");
  b = weft_module_tree_find_module (weft_replacement_executor_get_tree (executor), "b");
  g_assert_cmpstr (weft_module_get_class_name (a), ==, "FusedMLP");
  g_assert_cmpstr (weft_module_get_class_name (b), ==, "MLP");
  g_assert_nonnull (weft_module_find_tensor (b, "gate_proj.weight"));
}

/* What a family fits depends on its options: one answer is not taken for another's. */
static void
test_options_count (void)
{
  g_autoptr (WeftReplacementExecutor) executor =
      open_tree ("{'class':'M','model_type':'m','modules':[{'fqn':'','class':'M'}," IMAGE
                 "],'tensors':[" MADE_TENSOR ("patch_embed.proj.weight", "[8,3,2,2]") "]}",
                 "{}");
  static const struct
  {
    const gchar *config;
    guint n_modules;
  } questions[] = {
    { "{'patch_embeddings':{'conv2d':true}}", 1 },
    { "{'patch_embeddings':{}}", 0 },
    { "{'patch_embeddings':{'conv2d':true}}", 1 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (questions); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (WeftReplacementPlan) plan =
          compile (executor, questions[i].config, WEFT_FUSION_ORIGIN_STORED, &error);

      g_assert_no_error (error);
      g_assert_cmpuint (weft_replacement_plan_get_n_modules (plan), ==, questions[i].n_modules);
    }
}

/* How the tensors that a family makes are cut on several ranks, as the plan keeps it; of those that vanish nothing is left. */
static const struct
{
  const gchar *name;
  const gchar *fusion;
  const gchar *tensors;
  const gchar *styles;
} cuts[] = {
  { "gate-up", "{'gate_up':true}", "gate_proj.weight [6;4],up_proj.weight [6;4],down_proj.weight [4;6]",
    "{'experts.gate_up_proj':'packed_colwise'}" },
  { "qkv", "{'qkv':true}", QKV ("[2;4]", "[2;4]"), "{'experts.qkv_proj':'colwise_segments'}" },
  { "qkv-interleaved", "{'qkv':{'layout':'interleaved'}}", QKV ("[2;4]", "[2;4]"),
    "{'experts.qkv_proj':'colwise'}" },
  { "experts", "{'moe_experts':true}",
    EXPERT (0, "gate_proj", "up_proj", "down_proj") "," EXPERT (1, "gate_proj", "up_proj", "down_proj"),
    "{'experts.gate_up_proj':'packed_colwise','experts.down_proj':'rowwise'}" },
  { "nothing-made", "{}", QKV ("[2;4]", "[2;4]"), "{}" },
};

static void
test_cut (gconstpointer position)
{
  guint i = GPOINTER_TO_UINT (position);
  g_autofree gchar *tensors = write_tensors ("experts", cuts[i].tensors);
  g_autofree gchar *text = g_strdup_printf ("{'class':'M','model_type':'m','tensors':[%s]}", tensors);
  g_autoptr (WeftReplacementExecutor) executor = open_tree (text, "{'num_key_value_heads':2}");
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftReplacementPlan) plan = compile (executor, cuts[i].fusion, WEFT_FUSION_ORIGIN_ASKED, &error);
  g_autoptr (JsonNode) found = NULL;
  g_autoptr (JsonNode) expected = made_json (cuts[i].styles);

  g_assert_no_error (error);
  weft_replacement_executor_apply (executor, plan, &error);
  g_assert_no_error (error);
  found = weft_replacement_executor_to_json (executor);
  g_assert_true (json_node_equal (weft_json_lookup (found, "parallel_styles"), expected));
}

/* A kernel becomes rows of all its elements. */
static const struct
{
  const gchar *kernel;
  const gchar *weight;
  const gchar *config;
  const gchar *fused;
} kernels[] = {
  { "[2,2,2]", "[8,3,2,2,2]", SIZES, "(8, 24)" },
  { "[2,14,14]", "[5,3,2,14,14]", "{'in_channels':3,'temporal_patch_size':2,'patch_size':14}", "(5, 1176)" },
};

static void
test_kernel (gconstpointer position)
{
  guint i = GPOINTER_TO_UINT (position);
  g_autofree gchar *text =
      g_strdup_printf ("{'class':'M','model_type':'m','modules':[{'fqn':'','class':'M'}," CONV_OF (
                           "%s", "%s", "[0,0,0]", "[1,1,1]",
                           "1") "],'tensors':[" MADE_TENSOR ("patch_embed.proj.weight", "%s") "]}",
                       kernels[i].kernel, kernels[i].kernel, kernels[i].weight);
  g_autoptr (WeftReplacementExecutor) executor = NULL;
  g_autoptr (WeftReplacementPlan) plan = NULL;
  g_autoptr (WeftModule) module = NULL;
  g_autofree gchar *shape = NULL;
  g_autoptr (GError) error = NULL;

  executor = open_tree (text, kernels[i].config);
  plan = compile (executor, "{'patch_embeddings':true}", WEFT_FUSION_ORIGIN_ASKED, &error);
  g_assert_no_error (error);
  weft_replacement_executor_apply (executor, plan, &error);
  g_assert_no_error (error);
  module = weft_module_tree_find_module (weft_replacement_executor_get_tree (executor), "patch_embed");
  g_assert_cmpstr (weft_module_get_class_name (module), ==, "FusedPatchEmbed");
  g_assert_null (weft_module_find_tensor (module, "proj.weight"));
  shape = weft_shape_to_string (
      weft_tensor_spec_get_shape (weft_module_find_tensor (module, "linear_proj.weight")));
  g_assert_cmpstr (shape, ==, kernels[i].fused);
}

/* A field that the model and a part of it both have is the part's, for a module in it. */
static void
test_nearest_config (void)
{
  static const struct
  {
    const gchar *fqn;
    const gchar *field;
    gint64 expected;
  } lookups[] = {
    { "model.visual.blocks.0.attn", "hidden_size", 32 },
    { "model.visual.blocks.0.attn", "vocab_size", 64 },
    { "model.language_model.layers.0.self_attn", "hidden_size", 16 },
    { "model.language_model.layers.0.self_attn", "vision_config.hidden_size", 32 },
  };
  g_autoptr (JsonNode) config = made_json (
      "{'model_type':'qwen2_vl','architectures':['Qwen2VLForConditionalGeneration'],'hidden_size':16,'vocab_size':64,"
      "'num_hidden_layers':1,'num_attention_heads':4,'num_key_value_heads':2,'intermediate_size':8,"
      "'vision_config':{'model_type':'qwen2_vl','depth':1,'embed_dim':8,'num_heads':2,'hidden_size':32}}");
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftModuleTree) tree =
      weft_module_tree_new_for_config (NULL, config, "made/config.json", NULL, WEFT_DTYPE_F32, &error);

  g_assert_no_error (error);
  for (guint i = 0; i < G_N_ELEMENTS (lookups); i++)
    {
      g_autoptr (WeftModule) module = weft_module_tree_find_module (tree, lookups[i].fqn);
      g_autoptr (WeftFusionContext) context = NULL;
      gint64 found;

      g_assert_nonnull (module);
      context = weft_fusion_context_new (module, lookups[i].fqn, config, "made/config.json");
      weft_fusion_context_read_int (context, lookups[i].field, &found, &error);
      g_assert_no_error (error);
      g_assert_cmpint (found, ==, lookups[i].expected);
    }
}

int
main (int argc, char **argv)
{
  WeftPluginRegistry *registry;

  g_test_init (&argc, &argv, NULL);
  made_register ();
  registry = weft_plugin_registry_get_default ();
  g_assert_true (weft_plugin_registry_register (registry, WEFT_FEATURE_KIND_FUSION, "Rival",
                                                made_rival_get_type (), NULL));
  g_assert_true (weft_plugin_registry_register (registry, WEFT_FEATURE_KIND_FUSION, "Above",
                                                made_above_get_type (), NULL));
  for (guint i = 0; i < G_N_ELEMENTS (configs); i++)
    {
      g_autofree gchar *path = g_strdup_printf ("/families/config/%s", configs[i].name);

      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_config);
    }
  for (guint i = 0; i < G_N_ELEMENTS (structures); i++)
    {
      g_autofree gchar *path =
          g_strdup_printf ("/families/structure/%s/%s", structures[i].family, structures[i].name);

      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_structure);
    }
  g_test_add_func ("/families/stored", test_stored);
  g_test_add_func ("/families/then-override", test_family_then_override);
  g_test_add_func ("/families/nearest-config", test_nearest_config);
  g_test_add_func ("/families/order", test_order);
  g_test_add_func ("/families/mixed", test_mixed);
  g_test_add_func ("/families/options-count", test_options_count);
  for (guint i = 0; i < G_N_ELEMENTS (cuts); i++)
    {
      g_autofree gchar *path = g_strdup_printf ("/families/cut/%s", cuts[i].name);

      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_cut);
    }
  for (guint i = 0; i < G_N_ELEMENTS (kernels); i++)
    {
      g_autofree gchar *path = g_strdup_printf ("/families/kernel/%u", i);

      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_kernel);
    }
  return g_test_run ();
}
