/* SPDX-License-Identifier: Apache-2.0 */
/* Which mappings the sub-models of a composite model get: by class, else by type, scoped, not twice below each other. */
#include <string.h>
#include <weft.h>

static JsonNode *
parse (const gchar *text)
{
  g_autofree gchar *proper = g_strdelimit (g_strdup (text), "'", '"');
  g_autoptr (GError) error = NULL;
  JsonNode *root = weft_json_parse (proper, -1, "test", &error);

  g_assert_no_error (error);
  return root;
}

/* A registry with a mapping of one rule for each name. The rule's source is the name. */
static WeftMappingRegistry *
new_registry (const gchar *names)
{
  WeftMappingRegistry *registry = weft_mapping_registry_new_shipped ();
  g_auto (GStrv) list = g_strsplit (names, " ", -1);

  for (guint i = 0; list[i] != NULL; i++)
    {
      g_autoptr (WeftTransformList) rules = weft_transform_list_new ();
      g_autoptr (GError) error = NULL;

      weft_transform_list_append_renaming (rules, list[i], "x", &error);
      weft_mapping_registry_register (registry, list[i], rules, FALSE, &error);
      g_assert_no_error (error);
    }
  return registry;
}

/* Sub-models are written `fqn:class:type`, the root with an empty fqn. */
static WeftModuleTree *
new_tree (const gchar *base_prefix, const gchar *sub_models)
{
  g_auto (GStrv) list = g_strsplit (sub_models, " ", -1);
  g_autoptr (GString) text = g_string_new (NULL);
  g_autoptr (JsonNode) root = NULL;
  g_autoptr (GError) error = NULL;
  WeftModuleTree *tree;

  g_string_printf (text, "{'class':'R','model_type':'r','base_model_prefix':'%s','sub_models':[",
                   base_prefix);
  for (guint i = 0; list[i] != NULL; i++)
    {
      g_auto (GStrv) parts = g_strsplit (list[i], ":", 3);

      g_string_append_printf (text, "%s{'fqn':'%s','class':'%s','model_type':'%s'}", i > 0 ? "," : "",
                              parts[0], parts[1], parts[2]);
    }
  g_string_append (text, "]}");
  root = parse (text->str);
  tree = weft_module_tree_new_from_json (root, "test", &error);
  g_assert_no_error (error);
  return tree;
}

/* `name` for an unscoped rule, `name@scope` for a scoped one. */
static gchar *
describe (WeftTransformList *list)
{
  g_autoptr (GString) text = g_string_new (NULL);

  for (guint i = 0; i < weft_transform_list_get_n_transforms (list); i++)
    {
      WeftWeightTransform *rule = weft_transform_list_get_transform (list, i);

      g_string_append_printf (text, "%s%s", i > 0 ? " " : "",
                              weft_weight_transform_get_written_sources (rule)[0]);
      if (weft_weight_transform_get_scope_prefix (rule) != NULL)
        g_string_append_printf (text, "@%s", weft_weight_transform_get_scope_prefix (rule));
    }
  return g_string_free (g_steal_pointer (&text), FALSE);
}

static void
test_walk (void)
{
  static const struct
  {
    const gchar *names;
    const gchar *base_prefix;
    const gchar *sub_models;
    const gchar *list;
  } rows[] = {
    /* The class comes before the type. */
    { "C t", "", ":C:t", "C" },
    { "C t", "", ":D:t", "t" },
    /* One copy each for children of one type; the root is found by another. */
    { "C t", "", ":C:u a:A:t b:B:t c.d:E:t", "C t@a t@b t@c.d" },
    { "t", "", ":C:t a:A:t", "t" },
    { "C t", "", ":C:u a:A:t a.n:N:t an:N:t", "C t@a t@an" },
    { "t A", "", ":C:t a:A:t", "t A@a" },
    { "C t", "", ":C:t a:A:t", "C t@a" },
    { "C", "", ":C:u a:C:v", "C" },
    { "t", "", ":C:u a:A:t", "t@a" },
    { "t", "", ":C:u", "" },
    /* The base model prefix is taken off, at a dot only. */
    { "t", "model", ":C:u model:A:t", "t@" },
    { "t", "model", ":C:u model.enc:A:t modeling.x:B:t vision:D:t", "t@enc t@modeling.x t@vision" },
    /* A name is never a pattern. */
    { "C.", "", ":CX:u", "" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (WeftMappingRegistry) registry = new_registry (rows[i].names);
      g_autoptr (WeftModuleTree) tree = new_tree (rows[i].base_prefix, rows[i].sub_models);
      g_autoptr (GError) error = NULL;
      g_autoptr (WeftTransformList) list = weft_mapping_assemble (registry, tree, NULL, FALSE, &error);
      g_autofree gchar *text = NULL;

      g_assert_no_error (error);
      text = describe (list);
      g_assert_cmpstr (text, ==, rows[i].list);
    }
}

static void
test_order (void)
{
  g_autoptr (WeftMappingRegistry) registry = new_registry ("C t");
  g_autoptr (WeftModuleTree) tree = new_tree ("", ":C:u a:A:t");
  g_autoptr (WeftTransformList) key_mapping = weft_transform_list_new ();
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftTransformList) list = NULL;
  g_autofree gchar *text = NULL;

  weft_transform_list_append_renaming (key_mapping, "k1", "x", &error);
  weft_transform_list_append_renaming (key_mapping, "k2", "y", &error);
  list = weft_mapping_assemble (registry, tree, key_mapping, TRUE, &error);
  g_assert_no_error (error);
  text = describe (list);
  g_assert_cmpstr (
      text, ==,
      "k1 k2 C t@a LayerNorm.gamma LayerNorm.beta .weight_g .weight_v ^model\\.language_model\\.model");
  g_assert_cmpstr (weft_weight_transform_get_origin (weft_transform_list_get_transform (list, 1)), ==,
                   "key_mapping");
  g_assert_cmpuint (weft_weight_transform_get_origin_index (weft_transform_list_get_transform (list, 1)), ==,
                    1);
}

static void
test_llava (void)
{
  static const gchar *const rows[][2] = {
    { "language_model.model.layers.0.mlp.up_proj.weight",
      "model.language_model.layers.0.mlp.up_proj.weight" },
    { "language_model.lm_head.weight", "lm_head.weight" },
    { "vision_tower.vision_model.pre_layrnorm.weight", "model.vision_tower.pre_layrnorm.weight" },
    { "model.language_model.norm.weight", "model.language_model.norm.weight" },
  };
  g_autoptr (WeftMappingRegistry) registry = weft_mapping_registry_new_shipped ();
  g_autoptr (WeftModuleTree) tree = new_tree (
      "model",
      ":LlavaForConditionalGeneration:llava model:LlavaModel:llava model.vision_tower:CLIPVisionModel:clip_vision_model");
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftTransformList) list = weft_mapping_assemble (registry, tree, NULL, TRUE, &error);

  g_assert_no_error (error);
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (WeftRenamedKey) key = weft_transform_list_rename_key (list, rows[i][0], NULL, NULL, &error);

      g_assert_no_error (error);
      g_assert_cmpstr (weft_renamed_key_get_name (key), ==, rows[i][1]);
    }
}

/* Code that comes with the checkpoint gets no mapping, unless the user registered its class or its type. */
static void
test_custom_code (void)
{
  static const struct
  {
    const gchar *registered;
    const gchar *list;
    guint n_skipped;
  } rows[] = {
    { "", "", 1 },
    { "XModel", "XModel", 0 },
    { "x", "x", 0 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (WeftMappingRegistry) registry = rows[i].registered[0] != '\0'
                                                     ? new_registry (rows[i].registered)
                                                     : weft_mapping_registry_new_shipped ();
      g_autoptr (WeftModuleTree) tree =
          new_tree ("", rows[i].registered[0] != '\0' ? ":XModel:x" : ":XModel:mixtral");
      g_autoptr (JsonNode) config = parse ("{'auto_map':{'AutoModel':'modeling_x.XModel'}}");
      g_autoptr (WeftTransformList) list = NULL;
      g_autofree gchar *text = NULL;
      g_auto (GStrv) skipped = NULL;

      g_assert_true (weft_module_tree_mark_custom_code (tree, config, "config.json", NULL));
      list = weft_mapping_assemble (registry, tree, NULL, FALSE, NULL);
      text = describe (list);
      g_assert_cmpstr (text, ==, rows[i].list);
      skipped = weft_mapping_list_custom_code (registry, tree);
      g_assert_cmpuint (g_strv_length (skipped), ==, rows[i].n_skipped);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/assembly/walk", test_walk);
  g_test_add_func ("/assembly/order", test_order);
  g_test_add_func ("/assembly/llava", test_llava);
  g_test_add_func ("/assembly/custom-code", test_custom_code);
  return g_test_run ();
}
