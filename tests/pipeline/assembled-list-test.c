/* SPDX-License-Identifier: Apache-2.0 */
/* The assembled list of a model: read, edited before a plan is made of it, and used for weights that it was not written for. */
#include "made-checkpoint-private.h"

#define EXPERTS                                                       \
  "model.layers.0.block_sparse_moe.experts.0.w1.weight: F32[1,2] 0\n" \
  "model.layers.0.block_sparse_moe.experts.0.w3.weight: F32[1,2] 2\n" \
  "model.layers.0.block_sparse_moe.experts.1.w1.weight: F32[1,2] 4\n" \
  "model.layers.0.block_sparse_moe.experts.1.w3.weight: F32[1,2] 6\n"

static WeftTransformList *
assemble (const gchar *config, WeftLoadOptions *options)
{
  g_autoptr (JsonNode) node = made_json (config);
  g_autoptr (GError) error = NULL;
  WeftTransformList *list = weft_load_options_assemble (options, node, "config.json", &error);

  g_assert_no_error (error);
  return list;
}

static WeftConversionOps *
make_op (const gchar *text)
{
  g_autoptr (JsonNode) node = made_json (text);
  g_autoptr (GError) error = NULL;
  WeftConversionOps *op = weft_op_new (json_object_get_string_member (json_node_get_object (node), "type"),
                                       json_node_get_object (node), "test", &error);

  g_assert_no_error (error);
  return op;
}

/* What @options make of the experts, as text. */
static gchar *
convert_experts (WeftLoadOptions *options)
{
  g_auto (MadeFolders) folders = { 0 };
  g_autoptr (WeftCheckpoint) checkpoint = NULL;
  g_autoptr (WeftLoadPlan) plan = NULL;
  g_autoptr (GError) error = NULL;

  made_folders_init (&folders);
  made_write (folders.published, "{'model_type':'mixtral'}", EXPERTS);
  checkpoint = made_open (folders.published);
  plan = weft_load_plan_new (checkpoint, options, &error);
  g_assert_no_error (error);
  return made_show (weft_load_plan_get_outputs (plan));
}

static void
test_origins (void)
{
  static const gchar *const rows[][4] = {
    { "key_mapping", NULL, NULL, NULL },
    { "mixtral", "model_type", "", NULL },
    { "mixtral", "model_type", "", NULL },
    { "mixtral", "model_type", "", NULL },
    { "SiglipVisionModel", "class", "model.tower", "tower" },
    { "legacy", NULL, NULL, NULL },
  };
  g_autoptr (WeftModuleTree) tree = made_model (
      "SomeForB mixtral model", "w: F32[1]",
      ",'sub_models':[{'fqn':'','class':'SomeForB','model_type':'mixtral','base_model_prefix':'model'},"
      "{'fqn':'model.tower','class':'SiglipVisionModel','model_type':'siglip_vision_model','base_model_prefix':'vision_model'}]");
  g_autoptr (WeftLoadOptions) options = weft_load_options_new ();
  g_autoptr (WeftTransformList) list = NULL;
  g_autoptr (JsonNode) root = NULL;
  g_autoptr (GError) error = NULL;

  weft_load_options_add_key_mapping (options, "^a", "b", &error);
  weft_load_options_set_module_tree (options, tree);
  list = assemble ("{}", options);
  root = weft_mapping_describe_assembled_json (list);
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      WeftWeightTransform *rule = weft_transform_list_get_transform (list, i);
      JsonObject *object = json_array_get_object_element (json_node_get_array (root), i);
      JsonObject *origin = json_object_get_object_member (object, "origin");

      g_assert_cmpstr (weft_weight_transform_get_origin (rule), ==, rows[i][0]);
      g_assert_cmpstr (weft_weight_transform_get_origin_via (rule), ==, rows[i][1]);
      g_assert_cmpstr (weft_weight_transform_get_origin_path (rule), ==, rows[i][2]);
      g_assert_cmpstr (weft_weight_transform_get_scope_prefix (rule), ==, rows[i][3]);
      g_assert_cmpstr (json_object_get_string_member_with_default (origin, "via", NULL), ==, rows[i][1]);
      g_assert_cmpstr (json_object_get_string_member_with_default (object, "scope_prefix", NULL), ==,
                       rows[i][3]);
    }
}

/* An op at the end of every chain, one in place of another, one taken out. */
static void
test_edited (void)
{
  g_autoptr (WeftLoadOptions) options = weft_load_options_new ();
  g_autoptr (WeftTransformList) list = assemble ("{'model_type':'mixtral'}", options);
  g_autoptr (WeftConversionOps) transpose = make_op ("{'type':'Transpose','dim0':1,'dim1':2}");
  g_autoptr (WeftConversionOps) concatenate = make_op ("{'type':'Concatenate','dim':2}");
  g_autoptr (GError) error = NULL;
  g_autofree gchar *plain = convert_experts (options);
  g_autofree gchar *transposed = NULL;
  g_autofree gchar *other = NULL;
  g_autofree gchar *again = NULL;

  g_assert_cmpstr (plain, ==, "model.layers.0.mlp.experts.gate_up_proj: F32[2,2,2] 0 1 2 3 4 5 6 7\n");
  g_assert_true (weft_transform_list_append_operation (list, transpose, &error));
  g_assert_no_error (error);
  weft_load_options_set_transforms (options, list);
  transposed = convert_experts (options);
  g_assert_cmpstr (transposed, ==, "model.layers.0.mlp.experts.gate_up_proj: F32[2,2,2] 0 2 1 3 4 6 5 7\n");
  g_assert_true (weft_transform_list_replace_operation (list, "Transpose", NULL, &error));
  g_assert_true (weft_transform_list_replace_operation (list, "Concatenate", concatenate, &error));
  g_assert_no_error (error);
  other = convert_experts (options);
  g_assert_cmpstr (other, ==, "model.layers.0.mlp.experts.gate_up_proj: F32[2,1,4] 0 1 2 3 4 5 6 7\n");
  g_assert_false (weft_transform_list_replace_operation (list, "Transpose", NULL, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_MISSING);
  /* What one plan had edited is no other's. */
  weft_load_options_set_transforms (options, NULL);
  again = convert_experts (options);
  g_assert_cmpstr (again, ==, plain);
}

/* A chain that does not go with the patterns is refused, and the list is as it was. */
static void
test_edited_wrong (void)
{
  g_autoptr (WeftTransformList) list =
      made_mapping (CONVERT ("'e.*.w'", "'e'", OP_DIM ("MergeModulelist", 0)));
  g_autoptr (GError) error = NULL;

  g_assert_false (weft_transform_list_replace_operation (list, "MergeModulelist", NULL, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_PATTERN);
  g_assert_cmpuint (weft_weight_converter_get_operations (
                        WEFT_WEIGHT_CONVERTER (weft_transform_list_get_transform (list, 0)))
                        ->len,
                    ==, 1);
}

/* Rules are added, and the names that are wanted are the caller's. */
static void
test_target_names (void)
{
  static const gchar *const names[] = { "new_head.weight", "new_head.bias", NULL };
  g_autoptr (WeftLoadOptions) options = weft_load_options_new ();
  g_autoptr (WeftTransformList) list = assemble ("{'model_type':'mixtral'}", options);
  g_autoptr (GError) error = NULL;

  weft_transform_list_append_renaming (list, "^head", "new_head", &error);
  g_assert_no_error (error);
  weft_load_options_set_transforms (options, list);
  weft_load_options_set_target_names (options, names);
  made_assert_round_trip ("{'model_type':'mixtral'}", "head.bias: F32[1] 1\nhead.weight: F32[2] 2 3\n",
                          options, "new_head.bias: F32[1] 1\nnew_head.weight: F32[2] 2 3\n");
  made_assert_refused ("{'model_type':'mixtral'}", "head.weight: F32[2]", options, WEFT_ERROR_MISSING,
                       "'new_head.bias' is missing");
  made_assert_refused ("{'model_type':'mixtral'}", "body.weight: F32[2]", options, WEFT_ERROR_MISSING,
                       "none of the 1 tensors|the 2 of the names that are wanted");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/assembled-list/origins", test_origins);
  g_test_add_func ("/assembled-list/edited", test_edited);
  g_test_add_func ("/assembled-list/edited-wrong", test_edited_wrong);
  g_test_add_func ("/assembled-list/target-names", test_target_names);
  return g_test_run ();
}
