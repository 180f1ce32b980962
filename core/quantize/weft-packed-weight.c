/* SPDX-License-Identifier: Apache-2.0 */
#include "quantize/weft-packed-weight-private.h"

#include <string.h>

#include "base/weft-error.h"

typedef struct
{
  gchar *role;
  gchar *key;
  guint position;
  WeftTensor *tensor;
  gboolean has_block;
  gboolean allows_channels;
  gboolean is_exponents;
  gboolean keeps_spelling;
  gint64 rows;
  gint64 columns;
} Part;

struct _WeftPackedWeight
{
  GObject parent_instance;

  gchar *name;
  gchar *scheme;
  GArray *parts;
  WeftTensor *dense;
  WeftShape shape;
  WeftDtype dtype;
};

G_DEFINE_FINAL_TYPE (WeftPackedWeight, weft_packed_weight, G_TYPE_OBJECT)

static void
part_clear (gpointer user_data)
{
  Part *part = user_data;

  g_free (part->role);
  g_free (part->key);
  weft_tensor_unref (part->tensor);
}

static void
weft_packed_weight_finalize (GObject *object)
{
  WeftPackedWeight *self = WEFT_PACKED_WEIGHT (object);

  g_free (self->name);
  g_free (self->scheme);
  g_array_unref (self->parts);
  g_clear_pointer (&self->dense, weft_tensor_unref);
  G_OBJECT_CLASS (weft_packed_weight_parent_class)->finalize (object);
}

static void
weft_packed_weight_class_init (WeftPackedWeightClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = weft_packed_weight_finalize;
}

static void
weft_packed_weight_init (WeftPackedWeight *self)
{
  self->parts = g_array_sized_new (FALSE, TRUE, sizeof (Part), 2);
  g_array_set_clear_func (self->parts, part_clear);
  self->dtype = WEFT_DTYPE_INVALID;
}

/**
 * weft_packed_weight_new:
 * @name: the dense name
 *
 * Returns: (transfer full): a weight without parts
 * Since: 1.0
 */
WeftPackedWeight *
weft_packed_weight_new (const gchar *name)
{
  WeftPackedWeight *self = g_object_new (WEFT_TYPE_PACKED_WEIGHT, NULL);

  self->name = g_strdup (name);
  return self;
}

/**
 * weft_packed_weight_get_name:
 * @self: a weight
 *
 * Returns: its dense name, such as `model.layers.0.mlp.up_proj.weight`
 * Since: 1.0
 */
const gchar *
weft_packed_weight_get_name (WeftPackedWeight *self)
{
  return self->name;
}

/**
 * weft_packed_weight_dup_module_path:
 * @self: a weight
 *
 * Returns: (transfer full): the path of the module that has it: the name without its last part
 * Since: 1.0
 */
gchar *
weft_packed_weight_dup_module_path (WeftPackedWeight *self)
{
  const gchar *dot = strrchr (self->name, '.');

  return dot != NULL ? g_strndup (self->name, (gsize) (dot - self->name)) : g_strdup ("");
}

static Part *
find_part (WeftPackedWeight *self, const gchar *role)
{
  for (guint i = 0; i < self->parts->len; i++)
    if (strcmp (g_array_index (self->parts, Part, i).role, role) == 0)
      return &g_array_index (self->parts, Part, i);
  return NULL;
}

/**
 * weft_packed_weight_set_part:
 * @self: a weight
 * @role: what the tensor is to it
 * @tensor: a tensor
 *
 * Since: 1.0
 */
void
weft_packed_weight_set_part (WeftPackedWeight *self, const gchar *role, WeftTensor *tensor)
{
  Part *part = find_part (self, role);

  if (part == NULL)
    {
      Part added = { .role = g_strdup (role), .position = G_MAXUINT, .tensor = weft_tensor_ref (tensor) };

      g_array_append_val (self->parts, added);
      return;
    }
  weft_tensor_ref (tensor);
  weft_tensor_unref (part->tensor);
  part->tensor = tensor;
}

/**
 * weft_packed_weight_add_stored_part:
 * @self: a weight
 * @role: what the tensor is to it
 * @key: the name that the tensor is stored under
 * @position: where it stands in its state dict
 * @tensor: the tensor
 * @error: return location
 *
 * Returns: whether the role was free
 * Errors: %WEFT_ERROR_CONFLICT if two stored tensors claim one role
 * Since: 1.0
 */
gboolean
weft_packed_weight_add_stored_part (WeftPackedWeight *self, const gchar *role, const gchar *key,
                                    guint position, WeftTensor *tensor, GError **error)
{
  const Part *other = find_part (self, role);
  Part part = { .position = position };

  if (other != NULL)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_CONFLICT,
                   "'%s' and '%s' are both the %s of '%s'; leave one of them out", other->key, key, role,
                   self->name);
      return FALSE;
    }
  part.role = g_strdup (role);
  part.key = g_strdup (key);
  part.tensor = weft_tensor_ref (tensor);
  g_array_append_val (self->parts, part);
  return TRUE;
}

/**
 * weft_packed_weight_get_n_parts:
 * @self: a weight
 *
 * Returns: how many tensors it is stored as
 * Since: 1.0
 */
guint
weft_packed_weight_get_n_parts (WeftPackedWeight *self)
{
  return self->parts->len;
}

/**
 * weft_packed_weight_get_role:
 * @self: a weight
 * @part: which part
 *
 * Returns: its role
 * Since: 1.0
 */
const gchar *
weft_packed_weight_get_role (WeftPackedWeight *self, guint part)
{
  g_return_val_if_fail (part < self->parts->len, NULL);
  return g_array_index (self->parts, Part, part).role;
}

void
weft_packed_weight_set_key (WeftPackedWeight *self, const gchar *role, const gchar *key)
{
  Part *part = find_part (self, role);

  g_free (part->key);
  part->key = g_strdup (key);
}

/**
 * weft_packed_weight_get_key:
 * @self: a weight
 * @role: role of a part
 *
 * Returns: (nullable): the name that it is stored under; %NULL if there is no such part, or if it was not read
 * Since: 1.0
 */
const gchar *
weft_packed_weight_get_key (WeftPackedWeight *self, const gchar *role)
{
  const Part *part = find_part (self, role);

  return part != NULL ? part->key : NULL;
}

/**
 * weft_packed_weight_get_position:
 * @self: a weight
 * @role: role of a part
 * @position: (out): where it stands in the state dict that it was read from
 *
 * Returns: whether there is such a part, and it was read
 * Since: 1.0
 */
gboolean
weft_packed_weight_get_position (WeftPackedWeight *self, const gchar *role, guint *position)
{
  const Part *part = find_part (self, role);

  *position = part != NULL ? part->position : G_MAXUINT;
  return *position != G_MAXUINT;
}

/**
 * weft_packed_weight_get_tensor:
 * @self: a weight
 * @role: role of a part
 *
 * Returns: (transfer none) (nullable): the tensor
 * Since: 1.0
 */
WeftTensor *
weft_packed_weight_get_tensor (WeftPackedWeight *self, const gchar *role)
{
  const Part *part = find_part (self, role);

  return part != NULL ? part->tensor : NULL;
}

/**
 * weft_packed_weight_require_tensor:
 * @self: a weight
 * @role: role of a part
 * @error: return location
 *
 * Returns: (transfer none): the tensor
 * Errors: %WEFT_ERROR_MISSING if there is none: codes without their companions are no values
 * Since: 1.0
 */
WeftTensor *
weft_packed_weight_require_tensor (WeftPackedWeight *self, const gchar *role, GError **error)
{
  WeftTensor *tensor = weft_packed_weight_get_tensor (self, role);
  WeftTensor *codes = weft_packed_weight_get_tensor (self, WEFT_ROLE_CODES);

  if (tensor == NULL)
    g_set_error (error, WEFT_ERROR, WEFT_ERROR_MISSING,
                 "'%s' is stored as %s and has no %s that its method knows; its codes mean nothing without",
                 self->name, codes != NULL ? weft_dtype_get_name (weft_tensor_get_dtype (codes)) : "nothing",
                 role);
  return tensor;
}

/**
 * weft_packed_weight_set_dense:
 * @self: a weight
 * @dense: its values
 *
 * Since: 1.0
 */
void
weft_packed_weight_set_dense (WeftPackedWeight *self, WeftTensor *dense)
{
  g_clear_pointer (&self->dense, weft_tensor_unref);
  self->dense = weft_tensor_ref (dense);
}

/**
 * weft_packed_weight_get_dense:
 * @self: a weight
 *
 * Returns: (transfer none) (nullable): its values, while it is quantised
 * Since: 1.0
 */
WeftTensor *
weft_packed_weight_get_dense (WeftPackedWeight *self)
{
  return self->dense;
}

/**
 * weft_packed_weight_set_packed:
 * @self: a weight
 * @scheme: what people call the way it is packed, such as `fp8 128x128`
 * @dims: (array length=n_dims): shape of the dense weight
 * @n_dims: its rank
 * @dtype: the dtype that its values have if nobody asks for another
 * @error: return location
 *
 * Says that the weight is packed. Without this it is a plain tensor.
 *
 * Returns: whether the shape is one
 * Errors: %WEFT_ERROR_SHAPE, %WEFT_ERROR_LIMIT if it is not
 * Since: 1.0
 */
gboolean
weft_packed_weight_set_packed (WeftPackedWeight *self, const gchar *scheme, const gint64 *dims, gsize n_dims,
                               WeftDtype dtype, GError **error)
{
  WeftShape shape;
  gint64 n_bytes;

  if (!weft_shape_init (&shape, dims, n_dims, error)
      || !weft_shape_count_bytes (&shape, dtype, &n_bytes, error))
    {
      g_prefix_error (error, "'%s': ", self->name);
      return FALSE;
    }
  self->shape = shape;
  self->dtype = dtype;
  g_free (self->scheme);
  self->scheme = g_strdup (scheme);
  return TRUE;
}

/* The shape of a part that has an element for each block of the dense weight. */
static WeftShape
get_grid_shape (WeftPackedWeight *self, const Part *part)
{
  WeftShape shape = self->shape;

  for (guint i = 0; i < 2 && i < shape.rank; i++)
    {
      gint64 *dim = &shape.dims[shape.rank - 1 - i];
      gint64 block = i == 0 ? part->columns : part->rows;

      *dim = block == 0 ? 1 : *dim / block + (*dim % block != 0);
    }
  return shape;
}

/* Whether @shape is @grid, or lacks innermost axes of one element: scales without axes are stacked to one axis. */
static gboolean
is_grid (const WeftShape *shape, const WeftShape *grid)
{
  WeftShape filled = *shape;

  while (filled.rank < grid->rank)
    filled.dims[filled.rank++] = 1;
  return weft_shape_equal (&filled, grid);
}

GPtrArray *
weft_packed_weight_fill_axes (WeftPackedWeight *self, GError **error)
{
  g_autoptr (GPtrArray) stored = g_ptr_array_new_with_free_func ((GDestroyNotify) weft_tensor_unref);

  for (guint i = 0; i < self->parts->len; i++)
    {
      Part *part = &g_array_index (self->parts, Part, i);
      WeftShape grid = get_grid_shape (self, part);
      WeftTensor *filled;

      g_ptr_array_add (stored, weft_tensor_ref (part->tensor));
      if (!part->has_block || !is_grid (weft_tensor_get_shape (part->tensor), &grid)
          || weft_tensor_get_n_elements (part->tensor) == 1)
        continue;
      filled = weft_tensor_reshape (part->tensor, grid.dims, grid.rank, error);
      if (filled == NULL)
        {
          weft_packed_weight_restore_axes (self, stored);
          return NULL;
        }
      weft_tensor_unref (part->tensor);
      part->tensor = filled;
    }
  return g_steal_pointer (&stored);
}

void
weft_packed_weight_restore_axes (WeftPackedWeight *self, GPtrArray *stored)
{
  for (guint i = 0; i < stored->len; i++)
    {
      Part *part = &g_array_index (self->parts, Part, i);

      weft_tensor_unref (part->tensor);
      part->tensor = weft_tensor_ref (stored->pdata[i]);
    }
}

/**
 * weft_packed_weight_set_block:
 * @self: a weight that is packed
 * @role: role of a part
 * @rows: how many rows of the dense weight an element of the part stands for; 0: all
 * @columns: how many columns; 0: all
 * @error: return location
 *
 * Rows and columns are the last two axes of the dense weight; the axes before them are those of the part. The last
 * block of an axis may be cut short. Innermost axes of one element may be missing, as where scales without axes were
 * stacked: they are there while the weight is dequantised. A part of one element may have any axes, and where it stands for all
 * rows and all columns, for all matrices of the weight as well. A part of which nothing is said is opaque: it can be renamed, and no op can act on it.
 *
 * Returns: whether the part has the shape that follows
 * Errors: %WEFT_ERROR_SHAPE if it has not
 * Since: 1.0
 */
gboolean
weft_packed_weight_set_block (WeftPackedWeight *self, const gchar *role, gint64 rows, gint64 columns,
                              GError **error)
{
  Part *part = find_part (self, role);
  WeftShape expected;
  g_autofree gchar *expected_text = NULL;
  g_autofree gchar *found_text = NULL;
  gboolean is_single = TRUE;

  g_return_val_if_fail (part != NULL && rows >= 0 && columns >= 0, FALSE);
  part->has_block = TRUE;
  part->rows = rows;
  part->columns = columns;
  expected = get_grid_shape (self, part);
  for (guint i = 0; i < expected.rank; i++)
    is_single = is_single && expected.dims[i] == 1;
  is_single = is_single || (rows == 0 && columns == 0);
  if (is_grid (weft_tensor_get_shape (part->tensor), &expected)
      || (is_single && weft_tensor_get_n_elements (part->tensor) == 1))
    return TRUE;
  expected_text = weft_shape_to_string (&expected);
  found_text = weft_shape_to_string (weft_tensor_get_shape (part->tensor));
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE,
               "'%s': expected its %s to have shape %s, as the config says, found %s", self->name, role,
               expected_text, found_text);
  return FALSE;
}

/**
 * weft_packed_weight_allow_channels:
 * @self: a weight that is packed
 * @role: role of a part that has one element
 *
 * Says that the method also reads such a part with one element for each row, so that weights with different ones can be
 * joined.
 *
 * Since: 1.0
 */
void
weft_packed_weight_allow_channels (WeftPackedWeight *self, const gchar *role)
{
  Part *part = find_part (self, role);

  g_return_if_fail (part != NULL);
  part->allows_channels = TRUE;
}

/**
 * weft_packed_weight_allows_channels:
 * @self: a weight
 * @role: role of a part
 *
 * Returns: whether the method also reads such a part with one element for each row
 * Since: 1.0
 */
gboolean
weft_packed_weight_allows_channels (WeftPackedWeight *self, const gchar *role)
{
  const Part *part = find_part (self, role);

  return part != NULL && part->allows_channels;
}

/**
 * weft_packed_weight_set_exponents:
 * @self: a weight that is packed
 * @role: role of a part of single bytes
 *
 * Says that the elements of a part are E8M0 exponents, whatever its dtype. Of these 255 is no number, and where values are
 * looked at a weight that has it is reported.
 *
 * Since: 1.0
 */
void
weft_packed_weight_set_exponents (WeftPackedWeight *self, const gchar *role)
{
  Part *part = find_part (self, role);

  g_return_if_fail (part != NULL);
  part->is_exponents = weft_dtype_get_bits (weft_tensor_get_dtype (part->tensor)) == 8;
}

/**
 * weft_packed_weight_has_exponents:
 * @self: a weight
 * @role: role of a part
 *
 * Returns: whether its elements are E8M0 exponents
 * Since: 1.0
 */
gboolean
weft_packed_weight_has_exponents (WeftPackedWeight *self, const gchar *role)
{
  const Part *part = find_part (self, role);

  return part != NULL && part->is_exponents;
}

/**
 * weft_packed_weight_keep_spelling:
 * @self: a weight that is packed
 * @role: role of a part
 *
 * Says that the ending of the name that the part is stored under tells how it is packed. What the weight becomes is written under a
 * name of that ending, not of the first that the method has for the role.
 *
 * Since: 1.0
 */
void
weft_packed_weight_keep_spelling (WeftPackedWeight *self, const gchar *role)
{
  Part *part = find_part (self, role);

  g_return_if_fail (part != NULL);
  part->keeps_spelling = TRUE;
}

/**
 * weft_packed_weight_keeps_spelling:
 * @self: a weight
 * @role: role of a part
 *
 * Returns: whether the ending of its name tells how it is packed
 * Since: 1.0
 */
gboolean
weft_packed_weight_keeps_spelling (WeftPackedWeight *self, const gchar *role)
{
  const Part *part = find_part (self, role);

  return part != NULL && part->keeps_spelling;
}

/**
 * weft_packed_weight_is_packed:
 * @self: a weight
 *
 * Returns: whether its quantizer says that it is packed
 * Since: 1.0
 */
gboolean
weft_packed_weight_is_packed (WeftPackedWeight *self)
{
  return self->scheme != NULL;
}

/**
 * weft_packed_weight_get_scheme:
 * @self: a weight
 *
 * Returns: (nullable): what people call the way it is packed
 * Since: 1.0
 */
const gchar *
weft_packed_weight_get_scheme (WeftPackedWeight *self)
{
  return self->scheme;
}

/**
 * weft_packed_weight_get_shape:
 * @self: a weight that is packed
 *
 * Returns: (transfer none): shape of the dense weight
 * Since: 1.0
 */
const WeftShape *
weft_packed_weight_get_shape (WeftPackedWeight *self)
{
  return &self->shape;
}

/**
 * weft_packed_weight_get_dtype:
 * @self: a weight that is packed
 *
 * Returns: the dtype that its values have if nobody asks for another
 * Since: 1.0
 */
WeftDtype
weft_packed_weight_get_dtype (WeftPackedWeight *self)
{
  return self->dtype;
}

/**
 * weft_packed_weight_get_block:
 * @self: a weight
 * @role: role of a part
 * @rows: (out): how many rows of the dense weight an element stands for; 0: all
 * @columns: (out): how many columns; 0: all
 *
 * Returns: whether that is known
 * Since: 1.0
 */
gboolean
weft_packed_weight_get_block (WeftPackedWeight *self, const gchar *role, gint64 *rows, gint64 *columns)
{
  const Part *part = find_part (self, role);

  *rows = part != NULL ? part->rows : 0;
  *columns = part != NULL ? part->columns : 0;
  return part != NULL && part->has_block;
}

/**
 * weft_packed_weight_get_bits_per_element:
 * @self: a weight that is packed
 *
 * Returns: how many bits of all its parts there are for each element of the dense weight
 * Since: 1.0
 */
gdouble
weft_packed_weight_get_bits_per_element (WeftPackedWeight *self)
{
  gdouble n_bytes = 0, n_elements = 1;

  for (guint i = 0; i < self->parts->len; i++)
    n_bytes += (gdouble) weft_tensor_get_n_bytes (g_array_index (self->parts, Part, i).tensor);
  for (guint i = 0; i < self->shape.rank; i++)
    n_elements *= (gdouble) self->shape.dims[i];
  return n_elements > 0 ? n_bytes * 8 / n_elements : 0;
}
