/* SPDX-License-Identifier: Apache-2.0 */
/* The proof that a conversion can be reversed: by addresses, from headers alone. */
#include "made-checkpoint-private.h"

static const struct
{
  const gchar *name;
  const gchar *op;
  const gchar *published;
  /* What the plan is refused with, or NULL. */
  const gchar *message;
} rows[] = {
  { "rotates-the-same-way", "RotateRows", "w: F32[3,2]", "'t'|other elements in 'w'|wrong inverse" },
  { "of-which-two-rows-know-nothing", "RotateRows", "w: F32[2,2]", NULL },
  { "and-one-row-neither", "RotateRows", "w: F32[1,2]", NULL },
  { "forgets-to-turn-back", "TurnSquare", "w: F32[3,3]", "'t'|other elements in 'w'|wrong inverse" },
  { "swaps-halves", "SwapHalves", "w: F32[4,2]", NULL },
  { "swaps-halves-of-odd-rows", "SwapHalves", "w: F32[5,2]", "'t'|other elements in 'w'" },
  { "every-layer-but-one", "SwapInLayers",
    "l.0.w: F32[4,2]\nl.1.w: F32[4,2]\nl.2.w: F32[4,2]\nl.3.w: F32[4,2]",
    "l.2.t'|other elements in 'l.2.w'|wrong inverse" },
  { "every-layer-but-none", "SwapInLayers", "l.0.w: F32[4,2]\nl.1.w: F32[4,2]\nl.3.w: F32[4,2]", NULL },
};

static void
test_proof (gconstpointer position)
{
  guint i = GPOINTER_TO_UINT (position);
  g_autofree gchar *rule = g_strdup_printf (CONVERT ("'w$'", "'t'", OP ("%s")), rows[i].op);
  g_autoptr (WeftTransformList) mapping = made_mapping (rule);
  g_autoptr (WeftLoadOptions) options = weft_load_options_new ();
  g_auto (MadeFolders) folders = { 0 };
  g_autoptr (WeftCheckpoint) checkpoint = NULL;
  g_autoptr (WeftLoadPlan) plan = NULL;
  g_autoptr (GBytes) header = NULL;
  g_autoptr (GError) error = NULL;
  WeftShard *shard;
  guint64 n_bytes_of_header;

  made_folders_init (&folders);
  made_write (folders.published, NULL, rows[i].published);
  weft_load_options_set_mapping (options, mapping);
  checkpoint = made_open (folders.published);
  shard = weft_checkpoint_get_shard (checkpoint, 0);
  n_bytes_of_header = weft_file_get_n_bytes_read (weft_shard_get_file (shard));
  plan = weft_load_plan_new (checkpoint, options, &error);
  /* No byte of a tensor, nor any other, was read for it. */
  g_assert_cmpuint (weft_file_get_n_bytes_read (weft_shard_get_file (shard)), ==, n_bytes_of_header);
  header = weft_shard_read_header (shard, NULL);
  g_assert_cmpuint (n_bytes_of_header, ==, g_bytes_get_size (header) + 8);
  if (rows[i].message == NULL)
    {
      g_assert_no_error (error);
      g_assert_true (weft_load_plan_is_reversible (plan));
      return;
    }
  g_assert_null (plan);
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_NOT_REVERSIBLE);
  made_assert_message (error, rows[i].message);
}

/* An op that says nothing of threads, and so is called on that of its owner only. It turns back by what it did before. */
typedef struct
{
  WeftConversionOpsBase parent_instance;
} OwnedOp;

typedef WeftConversionOpsBaseClass OwnedOpClass;

static GType owned_op_get_type (void);
G_DEFINE_TYPE (OwnedOp, owned_op, WEFT_TYPE_CONVERSION_OPS_BASE)

static GThread *owner;
static guint n_owned_calls;

static WeftTensorGroups *
owned_op_convert (WeftConversionOpsBase *base, WeftTensorGroups *inputs, WeftOpContext *context,
                  GError **error)
{
  WeftTensor *tensor = weft_op_get_only_tensor (inputs, error);
  const gchar *name = tensor != NULL ? weft_op_get_output_name (context, error) : NULL;
  g_autoptr (WeftTensor) turned = name != NULL ? weft_tensor_transpose (tensor, 0, 1, error) : NULL;

  g_assert_true (g_thread_self () == owner);
  n_owned_calls++;
  return turned != NULL ? weft_op_new_output (name, turned) : NULL;
}

static WeftConversionOpsBase *
owned_op_dup_inverse (WeftConversionOpsBase *base, GError **error)
{
  g_assert_true (g_thread_self () == owner);
  return g_object_new (owned_op_get_type (), NULL);
}

static void
owned_op_class_init (OwnedOpClass *klass)
{
  klass->convert = owned_op_convert;
  klass->dup_inverse = owned_op_dup_inverse;
}

static void
owned_op_init (OwnedOp *self)
{
}

static void
test_owned (void)
{
  g_autoptr (GError) error = NULL;
  g_auto (MadeFolders) folders = { 0 };
  g_autoptr (WeftTransformList) mapping = NULL;
  g_autoptr (WeftLoadOptions) options = weft_load_options_new ();
  g_autoptr (WeftCheckpoint) checkpoint = NULL;
  g_autoptr (WeftLoadPlan) plan = NULL;

  owner = g_thread_self ();
  weft_plugin_registry_register (weft_plugin_registry_get_default (), WEFT_FEATURE_KIND_OP, "OwnedOp",
                                 owned_op_get_type (), &error);
  g_assert_no_error (error);
  mapping = made_mapping (CONVERT ("'w$'", "'t'", OP ("OwnedOp")));
  made_folders_init (&folders);
  made_write (folders.published, NULL, "l.0.w: F32[4,2]\nl.1.w: F32[4,2]\nl.2.w: F32[4,2]\nl.3.w: F32[4,2]");
  weft_load_options_set_mapping (options, mapping);
  checkpoint = made_open (folders.published);
  plan = weft_load_plan_new (checkpoint, options, &error);
  g_assert_no_error (error);
  g_assert_true (weft_load_plan_is_reversible (plan));
  /* There and back, for each layer. */
  g_assert_cmpuint (n_owned_calls, ==, 8);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autofree gchar *path = g_strdup_printf ("/proof/%s/%s", rows[i].op, rows[i].name);

      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_proof);
    }
  g_test_add_func ("/proof/on-the-thread-of-the-owner", test_owned);
  return g_test_run ();
}
