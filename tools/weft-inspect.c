/* SPDX-License-Identifier: Apache-2.0 */
/* `weft inspect`: the tensors of a checkpoint, from its headers. */
#include <string.h>

#include "base/weft-text.h"
#include "checkpoint/weft-checkpoint.h"
#include "quantize/weft-packed-weights.h"
#include "weft-command-output.h"

typedef struct
{
  gboolean only_names;
  gboolean only_packed;
  gboolean is_grouped;
  gchar *glob;
} InspectOptions;

static const GOptionEntry inspect_options[] = {
  { "names", 'n', 0, G_OPTION_ARG_NONE, WEFT_COMMAND_OPTION (InspectOptions, only_names),
    "Only the names, a line each", NULL },
  { "group", 'g', 0, G_OPTION_ARG_NONE, WEFT_COMMAND_OPTION (InspectOptions, is_grouped),
    "One line for all tensors that differ in the numbers of their names only", NULL },
  { "packed", 'p', 0, G_OPTION_ARG_NONE, WEFT_COMMAND_OPTION (InspectOptions, only_packed),
    "Only packed weights: scheme, bits an element, companions", NULL },
  { "match", 'm', 0, G_OPTION_ARG_STRING, WEFT_COMMAND_OPTION (InspectOptions, glob), "Only names that match",
    "GLOB" },
  G_OPTION_ENTRY_NULL,
};

static const WeftCommandExample inspect_examples[] = {
  { "What is in it", "weft inspect Mixtral-8x7B" },
  { "The same, a line for all layers and experts", "weft inspect --group Mixtral-8x7B" },
  { "Where one tensor lies", "weft inspect --match '*.3.*.gate.weight' Mixtral-8x7B" },
  { "How its weights are packed", "weft inspect --packed DeepSeek-V3" },
  { "For a script", "weft inspect --json model.safetensors" },
  { NULL, NULL },
};

/* A tensor and where its bytes are. */
typedef struct
{
  const gchar *name;
  WeftTensor *tensor;
  const gchar *file;
  guint64 offset;
} Place;

/* Tensors whose names differ in numbers only. */
typedef struct
{
  gchar *pattern;
  WeftTensor *first;
  guint n_tensors;
  guint64 n_bytes;
} Group;

static void
group_free (gpointer pointer)
{
  Group *self = pointer;

  g_free (self->pattern);
  g_free (self);
}

/* Name to position, for each shard. */
static GPtrArray *
index_shards (WeftCheckpoint *checkpoint)
{
  GPtrArray *indices = g_ptr_array_new_with_free_func ((GDestroyNotify) g_hash_table_unref);

  for (guint i = 0; i < weft_checkpoint_get_n_shards (checkpoint); i++)
    {
      WeftShard *shard = weft_checkpoint_get_shard (checkpoint, i);
      GHashTable *positions = g_hash_table_new (g_str_hash, g_str_equal);

      for (guint j = 0; j < weft_shard_get_n_tensors (shard); j++)
        g_hash_table_insert (positions, (gpointer) weft_shard_get_tensor_name (shard, j),
                             GUINT_TO_POINTER (j));
      g_ptr_array_add (indices, positions);
    }
  return indices;
}

static GArray *
list_places (WeftCheckpoint *checkpoint, const gchar *glob)
{
  WeftStateDict *tensors = weft_checkpoint_get_state_dict (checkpoint);
  g_autoptr (GPtrArray) indices = index_shards (checkpoint);
  GArray *places = g_array_new (FALSE, FALSE, sizeof (Place));

  for (guint i = 0; i < weft_state_dict_get_n_tensors (tensors); i++)
    {
      Place place = { .name = weft_state_dict_get_name (tensors, i),
                      .tensor = weft_state_dict_get_tensor (tensors, i) };
      guint shard_number = weft_checkpoint_get_tensor_shard (checkpoint, i);
      WeftShard *shard = weft_checkpoint_get_shard (checkpoint, shard_number);
      gpointer position = g_hash_table_lookup (indices->pdata[shard_number], place.name);

      place.file = weft_shard_get_file_name (shard);
      place.offset = weft_shard_get_tensor_offset (shard, GPOINTER_TO_UINT (position));
      if (glob == NULL || g_pattern_match_simple (glob, place.name))
        g_array_append_val (places, place);
    }
  return places;
}

/* `model.layers.3.mlp.experts.10.w1.weight` -> `model.layers.*.mlp.experts.*.w1.weight` */
static gchar *
star_numbers (const gchar *name)
{
  g_auto (GStrv) parts = g_strsplit (name, ".", -1);

  for (guint i = 0; parts[i] != NULL; i++)
    {
      gboolean is_number = parts[i][0] != '\0';

      for (const gchar *c = parts[i]; *c != '\0'; c++)
        is_number = is_number && g_ascii_isdigit (*c);
      if (is_number)
        {
          g_free (parts[i]);
          parts[i] = g_strdup ("*");
        }
    }
  return g_strjoinv (".", parts);
}

static GPtrArray *
group_places (GArray *places)
{
  g_autoptr (GHashTable) known = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  GPtrArray *groups = g_ptr_array_new_with_free_func (group_free);

  for (guint i = 0; i < places->len; i++)
    {
      const Place *place = &g_array_index (places, Place, i);
      g_autofree gchar *pattern = star_numbers (place->name);
      g_autofree gchar *shape = weft_shape_to_string (weft_tensor_get_shape (place->tensor));
      const gchar *dtype = weft_dtype_get_name (weft_tensor_get_dtype (place->tensor));
      g_autofree gchar *key = g_strdup_printf ("%s\n%s %s", pattern, dtype, shape);
      Group *group = g_hash_table_lookup (known, key);

      if (group == NULL)
        {
          group = g_new0 (Group, 1);
          group->pattern = g_steal_pointer (&pattern);
          group->first = place->tensor;
          g_ptr_array_add (groups, group);
          g_hash_table_insert (known, g_steal_pointer (&key), group);
        }
      group->n_tensors++;
      group->n_bytes += weft_tensor_get_n_bytes (place->tensor);
    }
  return groups;
}

static void
print_groups (GArray *places)
{
  g_autoptr (GPtrArray) groups = group_places (places);

  for (guint i = 0; i < groups->len; i++)
    {
      const Group *group = groups->pdata[i];
      g_autofree gchar *shape = weft_shape_to_string (weft_tensor_get_shape (group->first));
      g_autofree gchar *size = weft_text_format_size (group->n_bytes);
      g_autofree gchar *pattern = weft_command_escape_line (group->pattern);

      weft_command_print ("%-60s %5u x %-5s %-22s %s\n", pattern, group->n_tensors,
                          weft_dtype_get_name (weft_tensor_get_dtype (group->first)), shape, size);
    }
}

static void
print_places (GArray *places)
{
  for (guint i = 0; i < places->len; i++)
    {
      const Place *place = &g_array_index (places, Place, i);
      g_autofree gchar *shape = weft_shape_to_string (weft_tensor_get_shape (place->tensor));
      g_autofree gchar *name = weft_command_escape_line (place->name);

      weft_command_print ("%-60s %-5s %-22s %12" G_GUINT64_FORMAT " bytes  %s @ %" G_GUINT64_FORMAT "\n",
                          name, weft_dtype_get_name (weft_tensor_get_dtype (place->tensor)), shape,
                          weft_tensor_get_n_bytes (place->tensor), place->file, place->offset);
    }
}

static void
print_names (GArray *places)
{
  for (guint i = 0; i < places->len; i++)
    {
      g_autofree gchar *name = weft_command_escape_line (g_array_index (places, Place, i).name);

      weft_command_print ("%s\n", name);
    }
}

/* Names of stored tensors that belong to a packed weight, and what they are to it. */
static gchar *
list_companions (WeftPackedWeight *weight)
{
  GString *text = g_string_new (NULL);

  for (guint i = 0; i < weft_packed_weight_get_n_parts (weight); i++)
    {
      const gchar *role = weft_packed_weight_get_role (weight, i);
      const gchar *key = weft_packed_weight_get_key (weight, role);
      const gchar *dot = key != NULL ? strrchr (key, '.') : NULL;

      if (strcmp (role, WEFT_ROLE_CODES) != 0)
        g_string_append_printf (text, "%s%s (%s)", text->len > 0 ? ", " : "", dot != NULL ? dot + 1 : key,
                                role);
    }
  return g_string_free (text, FALSE);
}

static void
print_packed (WeftPackedWeights *packed)
{
  for (guint i = 0; i < weft_state_dict_get_n_tensors (weft_packed_weights_get_dense (packed)); i++)
    {
      WeftPackedWeight *weight = weft_packed_weights_get_weight (packed, i);
      g_autofree gchar *name = NULL;
      g_autofree gchar *shape = NULL;
      g_autofree gchar *companions = NULL;

      if (weight == NULL)
        continue;
      name = weft_command_escape_line (weft_packed_weight_get_name (weight));
      shape = weft_shape_to_string (weft_packed_weight_get_shape (weight));
      companions = list_companions (weight);
      weft_command_print ("%-60s %s, %s, %.3g bits an element; %s\n", name, shape,
                          weft_packed_weight_get_scheme (weight),
                          weft_packed_weight_get_bits_per_element (weight),
                          *companions != '\0' ? companions : "no companions");
    }
}

static void
add_packed (JsonBuilder *builder, WeftPackedWeight *weight)
{
  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "name");
  json_builder_add_string_value (builder, weft_packed_weight_get_name (weight));
  json_builder_set_member_name (builder, "scheme");
  json_builder_add_string_value (builder, weft_packed_weight_get_scheme (weight));
  json_builder_set_member_name (builder, "shape");
  json_builder_begin_array (builder);
  for (guint axis = 0; axis < weft_packed_weight_get_shape (weight)->rank; axis++)
    json_builder_add_int_value (builder, weft_packed_weight_get_shape (weight)->dims[axis]);
  json_builder_end_array (builder);
  json_builder_set_member_name (builder, "bits_per_element");
  json_builder_add_double_value (builder, weft_packed_weight_get_bits_per_element (weight));
  json_builder_set_member_name (builder, "parts");
  json_builder_begin_object (builder);
  for (guint i = 0; i < weft_packed_weight_get_n_parts (weight); i++)
    {
      const gchar *role = weft_packed_weight_get_role (weight, i);

      json_builder_set_member_name (builder, role);
      json_builder_add_string_value (builder, weft_packed_weight_get_key (weight, role));
    }
  json_builder_end_object (builder);
  json_builder_end_object (builder);
}

static void
print_packed_json (WeftPackedWeights *packed)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  g_autoptr (JsonNode) root = NULL;

  json_builder_begin_array (builder);
  for (guint i = 0;
       packed != NULL && i < weft_state_dict_get_n_tensors (weft_packed_weights_get_dense (packed)); i++)
    if (weft_packed_weights_get_weight (packed, i) != NULL)
      add_packed (builder, weft_packed_weights_get_weight (packed, i));
  json_builder_end_array (builder);
  root = json_builder_get_root (builder);
  weft_command_print_json (root);
}

/* Which weights are packed, how, and by which tensors. */
static gint
inspect_packed (WeftCommandCall *call, WeftCheckpoint *checkpoint, GError **error)
{
  g_autoptr (GError) local_error = NULL;
  g_autoptr (WeftQuantizer) quantizer = weft_quantizer_new_for_checkpoint (checkpoint, &local_error);
  g_autoptr (WeftPackedWeights) packed = NULL;

  if (quantizer != NULL)
    packed =
        weft_packed_weights_new (quantizer, weft_checkpoint_get_state_dict (checkpoint), FALSE, &local_error);
  if (local_error != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&local_error));
      return WEFT_COMMAND_FAILED;
    }
  if (call->is_json)
    print_packed_json (packed);
  else if (packed != NULL)
    print_packed (packed);
  if (packed != NULL)
    weft_command_note (call, "%u packed weights, by the method %s", weft_packed_weights_get_n_packed (packed),
                       weft_quantizer_get_name (quantizer));
  else
    weft_command_note (call, "no weight is packed");
  return WEFT_COMMAND_DONE;
}

static void
add_place (JsonBuilder *builder, const Place *place)
{
  const WeftShape *shape = weft_tensor_get_shape (place->tensor);

  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "name");
  json_builder_add_string_value (builder, place->name);
  json_builder_set_member_name (builder, "dtype");
  json_builder_add_string_value (builder, weft_dtype_get_name (weft_tensor_get_dtype (place->tensor)));
  json_builder_set_member_name (builder, "shape");
  json_builder_begin_array (builder);
  for (guint axis = 0; axis < shape->rank; axis++)
    json_builder_add_int_value (builder, shape->dims[axis]);
  json_builder_end_array (builder);
  json_builder_set_member_name (builder, "bytes");
  json_builder_add_int_value (builder, (gint64) weft_tensor_get_n_bytes (place->tensor));
  json_builder_set_member_name (builder, "file");
  json_builder_add_string_value (builder, place->file);
  json_builder_set_member_name (builder, "offset");
  json_builder_add_int_value (builder, (gint64) place->offset);
  json_builder_end_object (builder);
}

static void
print_json (GArray *places)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  g_autoptr (JsonNode) root = NULL;

  json_builder_begin_array (builder);
  for (guint i = 0; i < places->len; i++)
    add_place (builder, &g_array_index (places, Place, i));
  json_builder_end_array (builder);
  root = json_builder_get_root (builder);
  weft_command_print_json (root);
}

static void
note_summary (WeftCommandCall *call, WeftCheckpoint *checkpoint, GArray *places)
{
  g_autofree gchar *size = NULL;
  guint64 n_bytes = 0;

  for (guint i = 0; i < places->len; i++)
    n_bytes += weft_tensor_get_n_bytes (g_array_index (places, Place, i).tensor);
  size = weft_text_format_size (n_bytes);
  weft_command_note (call, "%u tensors, %s, in %u %s", places->len, size,
                     weft_checkpoint_get_n_shards (checkpoint),
                     weft_checkpoint_get_n_shards (checkpoint) == 1 ? "file" : "files");
}

static gint
run_inspect (WeftCommandCall *call, GError **error)
{
  const InspectOptions *options = call->options;
  g_autoptr (WeftCheckpoint) checkpoint = weft_checkpoint_open (call->arguments[0], call->cancellable, error);
  g_autoptr (GArray) places = NULL;

  if (checkpoint == NULL)
    return WEFT_COMMAND_FAILED;
  if (options->only_packed)
    return inspect_packed (call, checkpoint, error);
  places = list_places (checkpoint, options->glob);
  if (call->is_json)
    print_json (places);
  else if (options->is_grouped)
    print_groups (places);
  else if (options->only_names)
    print_names (places);
  else
    print_places (places);
  if (!options->only_names && !call->is_json)
    note_summary (call, checkpoint, places);
  return WEFT_COMMAND_DONE;
}

const WeftCommandEntry weft_inspect_command = {
  .name = "inspect",
  .arguments = "PATH",
  .summary = "List the tensors of a checkpoint, from its headers",
  .description =
      "PATH is a safetensors file, an index (model.safetensors.index.json) or a checkpoint folder. For each tensor: "
      "name, dtype, shape, bytes, and the file and byte offset where it starts. No tensor is read.",
  .min_arguments = 1,
  .max_arguments = 1,
  .options = inspect_options,
  .options_size = sizeof (InspectOptions),
  .examples = inspect_examples,
  .run = run_inspect,
};
