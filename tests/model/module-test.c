/* SPDX-License-Identifier: Apache-2.0 */
/* Modules as objects: walking, attributes, aliases, changed trees. */
#include <string.h>
#include <weft.h>

/* b is registered again as c.b, whose tensors follow from that. */
static const gchar *const model =
    "{'class':'Net','model_type':'net','tied':{'d.w':'b.w','c.x':'c.y'},"
    " 'modules':[{'fqn':'','class':'Net','bases':['PreTrained','Module']},"
    "   {'fqn':'a','class':'Conv3d','bases':['_ConvNd','Module'],"
    "    'attributes':{'kernel_size':[2,4,4],'groups':1,'bias':true,'mode':'zeros','eps':0.5,'limit':null,'names':['p','q']}},"
    "   {'fqn':'b','class':'Block'},{'fqn':'b.inner','class':'Linear'},"
    "   {'fqn':'c','class':'Box'},{'fqn':'c.b','alias_of':'b'},{'fqn':'d','class':'Linear'}],"
    " 'tensors':[{'name':'a.weight','shape':[8,3],'dtype':'F32'},{'name':'b.w','shape':[2],'dtype':'F32'},"
    "   {'name':'b.inner.w','shape':[3],'dtype':'F32'},{'name':'d.w','shape':[2],'dtype':'F32'}]}";

static WeftModuleTree *
read_tree (const gchar *text, GError **error)
{
  g_autofree gchar *proper = g_strdelimit (g_strdup (text), "'", '"');
  g_autoptr (JsonNode) root = weft_json_parse (proper, -1, "tree", NULL);

  return weft_module_tree_new_from_json (root, "tree", error);
}

static WeftModuleTree *
make_tree (void)
{
  g_autoptr (GError) error = NULL;
  WeftModuleTree *tree = read_tree (model, &error);

  g_assert_no_error (error);
  return tree;
}

static gchar *
list_names (WeftModuleTree *tree)
{
  g_autoptr (GString) names = g_string_new (NULL);

  for (guint i = 0; i < weft_module_tree_get_n_tensors (tree); i++)
    g_string_append_printf (names, "%s%s", i > 0 ? " " : "", weft_module_tree_get_tensor_name (tree, i));
  return g_strdup (names->str);
}

static void
test_walk (void)
{
  g_autoptr (WeftModuleTree) tree = make_tree ();
  g_autoptr (WeftModule) root = weft_module_tree_get_root (tree);
  g_autoptr (WeftModule) b = weft_module_tree_find_module (tree, "c.b");
  g_autoptr (WeftModule) inner = weft_module_find (root, "c.b.inner");
  g_autoptr (WeftModule) parent = weft_module_get_parent (inner);
  g_autoptr (WeftModule) nothing = weft_module_tree_find_module (tree, "c.x");
  g_autoptr (WeftModule) child = weft_module_get_child (root, 2);
  g_autoptr (WeftModule) aliased = weft_module_get_child (child, 0);
  g_auto (GStrv) fqns = weft_module_dup_fqns (inner);
  g_auto (GStrv) tensors = weft_module_list_tensors (b);
  g_autofree gchar *names = list_names (tree);

  g_assert_cmpuint (weft_module_tree_get_n_modules (tree), ==, 6);
  g_assert_cmpstr (names, ==, "a.weight b.w b.inner.w c.b.w c.b.inner.w d.w");
  g_assert_true (weft_module_is_a (root, "Net"));
  g_assert_true (weft_module_is_a (root, "PreTrained"));
  g_assert_false (weft_module_is_a (root, "Block"));
  g_assert_null (weft_module_get_parent (root));
  g_assert_null (nothing);
  g_assert_cmpstr (weft_module_get_fqn (b), ==, "b");
  g_assert_cmpstr (weft_module_get_fqn (inner), ==, "b.inner");
  g_assert_cmpstr (weft_module_get_name (inner), ==, "inner");
  g_assert_cmpstr (weft_module_get_fqn (parent), ==, "b");
  g_assert_cmpstr (fqns[0], ==, "b.inner");
  g_assert_cmpstr (fqns[1], ==, "c.b.inner");
  g_assert_null (fqns[2]);
  g_assert_cmpstr (tensors[0], ==, "w");
  g_assert_cmpstr (tensors[1], ==, "inner.w");
  g_assert_cmpuint (weft_module_get_n_children (root), ==, 4);
  g_assert_cmpstr (weft_module_get_child_name (root, 2), ==, "c");
  g_assert_cmpstr (weft_module_get_fqn (aliased), ==, "b");
  g_assert_nonnull (weft_module_find_tensor (root, "c.b.inner.w"));
  g_assert_null (weft_module_find_tensor (root, "c.b.inner"));
  g_assert_true (weft_module_get_tree (b) == tree);
}

static void
test_attributes (void)
{
  g_autoptr (WeftModuleTree) tree = make_tree ();
  g_autoptr (WeftModule) a = weft_module_tree_find_module (tree, "a");
  g_auto (GStrv) names = weft_module_list_attributes (a);
  static const gchar *const values[] = { "[int64 2, 4, 4]", "int64 1",   "true", "'zeros'", "0.5",
                                         "@mx nothing",     "['p', 'q']" };
  gint64 number = 0;

  g_assert_cmpuint (g_strv_length (names), ==, G_N_ELEMENTS (values));
  for (guint i = 0; i < G_N_ELEMENTS (values); i++)
    {
      g_autofree gchar *value = g_variant_print (weft_module_get_attribute (a, names[i]), TRUE);

      g_assert_cmpstr (value, ==, values[i]);
    }
  g_assert_true (weft_module_get_attribute_int (a, "groups", &number));
  g_assert_cmpint (number, ==, 1);
  g_assert_false (weft_module_get_attribute_int (a, "bias", &number));
  g_assert_null (weft_module_get_attribute (a, "stride"));
}

/* What is written is what was read, aliases and order included. */
static void
test_json (void)
{
  g_autoptr (WeftModuleTree) tree = make_tree ();
  g_autoptr (JsonNode) first = weft_module_tree_to_json (tree);
  g_autoptr (GError) error = NULL;
  g_autofree gchar *text = weft_json_to_text (first, FALSE);
  JsonArray *tensors = json_object_get_array_member (json_node_get_object (first), "tensors");
  g_autoptr (WeftModuleTree) again = NULL;
  g_autoptr (JsonNode) second = NULL;

  g_assert_nonnull (strstr (text, "{\"fqn\":\"c.b\",\"alias_of\":\"b\"},{\"fqn\":\"d\""));
  /* The two tensors of the alias are there through it. */
  g_assert_cmpuint (json_array_get_length (tensors), ==, 6);
  again = weft_module_tree_new_from_json (first, "again", &error);
  g_assert_no_error (error);
  second = weft_module_tree_to_json (again);
  g_assert_true (json_node_equal (first, second));
}

static WeftModule *
make_fused_block (WeftModuleTree *tree)
{
  g_autoptr (WeftModule) old = weft_module_tree_find_module (tree, "b");
  WeftModule *fused = weft_module_copy (old);
  g_autoptr (WeftModule) linear = weft_module_new ("Linear", (const gchar *const[]){ "Module", NULL });
  WeftShape shape = { .rank = 1, .dims = { 24 } };
  g_autoptr (WeftTensorSpec) spec = weft_tensor_spec_new (WEFT_DTYPE_F32, &shape);

  weft_module_set_attribute (linear, "in_features", g_variant_new_int64 (24));
  weft_module_set_tensor (linear, "weight", spec);
  weft_module_set_class_name (fused, "FusedBlock", (const gchar *const[]){ "Block", "Module", NULL });
  weft_module_replace_child (fused, "inner", "linear", linear);
  return fused;
}

static void
test_replace (void)
{
  g_autoptr (WeftModuleTree) tree = make_tree ();
  g_autoptr (GHashTable) replacements = g_hash_table_new_full (g_str_hash, g_str_equal, NULL, g_object_unref);
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftModuleTree) changed = NULL;
  g_autoptr (WeftModule) found = NULL;
  g_autoptr (WeftModule) old = weft_module_tree_find_module (tree, "b");
  g_autofree gchar *names = NULL;
  g_autofree gchar *old_names = NULL;
  g_auto (GStrv) fqns = NULL;

  /* By any of its paths it is replaced under all. */
  g_hash_table_insert (replacements, (gpointer) "c.b", make_fused_block (tree));
  changed = weft_module_tree_replace (tree, replacements, &error);
  g_assert_no_error (error);
  names = list_names (changed);
  old_names = list_names (tree);
  g_assert_cmpstr (names, ==, "a.weight b.w b.linear.weight c.b.w c.b.linear.weight d.w");
  g_assert_cmpstr (old_names, ==, "a.weight b.w b.inner.w c.b.w c.b.inner.w d.w");
  found = weft_module_tree_find_module (changed, "c.b");
  fqns = weft_module_dup_fqns (found);
  g_assert_cmpuint (g_strv_length (fqns), ==, 2);
  g_assert_cmpstr (weft_module_get_class_name (found), ==, "FusedBlock");
  g_assert_true (weft_module_is_a (found, "Block"));
  /* What was taken over is the same object. */
  g_assert_true (weft_module_find_tensor (found, "w") == weft_module_find_tensor (old, "w"));
  g_assert_cmpstr (weft_module_get_class_name (old), ==, "Block");
  g_assert_cmpstr (weft_module_tree_get_class (changed), ==, "Net");
  g_assert_cmpuint (weft_module_tree_get_n_ties (changed), ==, 2);
}

/* A copy and its original do not see each other's changes, nor does a module that holds it. */
static void
test_copies (void)
{
  g_autoptr (WeftModuleTree) tree = make_tree ();
  g_autoptr (WeftModule) root = weft_module_tree_get_root (tree);
  g_autoptr (WeftModule) copy = weft_module_copy (root);
  g_autoptr (WeftModule) b = weft_module_find (copy, "b");

  g_assert_null (weft_module_get_tree (copy));
  g_assert_cmpstr (weft_module_get_fqn (b), ==, "b");
  g_assert_true (weft_module_remove_tensor (b, "w"));
  g_assert_false (weft_module_remove_tensor (b, "w"));
  g_assert_nonnull (weft_module_find_tensor (copy, "b.w"));
  weft_module_set_child (copy, "b", b);
  g_assert_null (weft_module_find_tensor (copy, "b.w"));
  g_assert_true (weft_module_remove_child (b, "inner"));
  g_assert_nonnull (weft_module_find_tensor (copy, "b.inner.w"));
  g_assert_nonnull (weft_module_find_tensor (root, "b.w"));
  g_assert_cmpstr (weft_module_get_child_name (copy, 1), ==, "b");
}

static void
test_replace_refused (void)
{
  static const struct
  {
    const gchar *paths[2];
    gboolean is_in_tree;
    gint code;
    const gchar *message;
  } rows[] = {
    { { "x", NULL }, FALSE, WEFT_ERROR_MISSING, "'x' cannot be replaced: the model has no such module" },
    { { "b", "c.b" }, FALSE, WEFT_ERROR_CONFLICT, "under another of its paths" },
    { { "b", "b.inner" }, FALSE, WEFT_ERROR_CONFLICT, "a module that it is in is replaced too" },
    { { "", "d" }, FALSE, WEFT_ERROR_CONFLICT, "a module that it is in is replaced too" },
    { { "d", NULL }, TRUE, WEFT_ERROR_ARGUMENT, "replace it by a copy" },
    /* The alias is left without its module. */
    { { "NEW ROOT", NULL }, FALSE, WEFT_ERROR_FORMAT, "'c.b' is another path of 'b', which is no module" },
  };
  g_autoptr (WeftModuleTree) tree = make_tree ();

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GHashTable) replacements =
          g_hash_table_new_full (g_str_hash, g_str_equal, NULL, g_object_unref);
      g_autoptr (GError) error = NULL;
      gboolean is_root = strcmp (rows[i].paths[0], "NEW ROOT") == 0;

      for (guint k = 0; k < 2 && rows[i].paths[k] != NULL; k++)
        {
          WeftModule *module = is_root              ? weft_module_tree_get_root (tree)
                               : rows[i].is_in_tree ? weft_module_tree_find_module (tree, "a")
                                                    : weft_module_new ("X", NULL);

          if (is_root)
            {
              g_autoptr (WeftModule) root = module;

              module = weft_module_copy (root);
              weft_module_remove_child (module, "b");
            }
          g_hash_table_insert (replacements, (gpointer) (is_root ? "" : rows[i].paths[k]), module);
        }
      g_assert_null (weft_module_tree_replace (tree, replacements, &error));
      g_assert_error (error, WEFT_ERROR, rows[i].code);
      g_test_message ("%s", error->message);
      g_assert_nonnull (strstr (error->message, rows[i].message));
    }
}

/* Aliases within aliases double the work at each level; it is counted. */
static void
test_explosion (void)
{
  g_autoptr (GString) text = g_string_new ("{'class':'A','model_type':'a','modules':[{'fqn':'','class':'A'}");
  g_autoptr (GString) path = g_string_new ("m");
  g_autoptr (GError) error = NULL;

  for (guint i = 0; i < 40; i++)
    {
      g_string_append_printf (text, ",{'fqn':'%s','class':'B'}", path->str);
      g_string_append (path, ".m");
    }
  for (guint i = 40; i > 1; i--)
    {
      g_string_truncate (path, 2 * i - 1);
      g_string_append_printf (text, ",{'fqn':'%.*sn','alias_of':'%s'}", (gint) (path->len - 1), path->str,
                              path->str);
    }
  g_string_append (text, "]}");
  g_assert_null (read_tree (text->str, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_LIMIT);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/model/module/walk", test_walk);
  g_test_add_func ("/model/module/attributes", test_attributes);
  g_test_add_func ("/model/module/json", test_json);
  g_test_add_func ("/model/module/replace", test_replace);
  g_test_add_func ("/model/module/copies", test_copies);
  g_test_add_func ("/model/module/replace-refused", test_replace_refused);
  g_test_add_func ("/model/module/explosion", test_explosion);
  return g_test_run ();
}
