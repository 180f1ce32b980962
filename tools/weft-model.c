/* SPDX-License-Identifier: Apache-2.0 */
/* `weft model`: what a runtime's model looks like, from its config. */
#include <string.h>

#include "base/weft-json.h"
#include "base/weft-text.h"
#include "model/weft-module-tree.h"
#include "weft-command-load.h"
#include "weft-command-output.h"

typedef struct
{
  gchar *module_tree;
  gchar *like;
  gchar *class_name;
  gint depth;
  gboolean lists_classes;
  gboolean lists_model_types;
} ModelOptions;

static const GOptionEntry model_options[] = {
  { "class", 'c', 0, G_OPTION_ARG_STRING, WEFT_COMMAND_OPTION (ModelOptions, class_name),
    "This class of the model's family (base model, another head), not the one of config.json", "NAME" },
  { "depth", 'd', 0, G_OPTION_ARG_INT, WEFT_COMMAND_OPTION (ModelOptions, depth),
    "Show so many levels of modules (default: all)", "N" },
  { "classes", 0, 0, G_OPTION_ARG_NONE, WEFT_COMMAND_OPTION (ModelOptions, lists_classes),
    "List the classes that --class takes for the model", NULL },
  { "model-types", 0, 0, G_OPTION_ARG_NONE, WEFT_COMMAND_OPTION (ModelOptions, lists_model_types),
    "List the model types whose architecture is known", NULL },
  { "module-tree", 0, 0, G_OPTION_ARG_FILENAME, WEFT_COMMAND_OPTION (ModelOptions, module_tree),
    "Show a module tree from a JSON file", "FILE" },
  { "like", 0, 0, G_OPTION_ARG_FILENAME, WEFT_COMMAND_OPTION (ModelOptions, like),
    "Show the names and shapes of a checkpoint as modules", "CHECKPOINT" },
  G_OPTION_ENTRY_NULL,
};

static const WeftCommandExample model_examples[] = {
  { "Modules, shapes and parameter counts; layers that are alike are one line", "weft model Mixtral-8x7B" },
  { "The outline of it", "weft model --depth 3 Mixtral-8x7B" },
  { "The same model with another head", "weft model --class MixtralForSequenceClassification Mixtral-8x7B" },
  { "Which classes there are", "weft model --classes Mixtral-8x7B" },
  { "The module tree as JSON, for --module-tree", "weft model --json Mixtral-8x7B > tree.json" },
  { NULL, NULL },
};

/* A module as it is printed. */
typedef struct _Branch Branch;
struct _Branch
{
  gchar *name;
  gchar *class_name;
  GPtrArray *tensors;  /* lines */
  GPtrArray *branches; /* of Branch */
  gint64 n_parameters; /* of it and below */
  gchar *signature;    /* equal for modules that are alike */
};

static void
branch_free (gpointer pointer)
{
  Branch *self = pointer;

  g_free (self->name);
  g_free (self->class_name);
  g_ptr_array_unref (self->tensors);
  g_ptr_array_unref (self->branches);
  g_free (self->signature);
  g_free (self);
}

static gint64
count_elements (WeftTensorSpec *spec)
{
  gint64 n = 0;

  return weft_shape_count_elements (weft_tensor_spec_get_shape (spec), &n, NULL) ? n : 0;
}

static void
add_tensor (Branch *branch, const gchar *name, WeftTensorSpec *spec)
{
  g_autofree gchar *shape = weft_shape_to_string (weft_tensor_spec_get_shape (spec));
  const gchar *note = !weft_tensor_spec_is_persistent (spec) ? "  buffer, not in checkpoints"
                      : weft_tensor_spec_is_buffer (spec)    ? "  buffer"
                                                             : "";

  g_ptr_array_add (branch->tensors,
                   g_strdup_printf ("%s  %s %s%s", name,
                                    weft_dtype_get_name (weft_tensor_spec_get_dtype (spec)), shape, note));
  if (!weft_tensor_spec_is_buffer (spec))
    branch->n_parameters += count_elements (spec);
}

static Branch *
make_branch (WeftModule *module, const gchar *name)
{
  Branch *self = g_new0 (Branch, 1);
  g_autoptr (GString) text = g_string_new (weft_module_get_class_name (module));
  g_autoptr (GChecksum) signature = g_checksum_new (G_CHECKSUM_SHA1);

  self->name = g_strdup (name);
  self->class_name = g_strdup (weft_module_get_class_name (module));
  self->tensors = g_ptr_array_new_with_free_func (g_free);
  self->branches = g_ptr_array_new_with_free_func (branch_free);
  for (guint i = 0; i < weft_module_get_n_tensors (module); i++)
    {
      add_tensor (self, weft_module_get_tensor_name (module, i), weft_module_get_tensor_spec (module, i));
      g_string_append_printf (text, "\n%s", (const gchar *) self->tensors->pdata[i]);
    }
  for (guint i = 0; i < weft_module_get_n_children (module); i++)
    {
      g_autoptr (WeftModule) child = weft_module_get_child (module, i);
      Branch *branch = make_branch (child, weft_module_get_child_name (module, i));

      g_ptr_array_add (self->branches, branch);
      self->n_parameters += branch->n_parameters;
      g_string_append_printf (text, "\n%s %s", branch->name, branch->signature);
    }
  g_checksum_update (signature, (const guchar *) text->str, (gssize) text->len);
  self->signature = g_strdup (g_checksum_get_string (signature));
  return self;
}

/* 1234567 -> "1.2 M" */
static gchar *
format_count (gint64 n)
{
  static const gchar *const units[] = { "", " K", " M", " B", " T" };
  gdouble number = (gdouble) n;
  guint unit = 0;

  while (number >= 999.95 && unit + 1 < G_N_ELEMENTS (units))
    {
      number /= 1000;
      unit++;
    }
  return unit == 0 ? g_strdup_printf ("%" G_GINT64_FORMAT, n)
                   : g_strdup_printf ("%.1f%s", number, units[unit]);
}

static void
print_line (guint depth, const gchar *text, gint64 n_parameters)
{
  g_autofree gchar *count = n_parameters > 0 ? format_count (n_parameters) : g_strdup ("");
  g_autofree gchar *line = weft_command_escape_line (text);
  gint width = 84 - 2 * (gint) depth;
  g_autofree gchar *padded =
      count[0] != '\0' ? g_strdup_printf ("%-*s %10s", MAX (width, 1), line, count) : g_strdup (line);

  weft_command_print ("%*s%s\n", (gint) (2 * depth), "", padded);
}

static gboolean
is_number (const gchar *name)
{
  return name[0] != '\0' && name[strspn (name, "0123456789")] == '\0';
}

/* How many members of a list from @position on are alike. */
static guint
count_alike (GPtrArray *branches, guint position)
{
  const Branch *first = branches->pdata[position];
  guint n = 1;

  while (is_number (first->name) && position + n < branches->len
         && is_number (((Branch *) branches->pdata[position + n])->name)
         && strcmp (((Branch *) branches->pdata[position + n])->signature, first->signature) == 0)
    n++;
  return n;
}

static void
print_branches (const Branch *branch, guint depth, guint max_depth)
{
  for (guint i = 0; i < branch->tensors->len; i++)
    print_line (depth, branch->tensors->pdata[i], 0);
  for (guint i = 0, n; i < branch->branches->len && depth <= max_depth; i += n)
    {
      const Branch *first = branch->branches->pdata[i];
      const Branch *last;
      g_autofree gchar *text = NULL;

      n = count_alike (branch->branches, i);
      last = branch->branches->pdata[i + n - 1];
      text = n > 1 ? g_strdup_printf ("%s-%s  %u x %s", first->name, last->name, n, first->class_name)
                   : g_strdup_printf ("%s  %s", first->name, first->class_name);
      print_line (depth, text, first->n_parameters * n);
      if (depth < max_depth)
        print_branches (first, depth + 1, max_depth);
    }
}

/* Bytes of what a checkpoint of the model holds; a tied tensor is there once. */
static void
print_total (WeftModuleTree *tree, gint64 n_parameters)
{
  guint n_ties = weft_module_tree_get_n_ties (tree);
  guint64 n_bytes = 0;
  g_autofree gchar *count = NULL;
  g_autofree gchar *size = NULL;
  guint position;

  for (guint i = 0; i < weft_module_tree_get_n_tensors (tree); i++)
    {
      gint64 bytes = 0;

      if (weft_module_tree_is_tensor_persistent (tree, i)
          && weft_shape_count_bytes (weft_module_tree_get_tensor_shape (tree, i),
                                     weft_module_tree_get_tensor_dtype (tree, i), &bytes, NULL))
        n_bytes += (guint64) bytes;
    }
  for (guint i = 0; i < n_ties; i++)
    {
      gint64 bytes = 0;

      if (!weft_module_tree_find_tensor (tree, weft_module_tree_get_tie_target (tree, i), &position))
        continue;
      n_parameters -= count_elements (weft_module_tree_get_tensor_spec (tree, position));
      if (weft_shape_count_bytes (weft_module_tree_get_tensor_shape (tree, position),
                                  weft_module_tree_get_tensor_dtype (tree, position), &bytes, NULL))
        n_bytes -= (guint64) bytes;
    }
  count = format_count (n_parameters);
  size = weft_text_format_size (n_bytes);
  weft_command_print ("\n%s parameters (%" G_GINT64_FORMAT "), %s", count, n_parameters, size);
  for (guint i = 0; i < n_ties; i++)
    weft_command_print ("%s %s is %s", i == 0 ? "; tied:" : ",", weft_module_tree_get_tie_target (tree, i),
                        weft_module_tree_get_tie_source (tree, i));
  weft_command_print ("\n");
}

static void
print_tree (WeftModuleTree *tree, gint depth)
{
  g_autoptr (WeftModule) root = weft_module_tree_get_root (tree);
  Branch *branch = make_branch (root, "");
  g_autofree gchar *title = g_strdup_printf ("%s  model type %s", weft_module_tree_get_class (tree),
                                             weft_module_tree_get_model_type (tree));

  print_line (0, title, branch->n_parameters);
  print_branches (branch, 1, depth > 0 ? (guint) depth : G_MAXUINT - 1);
  print_total (tree, branch->n_parameters);
  branch_free (branch);
}

/* The config at a path: of a checkpoint's folder, or the file itself. */
static JsonNode *
load_config (const gchar *path, gchar **where, GError **error)
{
  *where =
      g_file_test (path, G_FILE_TEST_IS_DIR) ? g_build_filename (path, "config.json", NULL) : g_strdup (path);
  return weft_json_load_file (*where, error);
}

static WeftModuleTree *
find_tree (WeftCommandCall *call, const ModelOptions *options, GError **error)
{
  WeftCommandSource source = { .module_tree = options->module_tree, .like = options->like };
  guint n_sources =
      (options->module_tree != NULL ? 1 : 0) + (options->like != NULL ? 1 : 0) + call->n_arguments;
  g_autofree gchar *where = NULL;
  g_autoptr (JsonNode) config = NULL;

  if (n_sources != 1)
    {
      weft_command_set_usage_error (
          error, "give one of a checkpoint (or its config.json), --module-tree and --like");
      return NULL;
    }
  if (call->n_arguments == 0)
    return weft_command_load_tree (&source, error);
  config = load_config (call->arguments[0], &where, error);
  return config != NULL ? weft_module_tree_new_for_config (NULL, config, where, options->class_name,
                                                           WEFT_DTYPE_INVALID, error)
                        : NULL;
}

static gint
print_names (WeftCommandCall *call, GStrv names, const gchar *member)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  g_autoptr (JsonNode) root = NULL;

  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, member);
  json_builder_begin_array (builder);
  for (guint i = 0; names[i] != NULL; i++)
    {
      json_builder_add_string_value (builder, names[i]);
      if (!call->is_json)
        weft_command_print ("%s\n", names[i]);
    }
  json_builder_end_array (builder);
  json_builder_end_object (builder);
  root = json_builder_get_root (builder);
  if (call->is_json)
    weft_command_print_json (root);
  return WEFT_COMMAND_DONE;
}

static gint
list_model_types (WeftCommandCall *call, GError **error)
{
  g_autoptr (WeftArchitectureRegistry) registry = weft_architecture_registry_new (error);
  g_auto (GStrv) names = registry != NULL ? weft_architecture_registry_list_model_types (registry) : NULL;

  return names != NULL ? print_names (call, names, "model_types") : WEFT_COMMAND_FAILED;
}

static gint
list_classes (WeftCommandCall *call, GError **error)
{
  g_autoptr (WeftArchitectureRegistry) registry = weft_architecture_registry_new (error);
  g_autofree gchar *where = NULL;
  g_autoptr (JsonNode) root = NULL;
  g_autoptr (WeftModelConfig) config = NULL;
  g_auto (GStrv) names = NULL;
  const gchar *model_type;

  if (registry == NULL)
    return WEFT_COMMAND_FAILED;
  if (call->n_arguments != 1)
    {
      weft_command_set_usage_error (error, "--classes needs a checkpoint, or its config.json");
      return WEFT_COMMAND_FAILED;
    }
  root = load_config (call->arguments[0], &where, error);
  config = root != NULL ? weft_model_config_new (root, where, error) : NULL;
  if (config == NULL)
    return WEFT_COMMAND_FAILED;
  model_type = weft_model_config_get_model_type (config);
  names = weft_architecture_registry_list_classes (registry, model_type != NULL ? model_type : "", error);
  return names != NULL ? print_names (call, names, "classes") : WEFT_COMMAND_FAILED;
}

/* Of a model without known tensors: the models in it. */
static void
print_outline (WeftCommandCall *call, WeftModuleTree *tree)
{
  for (guint i = 0; i < weft_module_tree_get_n_sub_models (tree); i++)
    {
      const gchar *fqn = weft_module_tree_get_sub_model_fqn (tree, i);

      weft_command_print ("%s  %s  model type %s\n", fqn[0] != '\0' ? fqn : "the model",
                          weft_module_tree_get_sub_model_class (tree, i),
                          weft_module_tree_get_sub_model_type (tree, i));
    }
  weft_command_note (call, "of this class only the models in it are known, not their tensors\n");
}

static gint
run_model (WeftCommandCall *call, GError **error)
{
  const ModelOptions *options = call->options;
  g_autoptr (WeftModuleTree) tree = NULL;
  g_autoptr (JsonNode) root = NULL;

  if (options->lists_model_types)
    return list_model_types (call, error);
  if (options->lists_classes)
    return list_classes (call, error);
  if (options->depth < 0)
    {
      weft_command_set_usage_error (error, "--depth counts levels of modules, 1 or more");
      return WEFT_COMMAND_FAILED;
    }
  tree = find_tree (call, options, error);
  if (tree == NULL)
    return WEFT_COMMAND_FAILED;
  if (!call->is_json)
    {
      if (weft_module_tree_has_tensors (tree))
        print_tree (tree, options->depth);
      else
        print_outline (call, tree);
      return WEFT_COMMAND_DONE;
    }
  root = weft_module_tree_to_json (tree);
  weft_command_print_json (root);
  return WEFT_COMMAND_DONE;
}

const WeftCommandEntry weft_model_command = {
  .name = "model",
  .arguments = "[CHECKPOINT]",
  .summary = "Show the modules, shapes and parameter counts of a model",
  .description =
      "From config.json alone, so that weights need not be there: the class of each module, and name, dtype and shape of each "
      "tensor as the runtime has it (not as it was published). Members of a list that are alike are one line, such as "
      "`0-31  32 x LlamaDecoderLayer`; the number at the end of a line counts parameters, of all of them together.\n\n"
      "CHECKPOINT is a folder with a config.json, or such a file. --module-tree and --like show where else a plan may take "
      "its expectations from. With --json the tree is printed in the form that --module-tree reads: change it, and convert "
      "with it.",
  .max_arguments = 1,
  .options = model_options,
  .options_size = sizeof (ModelOptions),
  .examples = model_examples,
  .run = run_model,
};
