/* SPDX-License-Identifier: Apache-2.0 */
/* Every way in which a plugin can be broken, and the reason that is given for it. */
#include <glib/gstdio.h>
#include <string.h>

#include "weft.h"

static const struct
{
  const gchar *file;
  const gchar *reason;
} broken_plugins[] = {
  { "abi-major.so", "it was built for plugin ABI 2.0, this library has 1.0: install a newer Weft" },
  { "abi-minor.so", "it was built for plugin ABI 1.1, this library has 1.0: install a newer Weft" },
  { "bad-id.so", "its id must be 1 to 64 characters of a-z, 0-9 and '-'" },
  { "duplicate-feature.so",
    "op 'Identity' is already provided by plugin 'identity'; name one of the two in WEFT_PLUGIN_DENY" },
  { "duplicate-id.so", "plugin 'identity' is already there: " },
  { "duplicate-own.so", "its descriptor lists feature 'DuplicateOwn' (type 'WeftDuplicateOwn') twice" },
  { "duplicate-type.so", "type 'WeftIdentity' of op 'OtherIdentity' exists already in this process" },
  { "foreign-type.so",
    "type 'WeftSomething' of feature 'Something' does not carry the plugin's id 'foreign-type'" },
  { "init-fails.so", "its init failed: the moon is down" },
  { "init-silent.so", "its init failed: no error was set (this breaks the contract of init)" },
  { "no-descriptor.so",
    "it exports no 'weft_plugin_descriptor': no plugin of Weft, or without WEFT_PLUGIN_DEFINE" },
  { "undefined-symbol.so", "undefined symbol: weft_no_such_function" },
  { "not-elf.so", "it is no ELF file" },
  { "truncated.so", "it is cut short after " },
};

/* Ops that load but break their promises, and what the runner says. */
static const struct
{
  const gchar *op;
  const gchar *message;
} broken_ops[] = {
  { "ContractNull", "contract/ContractNull: convert returned NULL without an error" },
  { "ContractBoth", "contract/ContractBoth: convert returned a result and the error 'half done'" },
  { "ContractNothing", "contract/ContractNothing: convert made no output" },
  { "ContractNameless", "contract/ContractNameless: output 0 of convert has no name" },
};

static WeftPlugin *
find_plugin (const gchar *file)
{
  GListModel *plugins = G_LIST_MODEL (weft_plugin_registry_get_default ());

  for (guint i = 0; i < g_list_model_get_n_items (plugins); i++)
    {
      g_autoptr (WeftPlugin) plugin = g_list_model_get_item (plugins, i);
      g_autofree gchar *name = g_path_get_basename (weft_plugin_get_path (plugin));

      if (g_str_equal (name, file))
        return g_steal_pointer (&plugin);
    }
  return NULL;
}

static void
test_plugin (gconstpointer position)
{
  const gchar *file = broken_plugins[GPOINTER_TO_UINT (position)].file;
  g_autoptr (WeftPlugin) plugin = find_plugin (file);

  g_assert_nonnull (plugin);
  g_assert_cmpint (weft_plugin_get_state (plugin), ==, WEFT_PLUGIN_STATE_FAILED);
  g_test_message ("%s", weft_plugin_get_reason (plugin));
  g_assert_nonnull (
      strstr (weft_plugin_get_reason (plugin), broken_plugins[GPOINTER_TO_UINT (position)].reason));
}

static void
test_found_abi (void)
{
  g_autoptr (WeftPlugin) newer = find_plugin ("abi-minor.so");
  g_autoptr (WeftPlugin) unread = find_plugin ("not-elf.so");

  g_assert_cmpint (weft_plugin_get_abi_major (newer), ==, WEFT_PLUGIN_ABI_MAJOR);
  g_assert_cmpint (weft_plugin_get_abi_minor (newer), ==, WEFT_PLUGIN_ABI_MINOR + 1);
  g_assert_cmpint (weft_plugin_get_abi_major (unread), ==, -1);
}

/* A failed plugin takes nothing away from the others, and an op that it would have says so. */
static void
test_rest_is_usable (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftConversionOps) identity = weft_op_new ("Identity", NULL, NULL, &error);

  g_assert_no_error (error);
  g_assert_cmpstr (weft_feature_get_plugin_id (G_OBJECT_TYPE (identity)), ==, "identity");
  g_assert_null (weft_op_new ("InitFails", NULL, "rule 3", &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_MISSING);
  g_assert_true (g_str_has_prefix (error->message, "rule 3: op 'InitFails' is unknown: plugin "));
  g_assert_nonnull (strstr (error->message, "cannot be used: its init failed: the moon is down"));
}

static void
test_not_an_op (void)
{
  g_autoptr (GError) error = NULL;

  g_assert_null (weft_op_new ("NotAnOp", NULL, NULL, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_PLUGIN);
  g_assert_cmpstr (error->message, ==,
                   "NotAnOp: class 'WeftNotAnOp' of plugin 'not-an-op' is no WeftConversionOps");
}

static void
test_op (gconstpointer position)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftConversionOps) op =
      weft_op_new (broken_ops[GPOINTER_TO_UINT (position)].op, NULL, NULL, &error);
  g_autoptr (WeftOpContext) context =
      weft_op_context_new ((const gchar *[]){ "a", NULL }, (const gchar *[]){ "b", NULL });
  g_autoptr (WeftTensor) tensor = weft_tensor_new_unreadable (WEFT_DTYPE_F32, (const gint64[]){ 2 }, 1, NULL);
  g_autoptr (WeftTensorGroups) inputs = weft_op_new_output ("a", tensor);

  g_assert_no_error (error);
  g_assert_null (weft_conversion_ops_convert (op, inputs, context, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_PLUGIN_CONTRACT);
  g_assert_cmpstr (error->message, ==, broken_ops[GPOINTER_TO_UINT (position)].message);
  g_clear_error (&error);
  g_assert_null (weft_conversion_ops_dup_inverse (op, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_PLUGIN_CONTRACT);
}

/* The two broken files that no compiler makes. */
static gchar *
make_folder (void)
{
  gchar *folder = g_dir_make_tmp ("weft-broken-XXXXXX", NULL);
  g_autofree gchar *whole = g_test_build_filename (G_TEST_BUILT, "broken", "contract.so", NULL);
  g_autofree gchar *truncated = g_build_filename (folder, "truncated.so", NULL);
  g_autofree gchar *text = g_build_filename (folder, "not-elf.so", NULL);
  g_autofree gchar *contents = NULL;
  gsize length;

  g_assert_true (g_file_get_contents (whole, &contents, &length, NULL));
  g_assert_true (g_file_set_contents (truncated, contents, (gssize) length / 2, NULL));
  g_assert_true (g_file_set_contents (text, "no plugin\n", -1, NULL));
  return folder;
}

static void
remove_folder (const gchar *folder)
{
  g_autofree gchar *truncated = g_build_filename (folder, "truncated.so", NULL);
  g_autofree gchar *text = g_build_filename (folder, "not-elf.so", NULL);

  g_unlink (truncated);
  g_unlink (text);
  g_rmdir (folder);
}

int
main (int argc, char **argv)
{
  g_autofree gchar *broken = NULL;
  g_autofree gchar *folder = NULL;
  g_autofree gchar *system = NULL;
  int status;

  g_test_init (&argc, &argv, NULL);
  broken = g_test_build_filename (G_TEST_BUILT, "broken", NULL);
  folder = make_folder ();
  /* Good plugins first, so that the broken ones meet what they duplicate. */
  system = g_strjoin (G_SEARCHPATH_SEPARATOR_S, g_getenv ("WEFT_PLUGIN_SYSTEM_PATH"), broken, folder, NULL);
  g_setenv ("WEFT_PLUGIN_SYSTEM_PATH", system, TRUE);

  for (guint i = 0; i < G_N_ELEMENTS (broken_plugins); i++)
    {
      g_autofree gchar *path = g_strconcat ("/broken-plugins/", broken_plugins[i].file, NULL);

      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_plugin);
    }
  for (guint i = 0; i < G_N_ELEMENTS (broken_ops); i++)
    {
      g_autofree gchar *path = g_strconcat ("/broken-ops/", broken_ops[i].op, NULL);

      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_op);
    }
  g_test_add_func ("/broken-plugins/found-abi", test_found_abi);
  g_test_add_func ("/broken-plugins/rest-is-usable", test_rest_is_usable);
  g_test_add_func ("/broken-plugins/not-an-op", test_not_an_op);
  status = g_test_run ();
  remove_folder (folder);
  return status;
}
