/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/weft-checkpoint-files-private.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/weft-json.h"
#include "checkpoint/weft-checkpoint.h"

/* Sub-folders of a published checkpoint are one or two deep. */
#define MAX_FOLDER_DEPTH 16
/* How many files a message lists. */
#define MAX_LISTED 6

static const gchar *const weight_suffixes[] = {
  ".safetensors", ".bin.index.json", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".gguf", ".onnx", ".onnx_data"
};
static const gchar *const pickle_suffixes[] = { ".bin", ".pt", ".pth", ".ckpt" };

void
weft_checkpoint_files_free (WeftCheckpointFiles *self)
{
  g_free (self->folder);
  g_free (self->index_path);
  g_ptr_array_unref (self->shard_paths);
  g_clear_pointer (&self->config, json_node_unref);
  g_free (self);
}

static gboolean
has_any_suffix (const gchar *name, const gchar *const *suffixes, gsize n_suffixes)
{
  for (gsize i = 0; i < n_suffixes; i++)
    if (g_str_has_suffix (name, suffixes[i]))
      return TRUE;
  return FALSE;
}

static gboolean
is_index_name (const gchar *name)
{
  return strstr (name, ".safetensors.index.") != NULL && g_str_has_suffix (name, ".json");
}

gboolean
weft_checkpoint_files_is_weight (const gchar *name)
{
  return is_index_name (name) || has_any_suffix (name, weight_suffixes, G_N_ELEMENTS (weight_suffixes))
         || (g_str_has_prefix (name, "pytorch_model") && g_str_has_suffix (name, ".bin"));
}

static gint
compare_texts (gconstpointer a, gconstpointer b)
{
  return strcmp (*(const gchar *const *) a, *(const gchar *const *) b);
}

/* The names in a folder, sorted. */
static GPtrArray *
list_names (const gchar *folder, GError **error)
{
  g_autoptr (GPtrArray) names = g_ptr_array_new_with_free_func (g_free);
  g_autoptr (GError) local_error = NULL;
  g_autoptr (GDir) dir = g_dir_open (folder, 0, &local_error);
  const gchar *name;

  if (dir == NULL)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_IO, "%s: cannot be listed: %s", folder,
                   local_error->message);
      return NULL;
    }
  while ((name = g_dir_read_name (dir)) != NULL)
    g_ptr_array_add (names, g_strdup (name));
  g_ptr_array_sort (names, compare_texts);
  return g_steal_pointer (&names);
}

static gboolean
is_regular_file (const gchar *path)
{
  return g_file_test (path, G_FILE_TEST_IS_REGULAR);
}

static gboolean
is_dangling (const gchar *path)
{
  return g_file_test (path, G_FILE_TEST_IS_SYMLINK) && !g_file_test (path, G_FILE_TEST_EXISTS);
}

/* Folders that tools of the trade leave behind, and partial outputs of ours. */
static gboolean
is_folder_to_skip (const gchar *name)
{
  return strcmp (name, ".git") == 0 || strcmp (name, ".cache") == 0
         || g_str_has_suffix (name, ".weft-partial");
}

static gboolean
list_into (const gchar *folder, const gchar *prefix, guint depth, GStrvBuilder *others, GStrvBuilder *weights,
           GStrvBuilder *skipped, GError **error)
{
  g_autofree gchar *path = g_build_filename (folder, prefix, NULL);
  g_autoptr (GPtrArray) names = list_names (path, error);

  if (names == NULL)
    return FALSE;
  for (guint i = 0; i < names->len; i++)
    {
      const gchar *name = g_ptr_array_index (names, i);
      g_autofree gchar *relative = *prefix == '\0' ? g_strdup (name) : g_build_filename (prefix, name, NULL);
      g_autofree gchar *full = g_build_filename (folder, relative, NULL);
      struct stat status;

      if (lstat (full, &status) != 0)
        continue;
      if (S_ISDIR (status.st_mode) && !is_folder_to_skip (name) && depth < MAX_FOLDER_DEPTH)
        {
          if (!list_into (folder, relative, depth + 1, others, weights, skipped, error))
            return FALSE;
        }
      else if (strcmp (relative, WEFT_PROVENANCE_FILE_NAME) == 0)
        continue;
      else if (weft_checkpoint_files_is_weight (name) && is_regular_file (full))
        g_strv_builder_add (weights, relative);
      /* A link to nowhere is a file that should be there: copying it says so. */
      else if (!weft_checkpoint_files_is_weight (name) && (is_regular_file (full) || is_dangling (full))
               && strcmp (name, WEFT_PROVENANCE_FILE_NAME) != 0)
        g_strv_builder_add (others, relative);
      else
        g_strv_builder_add (skipped, relative);
    }
  return TRUE;
}

gboolean
weft_checkpoint_files_list (const gchar *folder, GStrv *others, GStrv *weights, GStrv *skipped,
                            GError **error)
{
  g_autoptr (GStrvBuilder) other_builder = g_strv_builder_new ();
  g_autoptr (GStrvBuilder) weight_builder = g_strv_builder_new ();
  g_autoptr (GStrvBuilder) skipped_builder = g_strv_builder_new ();

  if (!list_into (folder, "", 0, other_builder, weight_builder, skipped_builder, error))
    return FALSE;
  *others = g_strv_builder_end (other_builder);
  *weights = g_strv_builder_end (weight_builder);
  *skipped = g_strv_builder_end (skipped_builder);
  return TRUE;
}

gboolean
weft_checkpoint_files_is_folder (const gchar *path)
{
  g_autoptr (GPtrArray) names = list_names (path, NULL);

  for (guint i = 0; names != NULL && i < names->len; i++)
    {
      const gchar *name = g_ptr_array_index (names, i);

      if (weft_checkpoint_files_is_weight (name) || strcmp (name, "config.json") == 0)
        return TRUE;
    }
  return FALSE;
}

/* Takes @name, in @folder, as the weights; FALSE if there is no such file. */
static gboolean
take_file (WeftCheckpointFiles *self, const gchar *folder, const gchar *name)
{
  g_autofree gchar *path = g_build_filename (folder, name, NULL);

  if (!is_regular_file (path))
    return FALSE;
  if (is_index_name (name))
    self->index_path = g_steal_pointer (&path);
  else
    g_ptr_array_add (self->shard_paths, g_steal_pointer (&path));
  return TRUE;
}

/* A path below the folder: no way up, not absolute. */
static gboolean
stays_inside (const gchar *path)
{
  g_auto (GStrv) parts = g_strsplit (path, "/", -1);

  return *path != '\0' && !g_path_is_absolute (path) && !g_strv_contains ((const gchar *const *) parts, "..");
}

/* The member `transformers_weights` of the config. */
static gboolean
take_configured_file (WeftCheckpointFiles *self, gboolean *is_taken, GError **error)
{
  JsonNode *node = weft_json_lookup (self->config, "transformers_weights");
  const gchar *name;

  *is_taken = FALSE;
  if (node == NULL || JSON_NODE_HOLDS_NULL (node))
    return TRUE;
  name = JSON_NODE_HOLDS_VALUE (node) && json_node_get_value_type (node) == G_TYPE_STRING
             ? json_node_get_string (node)
             : "";
  if (!stays_inside (name) || !(g_str_has_suffix (name, ".safetensors") || is_index_name (name)))
    {
      g_set_error (
          error, WEFT_ERROR, WEFT_ERROR_FORMAT,
          "%s/config.json: expected transformers_weights to name a .safetensors file or a .safetensors.index.json "
          "inside the folder, found '%s'",
          self->folder, name);
      return FALSE;
    }
  *is_taken = take_file (self, self->folder, name);
  if (!*is_taken)
    g_set_error (error, WEFT_ERROR, WEFT_ERROR_MISSING,
                 "%s: no file named %s, which transformers_weights of config.json names", self->folder, name);
  return *is_taken;
}

static gchar *
join_some (GPtrArray *names)
{
  g_autoptr (GString) text = g_string_new (NULL);

  for (guint i = 0; i < MIN (names->len, MAX_LISTED); i++)
    g_string_append_printf (text, "%s%s", i == 0 ? "" : ", ", (const gchar *) g_ptr_array_index (names, i));
  if (names->len > MAX_LISTED)
    g_string_append_printf (text, " and %u more", names->len - MAX_LISTED);
  return g_string_free (g_steal_pointer (&text), FALSE);
}

/* Whether the files are all the pieces of one set, as `x-00001-of-00002.safetensors`. */
static gboolean
is_complete_set (GPtrArray *names, const gchar *suffix)
{
  for (guint i = 0; i < names->len; i++)
    {
      const gchar *first = g_ptr_array_index (names, 0);
      const gchar *end = strstr (first, "-00001-of-");
      g_autofree gchar *expected = NULL;

      if (end == NULL)
        return FALSE;
      expected =
          g_strdup_printf ("%.*s-%05u-of-%05u%s", (gint) (end - first), first, i + 1, names->len, suffix);
      if (strcmp (expected, g_ptr_array_index (names, i)) != 0)
        return FALSE;
    }
  return names->len > 0;
}

static gboolean
refuse_folder (const gchar *folder, const gchar *variant, GPtrArray *found, GPtrArray *pickles,
               GError **error)
{
  g_autofree gchar *files = join_some (found->len > 0 ? found : pickles);
  const gchar *dot = variant == NULL ? "" : ".";

  if (variant == NULL)
    variant = "";
  if (found->len > 0)
    g_set_error (
        error, WEFT_ERROR, WEFT_ERROR_CONFLICT,
        "%s: no file named model%s%s.safetensors or model.safetensors.index%s%s.json; it is not clear which of %s to "
        "take: open one of them, or name a variant",
        folder, dot, variant, dot, variant, files);
  else if (pickles->len > 0)
    g_set_error (
        error, WEFT_ERROR, WEFT_ERROR_UNSUPPORTED,
        "%s: no file named model%s%s.safetensors or model.safetensors.index%s%s.json, only pickle files (%s), which can "
        "run code and are not opened: convert them to safetensors first",
        folder, dot, variant, dot, variant, files);
  else
    g_set_error (error, WEFT_ERROR, WEFT_ERROR_MISSING,
                 "%s: no file named model%s%s.safetensors or model.safetensors.index%s%s.json", folder, dot,
                 variant, dot, variant);
  return FALSE;
}

/* No file has a standard name: one index, one file or one complete set is taken all the same; of GGUF files where there are no
 * others. */
static gboolean
take_only_candidate (WeftCheckpointFiles *self, const gchar *variant, GError **error)
{
  g_autoptr (GPtrArray) names = list_names (self->folder, error);
  g_autoptr (GPtrArray) safetensors_files = g_ptr_array_new ();
  g_autoptr (GPtrArray) gguf_files = g_ptr_array_new ();
  g_autoptr (GPtrArray) indexes = g_ptr_array_new ();
  g_autoptr (GPtrArray) pickles = g_ptr_array_new ();
  gboolean is_gguf;
  GPtrArray *files;

  if (names == NULL)
    return FALSE;
  for (guint i = 0; i < names->len; i++)
    {
      gchar *name = g_ptr_array_index (names, i);

      if (is_index_name (name))
        g_ptr_array_add (indexes, name);
      else if (g_str_has_suffix (name, ".safetensors"))
        g_ptr_array_add (safetensors_files, name);
      else if (g_str_has_suffix (name, ".gguf"))
        g_ptr_array_add (gguf_files, name);
      else if (has_any_suffix (name, pickle_suffixes, G_N_ELEMENTS (pickle_suffixes)))
        g_ptr_array_add (pickles, name);
    }
  is_gguf = variant == NULL && safetensors_files->len == 0 && gguf_files->len > 0;
  files = is_gguf ? gguf_files : safetensors_files;
  if (variant == NULL && indexes->len == 1)
    return take_file (self, self->folder, g_ptr_array_index (indexes, 0))
           || refuse_folder (self->folder, variant, indexes, pickles, error);
  if (variant != NULL || indexes->len > 1
      || !(files->len == 1 || is_complete_set (files, is_gguf ? ".gguf" : ".safetensors")))
    return refuse_folder (self->folder, variant, files, pickles, error);
  for (guint i = 0; i < files->len; i++)
    if (!take_file (self, self->folder, g_ptr_array_index (files, i)))
      return refuse_folder (self->folder, variant, files, pickles, error);
  return TRUE;
}

static gboolean
find_in_folder (WeftCheckpointFiles *self, const gchar *variant, GError **error)
{
  g_autofree gchar *file =
      g_strdup_printf ("model%s%s.safetensors", variant == NULL ? "" : ".", variant == NULL ? "" : variant);
  g_autofree gchar *index = g_strdup_printf ("model.safetensors.index%s%s.json", variant == NULL ? "" : ".",
                                             variant == NULL ? "" : variant);
  gboolean is_taken;

  if (!take_configured_file (self, &is_taken, error))
    return FALSE;
  return is_taken || take_file (self, self->folder, file) || take_file (self, self->folder, index)
         || take_only_candidate (self, variant, error);
}

/* @path is a file: an index, whose folder is the checkpoint, or one safetensors file, which is all of it. */
static gboolean
take_named_file (WeftCheckpointFiles *self, const gchar *path, GError **error)
{
  g_autofree gchar *name = g_path_get_basename (path);

  if (g_str_has_suffix (name, ".json") && !is_index_name (name))
    {
      g_set_error (
          error, WEFT_ERROR, WEFT_ERROR_ARGUMENT,
          "%s: expected a .safetensors file, a .safetensors.index.json or a folder, found another JSON file",
          path);
      return FALSE;
    }
  if (has_any_suffix (name, pickle_suffixes, G_N_ELEMENTS (pickle_suffixes)))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_UNSUPPORTED,
                   "%s: a pickle file can run code and is not opened: convert it to safetensors first", path);
      return FALSE;
    }
  if (is_index_name (name))
    {
      self->folder = g_path_get_dirname (path);
      self->index_path = g_build_filename (self->folder, name, NULL);
    }
  else
    g_ptr_array_add (self->shard_paths, g_strdup (path));
  return TRUE;
}

static gboolean
load_config (WeftCheckpointFiles *self, const gchar *path, GError **error)
{
  g_autofree gchar *folder = self->folder != NULL ? g_strdup (self->folder) : g_path_get_dirname (path);
  g_autofree gchar *config_path = g_build_filename (folder, "config.json", NULL);
  struct stat status;

  if (lstat (config_path, &status) != 0 && errno == ENOENT)
    return TRUE;
  if (!is_regular_file (config_path))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT, "%s: expected a regular file, found %s", config_path,
                   is_dangling (config_path)                       ? "a link to nowhere"
                   : g_file_test (config_path, G_FILE_TEST_IS_DIR) ? "a folder"
                                                                   : "something else");
      return FALSE;
    }
  self->config = weft_json_load_file (config_path, error);
  if (self->config == NULL)
    return FALSE;
  if (!JSON_NODE_HOLDS_OBJECT (self->config))
    g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT, "%s: expected a JSON object, found %s", config_path,
                 JSON_NODE_HOLDS_ARRAY (self->config)  ? "an array"
                 : JSON_NODE_HOLDS_NULL (self->config) ? "null"
                                                       : "a single value");
  return JSON_NODE_HOLDS_OBJECT (self->config);
}

WeftCheckpointFiles *
weft_checkpoint_files_find (const gchar *path, const gchar *variant, GError **error)
{
  g_autoptr (WeftCheckpointFiles) self = g_new0 (WeftCheckpointFiles, 1);
  struct stat status;

  self->shard_paths = g_ptr_array_new_with_free_func (g_free);
  if (stat (path, &status) != 0)
    {
      g_set_error (error, WEFT_ERROR, errno == ENOENT ? WEFT_ERROR_MISSING : WEFT_ERROR_IO,
                   "%s: cannot be opened: %s", path, g_strerror (errno));
      return NULL;
    }
  if (!S_ISDIR (status.st_mode) && !S_ISREG (status.st_mode))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT,
                   "%s: expected a file or a folder, found something else", path);
      return NULL;
    }
  if (S_ISDIR (status.st_mode))
    self->folder = g_strdup (path);
  else if (!take_named_file (self, path, error))
    return NULL;
  if (!load_config (self, path, error)
      || (S_ISDIR (status.st_mode) && !find_in_folder (self, variant, error)))
    return NULL;
  return g_steal_pointer (&self);
}
