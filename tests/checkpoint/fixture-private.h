/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints on the disk, built from readable text, in a folder of their own. */
#pragma once

#include <glib/gstdio.h>
#include <string.h>

#include "weft.h"

/* A temporary folder; @name is below it. */
static inline gchar *
fixture_folder (void)
{
  g_autoptr (GError) error = NULL;
  gchar *folder = g_dir_make_tmp ("weft-test-XXXXXX", &error);

  g_assert_no_error (error);
  return folder;
}

static inline void
fixture_remove_tree (const gchar *path)
{
  if (g_file_test (path, G_FILE_TEST_IS_DIR) && !g_file_test (path, G_FILE_TEST_IS_SYMLINK))
    {
      g_autoptr (GDir) dir = g_dir_open (path, 0, NULL);
      const gchar *name;

      while ((name = g_dir_read_name (dir)) != NULL)
        {
          g_autofree gchar *child = g_build_filename (path, name, NULL);
          fixture_remove_tree (child);
        }
    }
  g_assert_cmpint (g_remove (path), ==, 0);
}

static inline void
fixture_write (const gchar *folder, const gchar *name, gconstpointer bytes, gssize n_bytes)
{
  g_autofree gchar *path = g_build_filename (folder, name, NULL);
  g_autofree gchar *parent = g_path_get_dirname (path);
  g_autoptr (GError) error = NULL;

  g_assert_cmpint (g_mkdir_with_parents (parent, 0777), ==, 0);
  g_file_set_contents (path, bytes, n_bytes, &error);
  g_assert_no_error (error);
}

static inline GBytes *
fixture_read (const gchar *folder, const gchar *name)
{
  g_autofree gchar *path = g_build_filename (folder, name, NULL);
  g_autoptr (GError) error = NULL;
  gchar *bytes;
  gsize n_bytes;

  g_file_get_contents (path, &bytes, &n_bytes, &error);
  g_assert_no_error (error);
  return g_bytes_new_take (bytes, n_bytes);
}

static inline gboolean
fixture_exists (const gchar *folder, const gchar *name)
{
  g_autofree gchar *path = g_build_filename (folder, name, NULL);

  return g_file_test (path, G_FILE_TEST_EXISTS);
}

/* A safetensors file of U8 vectors: "a:3 b:2" is `a` of 3 bytes and `b` of 2, filled with their first letter. */
static inline void
fixture_write_shard (const gchar *folder, const gchar *name, const gchar *tensors)
{
  g_auto (GStrv) items = g_strsplit (tensors, " ", -1);
  g_autoptr (GString) json = g_string_new ("{");
  g_autoptr (GByteArray) file = g_byte_array_new ();
  g_autoptr (GByteArray) values = g_byte_array_new ();
  guint64 length;

  for (guint i = 0; items[i] != NULL && *items[i] != '\0'; i++)
    {
      gchar *colon = strrchr (items[i], ':');
      guint size = (guint) g_ascii_strtoull (colon + 1, NULL, 10);

      g_string_append_printf (json, "%s\"%.*s\":{\"dtype\":\"U8\",\"shape\":[%u],\"data_offsets\":[%u,%u]}",
                              i == 0 ? "" : ",", (gint) (colon - items[i]), items[i], size, values->len,
                              values->len + size);
      for (guint j = 0; j < size; j++)
        g_byte_array_append (values, (const guint8 *) items[i], 1);
    }
  g_string_append_c (json, '}');
  length = GUINT64_TO_LE ((guint64) json->len);
  g_byte_array_append (file, (const guint8 *) &length, sizeof length);
  g_byte_array_append (file, (const guint8 *) json->str, (guint) json->len);
  g_byte_array_append (file, values->data, values->len);
  fixture_write (folder, name, file->data, file->len);
}

/* All names of a state dict, joined by spaces. */
static inline gchar *
fixture_names (WeftStateDict *state_dict)
{
  g_autoptr (GString) text = g_string_new (NULL);

  for (guint i = 0; i < weft_state_dict_get_n_tensors (state_dict); i++)
    g_string_append_printf (text, "%s%s", i == 0 ? "" : " ", weft_state_dict_get_name (state_dict, i));
  return g_string_free (g_steal_pointer (&text), FALSE);
}

/* Outputs of zeros: "I64[2] b, F32[1,3] a". */
static inline WeftStateDict *
fixture_outputs (const gchar *tensors)
{
  WeftStateDict *outputs = weft_state_dict_new ();
  g_auto (GStrv) items = g_strsplit (tensors, ", ", -1);

  for (guint i = 0; items[i] != NULL && *items[i] != '\0'; i++)
    {
      gchar *open = strchr (items[i], '['), *close = strchr (items[i], ']');
      g_autofree gchar *dtype = g_strndup (items[i], (gsize) (open - items[i]));
      g_autofree gchar *inner = g_strndup (open + 1, (gsize) (close - open - 1));
      g_auto (GStrv) texts = g_strsplit (inner, ",", -1);
      gint64 dims[WEFT_MAX_RANK], n_bytes;
      gsize n_dims = 0;
      WeftShape shape;
      g_autoptr (GError) error = NULL;
      g_autoptr (GBytes) zeros = NULL;
      g_autoptr (WeftTensor) tensor = NULL;

      for (; texts[n_dims] != NULL && *texts[n_dims] != '\0'; n_dims++)
        dims[n_dims] = g_ascii_strtoll (texts[n_dims], NULL, 10);
      g_assert_true (weft_shape_init (&shape, dims, n_dims, &error));
      g_assert_true (weft_shape_count_bytes (&shape, weft_dtype_from_name (dtype), &n_bytes, &error));
      zeros = g_bytes_new_take (g_malloc0 ((gsize) n_bytes), (gsize) n_bytes);
      tensor = weft_tensor_new_from_bytes (weft_dtype_from_name (dtype), dims, n_dims, zeros, &error);
      g_assert_no_error (error);
      weft_state_dict_add (outputs, close + 2, tensor, &error);
      g_assert_no_error (error);
    }
  return outputs;
}
