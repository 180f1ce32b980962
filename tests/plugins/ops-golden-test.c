/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the golden cases of ops (folder WEFT_GOLDEN) through the public API and compares bit by bit. */
#include <math.h>
#include <string.h>

#include "weft.h"

/* A safetensors file in memory. */
typedef struct
{
  GBytes *bytes;
  JsonNode *header;
  gsize start;
} Archive;

static void
archive_clear (Archive *self)
{
  g_clear_pointer (&self->bytes, g_bytes_unref);
  g_clear_pointer (&self->header, json_node_unref);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Archive, archive_clear)

static void
archive_load (Archive *self, const gchar *folder, const gchar *name)
{
  g_autofree gchar *path = g_build_filename (folder, name, NULL);
  g_autoptr (GError) error = NULL;
  gchar *contents;
  guint64 n_header;
  gsize length;

  g_file_get_contents (path, &contents, &length, &error);
  g_assert_no_error (error);
  memcpy (&n_header, contents, sizeof n_header);
  self->bytes = g_bytes_new_take (contents, length);
  self->start = sizeof n_header + n_header;
  self->header = weft_json_parse (contents + sizeof n_header, (gssize) n_header, path, &error);
  g_assert_no_error (error);
}

static WeftTensor *
archive_get (Archive *self, const gchar *name)
{
  JsonObject *entry = json_object_get_object_member (json_node_get_object (self->header), name);
  JsonArray *shape = json_object_get_array_member (entry, "shape");
  JsonArray *offsets = json_object_get_array_member (entry, "data_offsets");
  gsize begin = (gsize) json_array_get_int_element (offsets, 0);
  gsize end = (gsize) json_array_get_int_element (offsets, 1);
  g_autoptr (GBytes) bytes = g_bytes_new_from_bytes (self->bytes, self->start + begin, end - begin);
  g_autoptr (GError) error = NULL;
  gint64 dims[WEFT_MAX_RANK];
  WeftTensor *tensor;

  for (guint i = 0; i < json_array_get_length (shape); i++)
    dims[i] = json_array_get_int_element (shape, i);
  tensor = weft_tensor_new_from_bytes (weft_dtype_from_name (json_object_get_string_member (entry, "dtype")),
                                       dims, json_array_get_length (shape), bytes, &error);
  g_assert_no_error (error);
  return tensor;
}

static JsonObject *
load_object (const gchar *folder, const gchar *name, JsonNode **root)
{
  g_autofree gchar *path = g_build_filename (folder, name, NULL);
  g_autoptr (GError) error = NULL;

  *root = weft_json_load_file (path, &error);
  g_assert_no_error (error);
  return json_node_get_object (*root);
}

static GStrv
get_strings (JsonObject *object, const gchar *member)
{
  g_autoptr (GStrvBuilder) builder = g_strv_builder_new ();
  JsonArray *array = json_object_get_array_member (object, member);

  for (guint i = 0; i < json_array_get_length (array); i++)
    g_strv_builder_add (builder, json_array_get_string_element (array, i));
  return g_strv_builder_end (builder);
}

static void
add_parameters (WeftOpContext *context, JsonObject *parameters)
{
  g_autoptr (GList) names = json_object_get_members (parameters);

  for (GList *name = names; name != NULL; name = name->next)
    {
      JsonObject *parameter = json_object_get_object_member (parameters, name->data);
      JsonArray *dims = json_object_get_array_member (parameter, "shape");
      WeftShape shape = { .rank = json_array_get_length (dims) };

      for (guint i = 0; i < shape.rank; i++)
        shape.dims[i] = json_array_get_int_element (dims, i);
      weft_op_context_add_parameter (
          context, name->data, &shape,
          weft_dtype_from_name (json_object_get_string_member (parameter, "dtype")));
    }
}

/* The weight of a linear module. */
static void
add_module (WeftOpContext *context, JsonObject *module)
{
  g_autofree gchar *name = g_strconcat (json_object_get_string_member (module, "module"), ".weight", NULL);
  WeftShape shape = { .rank = 2,
                      .dims = { json_object_get_int_member (module, "out_features"),
                                json_object_get_int_member (module, "in_features") } };
  gboolean is_fp8 = json_object_get_boolean_member_with_default (module, "fp8", FALSE);
  const gchar *dtype =
      json_object_get_string_member_with_default (module, "dtype", is_fp8 ? "F8_E4M3" : "F32");

  weft_op_context_add_parameter (context, name, &shape, weft_dtype_from_name (dtype));
}

static WeftOpContext *
make_context (JsonObject *params)
{
  g_auto (GStrv) sources = get_strings (params, "source_patterns");
  g_auto (GStrv) targets = get_strings (params, "target_patterns");
  WeftOpContext *context =
      weft_op_context_new ((const gchar *const *) sources, (const gchar *const *) targets);
  JsonObject *known =
      json_object_has_member (params, "context") ? json_object_get_object_member (params, "context") : NULL;

  if (known == NULL)
    return context;
  weft_op_context_set_full_layer_name (
      context, json_object_get_string_member_with_default (known, "full_layer_name", NULL));
  if (json_object_has_member (known, "config"))
    weft_op_context_set_config (context, json_object_get_member (known, "config"));
  if (json_object_has_member (known, "modules"))
    add_module (context, json_object_get_object_member (known, "modules"));
  if (json_object_has_member (known, "model_parameters"))
    add_parameters (context, json_object_get_object_member (known, "model_parameters"));
  return context;
}

static WeftTensorGroups *
make_inputs (JsonObject *params, Archive *archive)
{
  WeftTensorGroups *inputs = weft_tensor_groups_new ();
  JsonArray *entries = json_object_get_array_member (params, "inputs");

  for (guint i = 0; i < json_array_get_length (entries); i++)
    {
      JsonObject *entry = json_array_get_object_element (entries, i);
      const gchar *key = json_object_get_string_member (entry, "key");
      g_auto (GStrv) names = get_strings (entry, "tensors");

      if (json_object_get_boolean_member (entry, "list"))
        weft_tensor_groups_append_list (inputs, key);
      for (guint j = 0; names[j] != NULL; j++)
        {
          g_autoptr (WeftTensor) tensor = archive_get (archive, names[j]);

          if (json_object_get_boolean_member (entry, "list"))
            weft_tensor_groups_append (inputs, key, tensor, names[j]);
          else
            weft_tensor_groups_set (inputs, key, tensor);
        }
    }
  return inputs;
}

static GPtrArray *
make_ops (JsonObject *params)
{
  g_autoptr (GPtrArray) ops = g_ptr_array_new_with_free_func (g_object_unref);
  gboolean is_chain = json_object_has_member (params, "chain");
  guint n_ops = is_chain ? json_array_get_length (json_object_get_array_member (params, "chain")) : 1;

  for (guint i = 0; i < n_ops; i++)
    {
      JsonObject *op = is_chain
                           ? json_array_get_object_element (json_object_get_array_member (params, "chain"), i)
                           : params;
      const gchar *name = json_object_get_string_member (op, "op");
      g_autoptr (GError) error = NULL;

      g_ptr_array_add (ops, weft_op_new (name, json_object_get_object_member (op, "params"), NULL, &error));
      g_assert_no_error (error);
    }
  return g_steal_pointer (&ops);
}

/* Comparing. Each says in words what differs, or returns NULL. */

static gdouble
read_float (WeftDtype dtype, const guint8 *bytes, gsize i, gint64 *ordinal)
{
  guint32 bits = 0;
  gfloat value;

  if (dtype == WEFT_DTYPE_BF16)
    {
      guint16 half;

      memcpy (&half, bytes + i * sizeof half, sizeof half);
      bits = (guint32) half << 16;
    }
  else
    memcpy (&bits, bytes + i * sizeof bits, sizeof bits);
  memcpy (&value, &bits, sizeof value);
  *ordinal = (bits & 0x80000000u) != 0 ? -(gint64) (bits & 0x7fffffffu) : (gint64) bits;
  if (dtype == WEFT_DTYPE_BF16)
    *ordinal /= 0x10000;
  return value;
}

static gboolean
is_close (WeftDtype dtype, GBytes *a, GBytes *b, gint64 ulp)
{
  gsize n_bytes = g_bytes_get_size (a);
  gsize width = weft_dtype_get_bits (dtype) / 8;

  g_assert_true (dtype == WEFT_DTYPE_BF16 || dtype == WEFT_DTYPE_F32);
  for (gsize i = 0; i < n_bytes / width; i++)
    {
      gint64 x, y;
      gdouble x_value = read_float (dtype, g_bytes_get_data (a, NULL), i, &x);
      gdouble y_value = read_float (dtype, g_bytes_get_data (b, NULL), i, &y);

      if (isnan (x_value) != isnan (y_value) || (!isnan (x_value) && ABS (x - y) > ulp))
        return FALSE;
    }
  return TRUE;
}

static gchar *
compare_tensor (WeftTensor *found, WeftTensor *expected, JsonObject *compare)
{
  g_autofree gchar *found_text = weft_shape_to_string (weft_tensor_get_shape (found));
  g_autofree gchar *expected_text = weft_shape_to_string (weft_tensor_get_shape (expected));
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) found_bytes = weft_tensor_read (found, NULL, &error);
  g_autoptr (GBytes) expected_bytes = weft_tensor_read (expected, NULL, NULL);
  gboolean is_loose = json_object_has_member (compare, "ulp") || json_object_has_member (compare, "nan");

  if (found_bytes == NULL)
    return g_strdup (error->message);
  if (weft_tensor_get_dtype (found) != weft_tensor_get_dtype (expected)
      || !weft_shape_equal (weft_tensor_get_shape (found), weft_tensor_get_shape (expected)))
    return g_strdup_printf ("%s %s, expected %s %s", weft_dtype_get_name (weft_tensor_get_dtype (found)),
                            found_text, weft_dtype_get_name (weft_tensor_get_dtype (expected)),
                            expected_text);
  if (g_bytes_equal (found_bytes, expected_bytes))
    return NULL;
  if (is_loose
      && is_close (weft_tensor_get_dtype (found), found_bytes, expected_bytes,
                   json_object_get_int_member_with_default (compare, "ulp", 0)))
    return NULL;
  return g_strdup ("other elements");
}

static gchar *
compare_outputs (WeftTensorGroups *outputs, JsonArray *expected, const gchar *folder, const gchar *file,
                 JsonObject *compare)
{
  g_auto (Archive) archive = { NULL };

  archive_load (&archive, folder, file);
  if (weft_tensor_groups_get_n_groups (outputs) != json_array_get_length (expected))
    return g_strdup_printf ("%u outputs, expected %u", weft_tensor_groups_get_n_groups (outputs),
                            json_array_get_length (expected));
  for (guint i = 0; i < json_array_get_length (expected); i++)
    {
      JsonObject *entry = json_array_get_object_element (expected, i);
      const gchar *key = json_object_get_string_member (entry, "key");
      g_auto (GStrv) names = get_strings (entry, "tensors");

      if (g_strcmp0 (weft_tensor_groups_get_name (outputs, i), key) != 0)
        return g_strdup_printf ("output %u is '%s', expected '%s'", i,
                                weft_tensor_groups_get_name (outputs, i), key);
      if (weft_tensor_groups_is_list (outputs, i) != json_object_get_boolean_member (entry, "list")
          || weft_tensor_groups_get_n_tensors (outputs, i) != g_strv_length (names))
        return g_strdup_printf ("'%s' has %u tensors, expected %u", key,
                                weft_tensor_groups_get_n_tensors (outputs, i), g_strv_length (names));
      for (guint j = 0; names[j] != NULL; j++)
        {
          g_autoptr (WeftTensor) tensor = archive_get (&archive, names[j]);
          g_autofree gchar *difference =
              compare_tensor (weft_tensor_groups_get_tensor (outputs, i, j), tensor, compare);

          if (difference != NULL)
            return g_strdup_printf ("'%s': %s", names[j], difference);
        }
    }
  return NULL;
}

/* The outputs where the reference fails and only the alternative is a file: its tensors are the outputs. */
static gchar *
compare_alternative (WeftTensorGroups *outputs, const gchar *folder, const gchar *file, JsonObject *compare)
{
  g_auto (Archive) archive = { NULL };

  archive_load (&archive, folder, file);
  for (guint i = 0; i < weft_tensor_groups_get_n_groups (outputs); i++)
    {
      const gchar *name = weft_tensor_groups_get_name (outputs, i);
      g_autoptr (WeftTensor) tensor = NULL;
      gchar *difference;

      if (!json_object_has_member (json_node_get_object (archive.header), name))
        return g_strdup_printf ("'%s' is no output", name);
      tensor = archive_get (&archive, name);
      difference = compare_tensor (weft_tensor_groups_get_tensor (outputs, i, 0), tensor, compare);
      if (difference != NULL)
        return difference;
    }
  return NULL;
}

static gchar *
compare_reverse (GPtrArray *ops, JsonObject *expected)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GPtrArray) inverses = weft_op_chain_dup_inverse (ops, &error);
  JsonArray *reverse;

  if (json_object_get_null_member (expected, "reverse"))
    return inverses == NULL && g_error_matches (error, WEFT_ERROR, WEFT_ERROR_NOT_REVERSIBLE)
               ? NULL
               : g_strdup ("has an inverse");
  if (inverses == NULL)
    return g_strdup (error->message);
  reverse = json_object_get_array_member (expected, "reverse");
  if (json_array_get_length (reverse) != inverses->len)
    return g_strdup_printf ("%u inverses", inverses->len);
  for (guint i = 0; i < inverses->len; i++)
    {
      JsonObject *entry = json_array_get_object_element (reverse, i);
      g_autoptr (JsonObject) found = weft_op_to_json (inverses->pdata[i]);

      if (g_strcmp0 (json_object_get_string_member (found, "type"),
                     json_object_get_string_member (entry, "op"))
          != 0)
        return g_strdup_printf ("the inverse is %s", json_object_get_string_member (found, "type"));
      json_object_remove_member (found, "type");
      if (!json_object_equal (found, json_object_get_object_member (entry, "params")))
        return g_strdup_printf ("the inverse %s has other parameters",
                                json_object_get_string_member (entry, "op"));
    }
  return NULL;
}

/* Says what is wrong, or returns NULL. */
static gchar *
run_case (const gchar *folder, JsonObject *params, GPtrArray *ops, JsonObject *expected)
{
  g_autoptr (WeftOpContext) context = make_context (params);
  g_auto (Archive) archive = { NULL };
  g_autoptr (WeftTensorGroups) inputs = NULL;
  g_autoptr (WeftTensorGroups) outputs = NULL;
  g_autoptr (GError) error = NULL;
  gboolean is_error = !json_object_get_null_member (expected, "error");
  const gchar *weft = json_object_get_string_member_with_default (expected, "weft", "");
  const gchar *alternative = json_object_get_string_member_with_default (expected, "alternative", NULL);
  JsonObject *compare = json_object_get_object_member (expected, "compare");
  g_autofree gchar *difference = NULL;

  archive_load (&archive, folder, "input.safetensors");
  inputs = make_inputs (params, &archive);
  outputs = weft_op_chain_convert (ops, inputs, context, &error);
  if (outputs == NULL)
    {
      g_test_message ("refused: %s", error->message);
      if (!is_error && !json_object_get_boolean_member_with_default (expected, "accept_error", FALSE))
        return g_strdup (error->message);
      return is_error ? NULL : compare_reverse (ops, expected);
    }
  if (strstr (weft, "refuses") != NULL)
    return g_strdup ("must be refused");
  if (alternative != NULL)
    difference = compare_alternative (outputs, folder, alternative, compare);
  if (alternative != NULL && difference == NULL)
    return is_error ? NULL : compare_reverse (ops, expected);
  if (is_error)
    return g_strdup ("must fail");
  g_clear_pointer (&difference, g_free);
  difference = compare_outputs (outputs, json_object_get_array_member (expected, "outputs"), folder,
                                "expected.safetensors", compare);
  return difference != NULL ? g_steal_pointer (&difference) : compare_reverse (ops, expected);
}

static void
test_case (gconstpointer folder)
{
  g_autoptr (JsonNode) params_root = NULL;
  g_autoptr (JsonNode) expected_root = NULL;
  JsonObject *params = load_object (folder, "params.json", &params_root);
  JsonObject *expected = load_object (folder, "expected.json", &expected_root);
  g_autoptr (GPtrArray) ops = make_ops (params);
  g_autofree gchar *difference = run_case (folder, params, ops, expected);

  if (difference != NULL)
    g_test_message ("%s", difference);
  g_assert_null (difference);
}

static void
test_no_folder (void)
{
  g_test_skip ("WEFT_GOLDEN names no folder with golden cases");
}

int
main (int argc, char **argv)
{
  const gchar *golden = g_getenv ("WEFT_GOLDEN");
  g_autofree gchar *index_folder = golden != NULL ? g_build_filename (golden, "ops", NULL) : NULL;
  g_autoptr (JsonNode) root = NULL;
  g_auto (GStrv) cases = NULL;

  g_test_init (&argc, &argv, NULL);
  g_test_set_nonfatal_assertions ();
  if (golden == NULL)
    g_test_add_func ("/ops-golden", test_no_folder);
  else
    cases = get_strings (load_object (index_folder, "index.json", &root), "cases");
  for (guint i = 0; cases != NULL && cases[i] != NULL; i++)
    {
      g_autofree gchar *path = g_strconcat ("/ops-golden/", cases[i], NULL);

      g_test_add_data_func_full (path, g_build_filename (index_folder, cases[i], NULL), test_case, g_free);
    }
  return g_test_run ();
}
