/* SPDX-License-Identifier: Apache-2.0 */
#include "fusion/weft-derived-module-private.h"

#include <string.h>

#include "fusion/weft-module-tensors-private.h"
#include "transform/weft-stage-internal.h"

/* The first part of a dotted name; @rest is what follows, or NULL. */
static gchar *
split_name (const gchar *name, const gchar **rest)
{
  const gchar *dot = strchr (name, '.');

  *rest = dot != NULL ? dot + 1 : NULL;
  return dot != NULL ? g_strndup (name, (gsize) (dot - name)) : NULL;
}

/* A linear layer has its extents as attributes. */
static void
set_extents (WeftModule *layer, WeftTensorSpec *spec)
{
  const WeftShape *shape = weft_tensor_spec_get_shape (spec);
  gint64 old;

  if (shape->rank != 2 || !weft_module_get_attribute_int (layer, "out_features", &old))
    return;
  weft_module_set_attribute (layer, "out_features", g_variant_new_int64 (shape->dims[0]));
  weft_module_set_attribute (layer, "in_features", g_variant_new_int64 (shape->dims[1]));
}

/* An empty layer of the class and with the attributes of the one that a name leads to. */
static WeftModule *
make_layer_like (WeftModule *like)
{
  g_autoptr (WeftModule) layer = weft_module_copy (like);

  while (weft_module_get_n_tensors (layer) > 0)
    {
      g_autofree gchar *name = g_strdup (weft_module_get_tensor_name (layer, 0));

      weft_module_remove_tensor (layer, name);
    }
  return g_steal_pointer (&layer);
}

/* Puts a tensor in its place, which is that of @source if that is still there. */
static void
put_tensor (WeftModule *fused, WeftModule *module, const gchar *name, WeftTensorSpec *spec,
            const gchar *source)
{
  const gchar *rest, *source_rest;
  g_autofree gchar *child_name = split_name (name, &rest);
  g_autofree gchar *source_child = split_name (source, &source_rest);
  g_autoptr (WeftModule) known = child_name != NULL ? weft_module_find (fused, child_name) : NULL;
  g_autoptr (WeftModule) like = source_child != NULL ? weft_module_find (module, source_child) : NULL;
  g_autoptr (WeftModule) still_there = source_child != NULL ? weft_module_find (fused, source_child) : NULL;
  g_autoptr (WeftModule) child = NULL;

  if (child_name == NULL)
    {
      if (source_child == NULL)
        weft_module_replace_tensor (fused, source, name, spec);
      else
        weft_module_set_tensor (fused, name, spec);
      return;
    }
  child = known != NULL  ? weft_module_copy (known)
          : like != NULL ? make_layer_like (like)
                         : weft_module_new (child_name, NULL);
  put_tensor (child, like != NULL ? like : module, rest, spec, source_rest != NULL ? source_rest : source);
  set_extents (child, spec);
  if (known == NULL && still_there != NULL)
    weft_module_replace_child (fused, source_child, child_name, child);
  else
    weft_module_set_child (fused, child_name, child);
}

/* Removes a tensor, and the modules below @fused that have none left. A skeleton may leave out modules: their tensors are those of the
 * module above, under a dotted name. */
static void
remove_tensor (WeftModule *fused, const gchar *name)
{
  const gchar *rest;
  g_autofree gchar *child_name = split_name (name, &rest);
  g_autoptr (WeftModule) known = child_name != NULL ? weft_module_find (fused, child_name) : NULL;
  g_autoptr (WeftModule) child = NULL;
  g_auto (GStrv) left = NULL;

  if (known == NULL)
    {
      weft_module_remove_tensor (fused, name);
      return;
    }
  child = weft_module_copy (known);
  remove_tensor (child, rest);
  left = weft_module_list_tensors (child);
  if (left[0] != NULL)
    weft_module_set_child (fused, child_name, child);
  else
    weft_module_remove_child (fused, child_name);
}

static gboolean
is_output (WeftStage *stage, const gchar *name)
{
  return weft_state_dict_find (stage->outputs, name, NULL);
}

static void
apply_conversion (WeftModule *fused, WeftModule *module, WeftStage *stage, WeftConversion *conversion)
{
  const gchar *first = weft_state_dict_get_name (
      stage->inputs, g_array_index (conversion->sources, WeftConversionSource, 0).position);

  for (guint i = 0; i < conversion->outputs->len; i++)
    {
      const WeftConversionOutput *output = &g_array_index (conversion->outputs, WeftConversionOutput, i);
      g_autoptr (WeftTensorSpec) spec = weft_tensor_spec_new (weft_tensor_get_dtype (output->tensor),
                                                              weft_tensor_get_shape (output->tensor));

      put_tensor (fused, module, output->name, spec, first);
    }
  for (guint i = 0; i < conversion->sources->len; i++)
    {
      const gchar *name = weft_state_dict_get_name (
          stage->inputs, g_array_index (conversion->sources, WeftConversionSource, i).position);

      if (!is_output (stage, name))
        remove_tensor (fused, name);
    }
}

gboolean
weft_derived_module_apply (WeftModule *fused, WeftModule *module, WeftTransformList *rules,
                           WeftFusionContext *context, GError **error)
{
  static const gchar *const nothing[] = { NULL };
  g_autoptr (WeftStateDict) inputs = weft_module_tensors_to_state_dict (module, "", error);
  g_autoptr (WeftOpContext) facts = weft_op_context_new (nothing, nothing);
  g_autoptr (WeftStage) stage = NULL;

  weft_op_context_set_config (facts, weft_fusion_context_get_config (context));
  if (inputs != NULL)
    stage = weft_stage_run (inputs, rules, facts, error);
  if (stage == NULL)
    return FALSE;
  if (stage->failures->len > 0)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_FAILED, "'%s': %s",
                   (const gchar *) stage->failures->pdata[0], (const gchar *) stage->failures->pdata[1]);
      return FALSE;
    }
  for (guint i = 0; i < stage->conversions->len; i++)
    apply_conversion (fused, module, stage, stage->conversions->pdata[i]);
  return TRUE;
}
