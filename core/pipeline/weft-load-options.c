/* SPDX-License-Identifier: Apache-2.0 */
#include "pipeline/weft-load-options-private.h"

#include <string.h>

/* More ranks than any job has. */
#define MAX_WORLD_SIZE 65536

struct _WeftLoadOptions
{
  GObject parent_instance;

  gchar *dtype;
  gchar *class_name; /* (nullable) */
  gchar *model_type;
  WeftTransformList *key_mapping;
  WeftTransformList *mapping;
  WeftMappingRegistry *registry;
  WeftModuleTree *tree;
  WeftTransformList *transforms;
  GStrv target_names;
  WeftLoadFlags flags;
  guint64 max_shard_bytes;
  gboolean is_hashed;
  JsonNode *fusion_config; /* (nullable) */
  gchar *fusion_where;
  WeftPlanOverrides *overrides; /* (nullable) */
  gboolean is_dequantized;
  WeftDtype dense_dtype;
  gchar *scheme;               /* (nullable) */
  JsonNode *scheme_parameters; /* (nullable) */
  GPtrArray *dense_modules;
  WeftMesh mesh; /* without sizes: the whole model is wanted */
  guint rank;
  WeftParallelPlan *parallel_plan; /* (nullable) */
};

G_DEFINE_FINAL_TYPE (WeftLoadOptions, weft_load_options, G_TYPE_OBJECT)

static void
weft_load_options_finalize (GObject *object)
{
  WeftLoadOptions *self = WEFT_LOAD_OPTIONS (object);

  g_free (self->dtype);
  g_free (self->class_name);
  g_free (self->model_type);
  g_free (self->scheme);
  g_clear_pointer (&self->scheme_parameters, json_node_unref);
  g_ptr_array_unref (self->dense_modules);
  g_clear_object (&self->parallel_plan);
  g_clear_object (&self->key_mapping);
  g_clear_object (&self->mapping);
  g_clear_object (&self->registry);
  g_clear_object (&self->tree);
  g_clear_pointer (&self->fusion_config, json_node_unref);
  g_free (self->fusion_where);
  g_clear_object (&self->overrides);
  g_clear_object (&self->transforms);
  g_strfreev (self->target_names);
  G_OBJECT_CLASS (weft_load_options_parent_class)->finalize (object);
}

static void
weft_load_options_class_init (WeftLoadOptionsClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = weft_load_options_finalize;
}

static void
weft_load_options_init (WeftLoadOptions *self)
{
  self->dtype = g_strdup ("keep");
  self->key_mapping = weft_transform_list_new ();
  self->dense_dtype = WEFT_DTYPE_INVALID;
  self->dense_modules = g_ptr_array_new_with_free_func (g_free);
}

/**
 * weft_load_options_new:
 *
 * Returns: (transfer full): the defaults: stored dtypes, the shipped mappings, no module tree, strict
 * Since: 1.0
 */
WeftLoadOptions *
weft_load_options_new (void)
{
  return g_object_new (WEFT_TYPE_LOAD_OPTIONS, NULL);
}

/**
 * weft_load_options_set_dtype:
 * @self: options
 * @dtype: `keep` (stored dtypes, the default), `auto` (the config's dtype, where the model does not say otherwise), or
 *   the name of a floating dtype
 * @error: return location
 *
 * Returns: whether @dtype is one of these
 * Errors: %WEFT_ERROR_ARGUMENT if it is not
 * Since: 1.0
 */
gboolean
weft_load_options_set_dtype (WeftLoadOptions *self, const gchar *dtype, GError **error)
{
  if (strcmp (dtype, "keep") != 0 && strcmp (dtype, "auto") != 0)
    {
      WeftDtype named = weft_dtype_from_any_name (dtype);

      if (named == WEFT_DTYPE_INVALID || !weft_dtype_is_floating (named))
        {
          g_set_error (
              error, WEFT_ERROR, WEFT_ERROR_ARGUMENT,
              "'%s' cannot be asked for as dtype; write keep, auto, or a floating dtype such as BF16", dtype);
          return FALSE;
        }
    }
  g_free (self->dtype);
  self->dtype = g_strdup (dtype);
  return TRUE;
}

/**
 * weft_load_options_add_key_mapping:
 * @self: options
 * @source_pattern: a regular expression that finds a key
 * @target_pattern: what is written in place of what was found
 * @error: return location
 *
 * Adds a renaming of the caller's own, tried before the model's rules, in the order they are added. One that no key
 * meets is an error of the load.
 *
 * Returns: whether the patterns are valid
 * Errors: %WEFT_ERROR_PATTERN if they are not
 * Since: 1.0
 */
gboolean
weft_load_options_add_key_mapping (WeftLoadOptions *self, const gchar *source_pattern,
                                   const gchar *target_pattern, GError **error)
{
  guint n = weft_transform_list_get_n_transforms (self->key_mapping);

  if (!weft_transform_list_append_renaming (self->key_mapping, source_pattern, target_pattern, error))
    {
      g_prefix_error (error, "key mapping '%s' -> '%s': ", source_pattern, target_pattern);
      return FALSE;
    }
  weft_weight_transform_set_origin (weft_transform_list_get_transform (self->key_mapping, n), "key mapping",
                                    n);
  return TRUE;
}

/**
 * weft_load_options_set_mapping:
 * @self: options
 * @mapping: (nullable): the whole list of rules, in place of what the model's type and class would find
 *
 * Since: 1.0
 */
void
weft_load_options_set_mapping (WeftLoadOptions *self, WeftTransformList *mapping)
{
  g_set_object (&self->mapping, mapping);
}

/**
 * weft_load_options_set_registry:
 * @self: options
 * @registry: (nullable): where mappings are looked up; %NULL for the shipped ones and those of the data path
 *
 * Since: 1.0
 */
void
weft_load_options_set_registry (WeftLoadOptions *self, WeftMappingRegistry *registry)
{
  g_set_object (&self->registry, registry);
}

/**
 * weft_load_options_set_module_tree:
 * @self: options
 * @tree: (nullable): what the runtime expects; %NULL: open mode, or what the config tells
 *
 * Since: 1.0
 */
void
weft_load_options_set_module_tree (WeftLoadOptions *self, WeftModuleTree *tree)
{
  g_set_object (&self->tree, tree);
}

/**
 * weft_load_options_set_class_name:
 * @self: options
 * @class_name: (nullable): a class of the model's family, such as its base model or one with another head
 *
 * Loads into that class, in place of the one that the config names. It is looked at where the module tree follows from the
 * config.
 *
 * Since: 1.0
 */
void
weft_load_options_set_class_name (WeftLoadOptions *self, const gchar *class_name)
{
  g_free (self->class_name);
  self->class_name = g_strdup (class_name);
}

/**
 * weft_load_options_set_model_type:
 * @self: options
 * @model_type: (nullable): name of a mapping to use, in place of what the config says
 *
 * Since: 1.0
 */
void
weft_load_options_set_model_type (WeftLoadOptions *self, const gchar *model_type)
{
  g_free (self->model_type);
  self->model_type = g_strdup (model_type);
}

/**
 * weft_load_options_set_transforms:
 * @self: options
 * @transforms: (nullable): the list of rules as it is to be used, with scopes, nothing added: what weft_load_options_assemble() gave,
 *   edited
 *
 * Since: 1.0
 */
void
weft_load_options_set_transforms (WeftLoadOptions *self, WeftTransformList *transforms)
{
  g_set_object (&self->transforms, transforms);
}

/**
 * weft_load_options_set_target_names:
 * @self: options
 * @names: (array zero-terminated=1) (nullable): the names that are to be given, in place of those of a model: of an adapter, or
 *   of a new head. Their shapes are not judged
 *
 * Since: 1.0
 */
void
weft_load_options_set_target_names (WeftLoadOptions *self, const gchar *const *names)
{
  g_strfreev (self->target_names);
  self->target_names = g_strdupv ((GStrv) names);
}

/**
 * weft_load_options_set_flags:
 * @self: options
 * @flags: what the load puts up with
 *
 * Since: 1.0
 */
void
weft_load_options_set_flags (WeftLoadOptions *self, WeftLoadFlags flags)
{
  self->flags = flags;
}

/**
 * weft_load_options_set_max_shard_bytes:
 * @self: options
 * @max_shard_bytes: size in bytes at which outputs go on in a new file; 0 (the default): each output goes to the shard of
 *   its first source
 *
 * Since: 1.0
 */
void
weft_load_options_set_max_shard_bytes (WeftLoadOptions *self, guint64 max_shard_bytes)
{
  self->max_shard_bytes = max_shard_bytes;
}

/**
 * weft_load_options_set_is_hashed:
 * @self: options
 * @is_hashed: whether the record of a conversion holds a hash of each source file, which costs a pass over them
 *
 * Since: 1.0
 */
void
weft_load_options_set_is_hashed (WeftLoadOptions *self, gboolean is_hashed)
{
  self->is_hashed = is_hashed;
}

/**
 * weft_load_options_set_fusion_config:
 * @self: options
 * @fusion_config: (nullable): a map from families of fusions to `true`, `false` or their options; it goes before what
 *   `config.json` stores, also where it is empty; %NULL: what `config.json` stores
 * @where: (nullable): what messages call it, such as a path
 *
 * Since: 1.0
 */
void
weft_load_options_set_fusion_config (WeftLoadOptions *self, JsonNode *fusion_config, const gchar *where)
{
  g_clear_pointer (&self->fusion_config, json_node_unref);
  g_free (self->fusion_where);
  self->fusion_config = fusion_config != NULL ? json_node_ref (fusion_config) : NULL;
  self->fusion_where = g_strdup (where != NULL ? where : "options");
}

/**
 * weft_load_options_set_plan_overrides:
 * @self: options
 * @overrides: (nullable): modules to replace by path; they go before what `config.json` stores, also where there is no entry;
 *   %NULL: what `config.json` stores
 *
 * Since: 1.0
 */
void
weft_load_options_set_plan_overrides (WeftLoadOptions *self, WeftPlanOverrides *overrides)
{
  g_set_object (&self->overrides, overrides);
}

/**
 * weft_load_options_set_is_dequantized:
 * @self: options
 * @is_dequantized: whether packed weights become dense values. If not (the default), codes and companions follow the
 *   rules as they are
 *
 * Since: 1.0
 */
void
weft_load_options_set_is_dequantized (WeftLoadOptions *self, gboolean is_dequantized)
{
  self->is_dequantized = is_dequantized;
}

/**
 * weft_load_options_set_dense_dtype:
 * @self: options
 * @dtype: dtype of packed weights that become dense, where stored dtypes are kept otherwise; %WEFT_DTYPE_INVALID (the
 *   default): that of the config
 *
 * Since: 1.0
 */
void
weft_load_options_set_dense_dtype (WeftLoadOptions *self, WeftDtype dtype)
{
  self->dense_dtype = dtype;
}

/**
 * weft_load_options_get_dense_dtype:
 * @self: options
 *
 * Returns: dtype of packed weights that become dense
 * Since: 1.0
 */
WeftDtype
weft_load_options_get_dense_dtype (WeftLoadOptions *self)
{
  return self->dense_dtype;
}

/**
 * weft_load_options_has_dense_modules:
 * @self: options
 *
 * Returns: whether the caller says which modules are left dense
 * Since: 1.0
 */
gboolean
weft_load_options_has_dense_modules (WeftLoadOptions *self)
{
  return self->dense_modules->len > 0;
}

/**
 * weft_load_options_set_quantization:
 * @self: options
 * @scheme: (nullable): what dense weights of the output are packed with, such as `fp8-block`; %NULL (the default): they
 *   are not
 * @parameters: (nullable): parameters of the scheme, an object
 *
 * Since: 1.0
 */
void
weft_load_options_set_quantization (WeftLoadOptions *self, const gchar *scheme, JsonNode *parameters)
{
  g_free (self->scheme);
  self->scheme = g_strdup (scheme);
  g_clear_pointer (&self->scheme_parameters, json_node_unref);
  self->scheme_parameters = parameters != NULL ? json_node_ref (parameters) : NULL;
}

/**
 * weft_load_options_add_dense_module:
 * @self: options
 * @entry: modules that are left dense, as weft_quantization_config_matches_module() reads it
 * @error: return location
 *
 * Returns: whether the entry can be read
 * Errors: those of weft_quantization_config_check_entry()
 * Since: 1.0
 */
gboolean
weft_load_options_add_dense_module (WeftLoadOptions *self, const gchar *entry, GError **error)
{
  if (!weft_quantization_config_check_entry (entry, error))
    return FALSE;
  g_ptr_array_add (self->dense_modules, g_strdup (entry));
  return TRUE;
}

/**
 * weft_load_options_get_is_dequantized:
 * @self: options
 *
 * Returns: whether packed weights become dense values
 * Since: 1.0
 */
gboolean
weft_load_options_get_is_dequantized (WeftLoadOptions *self)
{
  return self->is_dequantized;
}

/**
 * weft_load_options_get_quantization_scheme:
 * @self: options
 *
 * Returns: (nullable): what dense weights of the output are packed with
 * Since: 1.0
 */
const gchar *
weft_load_options_get_quantization_scheme (WeftLoadOptions *self)
{
  return self->scheme;
}

/**
 * weft_load_options_get_quantization_parameters:
 * @self: options
 *
 * Returns: (transfer none) (nullable): parameters of the scheme
 * Since: 1.0
 */
JsonNode *
weft_load_options_get_quantization_parameters (WeftLoadOptions *self)
{
  return self->scheme_parameters;
}

const gchar *
weft_load_options_get_dense_module (WeftLoadOptions *self, guint position)
{
  return position < self->dense_modules->len ? self->dense_modules->pdata[position] : NULL;
}

/**
 * weft_load_options_is_module_dense:
 * @self: options
 * @path: path of a module
 *
 * Returns: whether it is left dense
 * Since: 1.0
 */
gboolean
weft_load_options_is_module_dense (WeftLoadOptions *self, const gchar *path)
{
  for (guint i = 0; i < self->dense_modules->len; i++)
    if (weft_quantization_config_matches_module (self->dense_modules->pdata[i], path))
      return TRUE;
  return FALSE;
}

/**
 * weft_load_options_get_dtype:
 * @self: options
 *
 * Returns: `keep`, `auto` or the name of a dtype
 * Since: 1.0
 */
const gchar *
weft_load_options_get_dtype (WeftLoadOptions *self)
{
  return self->dtype;
}

/**
 * weft_load_options_get_key_mapping:
 * @self: options
 *
 * Returns: (transfer none): the caller's renamings
 * Since: 1.0
 */
WeftTransformList *
weft_load_options_get_key_mapping (WeftLoadOptions *self)
{
  return self->key_mapping;
}

/**
 * weft_load_options_get_mapping:
 * @self: options
 *
 * Returns: (transfer none) (nullable): the whole list of rules, if it was given
 * Since: 1.0
 */
WeftTransformList *
weft_load_options_get_mapping (WeftLoadOptions *self)
{
  return self->mapping;
}

/**
 * weft_load_options_get_registry:
 * @self: options
 *
 * Returns: (transfer none) (nullable): where mappings are looked up
 * Since: 1.0
 */
WeftMappingRegistry *
weft_load_options_get_registry (WeftLoadOptions *self)
{
  return self->registry;
}

/**
 * weft_load_options_get_module_tree:
 * @self: options
 *
 * Returns: (transfer none) (nullable): what the runtime expects
 * Since: 1.0
 */
WeftModuleTree *
weft_load_options_get_module_tree (WeftLoadOptions *self)
{
  return self->tree;
}

/**
 * weft_load_options_get_class_name:
 * @self: options
 *
 * Returns: (transfer none) (nullable): the class to load into; %NULL for the one that the config names
 * Since: 1.0
 */
const gchar *
weft_load_options_get_class_name (WeftLoadOptions *self)
{
  return self->class_name;
}

/**
 * weft_load_options_get_model_type:
 * @self: options
 *
 * Returns: (transfer none) (nullable): the mapping to use
 * Since: 1.0
 */
const gchar *
weft_load_options_get_model_type (WeftLoadOptions *self)
{
  return self->model_type;
}

/**
 * weft_load_options_get_transforms:
 * @self: options
 *
 * Returns: (transfer none) (nullable): the list of rules to use as it is
 * Since: 1.0
 */
WeftTransformList *
weft_load_options_get_transforms (WeftLoadOptions *self)
{
  return self->transforms;
}

/**
 * weft_load_options_get_target_names:
 * @self: options
 *
 * Returns: (transfer none) (array zero-terminated=1) (nullable): the names that are to be given
 * Since: 1.0
 */
const gchar *const *
weft_load_options_get_target_names (WeftLoadOptions *self)
{
  return (const gchar *const *) self->target_names;
}

/**
 * weft_load_options_get_flags:
 * @self: options
 *
 * Returns: what the load puts up with
 * Since: 1.0
 */
WeftLoadFlags
weft_load_options_get_flags (WeftLoadOptions *self)
{
  return self->flags;
}

/**
 * weft_load_options_get_max_shard_bytes:
 * @self: options
 *
 * Returns: the size at which outputs go on in a new file; 0: by source shard
 * Since: 1.0
 */
guint64
weft_load_options_get_max_shard_bytes (WeftLoadOptions *self)
{
  return self->max_shard_bytes;
}

/**
 * weft_load_options_get_is_hashed:
 * @self: options
 *
 * Returns: whether source files are hashed
 * Since: 1.0
 */
gboolean
weft_load_options_get_is_hashed (WeftLoadOptions *self)
{
  return self->is_hashed;
}

/**
 * weft_load_options_get_fusion_config:
 * @self: options
 *
 * Returns: (transfer none) (nullable): the families that are asked for; %NULL: what `config.json` stores
 * Since: 1.0
 */
JsonNode *
weft_load_options_get_fusion_config (WeftLoadOptions *self)
{
  return self->fusion_config;
}

/**
 * weft_load_options_get_fusion_where:
 * @self: options
 *
 * Returns: (transfer none) (nullable): what messages call the families that are asked for
 * Since: 1.0
 */
const gchar *
weft_load_options_get_fusion_where (WeftLoadOptions *self)
{
  return self->fusion_where;
}

/**
 * weft_load_options_get_plan_overrides:
 * @self: options
 *
 * Returns: (transfer none) (nullable): the modules to replace by path; %NULL: what `config.json` stores
 * Since: 1.0
 */
WeftPlanOverrides *
weft_load_options_get_plan_overrides (WeftLoadOptions *self)
{
  return self->overrides;
}

static gboolean
check_world_size (guint64 world_size, guint rank, GError **error)
{
  if (world_size == 0 || world_size > MAX_WORLD_SIZE)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT,
                   "expected from 1 to %d ranks, found %" G_GUINT64_FORMAT, MAX_WORLD_SIZE, world_size);
      return FALSE;
    }
  if (rank < world_size)
    return TRUE;
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT,
               "there is no rank %u among %" G_GUINT64_FORMAT "; ranks count from 0", rank, world_size);
  return FALSE;
}

/**
 * weft_load_options_set_parallel:
 * @self: options
 * @tp_size: over how many ranks tensors are cut; 1: they are not
 * @ep_size: over how many ranks experts are spread; 1: they are cut as other tensors are
 * @rank: whose part is loaded, from 0 up to the larger of the sizes
 * @error: return location
 *
 * Loads what one rank of several holds: outputs are slices of the converted tensors, and only their bytes are read. Tensors are
 * cut over @tp_size neighbouring ranks, experts over @ep_size.
 *
 * Returns: whether the sizes fit
 * Errors: %WEFT_ERROR_ARGUMENT if @ep_size is neither 1 nor a multiple of @tp_size, or there is no such rank
 * Since: 1.0
 */
gboolean
weft_load_options_set_parallel (WeftLoadOptions *self, guint tp_size, guint ep_size, guint rank,
                                GError **error)
{
  guint world_size = MAX (tp_size, ep_size);

  if (!check_world_size (tp_size == 0 || ep_size == 0 ? 0 : world_size, rank, error))
    return FALSE;
  if (ep_size > 1 && ep_size % tp_size != 0)
    {
      g_set_error (
          error, WEFT_ERROR, WEFT_ERROR_ARGUMENT,
          "experts over %u ranks and tensors over %u do not make one mesh; the first has to be a multiple of "
          "the second",
          ep_size, tp_size);
      return FALSE;
    }
  self->mesh = (WeftMesh){ { world_size }, 1, tp_size, ep_size };
  self->rank = rank;
  return TRUE;
}

/**
 * weft_load_options_set_mesh:
 * @self: options
 * @sizes: (array length=n_sizes): the sizes of a mesh of ranks, outermost first
 * @n_sizes: how many dimensions it has, up to 4
 * @rank: whose part is loaded; ranks count row by row
 * @error: return location
 *
 * As weft_load_options_set_parallel(), for plans that write placements out for each dimension of a mesh. What a style cuts is cut
 * over the innermost dimension.
 *
 * Returns: whether there is such a mesh and such a rank
 * Errors: %WEFT_ERROR_ARGUMENT if there is none
 * Since: 1.0
 */
gboolean
weft_load_options_set_mesh (WeftLoadOptions *self, const guint *sizes, gsize n_sizes, guint rank,
                            GError **error)
{
  WeftMesh mesh = { { 0 }, (guint) n_sizes, 1, 1 };
  guint64 world_size = n_sizes > 0 && n_sizes <= WEFT_MAX_MESH ? 1 : 0;

  for (gsize i = 0; world_size > 0 && world_size <= MAX_WORLD_SIZE && i < n_sizes; i++)
    {
      mesh.sizes[i] = sizes[i];
      world_size *= sizes[i];
    }
  if (!check_world_size (world_size, rank, error))
    return FALSE;
  mesh.tp_size = sizes[n_sizes - 1];
  self->mesh = mesh;
  self->rank = rank;
  return TRUE;
}

/**
 * weft_load_options_set_parallel_plan:
 * @self: options
 * @plan: (nullable): rules that are tried before those that come with the model; a plan without rules clears these
 *
 * Since: 1.0
 */
void
weft_load_options_set_parallel_plan (WeftLoadOptions *self, WeftParallelPlan *plan)
{
  g_set_object (&self->parallel_plan, plan);
}

const WeftMesh *
weft_load_options_get_mesh (WeftLoadOptions *self)
{
  return self->mesh.n_sizes > 0 ? &self->mesh : NULL;
}

/**
 * weft_load_options_is_parallel:
 * @self: options
 *
 * Returns: whether the part of one rank is loaded
 * Since: 1.0
 */
gboolean
weft_load_options_is_parallel (WeftLoadOptions *self)
{
  return self->mesh.n_sizes > 0;
}

/**
 * weft_load_options_get_world_size:
 * @self: options
 *
 * Returns: how many ranks there are; 1 if nobody said
 * Since: 1.0
 */
guint
weft_load_options_get_world_size (WeftLoadOptions *self)
{
  return self->mesh.n_sizes > 0 ? weft_mesh_get_world_size (&self->mesh) : 1;
}

/**
 * weft_load_options_get_rank:
 * @self: options
 *
 * Returns: whose part is loaded
 * Since: 1.0
 */
guint
weft_load_options_get_rank (WeftLoadOptions *self)
{
  return self->rank;
}

/**
 * weft_load_options_get_parallel_plan:
 * @self: options
 *
 * Returns: (transfer none) (nullable): the rules of the caller
 * Since: 1.0
 */
WeftParallelPlan *
weft_load_options_get_parallel_plan (WeftLoadOptions *self)
{
  return self->parallel_plan;
}
