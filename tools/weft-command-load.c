/* SPDX-License-Identifier: Apache-2.0 */
#include "weft-command-load.h"

#include <string.h>

#include "base/weft-json.h"
#include "base/weft-text.h"
#include "mapping/weft-mapping.h"
#include "pipeline/weft-adapter.h"
#include "weft-command-output.h"

/* How many findings of a kind are printed before the rest is counted. */
#define N_REPORT_LINES 20

WeftCheckpoint *
weft_command_open_source (const gchar *path, const WeftCommandSource *source, WeftCommandCall *call,
                          GError **error)
{
  static const gchar *const backends[] = {
    [WEFT_IO_BACKEND_PREAD] = "pread", [WEFT_IO_BACKEND_MMAP] = "mmap", [WEFT_IO_BACKEND_DIRECT] = "direct"
  };
  guint backend = WEFT_IO_BACKEND_PREAD;

  while (source->io != NULL && backend < G_N_ELEMENTS (backends)
         && strcmp (source->io, backends[backend]) != 0)
    backend++;
  if (backend == G_N_ELEMENTS (backends))
    {
      weft_command_set_usage_error (error, "'%s' is no way to read files; --io takes pread, mmap or direct",
                                    source->io);
      return NULL;
    }
  return weft_checkpoint_open_full (path, source->variant, backend,
                                    source->is_lenient ? WEFT_CHECKPOINT_FLAGS_LENIENT
                                                       : WEFT_CHECKPOINT_FLAGS_NONE,
                                    call->cancellable, error);
}

/* A value of an option that the library refuses is the fault of the command line. */
static gboolean
refuse_option (const gchar *option, const GError *cause, GError **error)
{
  weft_command_set_usage_error (error, "%s: %s", option, cause->message);
  return FALSE;
}

gboolean
weft_command_parse_shard_size (const gchar *text, guint64 *n_bytes, GError **error)
{
  g_autoptr (GError) cause = NULL;

  *n_bytes = 0;
  if (text == NULL)
    return TRUE;
  if (!weft_text_parse_size (text, n_bytes, &cause))
    return refuse_option ("--max-shard-size", cause, error);
  if (*n_bytes == 0)
    weft_command_set_usage_error (error, "--max-shard-size 0 leaves no room for a tensor");
  return *n_bytes > 0;
}

static gboolean
add_key_mapping (WeftLoadOptions *options, const gchar *text, GError **error)
{
  const gchar *equals = strrchr (text, '=');
  g_autoptr (GError) cause = NULL;
  g_autofree gchar *source = equals != NULL ? g_strndup (text, (gsize) (equals - text)) : NULL;

  if (equals == NULL)
    {
      weft_command_set_usage_error (
          error, "'%s' is no renaming; --key-mapping takes SRC=DST, such as '^encoder=model.encoder'", text);
      return FALSE;
    }
  return weft_load_options_add_key_mapping (options, source, equals + 1, &cause)
         || refuse_option ("--key-mapping", cause, error);
}

/* A file is the list of rules; a folder adds mappings that are looked up by name, before the shipped ones. */
static gboolean
add_mapping (WeftLoadOptions *options, const gchar *path, GError **error)
{
  g_autoptr (WeftMappingRegistry) registry = NULL;
  g_autoptr (WeftTransformList) mapping = NULL;

  if (g_file_test (path, G_FILE_TEST_IS_DIR))
    {
      registry = weft_mapping_registry_new (error);
      if (registry == NULL || !weft_mapping_registry_add_folder (registry, path, error))
        return FALSE;
      weft_load_options_set_registry (options, registry);
      return TRUE;
    }
  mapping = weft_mapping_load (path, error);
  if (mapping == NULL)
    return FALSE;
  weft_load_options_set_mapping (options, mapping);
  return TRUE;
}

/* A name that no mapping has is the fault of the command line. */
static gboolean
set_model_type (WeftLoadOptions *options, const gchar *model_type, GError **error)
{
  WeftMappingRegistry *given = weft_load_options_get_registry (options);
  g_autoptr (WeftMappingRegistry) registry = NULL;

  if (model_type == NULL)
    return TRUE;
  registry = given != NULL ? g_object_ref (given) : weft_mapping_registry_new (error);
  if (registry == NULL)
    return FALSE;
  if (!weft_mapping_registry_has (registry, model_type))
    {
      weft_command_set_usage_error (
          error, "--model-type: there is no mapping '%s'; `weft mappings` lists the names", model_type);
      return FALSE;
    }
  weft_load_options_set_model_type (options, model_type);
  return TRUE;
}

/* Adds what a word of --strict stops at. `missing` is there for completeness: it stops without being asked to. */
static gboolean
add_strict_word (const gchar *word, WeftLoadFlags *flags, GError **error)
{
  static const struct
  {
    const gchar *word;
    WeftLoadFlags flags;
  } kinds[] = {
    { "missing", WEFT_LOAD_FLAGS_NONE },
    { "unexpected", WEFT_LOAD_FLAGS_REFUSE_UNEXPECTED },
    { "ignored", WEFT_LOAD_FLAGS_REFUSE_IGNORED },
    { "unused", WEFT_LOAD_FLAGS_REFUSE_UNUSED },
    { "not-reversible", WEFT_LOAD_FLAGS_REFUSE_NOT_REVERSIBLE },
    { "open", WEFT_LOAD_FLAGS_REFUSE_OPEN },
    { "all", WEFT_LOAD_FLAGS_REFUSE_UNEXPECTED | WEFT_LOAD_FLAGS_REFUSE_IGNORED
                 | WEFT_LOAD_FLAGS_REFUSE_UNUSED | WEFT_LOAD_FLAGS_REFUSE_NOT_REVERSIBLE
                 | WEFT_LOAD_FLAGS_REFUSE_OPEN },
  };

  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    if (strcmp (kinds[i].word, word) == 0)
      {
        *flags |= kinds[i].flags;
        return TRUE;
      }
  weft_command_set_usage_error (error,
                                "'%s' is nothing to be strict about; --strict takes missing, unexpected, "
                                "ignored, unused, not-reversible, open or all, separated by commas",
                                word);
  return FALSE;
}

static gboolean
read_flags (const WeftCommandRules *rules, WeftLoadFlags *flags, GError **error)
{
  g_auto (GStrv) words = g_strsplit (rules->strict != NULL ? rules->strict : "", ",", -1);

  *flags |= rules->allows_missing ? WEFT_LOAD_FLAGS_ALLOW_MISSING : 0;
  *flags |= rules->ignores_mismatched ? WEFT_LOAD_FLAGS_IGNORE_MISMATCHED_SIZES : 0;
  *flags |= rules->drops_unexpected ? WEFT_LOAD_FLAGS_DROP_UNEXPECTED : 0;
  if (rules->strict != NULL && words[0] == NULL)
    return add_strict_word ("", flags, error);
  for (guint i = 0; words[i] != NULL; i++)
    {
      if (!add_strict_word (words[i], flags, error))
        return FALSE;
      if (rules->allows_missing && (strcmp (words[i], "missing") == 0 || strcmp (words[i], "all") == 0))
        {
          weft_command_set_usage_error (error, "--allow-missing and --strict %s contradict each other",
                                        words[i]);
          return FALSE;
        }
    }
  return TRUE;
}

WeftModuleTree *
weft_command_load_tree (const WeftCommandSource *source, GError **error)
{
  g_autoptr (WeftCheckpoint) checkpoint = NULL;

  if (source->module_tree != NULL)
    return weft_module_tree_load (source->module_tree, error);
  checkpoint = weft_checkpoint_open (source->like, NULL, error);
  return checkpoint != NULL ? weft_module_tree_new_like (checkpoint, error) : NULL;
}

/* One source says what the runtime expects. */
static gboolean
add_tree (WeftLoadOptions *options, const WeftCommandSource *source, GError **error)
{
  guint n_sources = (source->module_tree != NULL ? 1 : 0) + (source->like != NULL ? 1 : 0)
                    + (source->class_name != NULL ? 1 : 0) + (source->is_open ? 1 : 0);
  g_autoptr (WeftModuleTree) tree = NULL;

  if (n_sources > 1)
    {
      weft_command_set_usage_error (
          error,
          "--module-tree, --like, --class and --open each say what the runtime expects; give one of them");
      return FALSE;
    }
  if (source->module_tree == NULL && source->like == NULL)
    return TRUE;
  tree = weft_command_load_tree (source, error);
  if (tree != NULL)
    weft_load_options_set_module_tree (options, tree);
  return tree != NULL;
}

WeftLoadOptions *
weft_command_load_options (const WeftCommandSource *source, const WeftCommandRules *rules, GError **error)
{
  g_autoptr (WeftLoadOptions) options = weft_load_options_new ();
  g_autoptr (GError) cause = NULL;
  WeftLoadFlags flags;

  for (guint i = 0; source->key_mappings != NULL && source->key_mappings[i] != NULL; i++)
    if (!add_key_mapping (options, source->key_mappings[i], error))
      return NULL;
  if (source->mapping != NULL && !add_mapping (options, source->mapping, error))
    return NULL;
  if (!add_tree (options, source, error))
    return NULL;
  weft_load_options_set_class_name (options, source->class_name);
  if (!set_model_type (options, source->model_type, error))
    return NULL;
  flags = source->is_open ? WEFT_LOAD_FLAGS_OPEN : WEFT_LOAD_FLAGS_NONE;
  weft_load_options_set_flags (options, flags);
  if (rules == NULL)
    return g_steal_pointer (&options);
  if (!weft_command_add_fusion (&rules->fusion, options, error))
    return NULL;
  if (rules->dtype != NULL && !weft_load_options_set_dtype (options, rules->dtype, &cause))
    {
      refuse_option ("--dtype", cause, error);
      return NULL;
    }
  if (!read_flags (rules, &flags, error))
    return NULL;
  weft_load_options_set_flags (options, flags);
  return g_steal_pointer (&options);
}

/* An adapter that is converted as if it were a model would keep every name: says what is missing. */
static gboolean
refuse_bare_adapter (WeftCheckpoint *checkpoint, GError **error)
{
  const gchar *folder = weft_checkpoint_get_folder (checkpoint);
  g_autofree gchar *path = folder != NULL ? g_build_filename (folder, "adapter_config.json", NULL) : NULL;

  if (path == NULL || weft_checkpoint_get_config (checkpoint) != NULL
      || !g_file_test (path, G_FILE_TEST_IS_REGULAR))
    return TRUE;
  weft_command_set_usage_error (error, "%s is an adapter; say with --base DIR which model it is for",
                                weft_checkpoint_get_path (checkpoint));
  return FALSE;
}

WeftLoadPlan *
weft_command_new_plan (WeftCheckpoint *checkpoint, WeftLoadOptions *options, const WeftCommandRules *rules,
                       GError **error)
{
  g_autofree gchar *path = NULL;
  g_autoptr (JsonNode) config = NULL;

  if (rules->base == NULL && rules->adapter_name != NULL)
    weft_command_set_usage_error (error, "--adapter-name goes with --base");
  if (rules->base == NULL)
    return rules->adapter_name == NULL && refuse_bare_adapter (checkpoint, error)
               ? weft_load_plan_new (checkpoint, options, error)
               : NULL;
  path = g_file_test (rules->base, G_FILE_TEST_IS_DIR) ? g_build_filename (rules->base, "config.json", NULL)
                                                       : g_strdup (rules->base);
  config = weft_json_load_file (path, error);
  if (config == NULL)
    return NULL;
  return weft_load_plan_new_for_adapter (checkpoint, config, path,
                                         rules->adapter_name != NULL ? rules->adapter_name : "default",
                                         options, error);
}

WeftOutputFlags
weft_command_read_output_flags (const WeftCommandDestination *destination)
{
  WeftOutputFlags flags = WEFT_OUTPUT_FLAGS_NONE;

  flags |= destination->is_forced ? WEFT_OUTPUT_FLAGS_FORCE : 0;
  flags |= destination->is_in_place ? WEFT_OUTPUT_FLAGS_IN_PLACE : 0;
  flags |= destination->is_resumed ? WEFT_OUTPUT_FLAGS_RESUME : 0;
  flags |= destination->is_not_synced ? WEFT_OUTPUT_FLAGS_NO_SYNC : 0;
  return flags;
}

WeftSafetensorsSink *
weft_command_open_sink (const WeftCommandDestination *destination, const gchar *source_path, GError **error)
{
  const gchar *path = destination->output;

  if (path == NULL && destination->is_in_place)
    path = source_path;
  if (path == NULL)
    {
      weft_command_set_usage_error (error, "--output is needed (or --in-place)");
      return NULL;
    }
  if (path[0] == '\0')
    {
      weft_command_set_usage_error (error, "--output '' names no folder or file");
      return NULL;
    }
  return weft_safetensors_sink_new_full (path, weft_command_read_output_flags (destination), error);
}

void
weft_command_print_replaced (WeftCommandCall *call, const gchar *kept_path, const gchar *output)
{
  g_autofree gchar *shown = kept_path != NULL ? g_filename_display_name (kept_path) : NULL;

  if (shown != NULL)
    weft_command_note (call, "what else was in %s is now in %s", output, shown);
}

void
weft_command_print_kept (WeftCommandCall *call, WeftSafetensorsSink *sink, const gchar *output)
{
  const gchar *kept_path = weft_safetensors_sink_get_kept_path (sink);
  guint n_files = weft_safetensors_sink_get_n_resumed_files (sink);
  g_autofree gchar *size = weft_text_format_size (weft_safetensors_sink_get_n_resumed_bytes (sink));

  if (n_files > 0)
    weft_command_note (call, "%u %s (%s) kept from the interrupted run", n_files,
                       n_files == 1 ? "file was" : "files were", size);
  weft_command_print_replaced (call, kept_path, output);
}

void
weft_command_add_kept (JsonBuilder *builder, WeftSafetensorsSink *sink)
{
  const gchar *kept_path = sink != NULL ? weft_safetensors_sink_get_kept_path (sink) : NULL;

  json_builder_set_member_name (builder, "files_resumed");
  json_builder_add_int_value (builder, sink != NULL ? weft_safetensors_sink_get_n_resumed_files (sink) : 0);
  json_builder_set_member_name (builder, "bytes_resumed");
  json_builder_add_int_value (builder,
                              sink != NULL ? (gint64) weft_safetensors_sink_get_n_resumed_bytes (sink) : 0);
  json_builder_set_member_name (builder, "kept_path");
  if (kept_path != NULL)
    {
      g_autofree gchar *shown = g_filename_display_name (kept_path);

      json_builder_add_string_value (builder, shown);
    }
  else
    json_builder_add_null_value (builder);
}

gboolean
weft_command_read_threads (const WeftCommandDestination *destination, WeftCommandCall *call,
                           WeftTransferOptions *options, GError **error)
{
  guint64 n_threads = weft_transfer_get_default_n_threads ();

  if (destination->threads != NULL
      && !g_ascii_string_to_unsigned (destination->threads, 10, 0, 256, &n_threads, NULL))
    {
      weft_command_set_usage_error (error, "'%s' is no number of threads; --threads takes 0 to 256",
                                    destination->threads);
      return FALSE;
    }
  *options = (WeftTransferOptions){ .struct_size = sizeof *options,
                                    .n_threads = (guint) n_threads,
                                    .progress = weft_command_progress,
                                    .progress_data = call };
  return TRUE;
}

void
weft_command_note_plan (WeftCommandCall *call, WeftLoadPlan *plan)
{
  WeftStateDict *published = weft_checkpoint_get_state_dict (weft_load_plan_get_checkpoint (plan));
  WeftStateDict *outputs = weft_load_plan_get_outputs (plan);
  g_autofree gchar *size = NULL;
  guint64 n_bytes = 0;

  for (guint i = 0; i < weft_state_dict_get_n_tensors (outputs); i++)
    n_bytes += weft_tensor_get_n_bytes (weft_state_dict_get_tensor (outputs, i));
  size = weft_text_format_size (n_bytes);
  weft_command_note (call, "%u tensors would become %u, %s; %s", weft_state_dict_get_n_tensors (published),
                     weft_state_dict_get_n_tensors (outputs), size,
                     weft_load_plan_is_reversible (plan) ? "the way back is exact"
                                                         : "the way back is not exact");
}

void
weft_command_print_report (WeftCommandCall *call, WeftLoadReport *report, gboolean with_harmless)
{
  g_autofree gchar *text = weft_load_report_to_text (report, N_REPORT_LINES, with_harmless);

  if (*text != '\0')
    weft_command_note (call, "%s", g_strchomp (text));
}
