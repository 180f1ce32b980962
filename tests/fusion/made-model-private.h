/* SPDX-License-Identifier: Apache-2.0 */
/* A model of two layers, as a skeleton; targets whose faults a test chooses; and all that an executor holds, as text. */
#pragma once

#include <glib/gstdio.h>
#include <string.h>

#include "weft.h"

static inline JsonNode *
made_json (const gchar *text)
{
  g_autofree gchar *quoted = g_strdelimit (g_strdup (text), "'", '"');
  g_autoptr (GError) error = NULL;
  JsonNode *node = weft_json_parse (quoted, -1, "test", &error);

  g_assert_no_error (error);
  return node;
}

#define MADE_LINEAR(fqn, in, out)                                                         \
  "{'fqn':'" fqn "','class':'Linear','bases':['Module'],'attributes':{'in_features':" #in \
  ",'out_features':" #out ",'bias':false}},"
#define MADE_LAYER(n)                                                                                      \
  "{'fqn':'model.layers." #n "','class':'TinyLayer'},"                                                     \
  "{'fqn':'model.layers." #n ".mlp','class':'LlamaMLP','bases':['GatedMLP','Module'],"                     \
  "'attributes':{'training':false,'call_protocol':'one input'}}," MADE_LINEAR (                            \
      "model.layers." #n ".mlp.gate_proj", 32, 48) MADE_LINEAR ("model.layers." #n ".mlp.up_proj", 32, 48) \
      MADE_LINEAR ("model.layers." #n ".mlp.down_proj", 48,                                                \
                   32) "{'fqn':'model.layers." #n ".norm','class':'TinyRMSNorm','bases':['Module']},"
#define MADE_TENSOR(name, shape) "{'name':'" name "','shape':" shape ",'dtype':'bfloat16'}"
#define MADE_BUFFER(name) \
  "{'name':'" name "','shape':[1],'dtype':'float32','persistent':false,'is_buffer':true}"
#define MADE_TENSORS(n)                                                                   \
  MADE_TENSOR ("model.layers." #n ".mlp.gate_proj.weight", "[48,32]")                     \
  "," MADE_TENSOR ("model.layers." #n ".mlp.up_proj.weight", "[48,32]") "," MADE_TENSOR ( \
      "model.layers." #n ".mlp.down_proj.weight",                                         \
      "[32,48]") "," MADE_BUFFER ("model.layers." #n                                      \
                                  ".mlp.scale") "," MADE_TENSOR ("model.layers." #n ".norm.weight", "[32]")

static inline WeftModuleTree *
made_tree (void)
{
  g_autoptr (JsonNode) root =
      made_json ("{'class':'TinyForCausalLM','model_type':'tiny','base_model_prefix':'model','modules':["
                 "{'fqn':'','class':'TinyForCausalLM'},{'fqn':'model','class':'TinyModel'},"
                 "{'fqn':'model.layers','class':'ModuleList'}," MADE_LAYER (0)
                     MADE_LAYER (1) "{'fqn':'model.head','class':'Linear'}],"
                                    "'tensors':[" MADE_TENSORS (0) "," MADE_TENSORS (1) "," MADE_TENSOR (
                                        "model.head.weight", "[64,32]") "]}");
  g_autoptr (GError) error = NULL;
  WeftModuleTree *tree = weft_module_tree_new_from_json (root, "tiny", &error);

  g_assert_no_error (error);
  return tree;
}

static inline WeftReplacementExecutor *
made_executor (const gchar *config)
{
  g_autoptr (WeftModuleTree) tree = made_tree ();
  g_autoptr (JsonNode) root = made_json (config);

  return weft_replacement_executor_new (tree, root, "tiny/config.json");
}

static inline void
append_json (GString *text, JsonNode *node)
{
  g_autoptr (JsonNode) owned = node;
  g_autofree gchar *written = weft_json_to_text (owned, FALSE);

  g_string_append (text, written);
  g_string_append_c (text, '\n');
}

/* Everything that applying a plan could change: the tree, what is replaced, the rules and styles, the patches; and what is registered in this
 * process. */
static inline gchar *
made_show (WeftReplacementExecutor *executor)
{
  GString *text = g_string_new (NULL);
  g_auto (GStrv) replaced = weft_replacement_executor_list_replaced (executor);
  g_auto (GStrv) patches =
      weft_patch_mapping_list_names (weft_replacement_executor_get_patch_mapping (executor));
  g_autofree gchar *replaced_text = g_strjoinv (" ", replaced);
  g_autofree gchar *patches_text = g_strjoinv (" ", patches);

  append_json (text, weft_module_tree_to_json (weft_replacement_executor_get_tree (executor)));
  append_json (text, weft_replacement_executor_to_json (executor));
  g_string_append_printf (text, "%s\n%s\n", replaced_text, patches_text);
  for (guint kind = WEFT_FEATURE_KIND_OP; kind <= WEFT_FEATURE_KIND_REPLACEMENT; kind++)
    {
      g_auto (GStrv) names =
          weft_plugin_registry_list_names (weft_plugin_registry_get_default (), (WeftFeatureKind) kind);
      g_autofree gchar *names_text = g_strjoinv (" ", names);

      g_string_append_printf (text, "%s\n", names_text);
    }
  return g_string_free (text, FALSE);
}

/* A message holds all of @parts (split at `|`). */
static inline void
made_assert_message (GError *error, const gchar *parts)
{
  g_auto (GStrv) words = g_strsplit (parts, "|", -1);

  g_assert_nonnull (error);
  for (guint i = 0; words[i] != NULL; i++)
    if (strstr (error->message, words[i]) == NULL)
      g_error ("'%s' is not in: %s", words[i], error->message);
}

/* A replacement of LlamaMLP that joins its projections, and does one thing wrong in layer 1. */

typedef struct
{
  WeftModuleReplacementBase parent_instance;
  gchar *fault;
} MadeMlp;

typedef struct
{
  WeftModuleReplacementBaseClass parent_class;
} MadeMlpClass;

GType made_mlp_get_type (void);
G_DEFINE_TYPE (MadeMlp, made_mlp, WEFT_TYPE_MODULE_REPLACEMENT_BASE)

static inline gboolean
made_has_fault (MadeMlp *self, const gchar *fault, const gchar *fqn)
{
  return g_strcmp0 (self->fault, fault) == 0 && strstr (fqn, "layers.1") != NULL;
}

/* A replacement with the tensors of the old module, or nearly so. */
static inline gboolean
made_is_without_rules (MadeMlp *self, const gchar *fqn)
{
  return self->fault != NULL && g_str_has_suffix (self->fault, "-without-rules")
         && strstr (fqn, "layers.1") != NULL;
}

static inline void
made_set_weight (WeftModule *layer, gint64 rows, gint64 columns)
{
  g_autoptr (WeftShape) shape = weft_shape_new ((gint64[]){ rows, columns }, 2);
  g_autoptr (WeftTensorSpec) spec = weft_tensor_spec_new (WEFT_DTYPE_BF16, shape);

  weft_module_set_tensor (layer, "weight", spec);
}

static inline WeftModule *
made_change_without_rules (MadeMlp *self, WeftModule *copy, const gchar *fqn)
{
  g_autoptr (WeftModule) down = weft_module_new ("Linear", NULL);

  made_set_weight (down, 32, 48);
  if (made_has_fault (self, "adds-without-rules", fqn))
    made_set_weight (copy, 1, 1);
  if (made_has_fault (self, "looks-alike-without-rules", fqn))
    weft_module_set_child (copy, "down_proj", down);
  if (made_has_fault (self, "drops-a-buffer-without-rules", fqn))
    weft_module_remove_tensor (copy, "scale");
  return copy;
}

static inline WeftModule *
made_mlp_replace (WeftModuleReplacementBase *base, WeftModule *module, const gchar *fqn,
                  WeftFusionContext *context, GError **error)
{
  MadeMlp *self = (MadeMlp *) base;
  WeftModule *copy;
  g_autoptr (WeftModule) joined = weft_module_new ("Linear", NULL);
  g_autoptr (WeftModule) down = weft_module_new ("Linear", NULL);

  if (made_has_fault (self, "replace-fails", fqn))
    g_set_error (error, WEFT_ERROR, WEFT_ERROR_FAILED, "out of ideas");
  if (made_has_fault (self, "replace-fails", fqn) || made_has_fault (self, "replace-gives-nothing", fqn))
    return NULL;
  if (made_has_fault (self, "replace-gives-the-old-one", fqn))
    return g_object_ref (module);
  copy = weft_module_copy (module);
  weft_module_set_class_name (copy, "FusedMLP", NULL);
  if (made_has_fault (self, "changes-training", fqn))
    weft_module_set_attribute (copy, "training", g_variant_new_boolean (TRUE));
  if (made_has_fault (self, "changes-call-protocol", fqn))
    weft_module_set_attribute (copy, "call_protocol", g_variant_new_string ("two inputs"));
  if (made_has_fault (self, "has-no-class", fqn))
    weft_module_set_class_name (copy, "", NULL);
  if (made_is_without_rules (self, fqn))
    return made_change_without_rules (self, copy, fqn);
  made_set_weight (joined, made_has_fault (self, "wrong-shape", fqn) ? 95 : 96, 32);
  weft_module_replace_child (copy, "gate_proj", "gate_up_proj", joined);
  weft_module_remove_child (copy, "up_proj");
  if (made_has_fault (self, "new-tensor", fqn))
    made_set_weight (copy, 1, 1);
  made_set_weight (down, 32, 48);
  if (made_has_fault (self, "look-alike", fqn))
    weft_module_set_child (copy, "down_proj", down);
  if (made_has_fault (self, "drops-down", fqn) || made_has_fault (self, "makes-more", fqn))
    weft_module_remove_child (copy, "down_proj");
  return copy;
}

#define MADE_JOIN "[{\"type\": \"Concatenate\", \"dim\": 0}]"

static inline gboolean
made_convert (WeftTransformList *rules, const gchar *sources, const gchar *target, const gchar *ops,
              GError **error)
{
  g_auto (GStrv) list = g_strsplit (sources, " ", -1);

  return weft_fusion_append_converter (rules, (const gchar *const *) list,
                                       (const gchar *const[]){ target, NULL }, ops, error);
}

static inline WeftTransformList *
made_mlp_make_transforms (WeftModuleReplacementBase *base, WeftModule *replacement,
                          WeftFusionContext *context, GError **error)
{
  static WeftTransformList *kept;
  MadeMlp *self = (MadeMlp *) base;
  const gchar *fqn = weft_fusion_context_get_fqn (context);
  g_autoptr (WeftTransformList) rules = weft_transform_list_new ();
  const gchar *sources = "^gate_proj.weight ^up_proj.weight";
  const gchar *ops = MADE_JOIN;
  gboolean ok;

  if (made_has_fault (self, "rules-give-nothing", fqn))
    return NULL;
  if (made_is_without_rules (self, fqn) || made_has_fault (self, "no-rules", fqn))
    return g_steal_pointer (&rules);
  if (made_has_fault (self, "absolute-pattern", fqn))
    sources = "model\\.layers\\.1\\.mlp\\.gate_proj.weight up_proj.weight";
  if (made_has_fault (self, "forgets-up", fqn))
    sources = "^gate_proj.weight";
  if (made_has_fault (self, "unknown-op", fqn))
    ops = "[{\"type\": \"Glue\"}]";
  if (made_has_fault (self, "no-inverse", fqn))
    ops = "[{\"type\": \"Concatenate\", \"dim\": 0}, {\"type\": \"LogNegate\"}]";
  if (made_has_fault (self, "op-fails", fqn))
    ops = "[{\"type\": \"Concatenate\", \"dim\": 3}]";
  ok = made_convert (rules, sources,
                     made_has_fault (self, "makes-another", fqn) ? "other.weight" : "gate_up_proj.weight",
                     ops, error);
  if (ok && made_has_fault (self, "claims-twice", fqn))
    ok = weft_transform_list_append_renaming (rules, "gate_proj.weight", "x.weight", error);
  if (ok && made_has_fault (self, "claims-what-stays", fqn))
    ok = weft_transform_list_append_renaming (rules, "down_proj.weight", "down_proj.weight", error);
  if (ok && made_has_fault (self, "makes-more", fqn))
    ok = weft_transform_list_append_renaming (rules, "down_proj.weight", "other.weight", error);
  if (ok && made_has_fault (self, "makes-twice", fqn))
    ok = weft_transform_list_append_renaming (rules, "down_proj.weight", "gate_up_proj.weight", error);
  if (g_strcmp0 (self->fault, "same-rules") == 0)
    {
      if (kept == NULL)
        kept = g_object_ref (rules);
      return g_object_ref (kept);
    }
  return ok ? g_steal_pointer (&rules) : NULL;
}

static inline gboolean
made_mlp_is_fusable (WeftModuleReplacementBase *base, WeftModule *module, GError **error)
{
  MadeMlp *self = (MadeMlp *) base;
  const gchar *fqn = weft_module_get_fqn (module);

  if (made_has_fault (self, "is-fusable-fails", fqn))
    g_set_error (error, WEFT_ERROR, WEFT_ERROR_FAILED, "cannot tell");
  return !made_has_fault (self, "is-fusable-fails", fqn) && !made_has_fault (self, "not-fusable", fqn);
}

static inline void
made_mlp_set_property (GObject *object, guint id, const GValue *value, GParamSpec *pspec)
{
  ((MadeMlp *) object)->fault = g_value_dup_string (value);
}

static inline void
made_mlp_finalize (GObject *object)
{
  g_free (((MadeMlp *) object)->fault);
  G_OBJECT_CLASS (made_mlp_parent_class)->finalize (object);
}

static inline void
made_mlp_class_init (MadeMlpClass *klass)
{
  static const gchar *const types[] = { "LlamaMLP", NULL };

  G_OBJECT_CLASS (klass)->set_property = made_mlp_set_property;
  G_OBJECT_CLASS (klass)->finalize = made_mlp_finalize;
  klass->parent_class.is_fusable = made_mlp_is_fusable;
  klass->parent_class.replace = made_mlp_replace;
  klass->parent_class.make_transforms = made_mlp_make_transforms;
  weft_module_replacement_base_class_set_module_types (&klass->parent_class, types);
  g_object_class_install_property (
      G_OBJECT_CLASS (klass), 1,
      g_param_spec_string ("fault", NULL, NULL, NULL, G_PARAM_WRITABLE | G_PARAM_CONSTRUCT_ONLY));
}

static inline void
made_mlp_init (MadeMlp *self)
{
}

/* The same for every class that derives from GatedMLP, or for it alone. */

typedef MadeMlp MadeGated;
typedef MadeMlpClass MadeGatedClass;
typedef MadeMlp MadeExact;
typedef MadeMlpClass MadeExactClass;

GType made_gated_get_type (void);
GType made_exact_get_type (void);
G_DEFINE_TYPE (MadeGated, made_gated, made_mlp_get_type ())
G_DEFINE_TYPE (MadeExact, made_exact, made_gated_get_type ())

static inline void
made_gated_class_init (MadeGatedClass *klass)
{
  static const gchar *const types[] = { "GatedMLP", NULL };

  weft_module_replacement_base_class_set_module_types (&klass->parent_class, types);
}

static inline void
made_gated_init (MadeGated *self)
{
}

static inline void
made_exact_class_init (MadeExactClass *klass)
{
  weft_module_replacement_base_class_set_exact_type (&klass->parent_class, TRUE);
}

static inline void
made_exact_init (MadeExact *self)
{
}

/* For these classes themselves. */

typedef MadeMlp MadeLeaf;
typedef MadeMlpClass MadeLeafClass;

GType made_leaf_get_type (void);
G_DEFINE_TYPE (MadeLeaf, made_leaf, made_exact_get_type ())

static inline void
made_leaf_class_init (MadeLeafClass *klass)
{
  static const gchar *const types[] = { "TinyRMSNorm", "LlamaMLP", NULL };

  weft_module_replacement_base_class_set_module_types (&klass->parent_class, types);
}

static inline void
made_leaf_init (MadeLeaf *self)
{
}

/* A norm of another class, and one that takes any module: structure preserving. */

typedef MadeMlp MadeAny;
typedef MadeMlpClass MadeAnyClass;

GType made_any_get_type (void);
G_DEFINE_TYPE (MadeAny, made_any, WEFT_TYPE_MODULE_REPLACEMENT_BASE)

static inline WeftModule *
made_any_replace (WeftModuleReplacementBase *base, WeftModule *module, const gchar *fqn,
                  WeftFusionContext *context, GError **error)
{
  WeftModule *copy = weft_module_copy (module);

  weft_module_set_class_name (copy, "Other", NULL);
  return copy;
}

static inline void
made_any_class_init (MadeAnyClass *klass)
{
  klass->parent_class.replace = made_any_replace;
}

static inline void
made_any_init (MadeAny *self)
{
}

static inline void
made_register (void)
{
  WeftPluginRegistry *registry = weft_plugin_registry_get_default ();
  const struct
  {
    const gchar *name;
    GType type;
  } replacements[] = {
    { "FusedMLP", made_mlp_get_type () },     { "FusedGated", made_gated_get_type () },
    { "FusedExact", made_exact_get_type () }, { "FusedLeaf", made_leaf_get_type () },
    { "Any", made_any_get_type () },
  };

  for (guint i = 0; i < G_N_ELEMENTS (replacements); i++)
    g_assert_true (weft_plugin_registry_register (registry, WEFT_FEATURE_KIND_REPLACEMENT,
                                                  replacements[i].name, replacements[i].type, NULL));
}

/* @text: YAML. */
static inline WeftPlanOverrides *
made_overrides (const gchar *text, GError **error)
{
  g_autofree gchar *folder = g_dir_make_tmp ("weft-overrides-XXXXXX", NULL);
  g_autofree gchar *path = g_build_filename (folder, "o.yaml", NULL);
  WeftPlanOverrides *overrides;

  g_assert_true (g_file_set_contents (path, text, -1, NULL));
  overrides = weft_plan_overrides_load (path, error);
  g_unlink (path);
  g_rmdir (folder);
  return overrides;
}
