/* SPDX-License-Identifier: Apache-2.0 */
/* Folds two consecutive layers into one: an even layer's `mixer` becomes `self_attn`, an odd one's `mlp`, of the layer
 * with half the number; `attn_alpha` becomes `lambda_1` and `mlp_alpha` `lambda_2`. It knows no scope, and is its own
 * inverse: saving keeps the new layout. */
#include <weft.h>

#define WEFT_TYPE_LAYER_PAIR_COLLAPSE (weft_layer_pair_collapse_get_type ())
G_DECLARE_FINAL_TYPE (WeftLayerPairCollapse, weft_layer_pair_collapse, WEFT, LAYER_PAIR_COLLAPSE,
                      WeftWeightTransformBase)

struct _WeftLayerPairCollapse
{
  WeftWeightTransformBase parent_instance;

  GRegex *regex;
};

G_DEFINE_DYNAMIC_TYPE (WeftLayerPairCollapse, weft_layer_pair_collapse, WEFT_TYPE_WEIGHT_TRANSFORM_BASE)

static void
weft_layer_pair_collapse_init (WeftLayerPairCollapse *self)
{
}

static void
weft_layer_pair_collapse_finalize (GObject *object)
{
  g_clear_pointer (&WEFT_LAYER_PAIR_COLLAPSE (object)->regex, g_regex_unref);
  G_OBJECT_CLASS (weft_layer_pair_collapse_parent_class)->finalize (object);
}

/* The patterns of the other implementations; the rule renames by the longer expression. */
static gboolean
weft_layer_pair_collapse_prepare (WeftWeightTransformBase *base, GError **error)
{
  const gchar *const sources[] = { "layers\\.(\\d+)", NULL };
  const gchar *const targets[] = { "layers.\\1", NULL };

  WEFT_LAYER_PAIR_COLLAPSE (base)->regex =
      g_regex_new ("layers\\.([0-9]+)\\.(mixer|attn_alpha|mlp_alpha)(?=\\.|$)", 0, 0, error);
  return WEFT_LAYER_PAIR_COLLAPSE (base)->regex != NULL
         && weft_weight_transform_set_patterns (WEFT_WEIGHT_TRANSFORM (base), sources, targets, error);
}

static const gchar *
name_part (const gchar *part, guint64 layer)
{
  if (g_str_equal (part, "attn_alpha"))
    return "lambda_1";
  if (g_str_equal (part, "mlp_alpha"))
    return "lambda_2";
  return layer % 2 == 0 ? "self_attn" : "mlp";
}

static gchar *
weft_layer_pair_collapse_rename_key (WeftWeightTransformBase *base, const gchar *key, gchar **source_pattern,
                                     GError **error)
{
  g_autoptr (GMatchInfo) match = NULL;
  g_autofree gchar *number = NULL;
  g_autofree gchar *part = NULL;
  guint64 layer;
  gint start, end;

  if (!g_utf8_validate (key, -1, NULL)
      || !g_regex_match_full (WEFT_LAYER_PAIR_COLLAPSE (base)->regex, key, -1, 0, 0, &match, error))
    return NULL;
  number = g_match_info_fetch (match, 1);
  part = g_match_info_fetch (match, 2);
  if (!g_ascii_string_to_unsigned (number, 10, 0, G_MAXUINT64, &layer, NULL))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_PATTERN,
                   "'%s' has layer number %s, which does not fit in 64 bits", key, number);
      return NULL;
    }
  g_match_info_fetch_pos (match, 0, &start, &end);
  *source_pattern = g_strdup (weft_weight_transform_get_source_patterns (WEFT_WEIGHT_TRANSFORM (base))[0]);
  return g_strdup_printf ("%.*slayers.%" G_GUINT64_FORMAT ".%s%s", start, key, layer / 2,
                          name_part (part, layer), key + end);
}

static WeftWeightTransformBase *
weft_layer_pair_collapse_dup_inverse (WeftWeightTransformBase *base, GError **error)
{
  return WEFT_WEIGHT_TRANSFORM_BASE (weft_weight_transform_copy (WEFT_WEIGHT_TRANSFORM (base), error));
}

static void
weft_layer_pair_collapse_class_init (WeftLayerPairCollapseClass *klass)
{
  WeftWeightTransformBaseClass *base_class = WEFT_WEIGHT_TRANSFORM_BASE_CLASS (klass);

  G_OBJECT_CLASS (klass)->finalize = weft_layer_pair_collapse_finalize;
  base_class->prepare = weft_layer_pair_collapse_prepare;
  base_class->rename_key = weft_layer_pair_collapse_rename_key;
  base_class->dup_inverse = weft_layer_pair_collapse_dup_inverse;
}

static void
weft_layer_pair_collapse_class_finalize (WeftLayerPairCollapseClass *klass)
{
}

WEFT_PLUGIN_DEFINE ("layer-pair-collapse", "Folds two consecutive layers into one", NULL, PACKAGE_VERSION,
                    "Apache-2.0", PACKAGE_ORIGIN,
                    WEFT_PLUGIN_TRANSFORM ("LayerPairCollapse", WeftLayerPairCollapse,
                                           weft_layer_pair_collapse));
