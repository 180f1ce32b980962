/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of modules that are left dense. */
#include <string.h>

#include "weft.h"

static const struct
{
  const gchar *entry;
  const gchar *path;
  gboolean matches;
} entry_rows[] = {
  { "lm_head", "lm_head", TRUE },
  { "lm_head", "model.lm_head", TRUE },
  { "lm_head", "lm_head.dense", TRUE },
  { "lm_head", "lm_head2", FALSE },
  { "lm_head", "a.lm_head.b", FALSE },
  { "fc1", "m.xfc1", FALSE },
  { "layers.1", "layers.1.attn", TRUE },
  { "layers.1", "layers.11.attn", FALSE },
  { "mlp.gate", "l.0.mlp.gate", TRUE },
  { "mlp.gate", "l.0.mlp.gate_proj", FALSE },
  { "layers.1", "layersx1", FALSE },
  { "model.*.up", "model.3.mlp.up", TRUE },
  { "model.*.up", "model.3.mlp.up_proj", FALSE },
  { "a.b*", "x.a.bc", TRUE },
  { "re:.*lm_head", "model.lm_head", TRUE },
  { "re:lm_head", "model.lm_head", FALSE },
  { "re:a|b", "b.c", TRUE },
  { "re:(", "(", FALSE },
};

static void
test_entries (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (entry_rows); i++)
    {
      gboolean matches = weft_quantization_config_matches_module (entry_rows[i].entry, entry_rows[i].path);

      g_test_message ("'%s' and '%s'", entry_rows[i].entry, entry_rows[i].path);
      g_assert_cmpint (matches, ==, entry_rows[i].matches);
    }
}

static WeftQuantizationConfig *
make_config (const gchar *list, const gchar *entry)
{
  g_autofree gchar *text = g_strdup_printf (
      "{\"text_config\": {\"quantization_config\": {\"quant_method\": \"fp8\", \"%s\": [\"other\", \"%s\"]}}}",
      list, entry);
  g_autoptr (JsonNode) node = json_from_string (text, NULL);

  return weft_quantization_config_new (node);
}

/* The names that the methods have for one list. */
static const gchar *const list_names[] = { "modules_to_not_convert", "ignored_layers", "ignore",
                                           "exclude_modules", "llm_int8_skip_modules" };

static void
test_lists (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (list_names); i++)
    {
      g_autoptr (WeftQuantizationConfig) config = make_config (list_names[i], "lm_head");

      g_assert_true (weft_quantization_config_is_module_skipped (config, "model.lm_head"));
      g_assert_false (weft_quantization_config_is_module_skipped (config, "model.up"));
    }
}

/* A pattern that cannot be read would match nothing, and nobody would know. */
static void
test_unreadable (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (list_names); i++)
    {
      g_autoptr (WeftQuantizationConfig) config = make_config (list_names[i], "re:model.(");
      g_autoptr (WeftStateDict) tensors = weft_state_dict_new ();
      g_autoptr (GError) error = NULL;

      g_assert_null (weft_quantizer_new_for_config (config, tensors, &error));
      g_assert_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT);
      g_assert_nonnull (strstr (error->message, list_names[i]));
      g_assert_nonnull (strstr (error->message, "'re:model.('"));
    }
}

/* Names of a path are parted by dots, and one that has a dot is a name nevertheless. */
static void
test_dotted_name (void)
{
  g_autoptr (JsonNode) node = json_from_string (
      "{\"a.b\\\\\": {\"c\": {\"quantization_config\": {\"quant_method\": \"fp8\"}}}, \"a\": {\"b\": {}}}",
      NULL);
  g_autoptr (WeftQuantizationConfig) config = weft_quantization_config_new (node);

  g_assert_cmpstr (weft_quantization_config_get_path (config), ==, "a\\.b\\\\.c.quantization_config");
  g_assert_true (weft_quantization_config_get_node (config)
                 == weft_json_lookup (node, weft_quantization_config_get_path (config)));
}

static void
test_unreadable_request (void)
{
  g_autoptr (WeftLoadOptions) options = weft_load_options_new ();
  g_autoptr (GError) error = NULL;

  g_assert_true (weft_load_options_add_dense_module (options, "re:model.*", &error));
  g_assert_no_error (error);
  g_assert_false (weft_load_options_add_dense_module (options, "re:[", &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT);
  g_assert_true (weft_load_options_is_module_dense (options, "model.x"));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/quantize/config/entries", test_entries);
  g_test_add_func ("/quantize/config/lists", test_lists);
  g_test_add_func ("/quantize/config/unreadable", test_unreadable);
  g_test_add_func ("/quantize/config/dotted-name", test_dotted_name);
  g_test_add_func ("/quantize/config/unreadable-request", test_unreadable_request);
  return g_test_run ();
}
