/* SPDX-License-Identifier: Apache-2.0 */
/* The runner of quantizers: checks what goes in and what comes out, and puts the method's name before every error. */
#include "quantize/weft-quantizer-internal.h"

#include <math.h>
#include <string.h>

#include "base/weft-json.h"
#include "plugin/weft-plugin-registry.h"
#include "quantize/weft-finite-private.h"
#include "quantize/weft-packed-weight-private.h"
#include "quantize/weft-quantization-config-internal.h"

G_DEFINE_INTERFACE (WeftQuantizer, weft_quantizer, G_TYPE_OBJECT)

static void
weft_quantizer_default_init (WeftQuantizerInterface *iface)
{
}

/* The base class: its slots stand behind those of the interface. */

typedef struct
{
  gchar *role;
  gchar *dense_ending;
  gchar *stored_ending;
} PartName;

typedef struct
{
  WeftQuantizationConfig *config;
  /* PartName; one without a role is a tensor that only the packed runtime uses. */
  GArray *part_names;
} WeftQuantizerBasePrivate;

static void
part_name_clear (gpointer user_data)
{
  PartName *part = user_data;

  g_free (part->role);
  g_free (part->dense_ending);
  g_free (part->stored_ending);
}

/* The name of the method, or of a scheme that begins with it: `fp8` takes `fp8`, `fp8-block` and `fp8/block`. */
static gboolean
default_recognise (WeftQuantizerBase *self, WeftQuantizationConfig *config, WeftStateDict *tensors)
{
  const gchar *name = weft_feature_get_name (G_OBJECT_TYPE (self));
  const gchar *scheme = weft_quantization_config_get_scheme (config);

  if (name == NULL)
    return FALSE;
  if (scheme == NULL)
    return g_strcmp0 (weft_quantization_config_get_method (config), name) == 0;
  return g_str_has_prefix (scheme, name) && strchr ("-/", scheme[strlen (name)]) != NULL;
}

/* Weights of linear layers, and those of experts that are stacked. */
static gboolean
default_is_eligible (WeftQuantizerBase *self, WeftPackedWeight *weight)
{
  guint rank = weft_tensor_get_rank (weft_packed_weight_get_dense (weight));
  const gchar *name = weft_packed_weight_get_name (weight);

  return rank == 2 ? g_str_has_suffix (name, "weight") : rank == 3 && strstr (name, "experts") != NULL;
}

static gboolean
base_recognise (WeftQuantizer *quantizer, WeftQuantizationConfig *config, WeftStateDict *tensors)
{
  WeftQuantizerBase *self = WEFT_QUANTIZER_BASE (quantizer);

  return WEFT_QUANTIZER_BASE_GET_CLASS (self)->recognise (self, config, tensors);
}

/* Whether a slot that has no default is filled. */
static gboolean
require_slot (WeftQuantizerBase *self, gboolean is_filled, const gchar *slot, GError **error)
{
  if (!is_filled)
    g_set_error (error, WEFT_ERROR, WEFT_ERROR_PLUGIN_CONTRACT, "class '%s' has no %s",
                 G_OBJECT_TYPE_NAME (self), slot);
  return is_filled;
}

static gboolean
base_configure (WeftQuantizer *quantizer, WeftQuantizationConfig *config, GError **error)
{
  WeftQuantizerBase *self = WEFT_QUANTIZER_BASE (quantizer);
  WeftQuantizerBaseClass *klass = WEFT_QUANTIZER_BASE_GET_CLASS (self);

  return require_slot (self, klass->configure != NULL, "configure", error)
         && klass->configure (self, config, error);
}

static gboolean
base_describe (WeftQuantizer *quantizer, WeftPackedWeight *weight, GError **error)
{
  WeftQuantizerBase *self = WEFT_QUANTIZER_BASE (quantizer);
  WeftQuantizerBaseClass *klass = WEFT_QUANTIZER_BASE_GET_CLASS (self);

  return require_slot (self, klass->describe != NULL, "describe", error)
         && klass->describe (self, weight, error);
}

static WeftTensor *
base_dequantize (WeftQuantizer *quantizer, WeftPackedWeight *weight, WeftDtype dtype, GError **error)
{
  WeftQuantizerBase *self = WEFT_QUANTIZER_BASE (quantizer);
  WeftQuantizerBaseClass *klass = WEFT_QUANTIZER_BASE_GET_CLASS (self);

  return require_slot (self, klass->dequantize != NULL, "dequantize", error)
             ? klass->dequantize (self, weight, dtype, error)
             : NULL;
}

static gboolean
base_is_eligible (WeftQuantizer *quantizer, WeftPackedWeight *weight)
{
  WeftQuantizerBase *self = WEFT_QUANTIZER_BASE (quantizer);

  return WEFT_QUANTIZER_BASE_GET_CLASS (self)->is_eligible (self, weight);
}

static gboolean
base_quantize (WeftQuantizer *quantizer, WeftPackedWeight *weight, GError **error)
{
  WeftQuantizerBase *self = WEFT_QUANTIZER_BASE (quantizer);
  WeftQuantizerBaseClass *klass = WEFT_QUANTIZER_BASE_GET_CLASS (self);

  if (klass->quantize == NULL)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_UNSUPPORTED, "this method reads packed weights only");
      return FALSE;
    }
  return klass->quantize (self, weight, error);
}

static gchar *
base_dup_config (WeftQuantizer *quantizer, const gchar *const *skipped_modules, GError **error)
{
  WeftQuantizerBase *self = WEFT_QUANTIZER_BASE (quantizer);
  WeftQuantizerBaseClass *klass = WEFT_QUANTIZER_BASE_GET_CLASS (self);

  return require_slot (self, klass->dup_config != NULL, "dup_config", error)
             ? klass->dup_config (self, skipped_modules, error)
             : NULL;
}

static void
weft_quantizer_base_iface_init (WeftQuantizerInterface *iface)
{
  iface->recognise = base_recognise;
  iface->configure = base_configure;
  iface->describe = base_describe;
  iface->dequantize = base_dequantize;
  iface->is_eligible = base_is_eligible;
  iface->quantize = base_quantize;
  iface->dup_config = base_dup_config;
}

G_DEFINE_ABSTRACT_TYPE_WITH_CODE (WeftQuantizerBase, weft_quantizer_base, G_TYPE_OBJECT,
                                  G_ADD_PRIVATE (WeftQuantizerBase)
                                      G_IMPLEMENT_INTERFACE (WEFT_TYPE_QUANTIZER,
                                                             weft_quantizer_base_iface_init))

static WeftQuantizerBasePrivate *
get_private (WeftQuantizerBase *self)
{
  return weft_quantizer_base_get_instance_private (self);
}

static void
weft_quantizer_base_finalize (GObject *object)
{
  WeftQuantizerBasePrivate *private = get_private (WEFT_QUANTIZER_BASE (object));

  g_clear_object (&private->config);
  g_array_unref (private->part_names);
  G_OBJECT_CLASS (weft_quantizer_base_parent_class)->finalize (object);
}

static void
weft_quantizer_base_class_init (WeftQuantizerBaseClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = weft_quantizer_base_finalize;
  klass->recognise = default_recognise;
  klass->is_eligible = default_is_eligible;
}

static void
weft_quantizer_base_init (WeftQuantizerBase *self)
{
  GArray *part_names = g_array_new (FALSE, FALSE, sizeof (PartName));

  g_array_set_clear_func (part_names, part_name_clear);
  get_private (self)->part_names = part_names;
}

static void
add_part_name (WeftQuantizerBase *self, const gchar *role, const gchar *dense_ending,
               const gchar *stored_ending)
{
  PartName part = { g_strdup (role), g_strdup (dense_ending), g_strdup (stored_ending) };

  g_array_append_val (get_private (self)->part_names, part);
}

/**
 * weft_quantizer_base_add_part:
 * @self: a quantizer, while it is configured
 * @role: what the tensor is to its weight; %WEFT_ROLE_CODES for the packed weight itself
 * @dense_ending: how the dense name ends, such as `.weight`; may be empty
 * @stored_ending: how the stored name ends in its place, such as `.weight_scale`
 *
 * Declares a tensor that weights are stored as. Where several endings fit a name, the longest one counts. Of several
 * declarations of one role, the first that fits the dense name is the spelling that is written.
 *
 * Since: 1.0
 */
void
weft_quantizer_base_add_part (WeftQuantizerBase *self, const gchar *role, const gchar *dense_ending,
                              const gchar *stored_ending)
{
  g_return_if_fail (WEFT_IS_QUANTIZER_BASE (self));
  add_part_name (self, role, dense_ending, stored_ending);
}

/**
 * weft_quantizer_base_add_runtime_tensor:
 * @self: a quantizer, while it is configured
 * @stored_ending: how the names of such tensors end, such as `.k_scale`
 *
 * Declares tensors that belong to no weight and that only a runtime of packed weights uses: a dense checkpoint goes
 * without.
 *
 * Since: 1.0
 */
void
weft_quantizer_base_add_runtime_tensor (WeftQuantizerBase *self, const gchar *stored_ending)
{
  g_return_if_fail (WEFT_IS_QUANTIZER_BASE (self));
  add_part_name (self, NULL, NULL, stored_ending);
}

/**
 * weft_quantizer_base_get_config:
 * @self: a quantizer
 *
 * Returns: (transfer none) (nullable): the config that it was configured with
 * Since: 1.0
 */
WeftQuantizationConfig *
weft_quantizer_base_get_config (WeftQuantizerBase *self)
{
  g_return_val_if_fail (WEFT_IS_QUANTIZER_BASE (self), NULL);
  return get_private (self)->config;
}

/* Names. */

/* `.scale` also ends the name `scale`. */
static gboolean
has_ending (const gchar *key, const gchar *ending, gsize *n_before)
{
  gsize n_key = strlen (key), n_ending = strlen (ending);

  if (ending[0] == '.' && strcmp (key, ending + 1) == 0)
    {
      *n_before = 0;
      return TRUE;
    }
  if (n_key < n_ending || strcmp (key + n_key - n_ending, ending) != 0)
    return FALSE;
  *n_before = n_key - n_ending;
  return *n_before > 0 || n_ending == 0;
}

static const PartName *
find_part_name (WeftQuantizer *self, const gchar *key, gsize *n_before)
{
  GArray *part_names = get_private (WEFT_QUANTIZER_BASE (self))->part_names;
  const PartName *best = NULL;

  for (guint i = 0; i < part_names->len; i++)
    {
      const PartName *part = &g_array_index (part_names, PartName, i);
      gsize n;

      if (has_ending (key, part->stored_ending, &n)
          && (best == NULL || strlen (part->stored_ending) > strlen (best->stored_ending)))
        {
          best = part;
          *n_before = n;
        }
    }
  return best;
}

/* An ending at the start of a name loses its dot. */
static gchar *
join_name (const gchar *key, gsize n_before, const gchar *ending)
{
  return g_strdup_printf ("%.*s%s", (gint) n_before, key,
                          n_before == 0 && ending[0] == '.' ? ending + 1 : ending);
}

/**
 * weft_quantizer_find_part:
 * @self: a quantizer that is configured
 * @key: name of a stored tensor
 * @role: (out) (transfer none) (optional): what it is to its weight
 *
 * Returns: (transfer full) (nullable): the dense name of the weight that it is a part of; %NULL if it is none
 * Since: 1.0
 */
gchar *
weft_quantizer_find_part (WeftQuantizer *self, const gchar *key, const gchar **role)
{
  gsize n_before = 0;
  const PartName *part = find_part_name (self, key, &n_before);

  if (part == NULL || part->role == NULL)
    return NULL;
  if (role != NULL)
    *role = part->role;
  return join_name (key, n_before, part->dense_ending);
}

/**
 * weft_quantizer_is_runtime_tensor:
 * @self: a quantizer that is configured
 * @key: name of a stored tensor
 *
 * Returns: whether only a runtime of packed weights uses it
 * Since: 1.0
 */
gboolean
weft_quantizer_is_runtime_tensor (WeftQuantizer *self, const gchar *key)
{
  gsize n_before = 0;
  const PartName *part = find_part_name (self, key, &n_before);

  return part != NULL && part->role == NULL;
}

/**
 * weft_quantizer_dup_key:
 * @self: a quantizer that is configured
 * @dense_name: dense name of a weight
 * @role: role of a part
 *
 * Returns: (transfer full) (nullable): the name that the part is written under; %NULL if the method has none for such a
 *   weight
 * Since: 1.0
 */
gchar *
weft_quantizer_dup_key (WeftQuantizer *self, const gchar *dense_name, const gchar *role)
{
  GArray *part_names = get_private (WEFT_QUANTIZER_BASE (self))->part_names;

  for (guint i = 0; i < part_names->len; i++)
    {
      const PartName *part = &g_array_index (part_names, PartName, i);
      gsize n_before;

      if (g_strcmp0 (part->role, role) == 0 && has_ending (dense_name, part->dense_ending, &n_before))
        return join_name (dense_name, n_before, part->stored_ending);
    }
  return NULL;
}

gchar *
weft_quantizer_dup_key_spelled_as (WeftQuantizer *self, const gchar *dense_name, const gchar *key)
{
  gsize n_before = 0;
  const PartName *part = find_part_name (self, key, &n_before);

  return part != NULL && has_ending (dense_name, part->dense_ending, &n_before)
             ? join_name (dense_name, n_before, part->stored_ending)
             : NULL;
}

/* Finding one. */

static GStrv
list_names (void)
{
  return weft_plugin_registry_list_names (weft_plugin_registry_get_default (), WEFT_FEATURE_KIND_QUANTIZER);
}

static WeftQuantizer *
new_by_name (const gchar *name, GError **error)
{
  GType type = weft_plugin_registry_lookup (weft_plugin_registry_get_default (), WEFT_FEATURE_KIND_QUANTIZER,
                                            name, error);

  return type != G_TYPE_INVALID ? WEFT_QUANTIZER (g_object_new (type, NULL)) : NULL;
}

static gboolean
recognise (WeftQuantizer *self, WeftQuantizationConfig *config, WeftStateDict *tensors)
{
  return WEFT_QUANTIZER_GET_IFACE (self)->recognise (self, config, tensors);
}

/* A method or scheme of that very name goes before others that know the name as well. */
static WeftQuantizer *
find_quantizer (WeftQuantizationConfig *config, WeftStateDict *tensors, GError **error)
{
  const gchar *scheme = weft_quantization_config_get_scheme (config);
  const gchar *name = scheme != NULL ? scheme : weft_quantization_config_get_method (config);
  g_auto (GStrv) names = list_names ();

  if (name != NULL && g_strv_contains ((const gchar *const *) names, name))
    return new_by_name (name, error);
  for (guint i = 0; names[i] != NULL; i++)
    {
      g_autoptr (WeftQuantizer) quantizer = new_by_name (names[i], error);

      if (quantizer == NULL || recognise (quantizer, config, tensors))
        return g_steal_pointer (&quantizer);
    }
  return NULL;
}

static gchar *
list_known (void)
{
  g_auto (GStrv) names = list_names ();
  gchar *text = g_strjoinv (", ", names);

  if (*text != '\0')
    return text;
  g_free (text);
  return g_strdup ("none, no plugin of a quantizer is installed");
}

/* An error of a slot gets the name of the method. One that fails must say why, one that says why must fail. */
static gboolean
check_result (WeftQuantizer *self, const gchar *slot, gboolean ok, GError *local_error, GError **error)
{
  const gchar *name = weft_quantizer_get_name (self);

  if (ok && local_error == NULL)
    return TRUE;
  if (local_error == NULL)
    g_set_error (error, WEFT_ERROR, WEFT_ERROR_PLUGIN_CONTRACT, "%s: %s failed without an error", name, slot);
  else if (!ok)
    g_propagate_prefixed_error (error, g_steal_pointer (&local_error), "%s: ", name);
  else
    g_set_error (error, WEFT_ERROR, WEFT_ERROR_PLUGIN_CONTRACT, "%s: %s returned a result and the error '%s'",
                 name, slot, local_error->message);
  g_clear_error (&local_error);
  return FALSE;
}

/* The same, of a slot that a weight is given to: an error that comes from a kernel does not know which. */
static gboolean
check_weight_result (WeftQuantizer *self, const gchar *slot, WeftPackedWeight *weight, gboolean ok,
                     GError *local_error, GError **error)
{
  const gchar *name = weft_packed_weight_get_name (weight);

  if (local_error != NULL && strstr (local_error->message, name) == NULL)
    g_prefix_error (&local_error, "'%s': ", name);
  return check_result (self, slot, ok, local_error, error);
}

static gboolean
configure (WeftQuantizer *self, WeftQuantizationConfig *config, GError **error)
{
  GError *local_error = NULL;
  g_autoptr (GError) mistyped = NULL;
  gboolean ok;

  g_set_object (&get_private (WEFT_QUANTIZER_BASE (self))->config, config);
  ok = WEFT_QUANTIZER_GET_IFACE (self)->configure (self, config, &local_error);
  /* What the method says of a default that it took instead would mislead. */
  if (!weft_quantization_config_check_types (config, &mistyped))
    {
      g_clear_error (&local_error);
      local_error = g_steal_pointer (&mistyped);
      ok = FALSE;
    }
  return check_result (self, "configure", ok, local_error, error);
}

static gboolean
configure_checkpoint (WeftQuantizer *self, WeftQuantizationConfig *config, GError **error)
{
  GError *local_error = NULL;

  if (weft_quantization_config_check_one (config, &local_error)
      && weft_quantization_config_check_skip_lists (config, &local_error))
    return configure (self, config, error);
  return check_result (self, "configure", FALSE, local_error, error);
}

/* A scheme has the parameters that its method asks for. */
static gboolean
configure_scheme (WeftQuantizer *self, WeftQuantizationConfig *config, GError **error)
{
  gboolean ok;

  weft_quantization_config_begin_parameters (config);
  ok = configure (self, config, error);
  return weft_quantization_config_end_parameters (config, ok, error) && ok;
}

/**
 * weft_quantizer_new_for_config:
 * @config: what the config of a checkpoint says
 * @tensors: its tensors
 * @error: return location
 *
 * Returns: (transfer full) (nullable): the method, configured; %NULL without an error if the checkpoint is dense
 * Errors: %WEFT_ERROR_UNSUPPORTED for a method that nobody registered: codes are no weights, so nothing is loaded
 *   without it
 * Since: 1.0
 */
WeftQuantizer *
weft_quantizer_new_for_config (WeftQuantizationConfig *config, WeftStateDict *tensors, GError **error)
{
  g_autoptr (GError) local_error = NULL;
  g_autoptr (WeftQuantizer) self = find_quantizer (config, tensors, &local_error);

  if (local_error != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&local_error));
      return NULL;
    }
  if (self != NULL)
    return configure_checkpoint (self, config, error) ? g_steal_pointer (&self) : NULL;
  if (!weft_quantization_config_check_types (config, error))
    return NULL;
  if (weft_quantization_config_is_there (config))
    {
      const gchar *method = weft_quantization_config_get_method (config);
      g_autofree gchar *known = list_known ();

      g_set_error (error, WEFT_ERROR, WEFT_ERROR_UNSUPPORTED,
                   method != NULL
                       ? "%s: no plugin knows the quant_method '%s' (known: %s)"
                       : "%s: there is no quant_method%s, and no plugin knows the config (known: %s)",
                   weft_quantization_config_get_origin (config), method != NULL ? method : "", known);
    }
  return NULL;
}

/* A GGUF file tells the type of each tensor, where others have metadata. */
static void
add_gguf_types (WeftQuantizationConfig *config, WeftGgufFile *gguf)
{
  for (guint i = 0; i < weft_gguf_file_get_n_tensors (gguf); i++)
    weft_quantization_config_add_metadata (config, weft_gguf_file_get_tensor_name (gguf, i),
                                           weft_gguf_file_get_tensor_type (gguf, i));
  /* Last, so that a tensor of that name cannot hide it. */
  weft_quantization_config_add_metadata (config, "format", "gguf");
}

/* What the header of a file says, which is more than its config where there is none. */
static gboolean
add_shard_metadata (WeftQuantizationConfig *config, WeftShard *shard, GError **error)
{
  GHashTable *metadata = weft_shard_get_metadata (shard);
  const gchar *text =
      metadata != NULL ? g_hash_table_lookup (metadata, WEFT_QUANTIZATION_METADATA_NAME) : NULL;
  GHashTableIter iter;
  gpointer name, value;

  if (weft_shard_get_gguf (shard) != NULL)
    add_gguf_types (config, weft_shard_get_gguf (shard));
  if (metadata == NULL)
    return TRUE;
  g_hash_table_iter_init (&iter, metadata);
  while (g_hash_table_iter_next (&iter, &name, &value))
    weft_quantization_config_add_metadata (config, name, value);
  return text == NULL || weft_quantization_config_read_text (config, text, error);
}

/**
 * weft_quantizer_new_for_checkpoint:
 * @checkpoint: an open checkpoint
 * @error: return location
 *
 * Returns: (transfer full) (nullable): its method, configured; %NULL without an error if the checkpoint is dense
 * Errors: as weft_quantizer_new_for_config()
 * Since: 1.0
 */
WeftQuantizer *
weft_quantizer_new_for_checkpoint (WeftCheckpoint *checkpoint, GError **error)
{
  g_autoptr (WeftQuantizationConfig) config =
      weft_quantization_config_new (weft_checkpoint_get_config (checkpoint));
  const gchar *folder = weft_checkpoint_get_folder (checkpoint);
  WeftQuantizer *self;

  if (folder != NULL && !weft_quantization_config_read_modelopt (config, folder, error))
    return NULL;
  for (guint i = 0; i < weft_checkpoint_get_n_shards (checkpoint); i++)
    if (!add_shard_metadata (config, weft_checkpoint_get_shard (checkpoint, i), error))
      {
        g_prefix_error (error, "%s: ", weft_checkpoint_get_path (checkpoint));
        return NULL;
      }
  self = weft_quantizer_new_for_config (config, weft_checkpoint_get_state_dict (checkpoint), error);
  if (self == NULL && error != NULL && *error != NULL)
    g_prefix_error (error, "%s: ", weft_checkpoint_get_path (checkpoint));
  return self;
}

/**
 * weft_quantizer_new_for_scheme:
 * @config: a scheme and its parameters
 * @error: return location
 *
 * Returns: (transfer full): a method that quantises with the scheme
 * Errors: %WEFT_ERROR_ARGUMENT if no plugin knows the scheme, or it has no such parameter; those of the method
 * Since: 1.0
 */
WeftQuantizer *
weft_quantizer_new_for_scheme (WeftQuantizationConfig *config, GError **error)
{
  g_autoptr (GError) local_error = NULL;
  g_autoptr (WeftQuantizer) self = NULL;
  g_autofree gchar *known = NULL;

  g_return_val_if_fail (weft_quantization_config_get_scheme (config) != NULL, NULL);
  self = find_quantizer (config, NULL, &local_error);
  if (local_error != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&local_error));
      return NULL;
    }
  if (self != NULL)
    return configure_scheme (self, config, error) ? g_steal_pointer (&self) : NULL;
  known = list_known ();
  g_set_error (
      error, WEFT_ERROR, WEFT_ERROR_ARGUMENT,
      "no plugin quantises with the scheme '%s' (methods: %s); `weft plugins --failed` says which plugins were not loaded",
      weft_quantization_config_get_scheme (config), known);
  return NULL;
}

/* The runners. */

/**
 * weft_quantizer_get_name:
 * @self: a quantizer
 *
 * Returns: the name under which it is registered; the name of its GType if it is not
 * Since: 1.0
 */
const gchar *
weft_quantizer_get_name (WeftQuantizer *self)
{
  const gchar *name = weft_feature_get_name (G_OBJECT_TYPE (self));

  return name != NULL ? name : G_OBJECT_TYPE_NAME (self);
}

/**
 * weft_quantizer_get_config:
 * @self: a quantizer that is configured
 *
 * Returns: (transfer none): its config
 * Since: 1.0
 */
WeftQuantizationConfig *
weft_quantizer_get_config (WeftQuantizer *self)
{
  return get_private (WEFT_QUANTIZER_BASE (self))->config;
}

/**
 * weft_quantizer_describe:
 * @self: a quantizer
 * @weight: a weight with the parts that were found
 * @error: return location
 *
 * Returns: %FALSE if the weight is packed and its parts do not go together
 * Errors: those of the method, after its name
 * Since: 1.0
 */
gboolean
weft_quantizer_describe (WeftQuantizer *self, WeftPackedWeight *weight, GError **error)
{
  GError *local_error = NULL;
  gboolean ok = WEFT_QUANTIZER_GET_IFACE (self)->describe (self, weight, &local_error);

  return check_weight_result (self, "describe", weight, ok, local_error, error);
}

/**
 * weft_quantizer_dequantize:
 * @self: a quantizer
 * @weight: a weight that was described as packed
 * @dtype: dtype of the values
 * @error: return location
 *
 * Returns: (transfer full): the dense weight, lazy
 * Errors: those of the method, after its name; %WEFT_ERROR_PLUGIN_CONTRACT if the values are not what was described
 * Since: 1.0
 */
WeftTensor *
weft_quantizer_dequantize (WeftQuantizer *self, WeftPackedWeight *weight, WeftDtype dtype, GError **error)
{
  const WeftShape *shape = weft_packed_weight_get_shape (weight);
  GError *local_error = NULL;
  g_autoptr (WeftTensor) dense = NULL;
  g_autoptr (GPtrArray) stored = NULL;

  /* A rank may have nothing of a weight; its scales may be of blocks that others have. */
  for (guint i = 0; i < shape->rank; i++)
    if (shape->dims[i] == 0)
      return weft_tensor_new_constant (dtype, shape->dims, shape->rank, 0, error);
  stored = weft_packed_weight_fill_axes (weight, error);
  if (stored == NULL)
    return NULL;
  dense = WEFT_QUANTIZER_GET_IFACE (self)->dequantize (self, weight, dtype, &local_error);
  weft_packed_weight_restore_axes (weight, stored);
  if (!check_weight_result (self, "dequantize", weight, dense != NULL, local_error, error))
    return NULL;
  if (weft_tensor_get_dtype (dense) == dtype
      && weft_shape_equal (weft_tensor_get_shape (dense), weft_packed_weight_get_shape (weight)))
    return g_steal_pointer (&dense);
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_PLUGIN_CONTRACT,
               "%s: dequantize gives '%s' another dtype or shape than was described",
               weft_quantizer_get_name (self), weft_packed_weight_get_name (weight));
  return NULL;
}

/**
 * weft_quantizer_is_eligible:
 * @self: a quantizer
 * @weight: a weight with its dense values
 *
 * Returns: whether it is to be quantised: it has elements, of a floating dtype of 16 bits or more, and the method takes it
 * Since: 1.0
 */
gboolean
weft_quantizer_is_eligible (WeftQuantizer *self, WeftPackedWeight *weight)
{
  WeftTensor *dense = weft_packed_weight_get_dense (weight);
  WeftDtype dtype = weft_tensor_get_dtype (dense);

  return weft_tensor_get_n_elements (dense) > 0
         && (dtype == WEFT_DTYPE_F64 || dtype == WEFT_DTYPE_F32 || dtype == WEFT_DTYPE_F16
             || dtype == WEFT_DTYPE_BF16)
         && WEFT_QUANTIZER_GET_IFACE (self)->is_eligible (self, weight);
}

/* The parts as they will be found: under the names that they are written with. */
static gboolean
name_parts (WeftQuantizer *self, WeftPackedWeight *weight, GError **error)
{
  for (guint i = 0; i < weft_packed_weight_get_n_parts (weight); i++)
    {
      const gchar *role = weft_packed_weight_get_role (weight, i);
      g_autofree gchar *key = weft_quantizer_dup_key (self, weft_packed_weight_get_name (weight), role);

      if (key == NULL)
        {
          g_set_error (error, WEFT_ERROR, WEFT_ERROR_UNSUPPORTED, "%s has no name for the %s of '%s'",
                       weft_quantizer_get_name (self), role, weft_packed_weight_get_name (weight));
          return FALSE;
        }
      weft_packed_weight_set_key (weight, role, key);
    }
  return TRUE;
}

/* Whether the dense weight can be made of the parts, on addresses. Parts that round a row up to whole bytes or blocks would be
 * read as a wider one. */
static gboolean
check_way_back (WeftQuantizer *self, WeftPackedWeight *weight, GError **error)
{
  const WeftShape *shape = weft_tensor_get_shape (weft_packed_weight_get_dense (weight));
  g_autofree gchar *shape_text = weft_shape_to_string (shape);
  g_autofree gchar *read_text = NULL;
  g_autoptr (WeftTensor) values = NULL;

  if (!name_parts (self, weight, error) || !weft_quantizer_describe (self, weight, error))
    return FALSE;
  if (weft_packed_weight_is_packed (weight)
      && weft_shape_equal (weft_packed_weight_get_shape (weight), shape))
    {
      values = weft_quantizer_dequantize (self, weight, weft_packed_weight_get_dtype (weight), error);
      return values != NULL;
    }
  read_text = weft_packed_weight_is_packed (weight)
                  ? weft_shape_to_string (weft_packed_weight_get_shape (weight))
                  : g_strdup ("a plain tensor");
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE,
               "%s: what '%s' of shape %s is packed to would be read as %s", weft_quantizer_get_name (self),
               weft_packed_weight_get_name (weight), shape_text, read_text);
  return FALSE;
}

static gboolean
quantize (WeftQuantizer *self, WeftPackedWeight *weight, GError **error)
{
  GError *local_error = NULL;
  g_autoptr (WeftTensor) finite = weft_finite_tensor_new (weft_packed_weight_get_dense (weight),
                                                          weft_packed_weight_get_name (weight), error);
  gboolean ok;

  if (finite == NULL)
    return FALSE;
  weft_packed_weight_set_dense (weight, finite);
  ok = WEFT_QUANTIZER_GET_IFACE (self)->quantize (self, weight, &local_error);
  if (!check_weight_result (self, "quantize", weight, ok, local_error, error))
    return FALSE;
  if (weft_packed_weight_get_tensor (weight, WEFT_ROLE_CODES) != NULL)
    return check_way_back (self, weight, error);
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_PLUGIN_CONTRACT, "%s: quantize sets no codes for '%s'",
               weft_quantizer_get_name (self), weft_packed_weight_get_name (weight));
  return FALSE;
}

/**
 * weft_quantizer_quantize:
 * @self: a quantizer
 * @weight: a weight with its dense values
 * @error: return location
 *
 * Sets the parts of a weight. Reading them fails where a dense value is not finite.
 *
 * Returns: whether it could be quantised
 * Errors: those of the method, after its name; %WEFT_ERROR_PLUGIN_CONTRACT if it sets no codes; %WEFT_ERROR_UNSUPPORTED if
 *   it has no name for a part; %WEFT_ERROR_SHAPE if its parts would be read as a weight of another shape
 * Since: 1.0
 */
gboolean
weft_quantizer_quantize (WeftQuantizer *self, WeftPackedWeight *weight, GError **error)
{
  const gchar *name = weft_packed_weight_get_name (weight);
  g_autofree gchar *path = weft_packed_weight_dup_module_path (weight);
  GError *local_error = NULL;

  if (quantize (self, weight, &local_error))
    return TRUE;
  /* A method that cannot take one of the stacked experts takes none of them. */
  if (WEFT_QUANTIZER_BASE_GET_CLASS (self)->quantize != NULL
      && !g_error_matches (local_error, WEFT_ERROR, WEFT_ERROR_PLUGIN_CONTRACT))
    {
      gchar *message = g_strdup_printf ("%s; --keep '%s' leaves it dense", local_error->message,
                                        strstr (name, "experts") != NULL ? "*experts*" : path);

      g_free (local_error->message);
      local_error->message = message;
    }
  g_propagate_error (error, local_error);
  return FALSE;
}

/* Elements that are compared at a time. */
#define MEASURE_ELEMENTS (256 * 1024)

/* Sums over a weight. A value that is not finite is an infinite error. */
typedef struct
{
  gdouble signal;
  gdouble noise;
  gdouble max_abs;
} Sums;

static void
add_to_sums (Sums *sums, const gfloat *dense, const gfloat *values, gsize n)
{
  for (gsize i = 0; i < n; i++)
    {
      gdouble difference = fabs ((gdouble) dense[i] - (gdouble) values[i]);

      if (!isfinite (difference))
        difference = INFINITY;
      sums->signal += (gdouble) dense[i] * (gdouble) dense[i];
      sums->noise += difference * difference;
      sums->max_abs = MAX (sums->max_abs, difference);
    }
}

static gboolean
measure_band (WeftTensor *dense, WeftTensor *values, Sums *sums, GCancellable *cancellable, GError **error)
{
  g_autoptr (GBytes) dense_bytes = weft_tensor_read (dense, cancellable, error);
  g_autoptr (GBytes) bytes = dense_bytes != NULL ? weft_tensor_read (values, cancellable, error) : NULL;

  if (bytes == NULL)
    return FALSE;
  add_to_sums (sums, g_bytes_get_data (dense_bytes, NULL), g_bytes_get_data (bytes, NULL),
               g_bytes_get_size (bytes) / sizeof (gfloat));
  return TRUE;
}

/* Cuts along @axis, and along those after it where an index of it has too many elements. */
static gboolean
measure_bands (WeftTensor *dense, WeftTensor *values, guint axis, Sums *sums, GCancellable *cancellable,
               GError **error)
{
  const gint64 n = weft_tensor_get_dim (dense, (gint) axis);
  const gint64 n_of_index = weft_tensor_get_n_elements (dense) / MAX (1, n);
  const gboolean is_last = n_of_index <= MEASURE_ELEMENTS || axis + 1 == weft_tensor_get_rank (dense);
  const gint64 step = MAX (1, MEASURE_ELEMENTS / MAX (1, n_of_index));

  for (gint64 at = 0; at < n; at += step)
    {
      const gint64 length = MIN (step, n - at);
      g_autoptr (WeftTensor) dense_band = weft_tensor_slice (dense, (gint) axis, at, length, error);
      g_autoptr (WeftTensor) band =
          dense_band != NULL ? weft_tensor_slice (values, (gint) axis, at, length, error) : NULL;

      if (band == NULL
          || !(is_last ? measure_band (dense_band, band, sums, cancellable, error)
                       : measure_bands (dense_band, band, axis + 1, sums, cancellable, error)))
        return FALSE;
    }
  return TRUE;
}

/**
 * weft_quantizer_measure:
 * @self: a quantizer
 * @weight: a weight with its dense values and the parts that it was quantized to
 * @max_abs: (out): the largest difference of an element; infinite if the parts stand for a value that is not finite
 * @relative_rms: (out): root of the mean square of the differences, over that of the values
 * @sqnr: (out): signal to quantization noise ratio in dB; infinite if there is no difference, and infinitely far below 0 if
 *   a difference is infinite
 * @cancellable: (nullable): stops the work
 * @error: return location
 *
 * Compares a weight with what its parts stand for. Reads it once.
 *
 * Returns: whether it could be read
 * Errors: those of the method and of reading
 * Since: 1.0
 */
gboolean
weft_quantizer_measure (WeftQuantizer *self, WeftPackedWeight *weight, gdouble *max_abs,
                        gdouble *relative_rms, gdouble *sqnr, GCancellable *cancellable, GError **error)
{
  g_autoptr (WeftTensor) dense =
      weft_tensor_cast (weft_packed_weight_get_dense (weight), WEFT_DTYPE_F32, error);
  g_autoptr (WeftTensor) values = NULL;
  Sums sums = { 0 };

  *max_abs = *relative_rms = *sqnr = 0;
  if (dense == NULL || !weft_quantizer_describe (self, weight, error))
    return FALSE;
  values = weft_quantizer_dequantize (self, weight, WEFT_DTYPE_F32, error);
  if (values == NULL || weft_tensor_get_rank (dense) == 0)
    return values != NULL;
  if (!measure_bands (dense, values, 0, &sums, cancellable, error))
    return FALSE;
  *max_abs = sums.max_abs;
  *relative_rms = sums.signal > 0 ? sqrt (sums.noise / sums.signal) : sums.noise > 0 ? INFINITY : 0;
  *sqnr = sums.noise > 0 ? 10 * log10 (sums.signal / sums.noise) : INFINITY;
  return TRUE;
}

/**
 * weft_quantizer_dup_config:
 * @self: a quantizer
 * @skipped_modules: (array zero-terminated=1): paths of modules that were left dense
 * @error: return location
 *
 * Returns: (transfer full): the `quantization_config` of the output, as JSON text
 * Errors: those of the method, after its name; %WEFT_ERROR_PLUGIN_CONTRACT if it returns what is no JSON object
 * Since: 1.0
 */
gchar *
weft_quantizer_dup_config (WeftQuantizer *self, const gchar *const *skipped_modules, GError **error)
{
  GError *local_error = NULL;
  g_autofree gchar *text = WEFT_QUANTIZER_GET_IFACE (self)->dup_config (self, skipped_modules, &local_error);
  g_autoptr (JsonNode) root = NULL;
  g_autoptr (GError) reason = NULL;

  if (!check_result (self, "dup_config", text != NULL, local_error, error))
    return NULL;
  root = weft_json_parse (text, -1, "dup_config", &reason);
  if (root != NULL && JSON_NODE_HOLDS_OBJECT (root))
    return g_steal_pointer (&text);
  /* In config.json it would keep every command from opening the output. */
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_PLUGIN_CONTRACT,
               "%s: dup_config returned what is no JSON object: %s", weft_quantizer_get_name (self),
               reason != NULL ? reason->message : weft_json_describe (root));
  return NULL;
}
