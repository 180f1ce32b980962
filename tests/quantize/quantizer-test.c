/* SPDX-License-Identifier: Apache-2.0 */
/* What a quantizer returns is checked before it is written. */
#include <string.h>

#include "weft.h"

G_DECLARE_FINAL_TYPE (WeftMadeQuantizer, weft_made_quantizer, WEFT, MADE_QUANTIZER, WeftQuantizerBase)

struct _WeftMadeQuantizer
{
  WeftQuantizerBase parent_instance;
};

G_DEFINE_FINAL_TYPE (WeftMadeQuantizer, weft_made_quantizer, WEFT_TYPE_QUANTIZER_BASE)

/* What dup_config of the row that is tested returns. */
static const gchar *made_config;

static gchar *
weft_made_quantizer_dup_config (WeftQuantizerBase *base, const gchar *const *skipped_modules, GError **error)
{
  return g_strdup (made_config);
}

static void
weft_made_quantizer_class_init (WeftMadeQuantizerClass *klass)
{
  klass->parent_class.dup_config = weft_made_quantizer_dup_config;
}

static void
weft_made_quantizer_init (WeftMadeQuantizer *self)
{
}

static const struct
{
  const gchar *config;
  const gchar *reason; /* NULL: it is taken */
} config_rows[] = {
  { "{\"quant_method\": \"made\"}", NULL },
  { "", "no JSON object" },
  { "{'quant_method': 'made'}", "byte 1" },
  { "{\"quant_method\": ", "no JSON object" },
  { "[]", "a list" },
  { NULL, "failed without an error" },
};

static void
test_configs (void)
{
  static const gchar *const nothing[] = { NULL };

  for (guint i = 0; i < G_N_ELEMENTS (config_rows); i++)
    {
      g_autoptr (WeftQuantizer) quantizer = g_object_new (weft_made_quantizer_get_type (), NULL);
      g_autoptr (GError) error = NULL;
      g_autofree gchar *text = NULL;

      made_config = config_rows[i].config;
      text = weft_quantizer_dup_config (quantizer, nothing, &error);
      if (config_rows[i].reason == NULL)
        {
          g_assert_no_error (error);
          g_assert_cmpstr (text, ==, made_config);
          continue;
        }
      g_assert_null (text);
      g_assert_error (error, WEFT_ERROR, WEFT_ERROR_PLUGIN_CONTRACT);
      g_assert_nonnull (strstr (error->message, "WeftMadeQuantizer: "));
      g_assert_nonnull (strstr (error->message, config_rows[i].reason));
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/quantize/quantizer/configs", test_configs);
  return g_test_run ();
}
