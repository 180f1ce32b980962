/* SPDX-License-Identifier: Apache-2.0 */
/* Architectures made for the test: what each part of a file does to the tree, and how wrong files and configs are refused. */
#include "../checkpoint/fixture-private.h"

#include <string.h>
#include <weft.h>

/* A family with most of what a file can say. */
static const gchar *const tiny =
    "{'prefix':'Tiny','models':{"
    "  'tiny':{'config':{'aliases':{'n_embd':'width'},'configs':{'tower':{'model_type':'tiny_tower','auto':true,'null':true}},"
    "    'fields':{'width':6,'depth':2,'heads':{'expression':'width // 2'},'act':'silu','kinds':{'absent':'[\\'a\\'] * depth'},"
    "      'fixed':{'always':'width if given is None else given + 1'},'loop':{'expression':'loop2'},'loop2':{'expression':'loop'}}},"
    "    'auto':{'model':'$Model'},'parallel_plan':{'layers.*.up':'colwise'}},"
    "  'tiny_tower':{'config':{'fields':{'width':3,'tie_word_embeddings':true}},'auto':{'model':'$Tower'}}},"
    " 'classes':{"
    "  '$Model':{'module':'$Model','base_model_prefix':'model','bases':['$Base','PreTrainedModel'],"
    "    'keep_in_fp32':['norm'],'keep_in_fp32_strict':['gate']},"
    "  '$Head':{'module':'$Head','base_model_prefix':'model','bases':['$Base','PreTrainedModel'],"
    "    'ties':{'head.weight':'model.embed.weight'},'ignore_on_load_missing':[{'if':'depth > 2','value':['deep']}],"
    "    'ignore_on_load_unexpected':{'expression':'[\\\"^layers[.]\\\" + str(i) for i in range(1, depth)]'},"
    "    'ignore_on_save':['head.weight'],'parallel_plan':{'head':'colwise_gather_output'}},"
    "  '$Tower':{'module':'$Tower','base_model_prefix':'tower','bases':['PreTrainedModel'],'ignore_on_save':['w'],"
    "    'ties':{'(?!a)[bc].s':'a.s'}},"
    "  '$Outlined':{'base_model_prefix':'model','bases':[],'outline':[{'path':'t','class':'$Tower','model_type':'tiny_tower',"
    "    'base_model_prefix':'tower'}]},"
    "  '$Endless':{'module':'$Endless','bases':[]},'$Huge':{'module':'$Huge','bases':[]},'$Odd':{'module':'$Odd','bases':[]},"
    "  '$Roleless':{'module':'$Roleless','bases':[]}},"
    " 'modules':{"
    "  '$Layer':{'class':'$Layer','arguments':['kind','size=4'],'attributes':{'size':'size * 2','kind':'kind'},"
    "    'tensors':[{'name':'up','shape':['width','size']},{'name':'extra','shape':[],'if':'kind == \\'b\\''},"
    "      {'repeat':2,'index':'k','tensors':[{'name':'g{k}','shape':['k + 1'],'dtype':'float32','buffer':true}]}]},"
    "  '$Model':{'class':'$Model','children':["
    "    {'name':'embed','module':'Embedding','with':{'num_embeddings':10,'embedding_dim':'width'}},"
    "    {'name':'layers','repeat':'depth','index':'i','module':'$Layer','if':'i % 2 == 0','with':{'kind':'kinds[i]'}},"
    "    {'name':'layers','repeat':'depth','index':'i','module':'Linear','if':'i % 2 == 1',"
    "      'with':{'in_features':'heads','out_features':'fixed','bias':'False'}},"
    "    {'name':'act','activation':'act'},"
    "    {'name':'tower','auto':'model','config':'tower','if':'tower is not None'},"
    "    {'name':'wide','module':'$Layer','set':{'n_embd':'width * 10'},'with':{'kind':'\\'c\\'','size':'heads'}},"
    "    {'name':'rotary','module':{'class':'$Rotary','tensors':[{'name':'freq','shape':['heads'],'dtype':'float32',"
    "      'buffer':true,'persistent':false}]}}]},"
    "  '$Head':{'class':'$Head','children':[{'name':'model','module':'$Model'},"
    "    {'name':'head','module':'Linear','with':{'in_features':'width','out_features':10,'bias':'False'}}]},"
    "  '$Tower':{'class':'$Tower','tensors':[{'name':'w','shape':['width']}],'children':["
    "    {'name':'a','module':{'class':'$Part','tensors':[{'name':'s','shape':[2]}]}},"
    "    {'name':'b','module':{'class':'$Part','tensors':[{'name':'s','shape':[2]}]}},"
    "    {'name':'c','module':{'class':'$Part','tensors':[{'name':'s','shape':[2]}]}},"
    "    {'name':'*','module':{'class':'$Part'},'if':'False'},"
    "    {'name':'c.x','module':'Linear','with':{'in_features':1,'out_features':'width'}},"
    "    {'name':'c.x','remove':true,'if':'width > 3'}]},"
    "  '$Endless':{'class':'$Endless','children':[{'name':'e','module':'$Endless'}]},"
    "  '$Huge':{'class':'$Huge','children':[{'name':'l','repeat':60000,'index':'i','module':{'class':'ModuleList','items':"
    "    {'repeat':60000,'module':'$Layer','with':{'kind':'None'}}}}]},"
    "  '$Odd':{'class':'$Odd','tensors':[{'name':'w','shape':['width / 2']}]},"
    "  '$Roleless':{'class':'$Roleless','children':[{'name':'t','auto':'backbone','config':'tower'}]}}}";

static gchar *folder;
static WeftArchitectureRegistry *registry;

static JsonNode *
parse (const gchar *text)
{
  g_autofree gchar *proper = g_strdelimit (g_strdup (text), "'", '"');
  g_autoptr (GError) error = NULL;
  JsonNode *root = weft_json_parse (proper, -1, "config.json", &error);

  g_assert_no_error (error);
  return root;
}

static WeftModuleTree *
evaluate (const gchar *config, const gchar *class_name, WeftDtype dtype, GError **error)
{
  g_autoptr (JsonNode) root = parse (config);

  return weft_module_tree_new_for_config (registry, root, "config.json", class_name, dtype, error);
}

/* One line a tensor: name, dtype if it is not BF16, shape, and whether it is a buffer. */
static gchar *
list_tensors (WeftModuleTree *tree)
{
  g_autoptr (GString) lines = g_string_new (NULL);

  for (guint i = 0; i < weft_module_tree_get_n_tensors (tree); i++)
    {
      g_autofree gchar *shape = weft_shape_to_string (weft_module_tree_get_tensor_shape (tree, i));
      WeftDtype dtype = weft_module_tree_get_tensor_dtype (tree, i);

      g_string_append_printf (lines, "%s %s%s%s%s\n", weft_module_tree_get_tensor_name (tree, i),
                              dtype != WEFT_DTYPE_BF16 ? weft_dtype_get_name (dtype) : "", shape,
                              weft_module_tree_is_tensor_buffer (tree, i) ? " buffer" : "",
                              weft_module_tree_is_tensor_persistent (tree, i) ? "" : " not saved");
    }
  return g_strdup (lines->str);
}

static void
test_tensors (void)
{
  static const struct
  {
    const gchar *config;
    const gchar *class_name;
    const gchar *tensors;
  } rows[] = {
    /* Defaults, an alternative by index, attributes as names, a changed config, a buffer that is not saved. */
    { "{'model_type':'tiny','dtype':'bfloat16','depth':2}", "TinyModel",
      "embed.weight (10, 6)\nlayers.0.up (6, 8)\nlayers.0.g0 F32(1,) buffer\nlayers.0.g1 F32(2,) buffer\n"
      "layers.1.weight (6, 3)\nwide.up (60, 6)\nwide.g0 F32(1,) buffer\nwide.g1 F32(2,) buffer\n"
      "rotary.freq F32(3,) buffer not saved\n" },
    /* Another name of a field, null where an expression is the default, a list that is given. */
    { "{'model_type':'tiny','dtype':'bfloat16','n_embd':4,'heads':null,'depth':1,'kinds':['b'],'fixed':7}",
      "TinyModel",
      "embed.weight (10, 4)\nlayers.0.up (4, 8)\nlayers.0.extra ()\nlayers.0.g0 F32(1,) buffer\n"
      "layers.0.g1 F32(2,) buffer\nwide.up (40, 4)\nwide.g0 F32(1,) buffer\nwide.g1 F32(2,) buffer\n"
      "rotary.freq F32(2,) buffer not saved\n" },
    /* A sub-model of its config's own type, with a child further down. */
    { "{'model_type':'tiny','dtype':'bfloat16','depth':0,'tower':{}}", "TinyModel",
      "embed.weight (10, 6)\ntower.w (3,)\ntower.a.s (2,)\ntower.b.s (2,)\ntower.c.s (2,)\ntower.c.x.weight (3, 1)\n"
      "tower.c.x.bias (3,)\nwide.up (60, 6)\nwide.g0 F32(1,) buffer\nwide.g1 F32(2,) buffer\n"
      "rotary.freq F32(3,) buffer not saved\n" },
    /* ... which a condition takes out. */
    { "{'model_type':'tiny_tower','dtype':'bfloat16','width':4}", NULL,
      "w (4,)\na.s (2,)\nb.s (2,)\nc.s (2,)\n" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (WeftModuleTree) tree =
          evaluate (rows[i].config, rows[i].class_name, WEFT_DTYPE_INVALID, &error);
      g_autofree gchar *tensors = NULL;

      g_assert_no_error (error);
      tensors = list_tensors (tree);
      g_assert_cmpstr (tensors, ==, rows[i].tensors);
    }
}

/* What classes say counts for the model that they are in. */
static void
test_facts (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftModuleTree) tree = evaluate (
      "{'model_type':'tiny','architectures':['TinyHead'],'dtype':'float16','depth':3,'tie_word_embeddings':true,"
      "'tower':{}}",
      NULL, WEFT_DTYPE_INVALID, &error);
  g_autoptr (WeftModule) tower = NULL;
  g_autoptr (WeftModule) layer = NULL;
  static const gchar *const ties[][2] = { { "head.weight", "model.embed.weight" },
                                          { "model.tower.b.s", "model.tower.a.s" },
                                          { "model.tower.c.s", "model.tower.a.s" } };
  gint64 size = 0;

  g_assert_no_error (error);
  g_assert_cmpstr (weft_module_tree_get_class (tree), ==, "TinyHead");
  g_assert_cmpstr (weft_module_tree_get_base_model_prefix (tree), ==, "model");
  g_assert_cmpuint (weft_module_tree_get_n_ties (tree), ==, G_N_ELEMENTS (ties));
  for (guint i = 0; i < G_N_ELEMENTS (ties); i++)
    {
      g_assert_cmpstr (weft_module_tree_get_tie_target (tree, i), ==, ties[i][0]);
      g_assert_cmpstr (weft_module_tree_get_tie_source (tree, i), ==, ties[i][1]);
    }
  g_assert_cmpstr (weft_module_tree_get_ignore_on_load_missing (tree)[0], ==, "deep");
  g_assert_cmpstr (weft_module_tree_get_ignore_on_load_unexpected (tree)[0], ==, "^layers[.]1");
  g_assert_cmpstr (weft_module_tree_get_ignore_on_load_unexpected (tree)[1], ==, "^layers[.]2");
  g_assert_null (weft_module_tree_get_ignore_on_load_unexpected (tree)[2]);
  g_assert_cmpstr (weft_module_tree_get_ignore_on_save (tree)[0], ==, "head.weight");
  g_assert_cmpstr (weft_module_tree_get_ignore_on_save (tree)[1], ==, "model.tower.w");
  g_assert_cmpuint (weft_module_tree_get_n_dtype_rules (tree), ==, 2);
  g_assert_cmpuint (weft_module_tree_get_n_sub_models (tree), ==, 3);
  g_assert_cmpstr (weft_module_tree_get_sub_model_fqn (tree, 2), ==, "model.tower");
  g_assert_cmpstr (weft_module_tree_get_sub_model_class (tree, 2), ==, "TinyTower");
  g_assert_cmpstr (weft_module_tree_get_sub_model_type (tree, 2), ==, "tiny_tower");
  g_assert_cmpuint (weft_module_tree_get_n_plan_rules (tree, WEFT_PARALLEL_KIND_TENSOR), ==, 2);
  g_assert_cmpstr (weft_module_tree_get_plan_rule_pattern (tree, WEFT_PARALLEL_KIND_TENSOR, 1), ==,
                   "model.layers.*.up");
  tower = weft_module_tree_find_module (tree, "model.tower");
  g_assert_true (weft_module_is_a (tower, "PreTrainedModel"));
  g_assert_true (weft_module_is_a (tower, "Module"));
  g_assert_true (weft_model_config_get_int (weft_module_get_config (tower), "width", &size, NULL));
  g_assert_cmpint (size, ==, 3);
  layer = weft_module_tree_find_module (tree, "model.layers.2");
  g_assert_true (weft_module_get_attribute_int (layer, "size", &size));
  g_assert_cmpint (size, ==, 8);
}

/* What stays in 32 bits depends on the dtype that is asked for. */
static void
test_dtypes (void)
{
  static const struct
  {
    WeftDtype dtype;
    guint n_rules;
  } rows[] = {
    { WEFT_DTYPE_F16, 2 }, { WEFT_DTYPE_BF16, 1 }, { WEFT_DTYPE_F32, 0 }, { WEFT_DTYPE_INVALID, 0 }
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (WeftModuleTree) tree =
          evaluate ("{'model_type':'tiny','depth':1}", NULL, rows[i].dtype, NULL);

      g_assert_cmpstr (weft_module_tree_get_class (tree), ==, "TinyModel");
      g_assert_cmpuint (weft_module_tree_get_n_dtype_rules (tree), ==, rows[i].n_rules);
    }
}

static void
test_outline (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftModuleTree) tree =
      evaluate ("{'model_type':'tiny','depth':1}", "TinyOutlined", WEFT_DTYPE_INVALID, &error);

  g_assert_no_error (error);
  g_assert_false (weft_module_tree_has_tensors (tree));
  g_assert_cmpuint (weft_module_tree_get_n_sub_models (tree), ==, 2);
  g_assert_cmpstr (weft_module_tree_get_sub_model_class (tree, 1), ==, "TinyTower");
}

static void
test_refused (void)
{
  static const struct
  {
    const gchar *config;
    const gchar *class_name;
    gint code;
    const gchar *message;
  } rows[] = {
    { "[]", NULL, WEFT_ERROR_FORMAT, "config.json: the config: expected an object" },
    { "{'model_type':7}", NULL, WEFT_ERROR_FORMAT, "config.json: model_type: expected a text" },
    { "{'model_type':'tiny','depth':1,'dtype':7}", NULL, WEFT_ERROR_FORMAT, "dtype: expected a text" },
    { "{'architectures':'X'}", NULL, WEFT_ERROR_FORMAT, "architectures: expected a list" },
    { "{'architectures':[7]}", NULL, WEFT_ERROR_FORMAT, "architectures: expected a list" },
    { "{}", NULL, WEFT_ERROR_UNSUPPORTED, "names no model type" },
    { "{'model_type':'tinny','depth':1}", NULL, WEFT_ERROR_UNSUPPORTED,
      "'tinny' is not known; near names: 'tiny'" },
    { "{'model_type':'tiny'}", NULL, WEFT_ERROR_UNSUPPORTED, "says nothing of a model" },
    { "{'model_type':'tiny','depth':1}", "TinyModels", WEFT_ERROR_ARGUMENT, "near names: 'TinyModel'" },
    { "{'model_type':'tiny','depth':1,'architectures':['X']}", NULL, WEFT_ERROR_UNSUPPORTED,
      "the class 'X' is not known" },
    { "{'model_type':'tiny','depth':1,'architectures':['TinyModel'],'auto_map':{'AutoModel':'m.TinyModel'}}",
      NULL, WEFT_ERROR_UNSUPPORTED, "comes with the checkpoint" },
    { "{'model_type':'tiny','depth':'x'}", NULL, WEFT_ERROR_FORMAT,
      "module 'layers': repeat: 'x' is no number" },
    { "{'model_type':'tiny','depth':1000000}", NULL, WEFT_ERROR_FORMAT,
      "is no number of modules up to 65536" },
    { "{'model_type':'tiny','width':'x'}", NULL, WEFT_ERROR_FORMAT, "expected a whole number" },
    { "{'model_type':'tiny','width':-1}", NULL, WEFT_ERROR_SHAPE, "tensor 'weight'" },
    { "{'model_type':'tiny','width':9223372036854775807}", NULL, WEFT_ERROR_LIMIT,
      "a number leaves 64 bits" },
    { "{'model_type':'tiny','tower':7}", NULL, WEFT_ERROR_FORMAT, "tower: expected an object" },
    { "{'model_type':'tiny','tower':{'model_type':'x'}}", NULL, WEFT_ERROR_UNSUPPORTED,
      "module 'tower' is a model of the type 'x'" },
    { "{'model_type':'tiny','tower':{}}", "TinyRoleless", WEFT_ERROR_UNSUPPORTED,
      "module 't' is a model of the type 'tiny_tower', of which no class for the role 'backbone' is known" },
    { "{'model_type':'tiny','act':'nope'}", NULL, WEFT_ERROR_MISSING, "there is no activation 'nope'" },
    { "{'model_type':'tiny','heads':1}", "TinyOdd", WEFT_ERROR_FORMAT,
      "extent 0 is 3.0, expected a whole number" },
    { "{'model_type':'tiny','heads':1}", "TinyEndless", WEFT_ERROR_LIMIT, "nested deeper than 128 levels" },
    { "{'model_type':'tiny','heads':1}", "TinyHuge", WEFT_ERROR_FORMAT, "more than 1048576 elements" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GError) error = NULL;

      g_test_message ("%s", rows[i].config);
      g_assert_null (evaluate (rows[i].config, rows[i].class_name, WEFT_DTYPE_BF16, &error));
      g_assert_nonnull (error);
      g_test_message ("%s", error->message);
      g_assert_error (error, WEFT_ERROR, rows[i].code);
      g_assert_nonnull (strstr (error->message, rows[i].message));
    }
}

/* A file of a folder is found by its name, and stands in place of a shipped one. */
static void
test_registry (void)
{
  g_autoptr (GError) error = NULL;
  g_auto (GStrv) classes = weft_architecture_registry_list_classes (registry, "tiny", &error);
  g_auto (GStrv) nothing = weft_architecture_registry_list_classes (registry, "none", &error);
  g_auto (GStrv) model_types = weft_architecture_registry_list_model_types (registry);
  g_autoptr (WeftArchitectureRegistry) other = weft_architecture_registry_new_shipped ();

  g_assert_no_error (error);
  g_assert_true (g_strv_contains ((const gchar *const *) classes, "TinyHead"));
  g_assert_cmpuint (g_strv_length (nothing), ==, 0);
  g_assert_true (g_strv_contains ((const gchar *const *) model_types, "tiny"));
  g_assert_true (g_strv_contains ((const gchar *const *) model_types, "llama"));
  g_assert_false (g_strv_contains ((const gchar *const *) model_types, "layers"));
  g_assert_true (weft_architecture_registry_has (registry, "tiny"));
  g_assert_false (weft_architecture_registry_has (other, "tiny"));
  g_assert_false (weft_architecture_registry_add_folder (other, "/no/such/folder", &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_IO);
}

/* A config that was published before its text config was nested gives the same model. */
static void
test_flat (void)
{
#define TEXT \
  "'hidden_size':16,'num_hidden_layers':2,'num_attention_heads':4,'num_key_value_heads':2,'intermediate_size':8,'vocab_size':64"
  static const gchar *const models[][2] = {
    { "qwen2_vl", "Qwen2VLForConditionalGeneration" },
    { "qwen2_5_vl", "Qwen2_5_VLForConditionalGeneration" },
    { "paddleocr_vl", "PaddleOCRVLForConditionalGeneration" },
  };
  static const gchar *const forms[] = { TEXT, ("'text_config':{" TEXT "}"), ("'text_config':null," TEXT) };

  for (guint i = 0; i < G_N_ELEMENTS (models); i++)
    {
      g_autofree gchar *expected = NULL;

      for (guint k = 0; k < G_N_ELEMENTS (forms); k++)
        {
          g_autofree gchar *config = g_strdup_printf (
              "{'model_type':'%s','architectures':['%s'],'vision_config':{'depth':1,'num_heads':2},%s}",
              models[i][0], models[i][1], forms[k]);
          g_autoptr (GError) error = NULL;
          g_autoptr (WeftModuleTree) tree = evaluate (config, NULL, WEFT_DTYPE_BF16, &error);
          g_autoptr (JsonNode) root = NULL;
          g_autofree gchar *text = NULL;

          g_assert_no_error (error);
          root = weft_module_tree_to_json (tree);
          text = weft_json_to_text (root, FALSE);
          g_assert_nonnull (strstr (text, "language_model.layers.1."));
          g_assert_null (strstr (text, "language_model.layers.2."));
          if (expected == NULL)
            expected = g_steal_pointer (&text);
          else
            g_assert_cmpstr (text, ==, expected);
        }
    }
}

int
main (int argc, char **argv)
{
  g_autofree gchar *text = g_strdup (tiny);
  g_autofree gchar *index = g_strdup ("{\"model_types\": {\"tiny\": \"tiny\", \"tiny_tower\": \"tiny\"}}");
  int status;

  g_test_init (&argc, &argv, NULL);
  folder = fixture_folder ();
  /* Texts in expressions are written with \', JSON's own with '. */
  for (gchar *at = text; *at != '\0'; at++)
    {
      if (at[0] == '\\' && at[1] == '\'')
        {
          memmove (at, at + 1, strlen (at));
          continue;
        }
      *at = *at == '\'' ? '"' : *at;
    }
  fixture_write (folder, "tiny.json", text, -1);
  fixture_write (folder, "index.json", index, -1);
  registry = weft_architecture_registry_new_shipped ();
  g_assert_true (weft_architecture_registry_add_folder (registry, folder, NULL));
  g_test_add_func ("/model/architecture/tensors", test_tensors);
  g_test_add_func ("/model/architecture/facts", test_facts);
  g_test_add_func ("/model/architecture/dtypes", test_dtypes);
  g_test_add_func ("/model/architecture/outline", test_outline);
  g_test_add_func ("/model/architecture/refused", test_refused);
  g_test_add_func ("/model/architecture/flat", test_flat);
  g_test_add_func ("/model/architecture/registry", test_registry);
  status = g_test_run ();
  g_clear_object (&registry);
  fixture_remove_tree (folder);
  g_free (folder);
  return status;
}
