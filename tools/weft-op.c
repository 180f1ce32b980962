/* SPDX-License-Identifier: Apache-2.0 */
/* `weft op`: describes an op from its declared parameters, or applies one (or a chain) to the tensors of a file. */
#include "base/weft-json.h"
#include "plugin/weft-plugin-registry.h"
#include "transform/weft-conversion-ops.h"
#include "weft-command-output.h"
#include "weft-command-tensors.h"
#include "weft-enums.h"

typedef struct
{
  gchar *parameters_path;
  gchar *output;
  gboolean wants_inverse;
} OpOptions;

static const GOptionEntry op_options[] = {
  { "params", 'p', 0, G_OPTION_ARG_FILENAME, WEFT_COMMAND_OPTION (OpOptions, parameters_path),
    "Parameters, patterns and inputs, as explained above", "JSON" },
  { "output", 'o', 0, G_OPTION_ARG_FILENAME, WEFT_COMMAND_OPTION (OpOptions, output), "File to write",
    "OUT.safetensors" },
  { "inverse", 0, 0, G_OPTION_ARG_NONE, WEFT_COMMAND_OPTION (OpOptions, wants_inverse),
    "Print the ops that undo it, as JSON (null if there are none)", NULL },
  G_OPTION_ENTRY_NULL,
};

static const WeftCommandExample op_examples[] = {
  { "Which ops are there", "weft op" },
  { "What does it do, which parameters has it", "weft op MergeModulelist" },
  { "Apply it", "weft op MergeModulelist --params merge.json experts.safetensors -o merged.safetensors" },
  { "Apply several, one after the other",
    "weft op chain --params chain.json in.safetensors -o out.safetensors" },
  { NULL, NULL },
};

/* What the parameter file asks for. @root owns all texts. */
typedef struct
{
  JsonNode *root;
  GPtrArray *ops;
  WeftOpContext *context;
} Request;

static void
request_clear (Request *self)
{
  g_clear_pointer (&self->root, json_node_unref);
  g_clear_pointer (&self->ops, g_ptr_array_unref);
  g_clear_object (&self->context);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Request, request_clear)

/* Describing. */

static gchar *
describe_range (GParamSpec *pspec)
{
  if (G_IS_PARAM_SPEC_INT64 (pspec))
    {
      GParamSpecInt64 *range = G_PARAM_SPEC_INT64 (pspec);

      if (range->minimum == G_MININT64 && range->maximum == G_MAXINT64)
        return g_strdup ("whole number");
      if (range->maximum == G_MAXINT64)
        return g_strdup_printf ("whole number, at least %" G_GINT64_FORMAT, range->minimum);
      return g_strdup_printf ("whole number, %" G_GINT64_FORMAT " to %" G_GINT64_FORMAT, range->minimum,
                              range->maximum);
    }
  if (G_IS_PARAM_SPEC_DOUBLE (pspec))
    return g_strdup ("number");
  if (G_IS_PARAM_SPEC_BOOLEAN (pspec))
    return g_strdup ("true or false");
  if (G_IS_PARAM_SPEC_STRING (pspec))
    return g_strdup ("string");
  if (G_IS_PARAM_SPEC_ENUM (pspec))
    return g_strdup (pspec->value_type == WEFT_TYPE_DTYPE ? "dtype" : "one of a list");
  if (G_IS_PARAM_SPEC_VARIANT (pspec))
    {
      g_autofree gchar *type = g_variant_type_dup_string (G_PARAM_SPEC_VARIANT (pspec)->type);

      return g_strdup_printf ("value of the GVariant type '%s'", type);
    }
  return g_strdup (pspec->value_type == G_TYPE_STRV ? "list of strings" : g_type_name (pspec->value_type));
}

static gchar *
describe_default (GParamSpec *pspec)
{
  const GValue *value = g_param_spec_get_default_value (pspec);

  if ((G_VALUE_HOLDS_STRING (value) && g_value_get_string (value) == NULL)
      || (G_VALUE_HOLDS_BOXED (value) && g_value_get_boxed (value) == NULL)
      || (G_VALUE_HOLDS_VARIANT (value) && g_value_get_variant (value) == NULL))
    return g_strdup ("null");
  if (G_VALUE_HOLDS_ENUM (value) && pspec->value_type == WEFT_TYPE_DTYPE)
    {
      WeftDtype dtype = (WeftDtype) g_value_get_enum (value);

      return g_strdup (dtype != WEFT_DTYPE_INVALID ? weft_dtype_get_name (dtype) : "null");
    }
  if (G_VALUE_HOLDS_BOOLEAN (value))
    return g_strdup (g_value_get_boolean (value) ? "true" : "false");
  if (G_VALUE_HOLDS_VARIANT (value))
    return g_variant_print (g_value_get_variant (value), FALSE);
  return g_strdup_value_contents (value);
}

/* Every property of an op is a parameter; JSON writes its name with `_`. */
static gchar *
get_parameter_name (GParamSpec *pspec)
{
  return g_strdelimit (g_strdup (pspec->name), "-", '_');
}

static void
print_description (GType type, GParamSpec **parameters, guint n_parameters)
{
  weft_command_print ("%s (plugin %s)\n", weft_feature_get_name (type), weft_feature_get_plugin_id (type));
  if (n_parameters == 0)
    weft_command_print ("It has no parameters.\n");
  for (guint i = 0; i < n_parameters; i++)
    {
      g_autofree gchar *name = get_parameter_name (parameters[i]);
      g_autofree gchar *range = describe_range (parameters[i]);
      g_autofree gchar *default_value = describe_default (parameters[i]);

      weft_command_print ("  %-22s %s; default %s\n  %-22s %s\n", name, range, default_value, "",
                          g_param_spec_get_blurb (parameters[i]));
    }
}

static void
print_description_as_json (GType type, GParamSpec **parameters, guint n_parameters)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  g_autoptr (JsonNode) root = NULL;

  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "op");
  json_builder_add_string_value (builder, weft_feature_get_name (type));
  json_builder_set_member_name (builder, "plugin");
  json_builder_add_string_value (builder, weft_feature_get_plugin_id (type));
  json_builder_set_member_name (builder, "parameters");
  json_builder_begin_array (builder);
  for (guint i = 0; i < n_parameters; i++)
    {
      g_autofree gchar *name = get_parameter_name (parameters[i]);
      g_autofree gchar *range = describe_range (parameters[i]);
      g_autofree gchar *default_value = describe_default (parameters[i]);
      const gchar *const texts[] = { "name",        name,
                                     "type",        range,
                                     "default",     default_value,
                                     "description", g_param_spec_get_blurb (parameters[i]) };

      json_builder_begin_object (builder);
      for (guint j = 0; j < G_N_ELEMENTS (texts); j += 2)
        {
          json_builder_set_member_name (builder, texts[j]);
          json_builder_add_string_value (builder, texts[j + 1]);
        }
      json_builder_end_object (builder);
    }
  json_builder_end_array (builder);
  json_builder_end_object (builder);
  root = json_builder_get_root (builder);
  weft_command_print_json (root);
}

static gint
describe_op (WeftCommandCall *call, const gchar *name, GError **error)
{
  GType type =
      weft_plugin_registry_lookup (weft_plugin_registry_get_default (), WEFT_FEATURE_KIND_OP, name, error);
  g_autoptr (GTypeClass) klass = NULL;
  g_autofree GParamSpec **parameters = NULL;
  guint n_parameters = 0;

  if (type == G_TYPE_INVALID)
    return WEFT_COMMAND_FAILED;
  klass = g_type_class_ref (type);
  parameters = g_object_class_list_properties (G_OBJECT_CLASS (klass), &n_parameters);
  if (call->is_json)
    print_description_as_json (type, parameters, n_parameters);
  else
    print_description (type, parameters, n_parameters);
  return WEFT_COMMAND_DONE;
}

static gint
list_ops (WeftCommandCall *call)
{
  g_auto (GStrv) names =
      weft_plugin_registry_list_names (weft_plugin_registry_get_default (), WEFT_FEATURE_KIND_OP);
  g_autoptr (JsonArray) array = json_array_new ();
  g_autoptr (JsonNode) root = NULL;

  for (guint i = 0; names[i] != NULL; i++)
    {
      if (call->is_json)
        json_array_add_string_element (array, names[i]);
      else
        weft_command_print ("%s\n", names[i]);
    }
  if (call->is_json)
    {
      root = json_node_init_array (json_node_alloc (), array);
      weft_command_print_json (root);
    }
  return WEFT_COMMAND_DONE;
}

/* Reading the parameter file. Every access is checked: it comes from outside. */

static gboolean
refuse (const gchar *where, const gchar *member, const gchar *expected, GError **error)
{
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT, "%s: '%s' must be %s", where, member, expected);
  return FALSE;
}

/* The member, or NULL if it is absent or null. */
static JsonNode *
get_member (JsonObject *object, const gchar *name)
{
  JsonNode *node = json_object_get_member (object, name);

  return node != NULL && !JSON_NODE_HOLDS_NULL (node) ? node : NULL;
}

static const gchar *
get_text (JsonNode *node)
{
  return node != NULL && JSON_NODE_HOLDS_VALUE (node) ? json_node_get_string (node) : NULL;
}

/* A list of strings; an absent one is empty. NULL with an error for anything else. */
static GStrv
read_texts (JsonObject *object, const gchar *name, const gchar *where, GError **error)
{
  g_autoptr (GStrvBuilder) builder = g_strv_builder_new ();
  JsonNode *node = get_member (object, name);
  JsonArray *array = node != NULL && JSON_NODE_HOLDS_ARRAY (node) ? json_node_get_array (node) : NULL;

  for (guint i = 0; array != NULL && i < json_array_get_length (array); i++)
    {
      const gchar *text = get_text (json_array_get_element (array, i));

      if (text == NULL)
        array = NULL;
      else
        g_strv_builder_add (builder, text);
    }
  if (node != NULL && array == NULL)
    {
      refuse (where, name, "a list of strings", error);
      return NULL;
    }
  return g_strv_builder_end (builder);
}

static gboolean
read_op (JsonNode *node, const gchar *where, GPtrArray *ops, GError **error)
{
  JsonObject *object = JSON_NODE_HOLDS_OBJECT (node) ? json_node_get_object (node) : NULL;
  const gchar *name = object != NULL ? get_text (get_member (object, "op")) : NULL;
  JsonNode *parameters = object != NULL ? get_member (object, "params") : NULL;
  g_autoptr (WeftConversionOps) op = NULL;

  if (name == NULL)
    return refuse (where, "op", "the name of an op", error);
  if (parameters != NULL && !JSON_NODE_HOLDS_OBJECT (parameters))
    return refuse (where, "params", "an object", error);
  op = weft_op_new (name, parameters != NULL ? json_node_get_object (parameters) : NULL, where, error);
  if (op == NULL)
    return FALSE;
  g_ptr_array_add (ops, g_steal_pointer (&op));
  return TRUE;
}

static gboolean
read_ops (JsonNode *root, const gchar *where, GPtrArray *ops, GError **error)
{
  JsonNode *chain = get_member (json_node_get_object (root), "chain");

  if (chain == NULL)
    return read_op (root, where, ops, error);
  if (!JSON_NODE_HOLDS_ARRAY (chain))
    return refuse (where, "chain", "a list of ops", error);
  for (guint i = 0; i < json_array_get_length (json_node_get_array (chain)); i++)
    {
      g_autofree gchar *link = g_strdup_printf ("%s: chain[%u]", where, i);

      if (!read_op (json_array_get_element (json_node_get_array (chain), i), link, ops, error))
        return FALSE;
    }
  return TRUE;
}

/* One line of `model_parameters`: a name, its shape and its dtype. */
static gboolean
read_model_parameter (const gchar *name, JsonNode *node, const gchar *where, WeftOpContext *context,
                      GError **error)
{
  JsonObject *object = JSON_NODE_HOLDS_OBJECT (node) ? json_node_get_object (node) : NULL;
  JsonNode *dims_node = object != NULL ? get_member (object, "shape") : NULL;
  const gchar *dtype_name = object != NULL ? get_text (get_member (object, "dtype")) : NULL;
  WeftDtype dtype = dtype_name != NULL ? weft_dtype_from_any_name (dtype_name) : WEFT_DTYPE_INVALID;
  g_autoptr (GArray) dims = g_array_new (FALSE, FALSE, sizeof (gint64));
  WeftShape shape;

  if (dims_node == NULL || !JSON_NODE_HOLDS_ARRAY (dims_node) || dtype == WEFT_DTYPE_INVALID)
    return refuse (where, name, "an object with a shape and a dtype", error);
  for (guint i = 0; i < json_array_get_length (json_node_get_array (dims_node)); i++)
    {
      gint64 dim = json_node_get_int (json_array_get_element (json_node_get_array (dims_node), i));

      g_array_append_val (dims, dim);
    }
  if (!weft_shape_init (&shape, (const gint64 *) (gpointer) dims->data, dims->len, error))
    {
      g_prefix_error (error, "%s: '%s': ", where, name);
      return FALSE;
    }
  weft_op_context_add_parameter (context, name, &shape, dtype);
  return TRUE;
}

/* A linear module: the shape of its weight is told by its features. */
static gboolean
read_module (JsonNode *node, const gchar *where, WeftOpContext *context, GError **error)
{
  JsonObject *object = JSON_NODE_HOLDS_OBJECT (node) ? json_node_get_object (node) : NULL;
  const gchar *module = object != NULL ? get_text (get_member (object, "module")) : NULL;
  const gchar *dtype = object != NULL ? get_text (get_member (object, "dtype")) : NULL;
  gboolean is_fp8 = object != NULL && json_object_get_boolean_member_with_default (object, "fp8", FALSE);
  g_autofree gchar *name = g_strconcat (module != NULL ? module : "", ".weight", NULL);
  gint64 dims[2];
  WeftShape shape;

  if (module == NULL)
    return refuse (where, "modules", "an object with 'module', 'in_features' and 'out_features'", error);
  dims[0] = json_object_get_int_member_with_default (object, "out_features", -1);
  dims[1] = json_object_get_int_member_with_default (object, "in_features", -1);
  if (!weft_shape_init (&shape, dims, G_N_ELEMENTS (dims), error))
    {
      g_prefix_error (error, "%s: module '%s': ", where, module);
      return FALSE;
    }
  weft_op_context_add_parameter (context, name, &shape,
                                 is_fp8          ? WEFT_DTYPE_F8_E4M3
                                 : dtype != NULL ? weft_dtype_from_any_name (dtype)
                                                 : WEFT_DTYPE_INVALID);
  return TRUE;
}

static gboolean
read_context (JsonObject *object, const gchar *where, WeftOpContext *context, GError **error)
{
  JsonNode *node = get_member (object, "context");
  JsonObject *members = node != NULL && JSON_NODE_HOLDS_OBJECT (node) ? json_node_get_object (node) : NULL;
  JsonNode *config = members != NULL ? get_member (members, "config") : NULL;
  JsonNode *parameters = members != NULL ? get_member (members, "model_parameters") : NULL;
  JsonNode *module = members != NULL ? get_member (members, "modules") : NULL;
  const gchar *full_layer_name = members != NULL ? get_text (get_member (members, "full_layer_name")) : NULL;
  JsonObjectIter iter;
  const gchar *name;
  JsonNode *parameter;

  if (node != NULL && members == NULL)
    return refuse (where, "context", "an object", error);
  if (full_layer_name != NULL)
    weft_op_context_set_full_layer_name (context, full_layer_name);
  if (config != NULL)
    weft_op_context_set_config (context, config);
  if (module != NULL && !read_module (module, where, context, error))
    return FALSE;
  if (parameters == NULL)
    return TRUE;
  if (!JSON_NODE_HOLDS_OBJECT (parameters))
    return refuse (where, "model_parameters", "an object", error);
  json_object_iter_init_ordered (&iter, json_node_get_object (parameters));
  while (json_object_iter_next_ordered (&iter, &name, &parameter))
    if (!read_model_parameter (name, parameter, where, context, error))
      return FALSE;
  return TRUE;
}

static gboolean
check_name (const gchar *name, JsonObject *object, const gchar *where, GError **error)
{
  const gchar *found = get_text (get_member (object, "op"));

  if (g_strcmp0 (found, name) == 0)
    return TRUE;
  weft_command_set_usage_error (error, "%s is about op '%s', and the command line about '%s'", where,
                                found != NULL ? found : "(none)", name);
  return FALSE;
}

static gboolean
read_request (const gchar *name, const gchar *path, Request *request, GError **error)
{
  g_auto (GStrv) sources = NULL;
  g_auto (GStrv) targets = NULL;
  JsonObject *object;

  request->root = weft_json_load_file (path, error);
  if (request->root == NULL)
    return FALSE;
  if (!JSON_NODE_HOLDS_OBJECT (request->root))
    return refuse (path, "(the document)", "an object", error);
  object = json_node_get_object (request->root);
  sources =
      check_name (name, object, path, error) ? read_texts (object, "source_patterns", path, error) : NULL;
  targets = sources != NULL ? read_texts (object, "target_patterns", path, error) : NULL;
  if (targets == NULL)
    return FALSE;
  request->ops = g_ptr_array_new_with_free_func (g_object_unref);
  request->context = weft_op_context_new ((const gchar *const *) sources, (const gchar *const *) targets);
  return read_context (object, path, request->context, error)
         && read_ops (request->root, path, request->ops, error);
}

/* Applying. */

static gboolean
read_input (JsonNode *node, const gchar *where, WeftStateDict *tensors, WeftTensorGroups *inputs,
            GError **error)
{
  JsonObject *object = JSON_NODE_HOLDS_OBJECT (node) ? json_node_get_object (node) : NULL;
  const gchar *key = object != NULL ? get_text (get_member (object, "key")) : NULL;
  gboolean is_list = key != NULL && json_object_get_boolean_member_with_default (object, "list", FALSE);
  g_auto (GStrv) names = key != NULL ? read_texts (object, "tensors", where, error) : NULL;

  if (key == NULL)
    return refuse (where, "inputs", "a list of objects with 'key', 'list' and 'tensors'", error);
  if (names == NULL)
    return FALSE;
  if (!is_list && g_strv_length (names) != 1)
    return refuse (where, "tensors", "one name, where 'list' is false", error);
  if (is_list)
    weft_tensor_groups_append_list (inputs, key);
  for (guint i = 0; names[i] != NULL; i++)
    {
      WeftTensor *tensor = weft_state_dict_lookup (tensors, names[i]);

      if (tensor == NULL)
        {
          g_set_error (error, WEFT_ERROR, WEFT_ERROR_MISSING,
                       "%s: input '%s' names tensor '%s', which is not there", where, key, names[i]);
          return FALSE;
        }
      if (is_list)
        weft_tensor_groups_append (inputs, key, tensor, names[i]);
      else
        weft_tensor_groups_set (inputs, key, tensor);
    }
  return TRUE;
}

static WeftTensorGroups *
read_inputs (JsonNode *root, const gchar *where, WeftStateDict *tensors, GError **error)
{
  g_autoptr (WeftTensorGroups) inputs = weft_tensor_groups_new ();
  JsonNode *node = get_member (json_node_get_object (root), "inputs");

  if (node == NULL || !JSON_NODE_HOLDS_ARRAY (node))
    {
      refuse (where, "inputs", "a list of objects with 'key', 'list' and 'tensors'", error);
      return NULL;
    }
  for (guint i = 0; i < json_array_get_length (json_node_get_array (node)); i++)
    if (!read_input (json_array_get_element (json_node_get_array (node), i), where, tensors, inputs, error))
      return NULL;
  return g_steal_pointer (&inputs);
}

/* A bare tensor keeps the name of its group; those of a list are `group#0`, `group#1`, ... */
static gchar *
get_output_name (WeftTensorGroups *outputs, guint group, guint position)
{
  const gchar *name = weft_tensor_groups_get_name (outputs, group);

  return weft_tensor_groups_is_list (outputs, group) ? g_strdup_printf ("%s#%u", name, position)
                                                     : g_strdup (name);
}

static WeftStateDict *
name_outputs (WeftTensorGroups *outputs, GError **error)
{
  g_autoptr (WeftStateDict) named = weft_state_dict_new ();

  for (guint group = 0; group < weft_tensor_groups_get_n_groups (outputs); group++)
    for (guint i = 0; i < weft_tensor_groups_get_n_tensors (outputs, group); i++)
      {
        g_autofree gchar *name = get_output_name (outputs, group, i);

        if (!weft_state_dict_add (named, name, weft_tensor_groups_get_tensor (outputs, group, i), error))
          return NULL;
      }
  return g_steal_pointer (&named);
}

static void
print_outputs_as_json (WeftTensorGroups *outputs)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  g_autoptr (JsonNode) root = NULL;

  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "outputs");
  json_builder_begin_array (builder);
  for (guint group = 0; group < weft_tensor_groups_get_n_groups (outputs); group++)
    {
      json_builder_begin_object (builder);
      json_builder_set_member_name (builder, "key");
      json_builder_add_string_value (builder, weft_tensor_groups_get_name (outputs, group));
      json_builder_set_member_name (builder, "list");
      json_builder_add_boolean_value (builder, weft_tensor_groups_is_list (outputs, group));
      json_builder_set_member_name (builder, "tensors");
      json_builder_begin_array (builder);
      for (guint i = 0; i < weft_tensor_groups_get_n_tensors (outputs, group); i++)
        {
          g_autofree gchar *name = get_output_name (outputs, group, i);

          json_builder_add_string_value (builder, name);
        }
      json_builder_end_array (builder);
      json_builder_end_object (builder);
    }
  json_builder_end_array (builder);
  json_builder_end_object (builder);
  root = json_builder_get_root (builder);
  weft_command_print_json (root);
}

static void
print_outputs (WeftCommandCall *call, WeftStateDict *named)
{
  for (guint i = 0; i < weft_state_dict_get_n_tensors (named) && !call->is_quiet; i++)
    {
      g_autofree gchar *text = weft_tensor_describe (weft_state_dict_get_tensor (named, i));

      weft_command_print ("%s: %s\n", weft_state_dict_get_name (named, i), text);
    }
}

static gint
apply_request (WeftCommandCall *call, const Request *request, GError **error)
{
  const OpOptions *options = call->options;
  g_autoptr (WeftStateDict) tensors = weft_command_open_tensors (call->arguments[1], call, error);
  g_autoptr (WeftTensorGroups) inputs = NULL;
  g_autoptr (WeftTensorGroups) outputs = NULL;
  g_autoptr (WeftStateDict) named = NULL;

  if (tensors != NULL)
    inputs = read_inputs (request->root, options->parameters_path, tensors, error);
  if (inputs != NULL)
    outputs = weft_op_chain_convert (request->ops, inputs, request->context, error);
  if (outputs != NULL)
    named = name_outputs (outputs, error);
  if (named == NULL || !weft_command_write_tensors (options->output, named, call, error))
    return WEFT_COMMAND_FAILED;
  if (call->is_json)
    print_outputs_as_json (outputs);
  else
    print_outputs (call, named);
  return WEFT_COMMAND_DONE;
}

/* An op as the parameter file writes it. */
static JsonObject *
op_to_link (WeftConversionOps *op)
{
  g_autoptr (JsonObject) parameters = weft_op_to_json (op);
  JsonObject *link = json_object_new ();

  json_object_remove_member (parameters, "type");
  json_object_set_string_member (link, "op", weft_conversion_ops_get_name (op));
  json_object_set_object_member (link, "params", g_steal_pointer (&parameters));
  return link;
}

static gint
print_inverse (const Request *request, GError **error)
{
  g_autoptr (GError) local_error = NULL;
  g_autoptr (GPtrArray) inverse = weft_op_chain_dup_inverse (request->ops, &local_error);
  g_autoptr (JsonNode) root = json_node_new (JSON_NODE_NULL);

  if (inverse == NULL && !g_error_matches (local_error, WEFT_ERROR, WEFT_ERROR_NOT_REVERSIBLE))
    {
      g_propagate_error (error, g_steal_pointer (&local_error));
      return WEFT_COMMAND_FAILED;
    }
  if (inverse != NULL)
    {
      json_node_init_array (root, NULL);
      json_node_take_array (root, json_array_new ());
    }
  for (guint i = 0; inverse != NULL && i < inverse->len; i++)
    json_array_add_object_element (json_node_get_array (root), op_to_link (inverse->pdata[i]));
  weft_command_print_json (root);
  return WEFT_COMMAND_DONE;
}

static gint
run_op (WeftCommandCall *call, GError **error)
{
  const OpOptions *options = call->options;
  g_auto (Request) request = { NULL };

  if (call->n_arguments == 0)
    return list_ops (call);
  if (options->parameters_path == NULL && call->n_arguments == 1)
    return describe_op (call, call->arguments[0], error);
  if (options->parameters_path == NULL)
    weft_command_set_usage_error (error, "to apply an op to '%s', give its parameters with --params",
                                  call->arguments[1]);
  else if (!options->wants_inverse && (call->n_arguments != 2 || options->output == NULL))
    weft_command_set_usage_error (error, "--params needs a file to read and, with -o, a file to write");
  else if (read_request (call->arguments[0], options->parameters_path, &request, error))
    return options->wants_inverse ? print_inverse (&request, error) : apply_request (call, &request, error);
  return WEFT_COMMAND_FAILED;
}

const WeftCommandEntry weft_op_command = {
  .name = "op",
  .arguments = "[NAME [IN.safetensors]]",
  .summary = "List the ops, describe one, or apply it to the tensors of a file",
  .description =
      "An op is one step of a converter, such as MergeModulelist, which stacks the tensors of a list. Without --params the op "
      "is described from the parameters that it declares.\n\n"
      "The parameter file is JSON: `op` (the name), `params` (its parameters), `source_patterns` and `target_patterns` (as of "
      "the converter it stands in), and `inputs`: a list of objects with `key` (the pattern), `list` (whether tensors were "
      "collected under it) and `tensors` (their names in the input file). `context` may hold `config`, `full_layer_name`, "
      "`model_parameters` (name: shape and dtype) and `modules` (a linear module: `module`, its name, `in_features`, "
      "`out_features`, `dtype`, `fp8`).\n\n"
      "NAME `chain` applies the ops of the member `chain`, a list of objects with `op` and `params`, one after the other.\n\n"
      "A single output keeps its key as its name; those of a list are called key#0, key#1, ...",
  .max_arguments = 2,
  .options = op_options,
  .options_size = sizeof (OpOptions),
  .examples = op_examples,
  .run = run_op,
};
