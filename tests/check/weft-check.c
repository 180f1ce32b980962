/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that hold for every op, whatever it does. Random cases come from GTest's seed, so a failure repeats with
 * `--seed`. */
#include "weft-check.h"

#include <string.h>

#include "weft-enums.h"

#define N_WILD_ROUNDS 300
/* With `-m thorough` ten times as many. */
#define N_ROUND_TRIPS 1000
#define N_THREADS 4

/* Parameters */

/* A small number, or, if wild, one end of the range. */
static gint64
pick_int (gint64 minimum, gint64 maximum, gboolean is_wild, GRand *random)
{
  gint64 number = g_rand_int_range (random, -2, 4);

  if (is_wild && g_rand_int_range (random, 0, 4) == 0)
    return g_rand_boolean (random) ? minimum : maximum;
  return CLAMP (number, minimum, maximum);
}

/* The full name of the tensor that wild arguments make; a parameter that is a map by full names knows it. */
#define FULL_NAME "m.w"

static const gchar *const wild_maps[] = {
  "{}",
  "{\"" FULL_NAME "\": 8}",
  "{\"" FULL_NAME "\": \"F32\"}",
  "{\"" FULL_NAME "\": -9223372036854775808}",
  "{\"" FULL_NAME "\": true, \"other\": \"\"}",
};

/* Random parameters within their declared ranges; text is left at its default. */
static JsonObject *
make_parameters (const gchar *op, gboolean is_wild, GRand *random)
{
  GType type =
      weft_plugin_registry_lookup (weft_plugin_registry_get_default (), WEFT_FEATURE_KIND_OP, op, NULL);
  g_autoptr (GTypeClass) klass = g_type_class_ref (type);
  guint n_pspecs = 0;
  g_autofree GParamSpec **pspecs = g_object_class_list_properties (G_OBJECT_CLASS (klass), &n_pspecs);
  JsonObject *parameters = json_object_new ();

  for (guint i = 0; i < n_pspecs; i++)
    {
      g_autofree gchar *name = g_strdelimit (g_strdup (pspecs[i]->name), "-", '_');

      if (G_IS_PARAM_SPEC_INT64 (pspecs[i]))
        json_object_set_int_member (parameters, name,
                                    pick_int (G_PARAM_SPEC_INT64 (pspecs[i])->minimum,
                                              G_PARAM_SPEC_INT64 (pspecs[i])->maximum, is_wild, random));
      else if (G_IS_PARAM_SPEC_INT (pspecs[i]))
        json_object_set_int_member (parameters, name,
                                    pick_int (G_PARAM_SPEC_INT (pspecs[i])->minimum,
                                              G_PARAM_SPEC_INT (pspecs[i])->maximum, is_wild, random));
      else if (G_IS_PARAM_SPEC_BOOLEAN (pspecs[i]))
        json_object_set_boolean_member (parameters, name, g_rand_boolean (random));
      else if (pspecs[i]->value_type == WEFT_TYPE_DTYPE)
        json_object_set_string_member (parameters, name, "F32");
      else if (G_IS_PARAM_SPEC_VARIANT (pspecs[i])
               && g_variant_type_equal (G_PARAM_SPEC_VARIANT (pspecs[i])->type, G_VARIANT_TYPE ("ax")))
        json_object_set_member (parameters, name,
                                json_from_string (g_rand_boolean (random) ? "[1]" : "[1, 0]", NULL));
      else if (G_IS_PARAM_SPEC_VARIANT (pspecs[i])
               && g_variant_type_equal (G_PARAM_SPEC_VARIANT (pspecs[i])->type, G_VARIANT_TYPE_VARDICT))
        json_object_set_member (
            parameters, name,
            json_from_string (wild_maps[g_rand_int_range (random, 0, G_N_ELEMENTS (wild_maps))], NULL));
    }
  return parameters;
}

static WeftConversionOps *
make_op (const gchar *name, gboolean is_wild, GRand *random)
{
  g_autoptr (JsonObject) parameters = make_parameters (name, is_wild, random);
  g_autoptr (GError) error = NULL;
  WeftConversionOps *op = weft_op_new (name, parameters, NULL, &error);

  g_assert_no_error (error);
  return op;
}

/* What an op writes, it reads, and it comes out the same. */
static void
check_json (gconstpointer name)
{
  g_autoptr (GRand) random = g_rand_new_with_seed (g_test_rand_int ());
  g_autoptr (WeftConversionOps) op = make_op (name, FALSE, random);
  g_autoptr (JsonObject) written = NULL;
  g_autoptr (WeftConversionOps) again = NULL;
  g_autoptr (JsonObject) rewritten = NULL;
  g_autoptr (GError) error = NULL;

  g_assert_nonnull (op);
  written = weft_op_to_json (op);
  g_assert_cmpstr (json_object_get_string_member (written, "type"), ==, name);
  again = weft_op_new (name, written, NULL, &error);
  g_assert_no_error (error);
  rewritten = weft_op_to_json (again);
  g_assert_true (json_object_equal (written, rewritten));
}

/* A parameter that is unknown, or of a type that none has, is refused. */
static void
check_wrong_parameters (gconstpointer name)
{
  g_autoptr (GRand) random = g_rand_new_with_seed (g_test_rand_int ());
  g_autoptr (JsonObject) parameters = make_parameters (name, FALSE, random);
  g_autoptr (GList) members = json_object_get_members (parameters);
  g_autoptr (GError) error = NULL;

  json_object_set_int_member (parameters, "no_such_parameter", 1);
  g_assert_null (weft_op_new (name, parameters, NULL, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT);
  g_assert_nonnull (strstr (error->message, "no_such_parameter"));
  for (GList *member = members; member != NULL; member = member->next)
    {
      g_autofree gchar *parameter = g_strdup (member->data);
      g_autoptr (JsonObject) wrong = make_parameters (name, FALSE, random);

      g_clear_error (&error);
      json_object_set_member (wrong, parameter, json_from_string ("[[[true]]]", NULL));
      g_assert_null (weft_op_new (name, wrong, NULL, &error));
      g_assert_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT);
      g_test_message ("%s", error->message);
      g_assert_nonnull (strstr (error->message, parameter));
    }
}

/* Wild arguments */

static WeftTensor *
make_wild_tensor (GRand *random)
{
  static const gint64 extents[] = {
    0, 1, 2, 3, 4, 7, 16, 64, 65537, G_GINT64_CONSTANT (1) << 33, G_MAXINT64
  };
  WeftDtype dtype = (WeftDtype) g_rand_int_range (random, WEFT_DTYPE_BOOL, WEFT_N_DTYPES);
  gsize rank =
      (gsize) g_rand_int_range (random, 0, g_rand_int_range (random, 0, 20) == 0 ? WEFT_MAX_RANK + 1 : 6);
  gint64 dims[WEFT_MAX_RANK];
  WeftTensor *tensor;

  for (gsize i = 0; i < rank; i++)
    dims[i] =
        extents[g_rand_int_range (random, 0, g_rand_boolean (random) ? (gint) G_N_ELEMENTS (extents) : 7)];
  tensor = weft_tensor_new_unreadable (dtype, dims, rank, NULL);
  return tensor != NULL ? tensor : weft_tensor_new_unreadable (WEFT_DTYPE_F32, dims, 0, NULL);
}

static WeftTensorGroups *
make_wild_inputs (const gchar *const *patterns, GRand *random)
{
  WeftTensorGroups *inputs = weft_tensor_groups_new ();

  for (guint i = 0; patterns[i] != NULL; i++)
    {
      g_autoptr (WeftTensor) tensor = make_wild_tensor (random);
      guint n_tensors = (guint) g_rand_int_range (random, 0, 4);

      if (g_rand_boolean (random))
        weft_tensor_groups_set (inputs, patterns[i], tensor);
      else
        weft_tensor_groups_append_list (inputs, patterns[i]);
      for (guint j = 0; weft_tensor_groups_is_list (inputs, i) && j < n_tensors; j++)
        {
          g_autoptr (WeftTensor) other =
              g_rand_boolean (random) ? make_wild_tensor (random) : weft_tensor_ref (tensor);

          weft_tensor_groups_append (inputs, patterns[i], other, NULL);
        }
    }
  return inputs;
}

static WeftOpContext *
make_context (const gchar *const *sources, const gchar *const *targets, const gchar *config)
{
  WeftOpContext *context = weft_op_context_new (sources, targets);
  g_autoptr (JsonNode) node = json_from_string (config, NULL);

  weft_op_context_set_config (context, node);
  return context;
}

/* An error or outputs, never both, never neither; a critical warning ends the test by itself. */
static void
check_wild_arguments (gconstpointer name)
{
  static const gchar *const patterns[] = { "a.*.w", "b.w", "c", "a.*.w", NULL };
  static const gchar *const configs[] = {
    "{}",
    "null",
    "{\"num_attention_heads\": 0, \"vocab_size\": -1, \"unpadded_vocab_size\": 9223372036854775807}",
    "{\"num_attention_heads\": 9223372036854775807, \"head_dim\": -3, \"text_config\": 7, \"vision_config\": []}",
  };
  g_autoptr (GRand) random = g_rand_new_with_seed (g_test_rand_int ());

  for (guint round = 0; round < N_WILD_ROUNDS; round++)
    {
      g_autoptr (WeftConversionOps) op = make_op (name, TRUE, random);
      const gchar *sources[4] = { NULL };
      const gchar *targets[4] = { NULL };
      g_autoptr (WeftOpContext) context = NULL;
      g_autoptr (WeftTensorGroups) inputs = NULL;
      g_autoptr (WeftTensorGroups) outputs = NULL;
      g_autoptr (GError) error = NULL;

      memcpy (sources, patterns, (gsize) g_rand_int_range (random, 1, 4) * sizeof *sources);
      memcpy (targets, patterns + 1, (gsize) g_rand_int_range (random, 1, 4) * sizeof *targets);
      context =
          make_context (sources, targets, configs[g_rand_int_range (random, 0, G_N_ELEMENTS (configs))]);
      weft_op_context_set_full_layer_name (context, g_rand_boolean (random) ? FULL_NAME : NULL);
      inputs = make_wild_inputs (g_rand_boolean (random) ? sources : targets, random);
      outputs = weft_conversion_ops_convert (op, inputs, context, &error);
      g_assert_true ((outputs == NULL) == (error != NULL));
      if (g_error_matches (error, WEFT_ERROR, WEFT_ERROR_PLUGIN_CONTRACT))
        g_assert_no_error (error);
    }
}

/* Round trips */

/* What a converter of a model that fits could ask for. */
#define TAME_CONFIG "{\"num_attention_heads\": 2, \"vocab_size\": 4, \"unpadded_vocab_size\": 4}"

static WeftTensor *
make_counting_tensor (const gint64 *dims, gsize rank, guint32 first)
{
  gsize n_elements = 1;
  guint32 *elements;
  g_autoptr (GBytes) bytes = NULL;

  for (gsize i = 0; i < rank; i++)
    n_elements *= (gsize) dims[i];
  elements = g_new (guint32, n_elements);
  for (gsize i = 0; i < n_elements; i++)
    elements[i] = first + (guint32) i;
  bytes = g_bytes_new_take (elements, n_elements * sizeof *elements);
  return weft_tensor_new_from_bytes (WEFT_DTYPE_F32, dims, rank, bytes, NULL);
}

/* Tensors of one random shape, all elements different. A pattern with a `*` gets a list. */
static WeftTensorGroups *
make_tame_inputs (const gchar *const *patterns, GRand *random)
{
  static const gint64 extents[] = { 1, 1, 2, 4 };
  WeftTensorGroups *inputs = weft_tensor_groups_new ();
  gsize rank = (gsize) g_rand_int_range (random, 1, 6);
  guint n_modules = (guint) g_rand_int_range (random, 1, 5);
  guint32 first = 0x3f800000;
  gint64 dims[WEFT_MAX_RANK];

  for (gsize i = 0; i < rank; i++)
    dims[i] = extents[g_rand_int_range (random, 0, G_N_ELEMENTS (extents))];
  for (guint i = 0; patterns[i] != NULL; i++)
    for (guint j = 0; j < (strchr (patterns[i], '*') != NULL ? n_modules : 1); j++, first += 1 << 16)
      {
        g_autoptr (WeftTensor) tensor = make_counting_tensor (dims, rank, first);

        weft_tensor_groups_append (inputs, patterns[i], tensor, NULL);
      }
  return inputs;
}

/* Whether @name is @pattern with a number in place of its `*`. */
static gboolean
is_expansion (const gchar *name, const gchar *pattern)
{
  const gchar *star = strchr (pattern, '*');
  gsize prefix, suffix;

  if (star == NULL)
    return g_str_equal (name, pattern);
  prefix = (gsize) (star - pattern);
  suffix = strlen (star + 1);
  return strlen (name) > prefix + suffix && strncmp (name, pattern, prefix) == 0
         && g_str_has_suffix (name, star + 1)
         && strspn (name + prefix, "0123456789") == strlen (name) - prefix - suffix;
}

/* Outputs as a loader would collect them for the inverse: a list a pattern, in order. */
static WeftTensorGroups *
collect (WeftTensorGroups *outputs, const gchar *const *patterns)
{
  WeftTensorGroups *collected = weft_tensor_groups_new ();

  for (guint i = 0; patterns[i] != NULL; i++)
    for (guint j = 0; j < weft_tensor_groups_get_n_groups (outputs); j++)
      for (guint k = 0; is_expansion (weft_tensor_groups_get_name (outputs, j), patterns[i])
                        && k < weft_tensor_groups_get_n_tensors (outputs, j);
           k++)
        weft_tensor_groups_append (collected, patterns[i], weft_tensor_groups_get_tensor (outputs, j, k),
                                   NULL);
  return collected;
}

/* Whether both hold as many tensors of equal shapes under equal names. If not, the op met patterns that its inverse
 * cannot know, such as parts of different sizes. */
static gboolean
has_same_form (WeftTensorGroups *a, WeftTensorGroups *b)
{
  if (weft_tensor_groups_get_n_groups (a) != weft_tensor_groups_get_n_groups (b))
    return FALSE;
  for (guint i = 0; i < weft_tensor_groups_get_n_groups (a); i++)
    {
      if (!g_str_equal (weft_tensor_groups_get_name (a, i), weft_tensor_groups_get_name (b, i))
          || weft_tensor_groups_get_n_tensors (a, i) != weft_tensor_groups_get_n_tensors (b, i))
        return FALSE;
      for (guint j = 0; j < weft_tensor_groups_get_n_tensors (a, i); j++)
        if (!weft_shape_equal (weft_tensor_get_shape (weft_tensor_groups_get_tensor (a, i, j)),
                               weft_tensor_get_shape (weft_tensor_groups_get_tensor (b, i, j))))
          return FALSE;
    }
  return TRUE;
}

static void
assert_same_elements (WeftTensorGroups *a, WeftTensorGroups *b)
{
  for (guint i = 0; i < weft_tensor_groups_get_n_groups (a); i++)
    for (guint j = 0; j < weft_tensor_groups_get_n_tensors (a, i); j++)
      {
        g_autoptr (GError) error = NULL;
        g_autoptr (GBytes) found = weft_tensor_read (weft_tensor_groups_get_tensor (a, i, j), NULL, &error);
        g_autoptr (GBytes) expected = weft_tensor_read (weft_tensor_groups_get_tensor (b, i, j), NULL, NULL);

        g_assert_no_error (error);
        g_assert_true (g_bytes_equal (found, expected));
      }
}

/* Lets the model have a parameter for each pattern, half as large on every axis as the first input. */
static void
add_model (WeftOpContext *context, const gchar *const *patterns, WeftTensorGroups *inputs)
{
  WeftShape half = *weft_tensor_get_shape (weft_tensor_groups_get_tensor (inputs, 0, 0));

  for (guint i = 0; i < half.rank; i++)
    half.dims[i] /= 2;
  for (guint i = 0; patterns[i] != NULL; i++)
    weft_op_context_add_parameter (context, patterns[i], &half, WEFT_DTYPE_F32);
}

/* Whether this random case came back, so that there was something to compare. */
static gboolean
try_round_trip (const gchar *name, const gchar *const *sources, const gchar *const *targets, GRand *random)
{
  g_autoptr (WeftConversionOps) op = make_op (name, FALSE, random);
  g_autoptr (WeftConversionOps) inverse = weft_conversion_ops_dup_inverse (op, NULL);
  g_autoptr (WeftOpContext) there = make_context (sources, targets, TAME_CONFIG);
  g_autoptr (WeftOpContext) back = make_context (targets, sources, TAME_CONFIG);
  g_autoptr (WeftTensorGroups) inputs = make_tame_inputs (sources, random);
  g_autoptr (WeftTensorGroups) outputs = NULL;
  g_autoptr (WeftTensorGroups) collected = NULL;
  g_autoptr (WeftTensorGroups) restored = NULL;
  g_autoptr (WeftTensorGroups) result = NULL;

  add_model (there, targets, inputs);
  outputs = weft_conversion_ops_convert (op, inputs, there, NULL);
  collected = outputs != NULL ? collect (outputs, targets) : NULL;
  if (collected == NULL || weft_tensor_groups_get_n_groups (collected) == 0)
    return FALSE;
  restored = weft_conversion_ops_convert (inverse, collected, back, NULL);
  result = restored != NULL ? collect (restored, sources) : NULL;
  if (result == NULL || !has_same_form (result, inputs))
    return FALSE;
  /* Random elements are not the zeros that such an op may drop. */
  if ((weft_conversion_ops_get_traits (op) & WEFT_OP_TRAITS_DROPS_ZEROS) != 0)
    return FALSE;
  assert_same_elements (result, inputs);
  return TRUE;
}

/* invert (apply (x)) is x. */
static void
check_round_trip (gconstpointer name)
{
  static const struct
  {
    const gchar *sources[4];
    const gchar *targets[4];
  } converters[] = {
    { { "a.w" }, { "b.w" } },
    { { "a.w" }, { "b.w", "c.w", NULL } },
    { { "a.w", "b.w" }, { "c.w" } },
    { { "a.*.w" }, { "c.w" } },
    { { "c.w" }, { "a.*.w" } },
    { { "a.*.w", "b.*.w" }, { "c.w", "d.w" } },
    { { "c.w", "d.w" }, { "a.*.w", "b.*.w" } },
  };
  g_autoptr (GRand) random = g_rand_new_with_seed (g_test_rand_int ());
  g_autoptr (WeftConversionOps) op = make_op (name, FALSE, random);
  g_autoptr (WeftConversionOps) inverse = weft_conversion_ops_dup_inverse (op, NULL);
  guint n_rounds = g_test_thorough () ? 10 * N_ROUND_TRIPS : N_ROUND_TRIPS;
  guint n_compared = 0;

  if (inverse == NULL)
    {
      g_test_skip ("it has no inverse");
      return;
    }
  for (guint i = 0; i < n_rounds; i++)
    {
      guint j = (guint) g_rand_int_range (random, 0, G_N_ELEMENTS (converters));

      n_compared += try_round_trip (name, converters[j].sources, converters[j].targets, random);
    }
  g_test_message ("%u of %u cases came back", n_compared, n_rounds);
  if (n_compared == 0)
    g_test_incomplete ("no random case came back: this op needs tests of its own");
}

/* Threads */

typedef struct
{
  WeftConversionOps *op;
  WeftTensorGroups *inputs;
  WeftOpContext *context;
} Call;

static gpointer
run_call (gpointer user_data)
{
  Call *call = user_data;

  for (guint i = 0; i < 50; i++)
    {
      g_autoptr (WeftTensorGroups) outputs =
          weft_conversion_ops_convert (call->op, call->inputs, call->context, NULL);

      if (i == 49)
        return g_steal_pointer (&outputs);
    }
  return NULL;
}

/* An op that may run anywhere gives the same from several threads at once. */
static void
check_threads (gconstpointer name)
{
  static const gchar *const sources[] = { "a.w", NULL };
  static const gchar *const targets[] = { "b.w", NULL };
  g_autoptr (GRand) random = g_rand_new_with_seed (g_test_rand_int ());
  g_autoptr (WeftConversionOps) op = make_op (name, FALSE, random);
  g_autoptr (WeftTensorGroups) inputs = make_tame_inputs (sources, random);
  g_autoptr (WeftOpContext) context = make_context (sources, targets, TAME_CONFIG);
  Call call = { op, inputs, context };
  GThread *threads[N_THREADS];
  g_autoptr (WeftTensorGroups) expected = NULL;

  if (weft_conversion_ops_get_thread_policy (op) != WEFT_THREAD_POLICY_ANY)
    {
      g_test_skip ("it is called on the owner's thread only");
      return;
    }
  expected = weft_conversion_ops_convert (op, inputs, context, NULL);
  for (guint i = 0; i < N_THREADS; i++)
    threads[i] = g_thread_new (name, run_call, &call);
  for (guint i = 0; i < N_THREADS; i++)
    {
      g_autoptr (WeftTensorGroups) outputs = g_thread_join (threads[i]);

      g_assert_true ((outputs == NULL) == (expected == NULL));
      if (outputs != NULL)
        {
          g_assert_true (has_same_form (outputs, expected));
          assert_same_elements (outputs, expected);
        }
    }
}

static void
add (const gchar *name, const gchar *check, GTestDataFunc function)
{
  g_autofree gchar *path = g_strdup_printf ("/check/%s/%s", name, check);

  g_test_add_data_func (path, g_intern_string (name), function);
}

/**
 * weft_check_add_op:
 * @name: name of a registered op
 *
 * Adds the checks of that op to the GTest suite `/check/NAME`. Call it after g_test_init().
 *
 * Since: 1.0
 */
void
weft_check_add_op (const gchar *name)
{
  add (name, "json", check_json);
  add (name, "wrong-parameters", check_wrong_parameters);
  add (name, "wild-arguments", check_wild_arguments);
  add (name, "round-trip", check_round_trip);
  add (name, "threads", check_threads);
}

/**
 * weft_check_add_ops:
 * @plugin_id: (nullable): id of a plugin, or %NULL for all
 *
 * Adds the checks of every registered op of that plugin. Call it after g_test_init().
 *
 * Since: 1.0
 */
void
weft_check_add_ops (const gchar *plugin_id)
{
  WeftPluginRegistry *registry = weft_plugin_registry_get_default ();
  g_auto (GStrv) names = weft_plugin_registry_list_names (registry, WEFT_FEATURE_KIND_OP);

  for (guint i = 0; names[i] != NULL; i++)
    {
      GType type = weft_plugin_registry_lookup (registry, WEFT_FEATURE_KIND_OP, names[i], NULL);

      if (plugin_id == NULL || g_strcmp0 (weft_feature_get_plugin_id (type), plugin_id) == 0)
        weft_check_add_op (names[i]);
    }
}

/**
 * weft_check_run:
 * @names: (array zero-terminated=1): names of registered ops
 *
 * Runs the checks of these ops, once in a process. For programs without a GTest of their own, such as a script that has
 * registered its classes. A failed check aborts.
 *
 * Returns: 0 if all passed
 * Since: 1.0
 */
gint
weft_check_run (const gchar *const *names)
{
  gchar *words[] = { (gchar *) "weft-check", NULL };
  gchar **argv = words;
  gint argc = 1;

  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; names[i] != NULL; i++)
    weft_check_add_op (names[i]);
  return g_test_run ();
}
