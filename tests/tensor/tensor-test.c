/* SPDX-License-Identifier: Apache-2.0 */
/* Lazy tensors against a plain model: every layout operation on small arrays of numbered elements. */
#include <weft.h>

#include <errno.h>
#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

/* A dense array of U16, the plain model of a tensor. */
typedef struct
{
  WeftShape shape;
  gint64 n;
  guint16 *elements;
} Plain;

static Plain *
plain_new (const WeftShape *shape)
{
  Plain *self = g_new0 (Plain, 1);

  self->shape = *shape;
  g_assert_true (weft_shape_count_elements (shape, &self->n, NULL));
  self->elements = g_new0 (guint16, MAX (1, self->n));
  return self;
}

static void
plain_free (Plain *self)
{
  g_free (self->elements);
  g_free (self);
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC (Plain, plain_free)

static void
unravel (const WeftShape *shape, gint64 flat, gint64 *index)
{
  for (guint k = shape->rank; k-- > 0; flat /= shape->dims[k])
    index[k] = flat % shape->dims[k];
}

static gint64
ravel (const WeftShape *shape, const gint64 *index)
{
  gint64 flat = 0;

  for (guint k = 0; k < shape->rank; k++)
    flat = flat * shape->dims[k] + index[k];
  return flat;
}

static Plain *
plain_slice (const Plain *self, guint axis, gint64 start, gint64 length)
{
  WeftShape shape = self->shape;
  Plain *result;
  gint64 index[WEFT_MAX_RANK];

  shape.dims[axis] = length;
  result = plain_new (&shape);
  for (gint64 i = 0; i < result->n; i++)
    {
      unravel (&shape, i, index);
      index[axis] += start;
      result->elements[i] = self->elements[ravel (&self->shape, index)];
    }
  return result;
}

static Plain *
plain_concat (const Plain *a, const Plain *b, guint axis)
{
  WeftShape shape = a->shape;
  Plain *result;
  gint64 index[WEFT_MAX_RANK];

  shape.dims[axis] += b->shape.dims[axis];
  result = plain_new (&shape);
  for (gint64 i = 0; i < result->n; i++)
    {
      unravel (&shape, i, index);
      if (index[axis] < a->shape.dims[axis])
        result->elements[i] = a->elements[ravel (&a->shape, index)];
      else
        {
          index[axis] -= a->shape.dims[axis];
          result->elements[i] = b->elements[ravel (&b->shape, index)];
        }
    }
  return result;
}

static Plain *
plain_permute (const Plain *self, const gint *axes)
{
  WeftShape shape = self->shape;
  Plain *result;
  gint64 index[WEFT_MAX_RANK], source[WEFT_MAX_RANK];

  for (guint k = 0; k < shape.rank; k++)
    shape.dims[k] = self->shape.dims[axes[k]];
  result = plain_new (&shape);
  for (gint64 i = 0; i < result->n; i++)
    {
      unravel (&shape, i, index);
      for (guint k = 0; k < shape.rank; k++)
        source[axes[k]] = index[k];
      result->elements[i] = self->elements[ravel (&self->shape, source)];
    }
  return result;
}

static Plain *
plain_reshape (const Plain *self, const WeftShape *shape)
{
  Plain *result = plain_new (shape);

  g_assert_cmpint (result->n, ==, self->n);
  memcpy (result->elements, self->elements, (gsize) self->n * sizeof (guint16));
  return result;
}

static void
assert_equal (WeftTensor *tensor, const Plain *plain)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = weft_tensor_read (tensor, NULL, &error);

  g_assert_no_error (error);
  g_assert_true (weft_shape_equal (weft_tensor_get_shape (tensor), &plain->shape));
  g_assert_cmpmem (g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes), plain->elements,
                   (gsize) plain->n * sizeof (guint16));
}

/* The same tensor by transfers, with tiny tiles, into memory and into a file. */
static void
assert_transfers (WeftTensor *tensor, const Plain *plain, guint n_threads, gsize tile_bytes)
{
  WeftTransferOptions options = { .struct_size = sizeof options,
                                  .n_threads = n_threads,
                                  .tile_bytes = tile_bytes };
  gsize n_bytes = (gsize) plain->n * sizeof (guint16);
  g_autofree guint8 *memory = g_malloc0 (n_bytes + 1);
  g_autofree guint8 *from_file = g_malloc0 (n_bytes + 1);
  g_autofree gchar *path = NULL;
  g_autoptr (GError) error = NULL;
  gint fd = g_file_open_tmp ("weft-XXXXXX", &path, &error);
  WeftTransfer transfers[] = { { .tensor = tensor, .fd = -1, .memory = memory },
                               { .tensor = tensor, .fd = fd, .offset = 3 } };

  g_assert_no_error (error);
  g_assert_cmpint (ftruncate (fd, (off_t) n_bytes + 3), ==, 0);
  weft_transfer_execute (transfers, 2, &options, NULL, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpmem (memory, n_bytes, plain->elements, n_bytes);
  g_assert_cmpint (pread (fd, from_file, n_bytes, 3), ==, n_bytes);
  g_assert_cmpmem (from_file, n_bytes, plain->elements, n_bytes);
  close (fd);
  g_unlink (path);
}

typedef struct
{
  WeftTensor *tensor;
  Plain *plain;
} Pair;

static void
pair_set (Pair *pair, WeftTensor *tensor, Plain *plain)
{
  g_assert_nonnull (tensor);
  weft_tensor_unref (pair->tensor);
  plain_free (pair->plain);
  pair->tensor = tensor;
  pair->plain = plain;
}

static guint16 next_element;

/* A leaf over memory or over a file, with elements that no other leaf has. */
static Pair
leaf_new (const WeftShape *shape, const gchar *path)
{
  Pair pair = { NULL, plain_new (shape) };
  g_autoptr (GError) error = NULL;
  gsize n_bytes = (gsize) pair.plain->n * sizeof (guint16);

  for (gint64 i = 0; i < pair.plain->n; i++)
    pair.plain->elements[i] = next_element++;
  if (path == NULL)
    {
      g_autoptr (GBytes) bytes = g_bytes_new (pair.plain->elements, n_bytes);

      pair.tensor = weft_tensor_new_from_bytes (WEFT_DTYPE_U16, shape->dims, shape->rank, bytes, &error);
    }
  else
    {
      g_autoptr (WeftFile) file = NULL;

      g_file_set_contents (path, (const gchar *) pair.plain->elements, (gssize) n_bytes, &error);
      g_assert_no_error (error);
      file = weft_file_open (path, next_element % (WEFT_IO_BACKEND_DIRECT + 1), &error);
      g_assert_no_error (error);
      pair.tensor = weft_tensor_new_from_file (WEFT_DTYPE_U16, shape->dims, shape->rank, file, 0, &error);
    }
  g_assert_no_error (error);
  return pair;
}

static void
step_slice (Pair *pair)
{
  guint axis = (guint) g_test_rand_int_range (0, (gint32) pair->plain->shape.rank);
  gint64 dim = pair->plain->shape.dims[axis];
  gint64 start = g_test_rand_int_range (0, (gint32) dim + 1);
  gint64 length = g_test_rand_int_range (0, (gint32) (dim - start) + 1);

  if (length == 0 && g_test_rand_int_range (0, 8) != 0)
    return;
  pair_set (pair, weft_tensor_slice (pair->tensor, (gint) axis, start, length, NULL),
            plain_slice (pair->plain, axis, start, length));
}

static void
step_concat (Pair *pair)
{
  guint axis = (guint) g_test_rand_int_range (0, (gint32) pair->plain->shape.rank);
  WeftShape shape = pair->plain->shape;
  Pair other;
  WeftTensor *both[2];

  if (pair->plain->n > 4000)
    return;
  shape.dims[axis] = g_test_rand_int_range (0, 5);
  other = leaf_new (&shape, NULL);
  if (g_test_rand_bit () && pair->plain->n > 0)
    pair_set (&other, weft_tensor_slice (pair->tensor, (gint) axis, 0, 1, NULL),
              plain_slice (pair->plain, axis, 0, 1));
  both[0] = pair->tensor;
  both[1] = other.tensor;
  pair_set (pair, weft_tensor_concat (both, 2, (gint) axis, NULL),
            plain_concat (pair->plain, other.plain, axis));
  weft_tensor_unref (other.tensor);
  plain_free (other.plain);
}

static void
step_permute (Pair *pair)
{
  gint axes[WEFT_MAX_RANK];
  guint rank = pair->plain->shape.rank;

  for (guint k = 0; k < rank; k++)
    {
      guint other = (guint) g_test_rand_int_range (0, (gint32) k + 1);

      axes[k] = axes[other];
      axes[other] = (gint) k;
    }
  pair_set (pair, weft_tensor_permute (pair->tensor, axes, rank, NULL), plain_permute (pair->plain, axes));
}

static void
step_reshape (Pair *pair)
{
  WeftShape shape = { 0 };
  gint64 rest = pair->plain->n;

  while (rest > 1 && shape.rank < 7)
    {
      gint64 divisor = g_test_rand_int_range (1, 7);

      if (rest % divisor == 0)
        {
          shape.dims[shape.rank++] = divisor;
          rest /= divisor;
        }
      else if (g_test_rand_bit ())
        break;
    }
  shape.dims[shape.rank++] = rest;
  pair_set (pair, weft_tensor_reshape (pair->tensor, shape.dims, shape.rank, NULL),
            plain_reshape (pair->plain, &shape));
}

static void
step_flip (Pair *pair)
{
  guint axis = (guint) g_test_rand_int_range (0, (gint32) pair->plain->shape.rank);
  gint64 dim = pair->plain->shape.dims[axis];
  gint64 indices[64];
  Plain *plain = plain_slice (pair->plain, axis, 0, 0);

  if (dim > 64)
    {
      plain_free (plain);
      return;
    }
  for (gint64 i = 0; i < dim; i++)
    {
      Plain *one, *more;

      indices[i] = (i * 5 + 2) % dim;
      one = plain_slice (pair->plain, axis, indices[i], 1);
      more = plain_concat (plain, one, axis);
      plain_free (one);
      plain_free (plain);
      plain = more;
    }
  pair_set (pair, weft_tensor_select (pair->tensor, (gint) axis, indices, (gsize) dim, NULL), plain);
}

static void
test_random_chains (void)
{
  static void (*const steps[]) (Pair *) = { step_slice, step_concat, step_permute, step_reshape, step_flip };
  g_autofree gchar *folder = g_dir_make_tmp ("weft-XXXXXX", NULL);
  g_autofree gchar *path = g_build_filename (folder, "leaf", NULL);

  for (guint round = 0; round < 1500; round++)
    {
      WeftShape shape = { .rank = 3 };
      Pair pair;

      for (guint k = 0; k < 3; k++)
        shape.dims[k] = g_test_rand_int_range (1, 9);
      pair = leaf_new (&shape, round % 2 ? path : NULL);
      for (guint i = 0; i < 8; i++)
        {
          if (pair.plain->shape.rank == 0)
            step_reshape (&pair);
          steps[g_test_rand_int_range (0, G_N_ELEMENTS (steps))](&pair);
        }
      assert_equal (pair.tensor, pair.plain);
      if (round % 10 == 0)
        assert_transfers (pair.tensor, pair.plain, round % 20 == 0 ? 0 : 2, round % 30 == 0 ? 4096 : 0);
      weft_tensor_unref (pair.tensor);
      plain_free (pair.plain);
    }
  g_unlink (path);
  g_rmdir (folder);
}

/* Shapes large enough for every way of evaluation: kernel copies, tiles, scattering. */
static void
test_large_transposes (void)
{
  static const struct
  {
    gint64 rows;
    gint64 columns;
    gsize tile_bytes;
  } cases[] = {
    { 700, 900, 65536 }, { 3, 200000, 65536 }, { 200000, 3, 65536 }, { 513, 1027, 4096 }, { 1024, 2048, 0 }
  };
  g_autofree gchar *folder = g_dir_make_tmp ("weft-XXXXXX", NULL);
  g_autofree gchar *path = g_build_filename (folder, "leaf", NULL);

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      WeftShape shape = { .rank = 2, .dims = { cases[i].rows, cases[i].columns } };
      Pair pair = leaf_new (&shape, path);
      WeftTensor *twice[2] = { pair.tensor, pair.tensor };
      const gint axes[] = { 1, 0 };
      g_autoptr (Plain) flipped = plain_permute (pair.plain, axes);
      g_autoptr (Plain) joined = plain_concat (flipped, flipped, 1);
      g_autoptr (Plain) side = plain_concat (pair.plain, pair.plain, 1);
      g_autoptr (WeftTensor) transposed = weft_tensor_transpose (pair.tensor, 0, 1, NULL);
      g_autoptr (WeftTensor) below = weft_tensor_concat (twice, 2, 0, NULL);
      g_autoptr (WeftTensor) wide = weft_tensor_concat (twice, 2, 1, NULL);
      g_autoptr (WeftTensor) joined_tensor = NULL;

      twice[0] = twice[1] = transposed;
      joined_tensor = weft_tensor_concat (twice, 2, 1, NULL);
      assert_transfers (transposed, flipped, 2, cases[i].tile_bytes);
      assert_transfers (joined_tensor, joined, 2, cases[i].tile_bytes);
      assert_transfers (wide, side, 0, cases[i].tile_bytes);
      assert_transfers (pair.tensor, pair.plain, 1, cases[i].tile_bytes);
      g_assert_cmpuint (weft_tensor_get_n_pieces (below), <=, 2);
      weft_tensor_unref (pair.tensor);
      plain_free (pair.plain);
    }
  g_unlink (path);
  g_rmdir (folder);
}

/* Taking apart and putting together again is the identity on addresses, and one piece. */
static void
test_round_trips_are_proven (void)
{
  WeftShape shape = { .rank = 3, .dims = { 8, 6, 4 } };
  Pair pair = leaf_new (&shape, NULL);
  const gint64 thirds[] = { 1, 2, 3 };
  const gint64 wide[] = { 8, 3, 2, 4 };
  const gint axes[] = { 0, 2, 1, 3 };

  for (gint axis = 0; axis < 3; axis++)
    {
      g_autoptr (GPtrArray) parts = weft_tensor_unstack (pair.tensor, axis, NULL);
      g_autoptr (WeftTensor) again = weft_tensor_stack ((WeftTensor **) parts->pdata, parts->len, axis, NULL);

      g_assert_true (weft_tensor_is_same (again, pair.tensor));
      g_assert_cmpuint (weft_tensor_get_n_pieces (again), ==, 1);
    }
  {
    g_autoptr (GPtrArray) parts = weft_tensor_split (pair.tensor, 1, thirds, 3, NULL);
    g_autoptr (WeftTensor) again = weft_tensor_concat ((WeftTensor **) parts->pdata, parts->len, 1, NULL);
    g_autoptr (WeftTensor) wrong = NULL;
    gpointer first = parts->pdata[1];

    g_assert_true (weft_tensor_is_same (again, pair.tensor));
    g_assert_cmpuint (weft_tensor_get_n_pieces (again), ==, 1);
    parts->pdata[1] = parts->pdata[2];
    parts->pdata[2] = first;
    wrong = weft_tensor_concat ((WeftTensor **) parts->pdata, parts->len, 1, NULL);
    g_assert_false (weft_tensor_is_same (wrong, pair.tensor));
  }
  {
    g_autoptr (WeftTensor) reshaped = weft_tensor_reshape (pair.tensor, wide, 4, NULL);
    g_autoptr (WeftTensor) rope = weft_tensor_permute (reshaped, axes, 4, NULL);
    g_autoptr (WeftTensor) back = weft_tensor_permute (rope, axes, 4, NULL);
    g_autoptr (WeftTensor) again = weft_tensor_reshape (back, shape.dims, 3, NULL);

    g_assert_cmpuint (weft_tensor_get_n_pieces (rope), ==, 1);
    g_assert_false (weft_tensor_is_same (rope, reshaped));
    g_assert_true (weft_tensor_is_same (again, pair.tensor));
  }
  {
    g_autoptr (WeftTensor) half = weft_tensor_bitcast (pair.tensor, WEFT_DTYPE_BF16, NULL);
    g_autoptr (WeftTensor) wider = weft_tensor_cast (half, WEFT_DTYPE_F32, NULL);
    g_autoptr (WeftTensor) flipped = weft_tensor_transpose (wider, 0, 2, NULL);
    g_autoptr (WeftTensor) narrow = weft_tensor_cast (flipped, WEFT_DTYPE_BF16, NULL);
    g_autoptr (WeftTensor) again = weft_tensor_transpose (narrow, 0, 2, NULL);
    g_autoptr (WeftTensor) lossy = weft_tensor_cast (half, WEFT_DTYPE_F8_E4M3, NULL);
    g_autoptr (WeftTensor) lost = weft_tensor_cast (lossy, WEFT_DTYPE_BF16, NULL);

    g_autoptr (WeftTensor) minus = weft_tensor_scale (half, -1.0, NULL);
    g_autoptr (WeftTensor) plus = weft_tensor_scale (minus, -1.0, NULL);

    g_assert_true (weft_tensor_is_same (plus, half));
    g_assert_false (weft_tensor_is_same (minus, half));
    g_assert_true (weft_tensor_is_same (again, half));
    g_assert_false (weft_tensor_is_same (lost, half));
  }
  weft_tensor_unref (pair.tensor);
  plain_free (pair.plain);
}

/* 256 experts of two matrices, merged, joined and transposed, are 512 pieces. */
static void
test_experts_stay_few_pieces (void)
{
  const gint64 dims[] = { 6, 4 };
  GPtrArray *experts[2];
  g_autoptr (WeftTensor) gate = NULL, up = NULL, joined = NULL, transposed = NULL;
  WeftTensor *both[2];

  for (guint side = 0; side < 2; side++)
    {
      experts[side] = g_ptr_array_new_with_free_func ((GDestroyNotify) weft_tensor_unref);
      for (guint i = 0; i < 256; i++)
        g_ptr_array_add (experts[side], weft_tensor_new_unreadable (WEFT_DTYPE_BF16, dims, 2, NULL));
    }
  both[0] = gate = weft_tensor_stack ((WeftTensor **) experts[0]->pdata, 256, 0, NULL);
  both[1] = up = weft_tensor_stack ((WeftTensor **) experts[1]->pdata, 256, 0, NULL);
  joined = weft_tensor_concat (both, 2, 1, NULL);
  transposed = weft_tensor_transpose (joined, 1, 2, NULL);
  g_assert_cmpuint (weft_tensor_get_n_pieces (joined), ==, 512);
  g_assert_cmpuint (weft_tensor_get_n_pieces (transposed), ==, 512);
  g_ptr_array_unref (experts[0]);
  g_ptr_array_unref (experts[1]);
}

static void
test_too_many_pieces (void)
{
  const gint64 dims[] = { 70000, 2 };
  const gint64 flat[] = { 2, 70000 };
  const gint64 odd[] = { 20000, 7 };
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftTensor) leaf = weft_tensor_new_unreadable (WEFT_DTYPE_U8, dims, 2, NULL);
  g_autoptr (WeftTensor) turned = weft_tensor_transpose (leaf, 0, 1, NULL);
  g_autoptr (WeftTensor) other = weft_tensor_reshape (turned, odd, 2, NULL);
  g_autofree gint64 *indices = g_new (gint64, 70000);
  g_autoptr (WeftTensor) scrambled = NULL;

  g_assert_true (weft_shape_equal (weft_tensor_get_shape (turned), &(WeftShape){ 2, { flat[0], flat[1] } }));
  g_assert_nonnull (other);
  for (gint64 i = 0; i < 70000; i++)
    indices[i] = i * i % 69997;
  scrambled = weft_tensor_select (leaf, 0, indices, 70000, &error);
  g_assert_null (scrambled);
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_LIMIT);
  g_assert_nonnull (strstr (error->message, "select"));
}

static void
test_refusals (void)
{
  const gint64 dims[] = { 4, 6 };
  const gint64 huge[] = { G_MAXINT64, 4 };
  const gint64 negative[] = { -2 };
  const gint64 nibbles[] = { 3, 4 };
  const gint twice[] = { 0, 0 };
  g_autoptr (WeftTensor) leaf = weft_tensor_new_unreadable (WEFT_DTYPE_F32, dims, 2, NULL);
  g_autoptr (WeftTensor) packed = weft_tensor_new_unreadable (WEFT_DTYPE_F4, nibbles, 2, NULL);
  g_autoptr (WeftTensor) complex_leaf = weft_tensor_new_unreadable (WEFT_DTYPE_C64, dims, 2, NULL);
  WeftTensor *mixed[2] = { leaf, complex_leaf };
  struct
  {
    WeftTensor *result;
    GError *error;
    gint code;
  } cases[16] = { { 0 } };
  guint n = 0;

#define REFUSED(call, wanted)         \
  G_STMT_START                        \
  {                                   \
    GError **error = &cases[n].error; \
    cases[n].result = call;           \
    cases[n++].code = wanted;         \
  }                                   \
  G_STMT_END
  REFUSED (weft_tensor_slice (leaf, 0, 3, 2, error), WEFT_ERROR_SHAPE);
  REFUSED (weft_tensor_slice (leaf, 0, -1, 2, error), WEFT_ERROR_SHAPE);
  REFUSED (weft_tensor_slice (leaf, 0, 1, G_MAXINT64, error), WEFT_ERROR_SHAPE);
  REFUSED (weft_tensor_slice (leaf, 2, 0, 1, error), WEFT_ERROR_SHAPE);
  REFUSED (weft_tensor_reshape (leaf, nibbles, 2, error), WEFT_ERROR_SHAPE);
  REFUSED (weft_tensor_permute (leaf, twice, 2, error), WEFT_ERROR_SHAPE);
  REFUSED (weft_tensor_concat (mixed, 2, 0, error), WEFT_ERROR_DTYPE);
  REFUSED (weft_tensor_concat (mixed, 0, 0, error), WEFT_ERROR_SHAPE);
  REFUSED (weft_tensor_cast (complex_leaf, WEFT_DTYPE_F32, error), WEFT_ERROR_DTYPE);
  REFUSED (weft_tensor_bitcast (leaf, WEFT_DTYPE_F16, error), WEFT_ERROR_DTYPE);
  REFUSED (weft_tensor_slice (packed, 1, 1, 2, error), WEFT_ERROR_SHAPE);
  REFUSED (weft_tensor_transpose (packed, 0, 1, error), WEFT_ERROR_SHAPE);
  REFUSED (weft_tensor_new_unreadable (WEFT_DTYPE_U8, huge, 2, error), WEFT_ERROR_SHAPE);
  REFUSED (weft_tensor_new_unreadable (WEFT_DTYPE_U8, negative, 1, error), WEFT_ERROR_SHAPE);
#undef REFUSED
  for (guint i = 0; i < n; i++)
    {
      g_assert_null (cases[i].result);
      g_assert_error (cases[i].error, WEFT_ERROR, cases[i].code);
      g_clear_error (&cases[i].error);
    }
  {
    g_autoptr (GError) error = NULL;
    g_autoptr (GBytes) bytes = weft_tensor_read (leaf, NULL, &error);

    g_assert_null (bytes);
    g_assert_error (error, WEFT_ERROR, WEFT_ERROR_MISSING);
  }
}

/* Sub-byte elements: cut at byte borders, cast from and to packed bytes. */
static void
test_sub_byte (void)
{
  const guint8 codes[] = { 0x10, 0x32, 0x54, 0x76, 0x98, 0xba };
  const gint64 dims[] = { 3, 4 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = g_bytes_new_static (codes, sizeof codes);
  g_autoptr (WeftTensor) leaf = weft_tensor_new_from_bytes (WEFT_DTYPE_F4, dims, 2, bytes, &error);
  g_autoptr (WeftTensor) columns = weft_tensor_slice (leaf, 1, 2, 2, NULL);
  g_autoptr (GBytes) cut = weft_tensor_read (columns, NULL, NULL);
  g_autoptr (WeftTensor) wide = weft_tensor_cast (leaf, WEFT_DTYPE_F32, NULL);
  g_autoptr (WeftTensor) column = weft_tensor_slice (wide, 1, 1, 1, NULL);
  g_autoptr (GBytes) values = weft_tensor_read (column, NULL, &error);
  g_autoptr (WeftTensor) back = weft_tensor_cast (wide, WEFT_DTYPE_F4, NULL);
  const gfloat expected[] = { 0.5f, 3.0f, -0.5f };

  g_assert_no_error (error);
  g_assert_cmpmem (g_bytes_get_data (cut, NULL), g_bytes_get_size (cut), ((guint8[]){ 0x32, 0x76, 0xba }), 3);
  g_assert_cmpmem (g_bytes_get_data (values, NULL), g_bytes_get_size (values), expected, sizeof expected);
  g_assert_true (weft_tensor_is_same (back, leaf));
}

/* A cast from sub-byte elements whose cut falls inside a byte, larger than what is read in one go. */
static void
test_large_sub_byte (void)
{
  const gint64 n = 3 << 19;
  g_autofree guint8 *codes = g_malloc ((gsize) n / 2);
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = NULL;
  g_autoptr (GBytes) whole = NULL;
  g_autoptr (GBytes) cut = NULL;
  g_autoptr (WeftTensor) leaf = NULL;
  g_autoptr (WeftTensor) wide = NULL;
  g_autoptr (WeftTensor) odd = NULL;

  for (gint64 i = 0; i < n / 2; i++)
    codes[i] = (guint8) (i * 37 + i / 251);
  bytes = g_bytes_new (codes, (gsize) n / 2);
  leaf = weft_tensor_new_from_bytes (WEFT_DTYPE_F4, &n, 1, bytes, &error);
  g_assert_no_error (error);
  wide = weft_tensor_cast (leaf, WEFT_DTYPE_F32, NULL);
  odd = weft_tensor_slice (wide, 0, 1, n - 2, NULL);
  whole = weft_tensor_read (wide, NULL, &error);
  g_assert_no_error (error);
  cut = weft_tensor_read (odd, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpmem (g_bytes_get_data (cut, NULL), g_bytes_get_size (cut),
                   (const gfloat *) g_bytes_get_data (whole, NULL) + 1, ((gsize) n - 2) * sizeof (gfloat));
}

/* Two parts of a file that share all but one element: loops whose sources overlap. */
static void
test_overlapping_sources (void)
{
  WeftShape shape = { .rank = 1, .dims = { (1 << 19) + 1 } };
  g_autofree gchar *folder = g_dir_make_tmp ("weft-XXXXXX", NULL);
  g_autofree gchar *path = g_build_filename (folder, "leaf", NULL);
  Pair leaf = leaf_new (&shape, path);
  g_autoptr (WeftTensor) first = weft_tensor_slice (leaf.tensor, 0, 0, 1 << 19, NULL);
  g_autoptr (WeftTensor) second = weft_tensor_slice (leaf.tensor, 0, 1, 1 << 19, NULL);
  g_autoptr (Plain) plain_first = plain_slice (leaf.plain, 0, 0, 1 << 19);
  g_autoptr (Plain) plain_second = plain_slice (leaf.plain, 0, 1, 1 << 19);
  g_autoptr (Plain) plain = plain_concat (plain_first, plain_second, 0);
  WeftTensor *parts[] = { first, second };
  g_autoptr (WeftTensor) both = weft_tensor_concat (parts, 2, 0, NULL);

  assert_equal (both, plain);
  weft_tensor_unref (leaf.tensor);
  plain_free (leaf.plain);
  g_unlink (path);
  g_rmdir (folder);
}

/* Computations that stand on one another without end are refused, not recursed into. */
static void
test_too_many_steps (void)
{
  const gint64 dims[] = { 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftTensor) tensor = weft_tensor_new_constant (WEFT_DTYPE_F32, dims, 1, 1, NULL);
  guint n_steps = 0;

  while (error == NULL && n_steps < 100000)
    {
      WeftTensor *next = weft_tensor_shift (tensor, 1, &error);

      if (next == NULL)
        break;
      weft_tensor_unref (tensor);
      tensor = next;
      n_steps++;
    }
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_LIMIT);
  g_assert_cmpuint (n_steps, ==, 128);
}

/* A kernel that adds its two inputs, asked for in blocks of 2 x 3. */
static void
sum_get_granularity (gconstpointer params, const WeftShape *output, gint64 *block)
{
  block[0] = 2;
  block[1] = 3;
}

static gboolean
sum_compute_any (gconstpointer params, const WeftKernelView *output, const WeftKernelView *inputs,
                 guint n_inputs, gpointer scratch, GError **error)
{
  guint16 *sum = output->elements;

  for (gint64 i = 0; i < output->n_elements; i++)
    {
      sum[i] = 0;
      for (guint k = 0; k < n_inputs; k++)
        sum[i] = (guint16) (sum[i] + ((const guint16 *) inputs[k].elements)[i]);
    }
  return TRUE;
}

static gboolean
sum_compute (gconstpointer params, const WeftKernelView *output, const WeftKernelView *inputs, guint n_inputs,
             gpointer scratch, GError **error)
{
  g_assert_cmpint (output->region.start[0] % 2, ==, 0);
  g_assert_cmpint (output->region.start[1] % 3, ==, 0);
  return sum_compute_any (params, output, inputs, n_inputs, scratch, error);
}

static void
check_kernel (gint64 n_rows, gint64 n_columns)
{
  static const WeftKernel kernel = { .struct_size = sizeof kernel,
                                     .name = "sum",
                                     .get_granularity = sum_get_granularity,
                                     .compute = sum_compute };
  WeftShape shape = { .rank = 2, .dims = { n_rows, n_columns } };
  Pair a = leaf_new (&shape, NULL);
  Pair b = leaf_new (&shape, NULL);
  WeftTensor *inputs[2] = { a.tensor, b.tensor };
  const gint axes[] = { 1, 0 };
  g_autoptr (Plain) plain = plain_new (&shape);
  g_autoptr (Plain) flipped = NULL, cut = NULL;
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftTensor) sum =
      weft_tensor_new_from_kernel (&kernel, NULL, NULL, WEFT_DTYPE_U16, shape.dims, 2, inputs, 2, &error);
  g_autoptr (WeftTensor) transposed = weft_tensor_transpose (sum, 0, 1, NULL);
  g_autoptr (WeftTensor) part = weft_tensor_slice (transposed, 0, 5, 11, NULL);

  g_assert_no_error (error);
  for (gint64 i = 0; i < plain->n; i++)
    plain->elements[i] = (guint16) (a.plain->elements[i] + b.plain->elements[i]);
  flipped = plain_permute (plain, axes);
  cut = plain_slice (flipped, 0, 5, 11);
  assert_equal (sum, plain);
  assert_equal (part, cut);
  assert_transfers (transposed, flipped, 2, 4096);
  g_assert_false (weft_tensor_is_layout (part));
  weft_tensor_unref (a.tensor);
  plain_free (a.plain);
  weft_tensor_unref (b.tensor);
  plain_free (b.plain);
}

static void
test_kernel (void)
{
  check_kernel (90, 70);
}

/* An output larger than what is computed in one go. */
static void
test_large_kernel (void)
{
  check_kernel (1024, 1100);
}

static gboolean
note_address (gconstpointer params, const WeftKernelView *output, const WeftKernelView *inputs,
              guint n_inputs, gpointer scratch, GError **error)
{
  gconstpointer *const *address = params; /* where to note it */

  **address = inputs[0].elements;
  return sum_compute_any (params, output, inputs, n_inputs, scratch, error);
}

/* A kernel is given elements in memory where they lie, if they lie as it wants them: dense, and aligned for any dtype. */
static void
test_kernel_in_memory (void)
{
  static const WeftKernel kernel = { .struct_size = sizeof kernel, .name = "note", .compute = note_address };
  static const struct
  {
    gint axis;
    gint64 start, length;
    gboolean is_in_place;
  } cases[] = {
    { 0, 0, 6, TRUE },  /* all */
    { 0, 2, 3, TRUE },  /* rows of 16 bytes */
    { 1, 0, 4, FALSE }, /* parts of rows */
    { 1, 1, 7, FALSE },
  };
  WeftShape shape = { .rank = 2, .dims = { 6, 8 } };
  Pair leaf = leaf_new (&shape, NULL);
  g_autoptr (GBytes) memory = weft_tensor_read (leaf.tensor, NULL, NULL);
  g_autoptr (WeftTensor) whole =
      weft_tensor_new_from_bytes (WEFT_DTYPE_U16, shape.dims, shape.rank, memory, NULL);

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (WeftTensor) part =
          weft_tensor_slice (whole, cases[i].axis, cases[i].start, cases[i].length, NULL);
      g_autoptr (Plain) plain =
          plain_slice (leaf.plain, (guint) cases[i].axis, cases[i].start, cases[i].length);
      const guint8 *address = NULL, *first = g_bytes_get_data (memory, NULL);
      gconstpointer place = &address;
      g_autoptr (WeftTensor) sum =
          weft_tensor_new_from_kernel (&kernel, g_memdup2 (&place, sizeof place), g_free, WEFT_DTYPE_U16,
                                       weft_tensor_get_shape (part)->dims, shape.rank, &part, 1, NULL);

      assert_equal (sum, plain);
      g_assert_true ((address >= first && address < first + g_bytes_get_size (memory))
                     == cases[i].is_in_place);
    }
  weft_tensor_unref (leaf.tensor);
  plain_free (leaf.plain);
}

static void
ask_too_much (gconstpointer params, guint input, const WeftRegion *output, WeftRegion *region)
{
  region->extent[0] = G_MAXINT64;
}

static void
bad_granularity (gconstpointer params, const WeftShape *output, gint64 *block)
{
  block[0] = 0;
  block[1] = -5;
}

/* What a stranger's kernel says of itself is checked, or made to fit. */
static void
test_kernel_contract (void)
{
  static const WeftKernel greedy = {
    .struct_size = sizeof greedy, .name = "greedy", .get_input_region = ask_too_much, .compute = sum_compute
  };
  static const WeftKernel old = { .struct_size = 8, .name = "old", .compute = sum_compute };
  static const WeftKernel odd = {
    .struct_size = sizeof odd, .name = "odd", .get_granularity = bad_granularity, .compute = sum_compute_any
  };
  WeftShape shape = { .rank = 2, .dims = { 900, 700 } };
  Pair leaf = leaf_new (&shape, NULL);
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftTensor) asks =
      weft_tensor_new_from_kernel (&greedy, NULL, NULL, WEFT_DTYPE_U16, shape.dims, 2, &leaf.tensor, 1, NULL);
  g_autoptr (WeftTensor) sum =
      weft_tensor_new_from_kernel (&odd, NULL, NULL, WEFT_DTYPE_U16, shape.dims, 2, &leaf.tensor, 1, NULL);
  g_autoptr (GBytes) bytes = weft_tensor_read (asks, NULL, &error);

  g_assert_null (bytes);
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_PLUGIN_CONTRACT);
  g_clear_error (&error);
  g_assert_null (
      weft_tensor_new_from_kernel (&old, NULL, NULL, WEFT_DTYPE_U16, shape.dims, 2, &leaf.tensor, 1, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_PLUGIN_CONTRACT);
  assert_equal (sum, leaf.plain);
  weft_tensor_unref (leaf.tensor);
  plain_free (leaf.plain);
}

/* What is read is what is kept, and holes under 4 KiB. */
static void
test_counters (void)
{
  WeftShape shape = { .rank = 2, .dims = { 512, 8192 } };
  g_autofree gchar *folder = g_dir_make_tmp ("weft-XXXXXX", NULL);
  g_autofree gchar *path = g_build_filename (folder, "leaf", NULL);
  static const struct
  {
    gint axis;
    gint64 start;
    gint64 length;
    guint64 n_kept;
    guint64 n_read;
  } cases[] = {
    { 0, 16, 32, 32 * 16384, 32 * 16384 },
    /* Columns 0-4095: holes of 8 KiB are skipped. */
    { 1, 0, 4096, 512 * 8192, 512 * 8192 },
    /* All but 100 columns: holes of 200 bytes are read through. */
    { 1, 100, 8092, 512 * 16184, 512 * 16384 - 200 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      Pair pair = leaf_new (&shape, path);
      g_autoptr (WeftTensor) cut =
          weft_tensor_slice (pair.tensor, cases[i].axis, cases[i].start, cases[i].length, NULL);
      g_autoptr (GError) error = NULL;
      g_autofree guint8 *memory = g_malloc (weft_tensor_get_n_bytes (cut));
      WeftTransfer transfer = { .tensor = cut, .fd = -1, .memory = memory };
      WeftTransferCounters counters = { 0 };

      weft_transfer_execute (&transfer, 1, NULL, &counters, NULL, &error);
      g_assert_no_error (error);
      g_assert_cmpuint (counters.n_bytes_kept, ==, cases[i].n_kept);
      g_assert_cmpuint (counters.n_bytes_written, ==, cases[i].n_kept);
      g_assert_cmpuint (counters.n_bytes_read, >=, cases[i].n_kept);
      g_assert_cmpuint (counters.n_bytes_read, <=, cases[i].n_read);
      weft_tensor_unref (pair.tensor);
      plain_free (pair.plain);
    }
  g_unlink (path);
  g_rmdir (folder);
}

static void
test_truncated_file (void)
{
  WeftShape shape = { .rank = 1, .dims = { 100000 } };
  g_autofree gchar *folder = g_dir_make_tmp ("weft-XXXXXX", NULL);
  g_autofree gchar *path = g_build_filename (folder, "leaf", NULL);

  for (guint backend = 0; backend < 2; backend++)
    {
      g_autoptr (GError) error = NULL;
      Pair pair = leaf_new (&shape, path);
      g_autoptr (WeftFile) file = weft_file_open (path, backend, &error);
      g_autoptr (WeftTensor) tensor =
          weft_tensor_new_from_file (WEFT_DTYPE_U16, shape.dims, 1, file, 0, &error);
      g_autoptr (GBytes) bytes = NULL;

      g_assert_no_error (error);
      g_assert_cmpint (truncate (path, 5000), ==, 0);
      bytes = weft_tensor_read (tensor, NULL, &error);
      g_assert_null (bytes);
      g_assert_error (error, WEFT_ERROR, WEFT_ERROR_IO);
      g_assert_nonnull (strstr (error->message, "truncated"));
      weft_tensor_unref (pair.tensor);
      plain_free (pair.plain);
    }
  g_unlink (path);
  g_rmdir (folder);
}

/* A name that is taken changes nothing. */
static void
test_state_dict (void)
{
  static const gchar *const names[] = { "a.10", "a.2", "b" };
  const gint64 dims[] = { 2 };
  g_autoptr (WeftStateDict) tensors = weft_state_dict_new ();
  g_autoptr (WeftTensor) other = weft_tensor_new_unreadable (WEFT_DTYPE_I8, dims, 1, NULL);
  g_autoptr (GError) error = NULL;

  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      g_autoptr (WeftTensor) tensor = weft_tensor_new_unreadable (WEFT_DTYPE_F32, dims, 1, NULL);

      g_assert_true (weft_state_dict_add (tensors, names[i], tensor, NULL));
    }
  g_assert_false (weft_state_dict_add (tensors, "a.2", other, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_CONFLICT);
  g_assert_cmpuint (weft_state_dict_get_n_tensors (tensors), ==, 3);
  g_assert_true (weft_state_dict_lookup (tensors, "a.2") == weft_state_dict_get_tensor (tensors, 1));
  weft_state_dict_sort_natural (tensors);
  g_assert_cmpstr (weft_state_dict_get_name (tensors, 0), ==, "a.2");
  g_assert_true (weft_state_dict_lookup (tensors, "a.10") == weft_state_dict_get_tensor (tensors, 1));
}

static void
test_broadcast_and_constant (void)
{
  const gint64 dims[] = { 3, 5 };
  const gfloat one_and_half = 1.5f;
  g_autoptr (GBytes) bytes = g_bytes_new (&one_and_half, sizeof one_and_half);
  g_autoptr (WeftTensor) scalar = weft_tensor_new_from_bytes (WEFT_DTYPE_F32, NULL, 0, bytes, NULL);
  g_autoptr (WeftTensor) wide = weft_tensor_broadcast_scalar (scalar, dims, 2, NULL);
  g_autoptr (WeftTensor) half = weft_tensor_cast (wide, WEFT_DTYPE_BF16, NULL);
  g_autoptr (WeftTensor) constant = weft_tensor_new_constant (WEFT_DTYPE_BF16, dims, 2, -1.5, NULL);
  g_autoptr (WeftTensor) negated = weft_tensor_scale (constant, -1.0, NULL);
  g_autoptr (GBytes) a = weft_tensor_read (half, NULL, NULL);
  g_autoptr (GBytes) b = weft_tensor_read (negated, NULL, NULL);
  const guint16 *values = g_bytes_get_data (a, NULL);

  g_assert_cmpuint (g_bytes_get_size (a), ==, 30);
  g_assert_cmphex (values[7], ==, 0x3fc0);
  g_assert_true (g_bytes_equal (a, b));
}

gint
main (gint argc, gchar **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/tensor/random-chains", test_random_chains);
  g_test_add_func ("/tensor/large-transposes", test_large_transposes);
  g_test_add_func ("/tensor/round-trips-are-proven", test_round_trips_are_proven);
  g_test_add_func ("/tensor/experts-stay-few-pieces", test_experts_stay_few_pieces);
  g_test_add_func ("/tensor/too-many-pieces", test_too_many_pieces);
  g_test_add_func ("/tensor/too-many-steps", test_too_many_steps);
  g_test_add_func ("/tensor/refusals", test_refusals);
  g_test_add_func ("/tensor/sub-byte", test_sub_byte);
  g_test_add_func ("/tensor/large-sub-byte", test_large_sub_byte);
  g_test_add_func ("/tensor/overlapping-sources", test_overlapping_sources);
  g_test_add_func ("/tensor/kernel", test_kernel);
  g_test_add_func ("/tensor/kernel-contract", test_kernel_contract);
  g_test_add_func ("/tensor/kernel-in-memory", test_kernel_in_memory);
  g_test_add_func ("/tensor/large-kernel", test_large_kernel);
  g_test_add_func ("/tensor/counters", test_counters);
  g_test_add_func ("/tensor/truncated-file", test_truncated_file);
  g_test_add_func ("/tensor/state-dict", test_state_dict);
  g_test_add_func ("/tensor/broadcast-and-constant", test_broadcast_and_constant);
  return g_test_run ();
}
