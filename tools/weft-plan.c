/* SPDX-License-Identifier: Apache-2.0 */
/* `weft plan` and `weft explain`: views of a load plan, made from headers alone. */
#include "base/weft-json.h"
#include "base/weft-text.h"
#include "weft-command-convert.h"
#include "weft-command-output.h"
#include "weft-command-parallel.h"

typedef struct
{
  WeftCommandSource source;
  WeftCommandRules rules;
  WeftCommandQuantization quantization;
  WeftCommandParallel parallel;
} PlanOptions;

static const GOptionEntry plan_options[] = {
  WEFT_COMMAND_PARALLEL_OPTIONS (PlanOptions, parallel),
  WEFT_COMMAND_RULES_OPTIONS (PlanOptions, rules),
  WEFT_COMMAND_SOURCE_OPTIONS (PlanOptions, source),
  WEFT_COMMAND_PACKING_OPTIONS (PlanOptions, quantization),
  G_OPTION_ENTRY_NULL,
};

static WeftLoadPlan *
make_plan (WeftCommandCall *call, GError **error)
{
  PlanOptions *options = call->options;
  g_autoptr (WeftLoadOptions) load_options =
      weft_command_load_options (&options->source, &options->rules, error);
  g_autoptr (WeftCheckpoint) checkpoint = NULL;
  guint n_ranks;

  if (load_options == NULL || !weft_command_set_quantization (load_options, &options->quantization, error)
      || !weft_command_read_ranks (&options->parallel, &options->parallel.current, &n_ranks, error)
      || !weft_command_set_parallel (&options->parallel, load_options, error))
    return NULL;
  checkpoint = weft_command_open_source (call->arguments[0], &options->source, call, error);
  return checkpoint != NULL ? weft_command_new_plan (checkpoint, load_options, &options->rules, error) : NULL;
}

static void
print_outputs (WeftLoadPlan *plan)
{
  WeftStateDict *outputs = weft_load_plan_get_outputs (plan);

  for (guint i = 0; i < weft_state_dict_get_n_tensors (outputs); i++)
    {
      WeftTensor *tensor = weft_state_dict_get_tensor (outputs, i);
      const gchar *name = weft_state_dict_get_name (outputs, i);
      g_autofree gchar *shape = weft_shape_to_string (weft_tensor_get_shape (tensor));
      g_autofree gchar *made_of = weft_load_plan_describe_output (plan, i);

      weft_command_print ("%s  %s %s  <- %s\n", name, weft_dtype_get_name (weft_tensor_get_dtype (tensor)),
                          shape, made_of);
    }
}

/* What each rank holds, and what is uneven. */
static void
note_ranks (WeftCommandCall *call, JsonNode *root)
{
  JsonNode *parallel = weft_json_lookup (root, "parallel");
  JsonArray *ranks =
      parallel != NULL ? json_node_get_array (weft_json_lookup (parallel, "ranks")) : json_array_new ();
  JsonObjectIter iter;
  const gchar *name;
  JsonNode *padding;

  for (guint i = 0; i < json_array_get_length (ranks); i++)
    {
      JsonObject *rank = json_array_get_object_element (ranks, i);
      g_autofree gchar *size = weft_text_format_size ((guint64) json_object_get_int_member (rank, "bytes"));

      weft_command_note (call, "rank %u: %" G_GINT64_FORMAT " tensors, %s", i,
                         json_object_get_int_member (rank, "tensors"), size);
    }
  if (parallel == NULL)
    {
      json_array_unref (ranks);
      return;
    }
  weft_command_note (call, "a rank holds %.0f%% of what the largest one does, on average",
                     100 * json_node_get_double (weft_json_lookup (parallel, "balance")));
  json_object_iter_init_ordered (&iter, json_node_get_object (weft_json_lookup (parallel, "padding")));
  while (json_object_iter_next_ordered (&iter, &name, &padding))
    weft_command_note (call, "%s is cut unevenly: equal shares would need %" G_GINT64_FORMAT " elements more",
                       name, json_node_get_int (padding));
}

static gint
run_plan (WeftCommandCall *call, GError **error)
{
  g_autoptr (WeftLoadPlan) plan = make_plan (call, error);
  g_autoptr (JsonNode) root = NULL;

  if (plan == NULL)
    return WEFT_COMMAND_FAILED;
  if (call->is_json || weft_load_options_is_parallel (weft_load_plan_get_options (plan)))
    root = weft_load_plan_to_json (plan);
  if (call->is_json)
    {
      weft_command_print_json (root);
      call->has_result = TRUE;
    }
  else
    print_outputs (plan);
  weft_command_print_report (call, weft_load_plan_get_report (plan), TRUE);
  if (root != NULL)
    note_ranks (call, root);
  weft_command_note_plan (call, plan);
  return weft_load_plan_check (plan, error) ? WEFT_COMMAND_DONE : WEFT_COMMAND_FAILED;
}

static const gchar *
get_member (JsonObject *object, const gchar *name)
{
  return json_object_get_string_member_with_default (object, name, "");
}

static void
print_rules (JsonArray *rules)
{
  for (guint i = 0; i < json_array_get_length (rules); i++)
    {
      JsonObject *rule = json_array_get_object_element (rules, i);

      if (json_object_has_member (rule, "after"))
        weft_command_print ("  * %s: '%s' -> '%s'\n", get_member (rule, "rule"), get_member (rule, "before"),
                            get_member (rule, "after"));
      else
        weft_command_print ("    %s: %s\n", get_member (rule, "rule"), get_member (rule, "outcome"));
    }
}

static gchar *
format_tensor (JsonObject *object)
{
  JsonArray *dims = json_object_get_array_member (object, "shape");
  GString *text = g_string_new (get_member (object, "dtype"));

  g_string_append (text, " (");
  for (guint i = 0; i < json_array_get_length (dims); i++)
    g_string_append_printf (text, "%s%" G_GINT64_FORMAT, i > 0 ? ", " : "",
                            json_array_get_int_element (dims, i));
  g_string_append_c (text, ')');
  return g_string_free (text, FALSE);
}

/* A part of a packed weight says what it is to it. */
static gchar *
format_part (JsonObject *object)
{
  return json_object_has_member (object, "role")
             ? g_strdup_printf ("  %s of %s", get_member (object, "role"), get_member (object, "scheme"))
             : g_strdup ("");
}

static void
print_packed (JsonArray *parts)
{
  for (guint i = 0; i < json_array_get_length (parts); i++)
    {
      JsonObject *part = json_array_get_object_element (parts, i);
      g_autofree gchar *tensor = format_tensor (part);
      g_autofree gchar *role = format_part (part);

      weft_command_print ("%s    %s  %s%s\n", i == 0 ? "packed to\n" : "", get_member (part, "name"), tensor,
                          role);
    }
}

/* What happens behind the model's mapping, in the order in which it does. */
static void
print_stages (JsonArray *stages)
{
  for (guint i = json_array_get_length (stages); i > 0; i--)
    {
      JsonObject *stage = json_array_get_object_element (stages, i - 1);
      JsonArray *sources = json_object_get_array_member (stage, "sources");
      JsonArray *outputs = json_object_get_array_member (stage, "outputs");

      weft_command_print ("then fused by %s\n", get_member (stage, "rule"));
      for (guint j = 0; j < json_array_get_length (sources); j++)
        weft_command_print ("    %s\n", json_array_get_string_element (sources, j));
      for (guint j = 0; j < json_array_get_length (outputs); j++)
        weft_command_print ("    -> %s\n", json_array_get_string_element (outputs, j));
    }
}

static void
print_conversion (JsonObject *object)
{
  JsonArray *outputs = json_object_get_array_member (object, "outputs");
  JsonArray *sources = json_object_get_array_member (object, "sources");
  JsonArray *operations = json_object_get_array_member (object, "operations");

  if (json_array_get_length (operations) > 0)
    weft_command_print ("ops\n");
  for (guint i = 0; i < json_array_get_length (operations); i++)
    {
      g_autofree gchar *text = weft_json_to_text (json_array_get_element (operations, i), FALSE);

      weft_command_print ("    %s\n", text);
    }
  weft_command_print ("makes\n");
  for (guint i = 0; i < json_array_get_length (outputs); i++)
    {
      JsonObject *output = json_array_get_object_element (outputs, i);
      g_autofree gchar *tensor = format_tensor (output);

      weft_command_print ("    %s  %s\n", get_member (output, "name"), tensor);
    }
  weft_command_print ("out of\n");
  for (guint i = 0; i < json_array_get_length (sources); i++)
    {
      JsonObject *source = json_array_get_object_element (sources, i);
      g_autofree gchar *tensor = format_tensor (source);
      g_autofree gchar *role = format_part (source);

      weft_command_print ("    %s  %s  %s at byte %" G_GINT64_FORMAT "%s\n", get_member (source, "key"),
                          tensor, get_member (source, "file"), json_object_get_int_member (source, "offset"),
                          role);
    }
  if (json_object_has_member (object, "stages"))
    print_stages (json_object_get_array_member (object, "stages"));
  if (json_object_has_member (object, "packed"))
    print_packed (json_object_get_array_member (object, "packed"));
  weft_command_print ("reversible: %s\n", get_member (object, "reversible"));
}

static gint
run_explain (WeftCommandCall *call, GError **error)
{
  g_autoptr (WeftLoadPlan) plan = make_plan (call, error);
  g_autoptr (JsonNode) root = plan != NULL ? weft_load_plan_explain (plan, call->arguments[1], error) : NULL;
  JsonObject *object;

  if (root == NULL)
    return WEFT_COMMAND_FAILED;
  if (call->is_json)
    {
      weft_command_print_json (root);
      return WEFT_COMMAND_DONE;
    }
  object = json_node_get_object (root);
  weft_command_print ("%s is a %s name\nrules tried on '%s' (* fired)\n", call->arguments[1],
                      json_object_get_boolean_member (object, "is_source") ? "published" : "runtime",
                      get_member (object, "published"));
  print_rules (json_object_get_array_member (object, "rules"));
  if (json_object_has_member (object, "outputs"))
    print_conversion (object);
  else
    weft_command_print ("it is left out\n");
  return WEFT_COMMAND_DONE;
}

static const WeftCommandExample plan_examples[] = {
  { "What would be made, from what, and is it reversible", "weft plan Mixtral-8x7B" },
  { "The same for a script", "weft plan --json Mixtral-8x7B" },
  { "Before packed weights are converted by their dense values", "weft plan my-fp8-model --dequantize" },
  { "What each of four tensor-parallel ranks would hold", "weft plan Mixtral-8x7B --tp-size 4" },
  { NULL, NULL },
};

const WeftCommandEntry weft_plan_command = {
  .name = "plan",
  .arguments = "SRC",
  .summary = "Show what a conversion would make, from headers alone",
  .description =
      "Lists each runtime tensor with its dtype, its shape and what it is made of; then what is missing, unexpected, mismatched or "
      "failed, and whether the way back is exact. That is proven by applying the rules and their inverses to the layout of the "
      "tensors; no tensor is read.\n\n"
      "With --tp-size or --ep-size, the tensors are those of one rank (--tp-rank, default 0), and the bytes of every rank, their balance and "
      "uneven cuts follow.",
  .min_arguments = 1,
  .max_arguments = 1,
  .options = plan_options,
  .options_size = sizeof (PlanOptions),
  .examples = plan_examples,
  .run = run_plan,
};

static const WeftCommandExample explain_examples[] = {
  { "What a runtime tensor is made of", "weft explain Mixtral-8x7B model.layers.3.mlp.experts.gate_up_proj" },
  { "What becomes of a published tensor",
    "weft explain Mixtral-8x7B model.layers.3.block_sparse_moe.gate.weight" },
  { NULL, NULL },
};

const WeftCommandEntry weft_explain_command = {
  .name = "explain",
  .arguments = "SRC KEY",
  .summary = "Show the history of one tensor: rules tried, ops, sources",
  .description =
      "KEY is a name of the published checkpoint or of the runtime. Each rule is listed in the order it is tried, with the "
      "reason why it did not fire; then the ops, what they make, and the sources with file and offset.",
  .min_arguments = 2,
  .max_arguments = 2,
  .options = plan_options,
  .options_size = sizeof (PlanOptions),
  .examples = explain_examples,
  .run = run_explain,
};
