/* SPDX-License-Identifier: Apache-2.0 */
/* Module trees: what is read, and what is refused with its place. */
#include <string.h>
#include <weft.h>

static JsonNode *
parse (const gchar *text)
{
  g_autofree gchar *proper = g_strdelimit (g_strdup (text), "'", '"');
  g_autoptr (GError) error = NULL;
  JsonNode *root = weft_json_parse (proper, -1, "tree.json", &error);

  g_assert_no_error (error);
  return root;
}

static void
test_read (void)
{
  g_autoptr (JsonNode) root = parse (
      "{'class':'AForB','model_type':'a','base_model_prefix':'model','dtype':'bfloat16','dtype_plan':{'gate.*':'float32'},"
      " 'tied':{'head.w':'embed.w'},'ignore_on_load_missing':['x'],'ignore_on_load_unexpected':[],'ignore_on_save':['y','z'],"
      " 'sub_models':[{'fqn':'','class':'AForB','model_type':'a','base_model_prefix':'model','entry':null},"
      "               {'fqn':'model.vision','class':'V','model_type':'v','base_model_prefix':''}],"
      " 'modules':[{'fqn':'','class':'AForB'},{'fqn':'model','class':'A'}],"
      " 'tensors':[{'name':'embed.w','shape':[4,2],'dtype':'bfloat16','persistent':true,'is_buffer':false},"
      "            {'name':'inv_freq','shape':[],'dtype':'float32','persistent':false,'is_buffer':true}]}");
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftModuleTree) tree = weft_module_tree_new_from_json (root, "tree.json", &error);
  guint position = 7;

  g_assert_no_error (error);
  g_assert_cmpstr (weft_module_tree_get_class (tree), ==, "AForB");
  g_assert_cmpstr (weft_module_tree_get_model_type (tree), ==, "a");
  g_assert_cmpstr (weft_module_tree_get_base_model_prefix (tree), ==, "model");
  g_assert_cmpint (weft_module_tree_get_dtype (tree), ==, WEFT_DTYPE_BF16);
  g_assert_cmpuint (weft_module_tree_get_n_dtype_rules (tree), ==, 1);
  g_assert_cmpstr (weft_module_tree_get_dtype_rule_pattern (tree, 0), ==, "gate.*");
  g_assert_cmpint (weft_module_tree_get_dtype_rule_dtype (tree, 0), ==, WEFT_DTYPE_F32);
  g_assert_cmpuint (weft_module_tree_get_n_ties (tree), ==, 1);
  g_assert_cmpstr (weft_module_tree_get_tie_target (tree, 0), ==, "head.w");
  g_assert_cmpstr (weft_module_tree_get_tie_source (tree, 0), ==, "embed.w");
  g_assert_cmpstr (weft_module_tree_get_ignore_on_load_missing (tree)[0], ==, "x");
  g_assert_null (weft_module_tree_get_ignore_on_load_unexpected (tree)[0]);
  g_assert_cmpstr (weft_module_tree_get_ignore_on_save (tree)[1], ==, "z");
  g_assert_cmpuint (weft_module_tree_get_n_sub_models (tree), ==, 2);
  g_assert_cmpstr (weft_module_tree_get_sub_model_fqn (tree, 1), ==, "model.vision");
  g_assert_cmpstr (weft_module_tree_get_sub_model_class (tree, 1), ==, "V");
  g_assert_cmpstr (weft_module_tree_get_sub_model_type (tree, 1), ==, "v");
  g_assert_cmpstr (weft_module_tree_get_sub_model_base_model_prefix (tree, 0), ==, "model");
  g_assert_cmpuint (weft_module_tree_get_n_modules (tree), ==, 2);
  g_assert_cmpstr (weft_module_tree_get_module_fqn (tree, 1), ==, "model");
  g_assert_cmpstr (weft_module_tree_get_module_class (tree, 1), ==, "A");
  g_assert_true (weft_module_tree_has_tensors (tree));
  g_assert_cmpuint (weft_module_tree_get_n_tensors (tree), ==, 2);
  g_assert_true (weft_module_tree_find_tensor (tree, "inv_freq", &position));
  g_assert_cmpuint (position, ==, 1);
  g_assert_false (weft_module_tree_find_tensor (tree, "head.w", NULL));
  g_assert_cmpstr (weft_module_tree_get_tensor_name (tree, 0), ==, "embed.w");
  g_assert_cmpint (weft_shape_get_dim (weft_module_tree_get_tensor_shape (tree, 0), 0), ==, 4);
  g_assert_cmpuint (weft_shape_get_rank (weft_module_tree_get_tensor_shape (tree, 1)), ==, 0);
  g_assert_cmpint (weft_module_tree_get_tensor_dtype (tree, 0), ==, WEFT_DTYPE_BF16);
  g_assert_true (weft_module_tree_is_tensor_persistent (tree, 0));
  g_assert_true (weft_module_tree_is_tensor_buffer (tree, 1));
  g_assert_cmpuint (g_hash_table_size (weft_module_tree_get_model_keys (tree)), ==, 1);
  g_assert_true (g_hash_table_contains (weft_module_tree_get_model_keys (tree), "embed.w"));
}

static void
test_refused (void)
{
  static const struct
  {
    const gchar *text;
    gint code;
    const gchar *message;
  } rows[] = {
    { "[]", WEFT_ERROR_FORMAT, "tree.json: the module tree: expected an object" },
    { "{}", WEFT_ERROR_FORMAT, "tree.json: class: expected a string, found nothing" },
    { "{'class':'A','model_type':1}", WEFT_ERROR_FORMAT, "model_type: expected a string" },
    { "{'class':'A','model_type':'a','dtype':'bf17'}", WEFT_ERROR_DTYPE, "'bf17' is no dtype" },
    { "{'class':'A','model_type':'a','dtype_plan':[]}", WEFT_ERROR_FORMAT, "dtype_plan: expected an object" },
    { "{'class':'A','model_type':'a','dtype_plan':{'x':1}}", WEFT_ERROR_FORMAT,
      "dtype_plan: expected the name of a dtype" },
    { "{'class':'A','model_type':'a','tied':{'x':1}}", WEFT_ERROR_FORMAT, "tied: expected names" },
    { "{'class':'A','model_type':'a','ignore_on_save':'x'}", WEFT_ERROR_FORMAT,
      "ignore_on_save: expected a list" },
    { "{'class':'A','model_type':'a','ignore_on_save':[1]}", WEFT_ERROR_FORMAT,
      "ignore_on_save: expected a list" },
    { "{'class':'A','model_type':'a','sub_models':[{'fqn':'x','class':'A','model_type':'a'}]}",
      WEFT_ERROR_FORMAT, "sub_models[0]: fqn" },
    { "{'class':'A','model_type':'a','sub_models':[{'fqn':'','class':'A','model_type':'a'},"
      "{'fqn':'','class':'A','model_type':'a'}]}",
      WEFT_ERROR_FORMAT, "sub_models[1]: fqn" },
    { "{'class':'A','model_type':'a','modules':[3]}", WEFT_ERROR_FORMAT,
      "modules: expected a list of objects" },
    { "{'class':'A','model_type':'a','tensors':[{'name':'x','shape':[-1],'dtype':'float32'}]}",
      WEFT_ERROR_SHAPE, "tensors[0]: shape" },
    { "{'class':'A','model_type':'a','tensors':[{'name':'x','shape':[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],'dtype':'float32'}]}",
      WEFT_ERROR_LIMIT, "tensors[0]: shape" },
    { "{'class':'A','model_type':'a','tensors':[{'name':'x','shape':[1.5],'dtype':'float32'}]}",
      WEFT_ERROR_FORMAT, "tensors[0]: shape: expected whole numbers" },
    { "{'class':'A','model_type':'a','tensors':[{'name':'x','shape':[1],'dtype':'float32','persistent':1}]}",
      WEFT_ERROR_FORMAT, "persistent: expected true or false" },
    { "{'class':'A','model_type':'a','tensors':[{'name':'x','shape':[1],'dtype':'float32'},"
      "{'name':'x','shape':[1],'dtype':'float32'}]}",
      WEFT_ERROR_FORMAT, "tensors[1]: name: 'x' is there twice" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (JsonNode) root = parse (rows[i].text);
      g_autoptr (GError) error = NULL;

      g_assert_null (weft_module_tree_new_from_json (root, "tree.json", &error));
      g_assert_error (error, WEFT_ERROR, rows[i].code);
      g_assert_nonnull (strstr (error->message, rows[i].message));
    }
}

static void
test_config (void)
{
  static const struct
  {
    const gchar *text;
    const gchar *class_name;
    const gchar *model_type;
    gboolean is_custom;
  } rows[] = {
    { "{'architectures':['MixtralForCausalLM'],'model_type':'mixtral','vision_config':{'model_type':'v'}}",
      "MixtralForCausalLM", "mixtral", FALSE },
    { "{'model_type':'mixtral'}", "", "mixtral", FALSE },
    { "{'architectures':null}", "", "", FALSE },
    { "{'architectures':['XModel'],'model_type':'x','auto_map':{'AutoModel':'modeling_x.XModel'}}", "XModel",
      "x", TRUE },
    { "{'architectures':['XModel'],'model_type':'x','auto_map':{'AutoModel':'a/b--modeling_x.XModel'}}",
      "XModel", "x", TRUE },
    { "{'architectures':['XModel'],'model_type':'x','auto_map':{'AutoConfig':'c.XConfig','AutoTokenizer':[null,'t.T']}}",
      "XModel", "x", FALSE },
  };
  g_autoptr (JsonNode) wrong = parse ("{'architectures':['XModel'],'auto_map':{'AutoModel':7}}");
  g_autoptr (GError) error = NULL;

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (JsonNode) config = parse (rows[i].text);
      g_autoptr (GError) row_error = NULL;
      g_autoptr (WeftModuleTree) tree = weft_module_tree_new_from_config (config, "config.json", &row_error);

      g_assert_no_error (row_error);
      g_assert_cmpuint (weft_module_tree_get_n_sub_models (tree), ==, 1);
      g_assert_cmpstr (weft_module_tree_get_sub_model_class (tree, 0), ==, rows[i].class_name);
      g_assert_cmpstr (weft_module_tree_get_sub_model_type (tree, 0), ==, rows[i].model_type);
      g_assert_cmpint (weft_module_tree_is_sub_model_custom (tree, 0), ==, rows[i].is_custom);
      g_assert_false (weft_module_tree_has_tensors (tree));
    }
  g_assert_null (weft_module_tree_new_from_config (wrong, "config.json", &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/module-tree/read", test_read);
  g_test_add_func ("/module-tree/refused", test_refused);
  g_test_add_func ("/module-tree/config", test_config);
  return g_test_run ();
}
