/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints, mappings and models from readable text, and state dicts back as such text.
 *
 * A tensor is a line, `name: F32[2,3] 0 1 2`: values count on from the last one that is written. A line `--- a.safetensors`
 * begins a file; without one all tensors are in model.safetensors. Values are small whole numbers. JSON has single quotes. */
#pragma once

#include "../checkpoint/fixture-private.h"

static inline JsonNode *
made_json (const gchar *text)
{
  g_autofree gchar *quoted = g_strdelimit (g_strdup (text), "'", '"');
  g_autoptr (GError) error = NULL;
  JsonNode *node = weft_json_parse (quoted, -1, "test", &error);

  g_assert_no_error (error);
  return node;
}

/* The values of a line as bytes of @dtype. */
static inline GBytes *
made_values (WeftDtype dtype, const gint64 *dims, gsize n_dims, gchar **words)
{
  g_autoptr (GArray) values = g_array_new (FALSE, FALSE, sizeof (gfloat));
  g_autoptr (GBytes) bytes = NULL;
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftTensor) tensor = NULL;
  g_autoptr (WeftTensor) cast = NULL;
  gsize n = 1, next = 0;
  gfloat value = -1;

  for (gsize i = 0; i < n_dims; i++)
    n *= (gsize) dims[i];
  for (gsize i = 0; i < n; i++)
    {
      value = words[next] != NULL ? (gfloat) g_ascii_strtod (words[next++], NULL) : value + 1;
      g_array_append_val (values, value);
    }
  bytes = g_bytes_new (values->data, values->len * sizeof (gfloat));
  tensor = weft_tensor_new_from_bytes (WEFT_DTYPE_F32, dims, n_dims, bytes, &error);
  g_assert_no_error (error);
  cast = weft_tensor_cast (tensor, dtype, &error);
  g_assert_no_error (error);
  return weft_tensor_read (cast, NULL, &error);
}

/* Reads `F32[2,3]`. */
static inline WeftDtype
made_type (const gchar *text, gint64 *dims, gsize *n_dims)
{
  const gchar *open = strchr (text, '[');
  g_autofree gchar *name = g_strndup (text, (gsize) (open - text));
  g_auto (GStrv) parts = g_strsplit (open + 1, ",", -1);
  WeftDtype dtype = weft_dtype_from_name (name);

  g_assert_cmpint (dtype, !=, WEFT_DTYPE_INVALID);
  *n_dims = 0;
  for (guint i = 0; parts[i] != NULL && *parts[i] != ']'; i++)
    dims[(*n_dims)++] = g_ascii_strtoll (parts[i], NULL, 10);
  return dtype;
}

typedef struct
{
  GString *header;
  GByteArray *values;
  GString *weight_map;
  guint n_files;
} MadeFiles;

static inline void
made_add_tensor (MadeFiles *files, const gchar *file_name, const gchar *line)
{
  const gchar *colon = g_strrstr (line, ": ");
  g_autofree gchar *name = g_strndup (line, (gsize) (colon - line));
  g_auto (GStrv) words = g_strsplit (colon + 2, " ", -1);
  gint64 dims[WEFT_MAX_RANK];
  gsize n_dims;
  WeftDtype dtype = made_type (words[0], dims, &n_dims);
  g_autoptr (GBytes) bytes = made_values (dtype, dims, n_dims, words + 1);

  g_string_append_printf (files->header, ",\"%s\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%u,", name,
                          weft_dtype_get_name (dtype), strchr (words[0], '['), files->values->len);
  g_byte_array_append (files->values, g_bytes_get_data (bytes, NULL), (guint) g_bytes_get_size (bytes));
  g_string_append_printf (files->header, "%u]}", files->values->len);
  g_string_append_printf (files->weight_map, "%s\"%s\": \"%s\"", files->weight_map->len > 0 ? ", " : "", name,
                          file_name);
}

static inline void
made_finish_file (MadeFiles *files, const gchar *folder, const gchar *file_name)
{
  g_autoptr (GByteArray) bytes = g_byte_array_new ();
  guint64 length = GUINT64_TO_LE ((guint64) files->header->len + 1);

  g_byte_array_append (bytes, (const guint8 *) &length, sizeof length);
  g_byte_array_append (bytes, (const guint8 *) files->header->str, (guint) files->header->len);
  g_byte_array_append (bytes, (const guint8 *) "}", 1);
  g_byte_array_append (bytes, files->values->data, files->values->len);
  fixture_write (folder, file_name, bytes->data, bytes->len);
  g_string_assign (files->header, "{\"__metadata__\":{\"format\":\"pt\"}");
  g_byte_array_set_size (files->values, 0);
  files->n_files++;
}

/* Writes a checkpoint folder. @config: JSON, or NULL for none. */
static inline void
made_write (const gchar *folder, const gchar *config, const gchar *tensors)
{
  g_auto (GStrv) lines = g_strsplit (tensors, "\n", -1);
  MadeFiles files = { g_string_new ("{\"__metadata__\":{\"format\":\"pt\"}"), g_byte_array_new (),
                      g_string_new (NULL), 0 };
  const gchar *file_name = NULL;

  for (guint i = 0; lines[i] != NULL; i++)
    if (g_str_has_prefix (lines[i], "--- "))
      {
        if (file_name != NULL)
          made_finish_file (&files, folder, file_name);
        file_name = lines[i] + 4;
      }
    else if (*lines[i] != '\0')
      {
        if (file_name == NULL)
          file_name = "model.safetensors";
        made_add_tensor (&files, file_name, lines[i]);
      }
  made_finish_file (&files, folder, file_name);
  if (files.n_files > 1)
    {
      g_autofree gchar *index =
          g_strdup_printf ("{\"metadata\": {}, \"weight_map\": {%s}}", files.weight_map->str);

      fixture_write (folder, "model.safetensors.index.json", index, -1);
    }
  if (config != NULL)
    {
      g_autofree gchar *quoted = g_strdelimit (g_strdup (config), "'", '"');

      fixture_write (folder, "config.json", quoted, -1);
    }
  g_string_free (files.header, TRUE);
  g_byte_array_unref (files.values);
  g_string_free (files.weight_map, TRUE);
}

static inline void
made_append_tensor (GString *text, const gchar *name, WeftTensor *tensor)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftTensor) cast = weft_tensor_cast (tensor, WEFT_DTYPE_F32, &error);
  g_autoptr (GBytes) bytes = NULL;

  g_assert_no_error (error);
  bytes = weft_tensor_read (cast, NULL, &error);
  g_assert_no_error (error);
  g_string_append_printf (text, "%s: %s[", name, weft_dtype_get_name (weft_tensor_get_dtype (tensor)));
  for (guint i = 0; i < weft_tensor_get_rank (tensor); i++)
    g_string_append_printf (text, "%s%" G_GINT64_FORMAT, i > 0 ? "," : "",
                            weft_tensor_get_dim (tensor, (gint) i));
  g_string_append_c (text, ']');
  for (gsize i = 0; i < g_bytes_get_size (bytes) / sizeof (gfloat); i++)
    g_string_append_printf (text, " %g", (gdouble) ((const gfloat *) g_bytes_get_data (bytes, NULL))[i]);
  g_string_append_c (text, '\n');
}

/* All tensors in natural order of their names, all values written out. */
static inline gchar *
made_show (WeftStateDict *state_dict)
{
  g_autoptr (GPtrArray) names = g_ptr_array_new ();
  GString *text = g_string_new (NULL);

  for (guint i = 0; i < weft_state_dict_get_n_tensors (state_dict); i++)
    {
      guint at = i;

      while (at > 0
             && weft_text_compare_natural (names->pdata[at - 1], weft_state_dict_get_name (state_dict, i))
                    > 0)
        at--;
      g_ptr_array_insert (names, (gint) at, (gpointer) weft_state_dict_get_name (state_dict, i));
    }
  for (guint i = 0; i < names->len; i++)
    {
      guint position = 0;

      g_assert_true (weft_state_dict_find (state_dict, names->pdata[i], &position));
      made_append_tensor (text, names->pdata[i], weft_state_dict_get_tensor (state_dict, position));
    }
  return g_string_free (text, FALSE);
}

static inline WeftCheckpoint *
made_open (const gchar *folder)
{
  g_autoptr (GError) error = NULL;
  WeftCheckpoint *checkpoint = weft_checkpoint_open (folder, NULL, &error);

  g_assert_no_error (error);
  return checkpoint;
}

/* A model as a skeleton: @model is class, type and base prefix (`-`: none), @tensors are lines as above without values,
 * @members is more JSON (`,'tied':{}`), or NULL. */
static inline WeftModuleTree *
made_model (const gchar *model, const gchar *tensors, const gchar *members)
{
  g_auto (GStrv) words = g_strsplit (model, " ", -1);
  g_auto (GStrv) lines = g_strsplit (tensors, "\n", -1);
  g_autoptr (GString) text = g_string_new (NULL);
  g_autoptr (JsonNode) root = NULL;
  g_autoptr (GError) error = NULL;
  WeftModuleTree *tree;

  g_string_printf (text, "{'class':'%s','model_type':'%s','base_model_prefix':'%s'%s,'tensors':[", words[0],
                   words[1], strcmp (words[2], "-") == 0 ? "" : words[2], members != NULL ? members : "");
  for (guint i = 0; lines[i] != NULL && *lines[i] != '\0'; i++)
    {
      g_auto (GStrv) parts = g_strsplit (lines[i], ": ", 2);
      g_autofree gchar *type = g_strndup (parts[1], strcspn (parts[1], "["));
      g_autofree gchar *shape = g_strndup (strchr (parts[1], '['), strcspn (strchr (parts[1], '['), " "));

      g_string_append_printf (text,
                              "%s{'name':'%s','shape':%s,'dtype':'%s','persistent':true,'is_buffer':false}",
                              i > 0 ? "," : "", parts[0], shape, type);
    }
  g_string_append (text, "]}");
  root = made_json (text->str);
  tree = weft_module_tree_new_from_json (root, "model", &error);
  g_assert_no_error (error);
  return tree;
}

static inline WeftTransformList *
made_mapping (const gchar *transforms)
{
  g_autofree gchar *text = g_strdup_printf ("[%s]", transforms);
  g_autoptr (JsonNode) root = made_json (text);
  g_autoptr (GError) error = NULL;
  WeftTransformList *list = weft_mapping_new_from_json (root, "mapping", "mapping.json", &error);

  g_assert_no_error (error);
  return list;
}

/* Options with a mapping and a model of one module; what is %NULL is not set. */
static inline WeftLoadOptions *
made_options (const gchar *mapping, const gchar *model, const gchar *tensors, const gchar *members)
{
  WeftLoadOptions *options = weft_load_options_new ();
  g_autoptr (WeftTransformList) list = mapping != NULL ? made_mapping (mapping) : NULL;
  g_autoptr (WeftModuleTree) tree = tensors != NULL ? made_model (model, tensors, members) : NULL;

  if (list != NULL)
    weft_load_options_set_mapping (options, list);
  if (tree != NULL)
    weft_load_options_set_module_tree (options, tree);
  return options;
}

/* `old -> new` as a rule. */
#define RENAME(source, target) \
  "{'type':'WeightRenaming','source_patterns':['" source "'],'target_patterns':['" target "']}"
#define CONVERT(sources, targets, ops)                                                    \
  "{'type':'WeightConverter','source_patterns':[" sources "],'target_patterns':[" targets \
  "],'operations':[" ops "]}"
#define OP(name) "{'type':'" name "'}"
#define OP_DIM(name, dim) "{'type':'" name "','dim':" #dim "}"

/* Writes what a plan makes of @source to @target. */
static inline gboolean
made_convert (const gchar *source, const gchar *target, WeftLoadOptions *options, GError **error)
{
  g_autoptr (WeftCheckpoint) checkpoint = weft_checkpoint_open (source, NULL, error);
  g_autoptr (WeftLoadPlan) plan = checkpoint != NULL ? weft_load_plan_new (checkpoint, options, error) : NULL;
  g_autoptr (WeftSafetensorsSink) sink =
      plan != NULL ? weft_safetensors_sink_new_full (target, WEFT_OUTPUT_FLAGS_NO_SYNC, error) : NULL;

  return sink != NULL && weft_load_plan_execute (plan, WEFT_SINK (sink), NULL, NULL, NULL, error);
}

static inline gboolean
made_revert (const gchar *source, const gchar *target, WeftLoadOptions *options, WeftRevertFlags flags,
             GError **error)
{
  g_autoptr (WeftCheckpoint) checkpoint = weft_checkpoint_open (source, NULL, error);
  g_autoptr (WeftRevertPlan) plan =
      checkpoint != NULL ? weft_revert_plan_new (checkpoint, options, flags, error) : NULL;
  g_autoptr (WeftSafetensorsSink) sink =
      plan != NULL ? weft_safetensors_sink_new_full (target, WEFT_OUTPUT_FLAGS_NO_SYNC, error) : NULL;

  return sink != NULL && weft_revert_plan_execute (plan, WEFT_SINK (sink), NULL, NULL, NULL, error);
}

static inline gchar *
made_show_folder (const gchar *folder)
{
  g_autoptr (WeftCheckpoint) checkpoint = made_open (folder);

  return made_show (weft_checkpoint_get_state_dict (checkpoint));
}

/* Both folders have the same files with the same bytes. */
static inline void
made_assert_same_folder (const gchar *a, const gchar *b)
{
  guint n[2] = { 0, 0 };

  for (guint side = 0; side < 2; side++)
    {
      g_autoptr (GDir) dir = g_dir_open (side == 0 ? a : b, 0, NULL);
      const gchar *name;

      while ((name = g_dir_read_name (dir)) != NULL)
        {
          g_autoptr (GBytes) a_bytes = fixture_read (a, name);
          g_autoptr (GBytes) b_bytes = fixture_read (b, name);

          g_assert_cmpmem (g_bytes_get_data (a_bytes, NULL), g_bytes_get_size (a_bytes),
                           g_bytes_get_data (b_bytes, NULL), g_bytes_get_size (b_bytes));
          n[side]++;
        }
    }
  g_assert_cmpuint (n[0], ==, n[1]);
}

/* A test's own folder with published, runtime and back in it. */
typedef struct
{
  gchar *root;
  gchar *published;
  gchar *runtime;
  gchar *back;
} MadeFolders;

static inline void
made_folders_init (MadeFolders *folders)
{
  folders->root = fixture_folder ();
  folders->published = g_build_filename (folders->root, "published", NULL);
  folders->runtime = g_build_filename (folders->root, "runtime", NULL);
  folders->back = g_build_filename (folders->root, "back", NULL);
}

static inline void
made_folders_clear (MadeFolders *folders)
{
  fixture_remove_tree (folders->root);
  g_free (folders->root);
  g_free (folders->published);
  g_free (folders->runtime);
  g_free (folders->back);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (MadeFolders, made_folders_clear)

/* @published becomes @runtime, and every byte comes back. */
static inline void
made_assert_round_trip (const gchar *config, const gchar *published, WeftLoadOptions *options,
                        const gchar *runtime)
{
  g_auto (MadeFolders) folders = { 0 };
  g_autoptr (GError) error = NULL;
  g_autofree gchar *found = NULL;

  made_folders_init (&folders);
  made_write (folders.published, config, published);
  made_convert (folders.published, folders.runtime, options, &error);
  g_assert_no_error (error);
  found = made_show_folder (folders.runtime);
  g_assert_cmpstr (found, ==, runtime);
  made_revert (folders.runtime, folders.back, NULL, WEFT_REVERT_FLAGS_NONE, &error);
  g_assert_no_error (error);
  made_assert_same_folder (folders.published, folders.back);
}

/* A message holds all of @parts (split at `|`). */
static inline void
made_assert_message (GError *error, const gchar *parts)
{
  g_auto (GStrv) words = g_strsplit (parts, "|", -1);

  for (guint i = 0; words[i] != NULL; i++)
    if (strstr (error->message, words[i]) == NULL)
      g_error ("'%s' is not in: %s", words[i], error->message);
}

/* The load stops with a message that holds all of @parts (split at `|`), and nothing is written. */
static inline void
made_assert_refused (const gchar *config, const gchar *published, WeftLoadOptions *options, gint code,
                     const gchar *parts)
{
  g_auto (MadeFolders) folders = { 0 };
  g_autoptr (GError) error = NULL;
  g_autofree gchar *partial = NULL;

  made_folders_init (&folders);
  partial = g_strconcat (folders.runtime, ".weft-partial", NULL);
  made_write (folders.published, config, published);
  g_assert_false (made_convert (folders.published, folders.runtime, options, &error));
  g_assert_error (error, WEFT_ERROR, code);
  made_assert_message (error, parts);
  g_assert_false (g_file_test (folders.runtime, G_FILE_TEST_EXISTS));
  g_assert_false (g_file_test (partial, G_FILE_TEST_EXISTS));
}
