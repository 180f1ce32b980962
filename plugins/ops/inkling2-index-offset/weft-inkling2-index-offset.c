/* SPDX-License-Identifier: Apache-2.0 */
/* A renaming that shifts the number it captures: `q\.(\d+) -> layers.\1.q` with offset 1 makes `layers.1.q` of `q.0`. The
 * inverse has the offset negated. */
#include <weft.h>

#define WEFT_TYPE_INKLING2_INDEX_OFFSET (weft_inkling2_index_offset_get_type ())
G_DECLARE_FINAL_TYPE (WeftInkling2IndexOffset, weft_inkling2_index_offset, WEFT, INKLING2_INDEX_OFFSET,
                      WeftWeightRenaming)

struct _WeftInkling2IndexOffset
{
  WeftWeightRenaming parent_instance;

  gint64 offset;
};

enum
{
  PROP_OFFSET = 1,
};

G_DEFINE_DYNAMIC_TYPE (WeftInkling2IndexOffset, weft_inkling2_index_offset, WEFT_TYPE_WEIGHT_RENAMING)

static void
weft_inkling2_index_offset_init (WeftInkling2IndexOffset *self)
{
}

static void
weft_inkling2_index_offset_set_property (GObject *object, guint id, const GValue *value, GParamSpec *pspec)
{
  WEFT_INKLING2_INDEX_OFFSET (object)->offset = g_value_get_int64 (value);
}

static void
weft_inkling2_index_offset_get_property (GObject *object, guint id, GValue *value, GParamSpec *pspec)
{
  g_value_set_int64 (value, WEFT_INKLING2_INDEX_OFFSET (object)->offset);
}

static gchar *
weft_inkling2_index_offset_resolve_capture (WeftWeightTransformBase *base, const gchar *capture, guint number,
                                            GError **error)
{
  gint64 offset = WEFT_INKLING2_INDEX_OFFSET (base)->offset;
  guint64 index;
  gint64 shifted;

  if (!g_ascii_string_to_unsigned (capture, 10, 0, G_MAXINT64, &index, NULL)
      || __builtin_add_overflow ((gint64) index, offset, &shifted))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_PATTERN,
                   "'%s' is no number that can be shifted by %" G_GINT64_FORMAT
                   "; capture digits, as '(\\d+)'",
                   capture, offset);
      return NULL;
    }
  return g_strdup_printf ("%" G_GINT64_FORMAT, shifted);
}

static WeftWeightTransformBase *
weft_inkling2_index_offset_dup_inverse (WeftWeightTransformBase *base, GError **error)
{
  WeftWeightTransformBase *inverse =
      WEFT_WEIGHT_TRANSFORM_BASE_CLASS (weft_inkling2_index_offset_parent_class)->dup_inverse (base, error);

  WEFT_INKLING2_INDEX_OFFSET (inverse)->offset = -WEFT_INKLING2_INDEX_OFFSET (base)->offset;
  return inverse;
}

static void
weft_inkling2_index_offset_class_init (WeftInkling2IndexOffsetClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  WeftWeightTransformBaseClass *base_class = WEFT_WEIGHT_TRANSFORM_BASE_CLASS (klass);

  object_class->set_property = weft_inkling2_index_offset_set_property;
  object_class->get_property = weft_inkling2_index_offset_get_property;
  base_class->resolve_capture = weft_inkling2_index_offset_resolve_capture;
  base_class->dup_inverse = weft_inkling2_index_offset_dup_inverse;

  g_object_class_install_property (
      object_class, PROP_OFFSET,
      g_param_spec_int64 ("offset", "Offset", "What is added to the captured number", -G_MAXINT32, G_MAXINT32,
                          0, G_PARAM_READWRITE | G_PARAM_CONSTRUCT_ONLY | G_PARAM_STATIC_STRINGS));
}

static void
weft_inkling2_index_offset_class_finalize (WeftInkling2IndexOffsetClass *klass)
{
}

WEFT_PLUGIN_DEFINE ("inkling2-index-offset", "Renames keys and shifts the captured layer number", NULL,
                    PACKAGE_VERSION, "Apache-2.0", PACKAGE_ORIGIN,
                    WEFT_PLUGIN_TRANSFORM ("Inkling2IndexOffsetWeightRename", WeftInkling2IndexOffset,
                                           weft_inkling2_index_offset));
