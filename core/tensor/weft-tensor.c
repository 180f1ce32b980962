/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/weft-tensor-private.h"
#include "tensor/weft-file-tensors-internal.h"
#include "tensor/weft-tensor-quantize.h"
#include "tensor/weft-cast-private.h"

#include <string.h>

G_DEFINE_BOXED_TYPE (WeftTensor, weft_tensor, weft_tensor_ref, weft_tensor_unref)

/**
 * weft_tensor_ref:
 * @self: a tensor
 *
 * Returns: (transfer full): @self with one more reference
 * Since: 1.0
 */
WeftTensor *
weft_tensor_ref (WeftTensor *self)
{
  g_atomic_ref_count_inc (&self->ref_count);
  return self;
}

/**
 * weft_tensor_unref:
 * @self: (transfer full): a tensor
 *
 * Gives one reference back; the last one frees the tensor.
 *
 * Since: 1.0
 */
void
weft_tensor_unref (WeftTensor *self)
{
  if (!g_atomic_ref_count_dec (&self->ref_count))
    return;
  if (self->is_in_base)
    {
      weft_base_unref (self->layout.pieces->base);
      return;
    }
  weft_layout_clear (&self->layout);
  g_free (self);
}

static WeftTensor *
tensor_init (WeftTensor *self, WeftDtype dtype, const WeftShape *shape)
{
  g_atomic_ref_count_init (&self->ref_count);
  self->dtype = dtype;
  self->shape = *shape;
  /* Every way to a shape has counted its elements before. */
  (void) weft_shape_count_elements (shape, &self->n_elements, NULL);
  return self;
}

WeftTensor *
weft_tensor_new_from_builder (WeftDtype dtype, const WeftShape *shape, WeftLayoutBuilder *builder)
{
  WeftTensor *self = tensor_init (g_new0 (WeftTensor, 1), dtype, shape);

  weft_layout_builder_finish (builder, &self->layout);
  return self;
}

WeftTensor *
weft_tensor_new_empty (WeftDtype dtype, const WeftShape *shape)
{
  return tensor_init (g_new0 (WeftTensor, 1), dtype, shape);
}

void
weft_leaf_init (WeftLeaf *self, WeftDtype dtype, const WeftShape *shape, WeftBase *base, gint64 source_stride)
{
  WeftTensor *tensor = tensor_init (&self->tensor, dtype, shape);
  gint64 n_units = tensor->n_elements / weft_dtype_get_unit_elements (dtype);

  self->loop = (WeftLoop){ n_units, 1, source_stride };
  self->piece = (WeftStoredPiece){ .base = base, .n_loops = n_units > 1 };
  tensor->layout = (WeftLayout){ .pieces = &self->piece,
                                 .loops = &self->loop,
                                 .n_pieces = 1,
                                 .n_loops = self->piece.n_loops,
                                 .is_inside_tensor = TRUE };
}

/* Takes @base. */
static WeftTensor *
tensor_new_from_base (WeftDtype dtype, const WeftShape *shape, WeftBase *base, gint64 source_stride)
{
  WeftLeaf *leaf;
  gint64 n_elements;

  if (!weft_shape_count_elements (shape, &n_elements, NULL) || n_elements == 0)
    {
      weft_base_unref (base);
      return weft_tensor_new_empty (dtype, shape);
    }
  leaf = g_new0 (WeftLeaf, 1);
  weft_leaf_init (leaf, dtype, shape, base, source_stride);
  return &leaf->tensor;
}

gboolean
weft_tensor_check_new (WeftDtype dtype, const gint64 *dims, gsize n_dims, WeftShape *shape, gint64 *n_bytes,
                       GError **error)
{
  if (dtype <= WEFT_DTYPE_INVALID || dtype >= WEFT_N_DTYPES)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_DTYPE, "%d is no dtype", (gint) dtype);
      return FALSE;
    }
  return weft_shape_init (shape, dims, n_dims, error)
         && weft_shape_count_bytes (shape, dtype, n_bytes, error);
}

/**
 * weft_tensor_new_from_bytes:
 * @dtype: element type
 * @dims: (array length=n_dims): extents in elements, outermost first
 * @n_dims: the rank
 * @bytes: the elements, row-major, little-endian; exactly as many bytes as dtype and shape ask for
 * @error: return location
 *
 * Returns: (transfer full): a tensor over memory
 * Errors: %WEFT_ERROR_SHAPE if the size of @bytes does not fit; as for any shape
 * Since: 1.0
 */
WeftTensor *
weft_tensor_new_from_bytes (WeftDtype dtype, const gint64 *dims, gsize n_dims, GBytes *bytes, GError **error)
{
  WeftShape shape;
  WeftBase *base;
  gint64 n_bytes;

  if (!weft_tensor_check_new (dtype, dims, n_dims, &shape, &n_bytes, error))
    return NULL;
  if (g_bytes_get_size (bytes) != (gsize) n_bytes)
    {
      g_autofree gchar *text = weft_shape_to_string (&shape);
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE,
                   "%s of shape %s takes %" G_GINT64_FORMAT " bytes, found %" G_GSIZE_FORMAT,
                   weft_dtype_get_name (dtype), text, n_bytes, g_bytes_get_size (bytes));
      return NULL;
    }
  base = weft_base_new (WEFT_BASE_MEMORY, dtype, n_bytes * 8 / weft_dtype_get_bits (dtype));
  base->bytes = g_bytes_ref (bytes);
  return tensor_new_from_base (dtype, &shape, base, 1);
}

/**
 * weft_tensor_new_from_file:
 * @dtype: element type
 * @dims: (array length=n_dims): extents in elements, outermost first
 * @n_dims: the rank
 * @file: an open file
 * @offset: position of the first byte
 * @error: return location
 *
 * Returns: (transfer full): a tensor over an extent of a file; nothing is read
 * Errors: %WEFT_ERROR_SHAPE if the extent leaves the file; as for any shape
 * Since: 1.0
 */
WeftTensor *
weft_tensor_new_from_file (WeftDtype dtype, const gint64 *dims, gsize n_dims, WeftFile *file, guint64 offset,
                           GError **error)
{
  g_autoptr (WeftFileTensors) tensors = weft_file_tensors_new (file, 1);

  return weft_file_tensors_add (tensors, dtype, dims, n_dims, offset, error);
}

/**
 * weft_tensor_new_unreadable:
 * @dtype: element type
 * @dims: (array length=n_dims): extents in elements, outermost first
 * @n_dims: the rank
 * @error: return location
 *
 * Returns: (transfer full): a tensor that is known by its header only; planning works, reading is an error
 * Errors: as for any shape
 * Since: 1.0
 */
WeftTensor *
weft_tensor_new_unreadable (WeftDtype dtype, const gint64 *dims, gsize n_dims, GError **error)
{
  WeftShape shape;
  gint64 n_bytes;

  if (!weft_tensor_check_new (dtype, dims, n_dims, &shape, &n_bytes, error))
    return NULL;
  return tensor_new_from_base (
      dtype, &shape, weft_base_new (WEFT_BASE_UNREADABLE, dtype, n_bytes * 8 / weft_dtype_get_bits (dtype)),
      1);
}

/**
 * weft_tensor_new_constant:
 * @dtype: element type of whole bytes
 * @dims: (array length=n_dims): extents in elements, outermost first
 * @n_dims: the rank
 * @value: the value of every element, rounded to @dtype
 * @error: return location
 *
 * Returns: (transfer full): a tensor of equal elements, which takes no memory
 * Errors: %WEFT_ERROR_DTYPE for a sub-byte or complex dtype; as for any shape
 * Since: 1.0
 */
WeftTensor *
weft_tensor_new_constant (WeftDtype dtype, const gint64 *dims, gsize n_dims, gdouble value, GError **error)
{
  WeftShape shape;
  WeftBase *base;
  WeftCastFunc cast;
  gint64 n_bytes;

  if (!weft_tensor_check_new (dtype, dims, n_dims, &shape, &n_bytes, error))
    return NULL;
  cast = weft_dtype_get_unit_elements (dtype) == 1 ? weft_cast_lookup (WEFT_DTYPE_F64, dtype) : NULL;
  if (cast == NULL)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_DTYPE, "no constant of dtype %s can be made",
                   weft_dtype_get_name (dtype));
      return NULL;
    }
  base = weft_base_new (WEFT_BASE_CONSTANT, dtype, 1);
  cast (&value, base->element, 1);
  return tensor_new_from_base (dtype, &shape, base, 0);
}

/**
 * weft_tensor_new_from_source:
 * @dtype: element type
 * @dims: (array length=n_dims): extents in elements, outermost first
 * @n_dims: the rank
 * @source: gives the bytes
 * @error: return location
 *
 * Returns: (transfer full): a tensor whose elements a class of the caller gives on demand
 * Errors: as for any shape
 * Since: 1.0
 */
WeftTensor *
weft_tensor_new_from_source (WeftDtype dtype, const gint64 *dims, gsize n_dims, WeftTensorSource *source,
                             GError **error)
{
  WeftShape shape;
  WeftBase *base;
  gint64 n_bytes;

  if (!weft_tensor_check_new (dtype, dims, n_dims, &shape, &n_bytes, error))
    return NULL;
  base = weft_base_new (WEFT_BASE_SOURCE, dtype, n_bytes * 8 / weft_dtype_get_bits (dtype));
  base->source = g_object_ref (source);
  base->needs_owner = TRUE;
  return tensor_new_from_base (dtype, &shape, base, 1);
}

static guint8
tensor_get_depth (WeftTensor *self)
{
  guint8 depth = 0;

  for (guint i = 0; i < self->layout.n_pieces; i++)
    depth = MAX (depth, self->layout.pieces[i].base->depth);
  return depth;
}

/* The output of a kernel is cut into boxes, whose rows have to be whole bytes. */
static gboolean
check_rows (WeftDtype dtype, const WeftShape *shape, GError **error)
{
  g_autofree gchar *text = NULL;

  if (shape->rank == 0 || shape->dims[shape->rank - 1] % weft_dtype_get_unit_elements (dtype) == 0)
    return TRUE;
  text = weft_shape_to_string (shape);
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE, "the rows of %s of shape %s are no whole bytes",
               weft_dtype_get_name (dtype), text);
  return FALSE;
}

/* A later version may add members at the end of the struct, never take one away. */
static gboolean
check_kernel (const WeftKernel *kernel, GError **error)
{
  if (kernel->struct_size >= sizeof *kernel && kernel->name != NULL && kernel->compute != NULL)
    return TRUE;
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_PLUGIN_CONTRACT,
               "%s: expected a kernel of at least %" G_GSIZE_FORMAT
               " bytes with a name and a compute function",
               kernel->struct_size >= sizeof *kernel && kernel->name != NULL ? kernel->name : "a kernel",
               sizeof *kernel);
  return FALSE;
}

/**
 * weft_tensor_new_from_kernel: (skip)
 * @kernel: the kernel, which must stay valid
 * @params: (nullable): what its functions get
 * @destroy: (nullable): frees @params, also on error
 * @dtype: element type of the output
 * @dims: (array length=n_dims): extents of the output in elements
 * @n_dims: its rank
 * @inputs: (array length=n_inputs): the inputs
 * @n_inputs: their number
 * @error: return location
 *
 * Returns: (transfer full): a tensor that is computed when it is read
 * Errors: as for any shape, %WEFT_ERROR_SHAPE if the rows of a sub-byte dtype are no whole bytes,
 *   %WEFT_ERROR_LIMIT if too many computations stand on one another
 * Since: 1.0
 */
WeftTensor *
weft_tensor_new_from_kernel (const WeftKernel *kernel, gpointer params, GDestroyNotify destroy,
                             WeftDtype dtype, const gint64 *dims, gsize n_dims, WeftTensor **inputs,
                             gsize n_inputs, GError **error)
{
  WeftShape shape;
  WeftBase *base;
  gint64 n_bytes;

  if (!check_kernel (kernel, error) || !weft_tensor_check_new (dtype, dims, n_dims, &shape, &n_bytes, error)
      || !check_rows (dtype, &shape, error))
    {
      if (destroy != NULL)
        destroy (params);
      return NULL;
    }
  base = weft_base_new (WEFT_BASE_KERNEL, dtype, n_bytes * 8 / weft_dtype_get_bits (dtype));
  base->kernel.kernel = kernel;
  base->kernel.params = params;
  base->kernel.destroy = destroy;
  base->kernel.shape = weft_shape_copy (&shape);
  base->kernel.inputs = g_new (WeftTensor *, n_inputs);
  base->kernel.n_inputs = (guint) n_inputs;
  for (gsize i = 0; i < n_inputs; i++)
    {
      base->kernel.inputs[i] = weft_tensor_ref (inputs[i]);
      base->needs_owner |= weft_tensor_needs_owner (inputs[i]);
      base->depth = MAX (base->depth, tensor_get_depth (inputs[i]) + 1);
    }
  if (!weft_base_check_depth (base, kernel->name, error))
    {
      weft_base_unref (base);
      return NULL;
    }
  return tensor_new_from_base (dtype, &shape, base, 1);
}

/**
 * weft_tensor_remember:
 * @self: a tensor that is small and costly to compute, such as the largest magnitude of a weight
 * @error: return location
 *
 * Computes the elements once, when some are read first, and keeps them in memory.
 *
 * Returns: (transfer full): a tensor of the same elements
 * Errors: %WEFT_ERROR_LIMIT if too many computations stand on one another
 * Since: 1.0
 */
WeftTensor *
weft_tensor_remember (WeftTensor *self, GError **error)
{
  WeftBase *base = weft_base_new (WEFT_BASE_ONCE, self->dtype, self->n_elements);

  base->once.input = weft_tensor_ref (self);
  g_mutex_init (&base->once.mutex);
  base->needs_owner = weft_tensor_needs_owner (self);
  base->depth = tensor_get_depth (self) + 1;
  if (!weft_base_check_depth (base, "remember", error))
    {
      weft_base_unref (base);
      return NULL;
    }
  return tensor_new_from_base (self->dtype, &self->shape, base, 1);
}

gboolean
weft_tensor_needs_owner (WeftTensor *self)
{
  for (guint i = 0; i < self->layout.n_pieces; i++)
    if (self->layout.pieces[i].base->needs_owner)
      return TRUE;
  return FALSE;
}

/**
 * weft_tensor_get_dtype:
 * @self: a tensor
 *
 * Returns: the element type
 * Since: 1.0
 */
WeftDtype
weft_tensor_get_dtype (WeftTensor *self)
{
  return self->dtype;
}

/**
 * weft_tensor_get_shape:
 * @self: a tensor
 *
 * Returns: (transfer none): the shape, valid as long as @self
 * Since: 1.0
 */
const WeftShape *
weft_tensor_get_shape (WeftTensor *self)
{
  return &self->shape;
}

/**
 * weft_tensor_get_rank:
 * @self: a tensor
 *
 * Returns: the number of axes
 * Since: 1.0
 */
guint
weft_tensor_get_rank (WeftTensor *self)
{
  return self->shape.rank;
}

/**
 * weft_tensor_get_dim:
 * @self: a tensor of rank r
 * @axis: an axis, `-r <= axis < r`
 *
 * Returns: the extent of @axis in elements, or -1 if there is no such axis
 * Since: 1.0
 */
gint64
weft_tensor_get_dim (WeftTensor *self, gint axis)
{
  return weft_shape_get_dim (&self->shape, axis);
}

/**
 * weft_tensor_get_n_elements:
 * @self: a tensor
 *
 * Returns: the number of elements
 * Since: 1.0
 */
gint64
weft_tensor_get_n_elements (WeftTensor *self)
{
  return self->n_elements;
}

/**
 * weft_tensor_get_n_bytes:
 * @self: a tensor
 *
 * Returns: the size of all elements in bytes
 * Since: 1.0
 */
guint64
weft_tensor_get_n_bytes (WeftTensor *self)
{
  return (guint64) self->n_elements / weft_dtype_get_unit_elements (self->dtype)
         * weft_dtype_get_unit_bytes (self->dtype);
}

/**
 * weft_tensor_get_n_pieces:
 * @self: a tensor
 *
 * Returns: the number of affine pieces of its layout; 1 for a plain file extent, 0 for an empty tensor
 * Since: 1.0
 */
guint
weft_tensor_get_n_pieces (WeftTensor *self)
{
  return self->layout.n_pieces;
}

/**
 * weft_tensor_is_layout:
 * @self: a tensor
 *
 * Returns: whether no element is computed: all come from files, memory or constants as they are
 * Since: 1.0
 */
gboolean
weft_tensor_is_layout (WeftTensor *self)
{
  for (guint i = 0; i < self->layout.n_pieces; i++)
    {
      guint8 kind = self->layout.pieces[i].base->kind;

      if (kind == WEFT_BASE_POINTWISE || kind == WEFT_BASE_KERNEL)
        return FALSE;
    }
  return TRUE;
}

/**
 * weft_tensor_foreach_extent: (skip)
 * @self: a tensor
 * @func: (scope call): called for each extent
 * @user_data: given to @func
 *
 * Visits the pieces that stand in a file as they stand in the tensor: those that are copied and not put together.
 *
 * Since: 1.0
 */
void
weft_tensor_foreach_extent (WeftTensor *self, WeftExtentFunc func, gpointer user_data)
{
  gsize unit_bytes = weft_dtype_get_unit_bytes (self->dtype);

  for (guint i = 0; i < self->layout.n_pieces; i++)
    {
      const WeftStoredPiece *piece = &self->layout.pieces[i];
      const WeftLoop *loop = &self->layout.loops[piece->first_loop];
      gboolean is_run =
          piece->n_loops == 0 || (piece->n_loops == 1 && loop->destination == 1 && loop->source == 1);

      if (is_run && piece->base->kind == WEFT_BASE_FILE)
        func (piece->base->file.offset + (guint64) piece->source * unit_bytes,
              (guint64) piece->destination * unit_bytes,
              (piece->n_loops == 0 ? 1 : (guint64) loop->extent) * unit_bytes, user_data);
    }
}

/* Whether a tensor is one base as it is. */
static WeftBase *
get_whole_base (WeftTensor *self)
{
  WeftPiece piece;

  if (self->layout.n_pieces != 1)
    return NULL;
  weft_layout_get_piece (&self->layout, 0, &piece);
  if (piece.base->n_elements != self->n_elements || !weft_piece_is_identity (&piece))
    return NULL;
  return piece.base;
}

static gboolean
layouts_equal (const WeftLayout *a, const WeftLayout *b)
{
  if (a->n_pieces != b->n_pieces)
    return FALSE;
  for (guint i = 0; i < a->n_pieces; i++)
    {
      WeftPiece piece_a, piece_b;

      weft_layout_get_piece (a, i, &piece_a);
      weft_layout_get_piece (b, i, &piece_b);
      if (!weft_base_equal (piece_a.base, piece_b.base) || piece_a.destination != piece_b.destination
          || piece_a.source != piece_b.source || piece_a.n_loops != piece_b.n_loops
          || (piece_a.n_loops > 0
              && memcmp (piece_a.loops, piece_b.loops, piece_a.n_loops * sizeof (WeftLoop)) != 0))
        return FALSE;
    }
  return TRUE;
}

/**
 * weft_tensor_is_same:
 * @self: a tensor
 * @other: another, as a rule a leaf
 *
 * Compares dtype, shape and addressing. If @other is a whole base (a file extent, say), this is the test of a round
 * trip: in every piece of @self destination and source offsets and strides are equal. Nothing is read.
 *
 * Returns: %TRUE if both hold the same elements for sure; %FALSE if that is not known
 * Since: 1.0
 */
gboolean
weft_tensor_is_same (WeftTensor *self, WeftTensor *other)
{
  WeftBase *base;

  if (self->dtype != other->dtype || !weft_shape_equal (&self->shape, &other->shape))
    return FALSE;
  if (self->n_elements == 0)
    return TRUE;
  base = get_whole_base (other);
  if (base == NULL)
    return layouts_equal (&self->layout, &other->layout);
  for (guint i = 0; i < self->layout.n_pieces; i++)
    {
      WeftPiece piece;

      weft_layout_get_piece (&self->layout, i, &piece);
      if (!weft_base_equal (piece.base, base) || !weft_piece_is_identity (&piece))
        return FALSE;
    }
  return TRUE;
}

static const gchar *
base_get_kind_name (const WeftBase *base)
{
  static const gchar *const functions[] = { "cast", "bitcast", "scale", "shift" };

  switch ((WeftBaseKind) base->kind)
    {
    case WEFT_BASE_FILE:
      return "file";
    case WEFT_BASE_MEMORY:
      return "memory";
    case WEFT_BASE_CONSTANT:
      return "constant";
    case WEFT_BASE_POINTWISE:
      return functions[base->pointwise.function];
    case WEFT_BASE_KERNEL:
      return base->kernel.kernel->name;
    case WEFT_BASE_SOURCE:
      return "source";
    case WEFT_BASE_UNREADABLE:
    default:
      return "header";
    }
}

/**
 * weft_tensor_describe:
 * @self: a tensor
 *
 * Returns: (transfer full): dtype, shape and where the elements come from, for a person
 * Since: 1.0
 */
gchar *
weft_tensor_describe (WeftTensor *self)
{
  g_autofree gchar *shape = weft_shape_to_string (&self->shape);
  GString *text = g_string_new (NULL);

  g_string_printf (text, "%s %s, %u piece%s", weft_dtype_get_name (self->dtype), shape, self->layout.n_pieces,
                   self->layout.n_pieces == 1 ? "" : "s");
  for (guint i = 0; i < MIN (self->layout.n_pieces, 4); i++)
    {
      const WeftBase *base = self->layout.pieces[i].base;

      g_string_append_printf (text, "%s%s", i == 0 ? ": " : ", ", base_get_kind_name (base));
      if (base->kind == WEFT_BASE_FILE)
        g_string_append_printf (text, " %s+%" G_GUINT64_FORMAT, weft_file_get_path (base->file.file),
                                base->file.offset);
    }
  if (self->layout.n_pieces > 4)
    g_string_append (text, ", ...");
  return g_string_free (text, FALSE);
}
