/* SPDX-License-Identifier: Apache-2.0 */
/* A convolution whose patches touch without overlap is a linear layer over the elements of a patch. */
#include <string.h>

#include "weft.h"

typedef struct
{
  WeftModuleFusionSpecBase parent_instance;
  gboolean conv2d;
} WeftPatchEmbeddings;

enum
{
  PROP_CONV2D = 1,
};

WEFT_DEFINE_FUSION (WeftPatchEmbeddings, weft_patch_embeddings)

/* The convolution of a module: of videos, or, where the option is on, of images. */
static WeftModule *
find_convolution (WeftPatchEmbeddings *self, WeftModule *module, guint *n_axes)
{
  static const gchar *const names[] = { "proj", "projection" };
  g_autoptr (WeftModule) video = weft_module_find (module, "proj");
  const gchar *name = weft_module_get_name (module);

  *n_axes = 3;
  if (video != NULL && name != NULL && strcmp (name, "patch_embed") == 0
      && strcmp (weft_module_get_class_name (video), "Conv3d") == 0)
    return g_steal_pointer (&video);
  *n_axes = 2;
  for (guint i = 0; self->conv2d && i < G_N_ELEMENTS (names); i++)
    {
      g_autoptr (WeftModule) image = weft_module_find (module, names[i]);

      if (image != NULL && strcmp (weft_module_get_class_name (image), "Conv2d") == 0)
        return g_steal_pointer (&image);
    }
  return NULL;
}

/* Whether an attribute is a list of @n_axes numbers that are all @expected, or those of @like. */
static gboolean
is_each (WeftModule *convolution, const gchar *attribute, guint n_axes, gint64 expected, const gchar *like)
{
  GVariant *value = weft_module_get_attribute (convolution, attribute);
  GVariant *other = like != NULL ? weft_module_get_attribute (convolution, like) : NULL;

  if (value == NULL || !g_variant_is_of_type (value, G_VARIANT_TYPE ("ax"))
      || g_variant_n_children (value) != n_axes)
    return FALSE;
  if (like != NULL)
    return other != NULL && g_variant_equal (value, other);
  for (guint i = 0; i < n_axes; i++)
    {
      gint64 number;

      g_variant_get_child (value, i, "x", &number);
      if (number != expected)
        return FALSE;
    }
  return TRUE;
}

static gboolean
weft_patch_embeddings_is_fusable (WeftModuleFusionSpecBase *base, WeftModule *module, GError **error)
{
  guint n_axes;
  g_autoptr (WeftModule) convolution = find_convolution ((WeftPatchEmbeddings *) base, module, &n_axes);
  gint64 groups = 0;

  return convolution != NULL && is_each (convolution, "stride", n_axes, 0, "kernel_size")
         && is_each (convolution, "padding", n_axes, 0, NULL)
         && is_each (convolution, "dilation", n_axes, 1, NULL)
         && weft_module_get_attribute_int (convolution, "groups", &groups) && groups == 1
         && weft_module_find_tensor (convolution, "weight") != NULL;
}

/* What is known of a patch: channels, then its extents. */
typedef struct
{
  gint64 channels;
  gint64 kernel[3];
  guint n_axes;
} Patch;

/* One number, or one for rows and one for columns. */
static gboolean
read_patch_size (WeftFusionContext *context, const gchar *path, gint64 *sizes, GError **error)
{
  g_autoptr (JsonNode) node = weft_fusion_context_lookup (context, path);

  if (node == NULL || !JSON_NODE_HOLDS_ARRAY (node)
      || json_array_get_length (json_node_get_array (node)) != 2)
    {
      if (!weft_fusion_context_read_int (context, path, &sizes[0], error))
        return FALSE;
      sizes[1] = sizes[0];
      return TRUE;
    }
  for (guint i = 0; i < 2; i++)
    {
      JsonNode *size = json_array_get_element (json_node_get_array (node), i);

      if (!JSON_NODE_HOLDS_VALUE (size) || json_node_get_value_type (size) != G_TYPE_INT64)
        {
          g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT, "%s: '%s' must hold whole numbers, found %s",
                       weft_fusion_context_get_where (context), path, weft_json_describe (size));
          return FALSE;
        }
      sizes[i] = json_node_get_int (size);
    }
  return TRUE;
}

/* Of videos the config says it, that of the vision tower if there is one. */
static gboolean
read_video_patch (WeftFusionContext *context, Patch *patch, GError **error)
{
  g_autoptr (JsonNode) tower = weft_fusion_context_lookup (context, "vision_config");
  const gchar *prefix = tower != NULL && JSON_NODE_HOLDS_OBJECT (tower) ? "vision_config." : "";
  g_autofree gchar *channels = g_strconcat (prefix, "in_channels", NULL);
  g_autofree gchar *time = g_strconcat (prefix, "temporal_patch_size", NULL);
  g_autofree gchar *size = g_strconcat (prefix, "patch_size", NULL);

  patch->n_axes = 3;
  return weft_fusion_context_read_int (context, channels, &patch->channels, error)
         && weft_fusion_context_read_int (context, time, &patch->kernel[0], error)
         && read_patch_size (context, size, &patch->kernel[1], error);
}

/* Of images the weight says it: (out, channels, rows, columns). */
static gboolean
read_image_patch (WeftModule *convolution, Patch *patch, GError **error)
{
  const WeftShape *shape = weft_tensor_spec_get_shape (weft_module_find_tensor (convolution, "weight"));

  if (shape->rank != 4)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE, "the weight of a Conv2d has 4 axes, found %u",
                   shape->rank);
      return FALSE;
    }
  *patch = (Patch){ shape->dims[1], { shape->dims[2], shape->dims[3] }, 2 };
  return TRUE;
}

static gchar *
describe_operation (const Patch *patch)
{
  GString *text = g_string_new (NULL);

  g_string_printf (
      text, "[{\"type\": \"Conv3dToLinear\", \"in_channels\": %" G_GINT64_FORMAT ", \"kernel_size\": [",
      patch->channels);
  for (guint i = 0; i < patch->n_axes; i++)
    g_string_append_printf (text, "%s%" G_GINT64_FORMAT, i > 0 ? ", " : "", patch->kernel[i]);
  g_string_append (text, "]}]");
  return g_string_free (text, FALSE);
}

static WeftTransformList *
weft_patch_embeddings_make_transforms (WeftModuleFusionSpecBase *base, WeftFusionContext *context,
                                       GError **error)
{
  WeftModule *module = weft_fusion_context_get_module (context);
  Patch patch = { 0 };
  g_autoptr (WeftModule) convolution = find_convolution ((WeftPatchEmbeddings *) base, module, &patch.n_axes);
  const gchar *name = weft_module_get_name (convolution);
  g_autofree gchar *weight = g_strdup_printf ("^%s\\.weight", name);
  g_autofree gchar *new_weight = g_strdup_printf ("^linear_%s\\.weight", name);
  g_autofree gchar *bias = g_strdup_printf ("^%s\\.bias", name);
  g_autofree gchar *new_bias = g_strdup_printf ("^linear_%s\\.bias", name);
  g_autofree gchar *operations = NULL;
  g_autoptr (WeftTransformList) rules = weft_transform_list_new ();

  if (patch.n_axes == 3 ? !read_video_patch (context, &patch, error)
                        : !read_image_patch (convolution, &patch, error))
    return NULL;
  operations = describe_operation (&patch);
  return weft_fusion_append_converter (rules, (const gchar *const[]){ weight, NULL },
                                       (const gchar *const[]){ new_weight, NULL }, operations, error)
                 && weft_transform_list_append_renaming (rules, bias, new_bias, error)
             ? g_steal_pointer (&rules)
             : NULL;
}

/* The convolution leaves its place to a linear layer over all elements of a patch. */
static gboolean
weft_patch_embeddings_fuse_module (WeftModuleFusionSpecBase *base, WeftModule *fused,
                                   WeftFusionContext *context, GError **error)
{
  static const gchar *const bases[] = { "Module", NULL };
  guint n_axes;
  g_autoptr (WeftModule) convolution =
      find_convolution ((WeftPatchEmbeddings *) base, weft_fusion_context_get_module (context), &n_axes);
  g_autoptr (WeftModule) linear = weft_module_new ("Linear", bases);
  g_autofree gchar *name = g_strconcat ("linear_", weft_module_get_name (convolution), NULL);
  WeftTensorSpec *weight = weft_module_find_tensor (convolution, "weight");
  WeftTensorSpec *bias = weft_module_find_tensor (convolution, "bias");
  const WeftShape *shape = weft_tensor_spec_get_shape (weight);
  g_autoptr (WeftShape) flat = NULL;
  g_autoptr (WeftTensorSpec) flat_weight = NULL;
  gint64 n_inputs = 1;

  for (guint i = 1; i < shape->rank; i++)
    n_inputs *= shape->dims[i];
  flat = weft_shape_new ((const gint64[]){ shape->dims[0], n_inputs }, 2);
  flat_weight = weft_tensor_spec_new (weft_tensor_spec_get_dtype (weight), flat);
  weft_module_set_attribute (linear, "in_features", g_variant_new_int64 (n_inputs));
  weft_module_set_attribute (linear, "out_features", g_variant_new_int64 (shape->dims[0]));
  weft_module_set_attribute (linear, "bias", g_variant_new_boolean (bias != NULL));
  weft_module_set_tensor (linear, "weight", flat_weight);
  if (bias != NULL)
    weft_module_set_tensor (linear, "bias", bias);
  weft_module_replace_child (fused, weft_module_get_name (convolution), name, linear);
  return TRUE;
}

static void
weft_patch_embeddings_set_property (GObject *object, guint id, const GValue *value, GParamSpec *pspec)
{
  ((WeftPatchEmbeddings *) object)->conv2d = g_value_get_boolean (value);
}

static void
weft_patch_embeddings_get_property (GObject *object, guint id, GValue *value, GParamSpec *pspec)
{
  g_value_set_boolean (value, ((WeftPatchEmbeddings *) object)->conv2d);
}

static void
weft_patch_embeddings_class_init (WeftPatchEmbeddingsClass *klass)
{
  static const gchar *const patterns[] = { "(^|\\.)patch_embed(?:dings)?$", NULL };
  GObjectClass *object_class = G_OBJECT_CLASS (klass);

  object_class->set_property = weft_patch_embeddings_set_property;
  object_class->get_property = weft_patch_embeddings_get_property;
  klass->parent_class.is_fusable = weft_patch_embeddings_is_fusable;
  klass->parent_class.fuse_module = weft_patch_embeddings_fuse_module;
  klass->parent_class.make_transforms = weft_patch_embeddings_make_transforms;
  weft_module_fusion_spec_base_class_set_target_patterns (&klass->parent_class, patterns);
  g_object_class_install_property (
      object_class, PROP_CONV2D,
      g_param_spec_boolean ("conv2d", "Images", "Also convolutions over images (Conv2d)", FALSE,
                            G_PARAM_READWRITE | G_PARAM_CONSTRUCT_ONLY | G_PARAM_STATIC_STRINGS));
}

WEFT_PLUGIN_DEFINE ("patch-embeddings", "Reads patch convolutions as linear layers", NULL, PACKAGE_VERSION,
                    "Apache-2.0", PACKAGE_ORIGIN,
                    WEFT_PLUGIN_FUSION ("patch_embeddings", WeftPatchEmbeddings, weft_patch_embeddings));
