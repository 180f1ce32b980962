/* SPDX-License-Identifier: Apache-2.0 */
/* A companion is a grid over its weight: one element for a block of rows and columns. An op may act on the grid in place of the
 * weight exactly if it does not matter whether the grid is written out for every element before the op or after it. That is
 * tried, on addresses alone, so it holds for every op, those of strangers too. */
#include "pipeline/weft-carry-private.h"

#include "quantize/weft-quantizer-internal.h"

#define WAY_OUT "; --dequantize converts dense values instead"

/* The weights that meet in a conversion, and what it makes of their dense shapes. */
typedef struct
{
  WeftPackedWeights *weights;
  WeftConversion *conversion;
  WeftOpContext *model;
  gboolean keeps_names;
  GPtrArray *packed;
} Carry;

/* One role of all these weights. */
typedef struct
{
  const gchar *role;
  gint64 rows;
  gint64 columns;
  /* Shaped as grids: as many axes as the dense weights have. */
  GPtrArray *grids;
} Companion;

static WeftConversionSource *
get_source (WeftConversion *self, guint i)
{
  return &g_array_index (self->sources, WeftConversionSource, i);
}

static WeftConversionOutput *
get_output (WeftConversion *self, guint i)
{
  return &g_array_index (self->outputs, WeftConversionOutput, i);
}

static GPtrArray *
new_tensor_array (void)
{
  return g_ptr_array_new_with_free_func ((GDestroyNotify) weft_tensor_unref);
}

gboolean
weft_carry_is_needed (WeftPackedWeights *weights, const WeftConversion *conversion)
{
  for (guint i = 0; i < conversion->sources->len; i++)
    if (weft_packed_weights_get_weight (weights,
                                        g_array_index (conversion->sources, WeftConversionSource, i).position)
        != NULL)
      return TRUE;
  return FALSE;
}

void
weft_carry_refer_to_stored (WeftPackedWeights *weights, WeftConversion *conversion)
{
  for (guint i = 0; i < conversion->sources->len; i++)
    get_source (conversion, i)->position =
        weft_packed_weights_get_stored_position (weights, get_source (conversion, i)->position);
}

/* All weights that meet have to be packed alike. */
static gboolean
collect_weights (Carry *self, GError **error)
{
  WeftPackedWeight *first = NULL;

  for (guint i = 0; i < self->conversion->sources->len; i++)
    {
      guint position = get_source (self->conversion, i)->position;
      WeftPackedWeight *weight = weft_packed_weights_get_weight (self->weights, position);

      if (weight == NULL
          || (first != NULL
              && weft_packed_weight_get_n_parts (weight) != weft_packed_weight_get_n_parts (first)))
        {
          g_set_error (error, WEFT_ERROR, WEFT_ERROR_UNSUPPORTED,
                       "'%s' is not packed as the other weights are that '%s' is made of" WAY_OUT,
                       weft_state_dict_get_name (weft_packed_weights_get_dense (self->weights), position),
                       self->conversion->layer);
          return FALSE;
        }
      if (first == NULL)
        first = weight;
      g_ptr_array_add (self->packed, weight);
    }
  return TRUE;
}

/* A conversion of one role, with the outputs of the dense one to be named and filled. */
static WeftConversion *
new_for_role (Carry *self, const gchar *role)
{
  WeftConversion *copy =
      weft_conversion_new (self->conversion->layer, self->conversion->converter, self->conversion->rule);

  copy->source_patterns = g_strdupv (self->conversion->source_patterns);
  copy->target_patterns = g_strdupv (self->conversion->target_patterns);
  for (guint i = 0; i < self->packed->len; i++)
    {
      guint position = 0;

      weft_packed_weight_get_position (self->packed->pdata[i], role, &position);
      weft_conversion_add_source (copy, position, get_source (self->conversion, i)->pattern,
                                  get_source (self->conversion, i)->number);
    }
  return copy;
}

/* The name of a part of an output: the method's own, unless names stay or tell how a part is packed. */
static gchar *
dup_key (Carry *self, const gchar *dense_name, const gchar *role)
{
  WeftQuantizer *quantizer = weft_packed_weights_get_quantizer (self->weights);
  WeftPackedWeight *first = self->packed->pdata[0];

  return self->keeps_names || weft_packed_weight_keeps_spelling (first, role)
             ? weft_quantizer_dup_key_spelled_as (quantizer, dense_name,
                                                  weft_packed_weight_get_key (first, role))
             : weft_quantizer_dup_key (quantizer, dense_name, role);
}

static gboolean
add_output (Carry *self, WeftConversion *copy, const gchar *role, guint i, WeftTensor *tensor, GError **error)
{
  const WeftConversionOutput *dense = get_output (self->conversion, i);
  WeftQuantizer *quantizer = weft_packed_weights_get_quantizer (self->weights);
  g_autofree gchar *key = dup_key (self, dense->name, role);

  if (key == NULL)
    g_set_error (error, WEFT_ERROR, WEFT_ERROR_UNSUPPORTED, "%s has no name for the %s of a weight '%s'",
                 weft_quantizer_get_name (quantizer), role, dense->name);
  else
    weft_conversion_add_output (copy, key, dense->pattern, dense->number, tensor);
  return key != NULL;
}

/* Runs the ops of the conversion on other tensors in place of its weights. */
static GPtrArray *
run_on (Carry *self, GPtrArray *tensors, WeftOpContext *facts, GError **error)
{
  WeftStateDict *dense = weft_packed_weights_get_dense (self->weights);
  g_autoptr (WeftConversion) copy = new_for_role (self, WEFT_ROLE_CODES);
  g_autoptr (WeftStateDict) inputs = weft_state_dict_new ();
  g_autoptr (GPtrArray) results = new_tensor_array ();

  for (guint i = 0; i < tensors->len; i++)
    {
      if (!weft_state_dict_add (inputs,
                                weft_state_dict_get_name (dense, get_source (self->conversion, i)->position),
                                tensors->pdata[i], error))
        return NULL;
      get_source (copy, i)->position = i;
    }
  if (!weft_conversion_run (copy, inputs, WEFT_DTYPE_INVALID, facts, error))
    return NULL;
  for (guint i = 0; i < copy->outputs->len; i++)
    g_ptr_array_add (results, weft_tensor_ref (get_output (copy, i)->tensor));
  return g_steal_pointer (&results);
}

static gint64
count_blocks (gint64 extent, gint64 block)
{
  return block == 0 ? 1 : extent / block + (extent % block != 0);
}

/* The shape of the grid over a weight of shape @dense. */
static WeftShape
get_grid_shape (const WeftShape *dense, gint64 rows, gint64 columns)
{
  WeftShape shape = *dense;

  if (shape.rank >= 1)
    shape.dims[shape.rank - 1] = count_blocks (shape.dims[shape.rank - 1], columns);
  if (shape.rank >= 2)
    shape.dims[shape.rank - 2] = count_blocks (shape.dims[shape.rank - 2], rows);
  return shape;
}

/* Writes a grid out on one axis of a weight of shape @dense. */
static WeftTensor *
write_out_axis (WeftTensor *grid, const WeftShape *dense, guint axis, gint64 block, GError **error)
{
  gint64 extent = dense->dims[axis];

  if (weft_tensor_get_dim (grid, (gint) axis) != count_blocks (extent, block))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE, "the ops make no whole blocks");
      return NULL;
    }
  return weft_tensor_repeat (grid, (gint) axis, block == 0 ? MAX (extent, 1) : block, extent, error);
}

static WeftTensor *
write_out (WeftTensor *grid, const WeftShape *dense, gint64 rows, gint64 columns, GError **error)
{
  g_autoptr (WeftTensor) tensor = weft_tensor_ref (grid);

  for (guint i = 0; tensor != NULL && i < 2 && i < dense->rank; i++)
    {
      WeftTensor *wider = write_out_axis (tensor, dense, dense->rank - 1 - i, i == 0 ? columns : rows, error);

      weft_tensor_unref (tensor);
      tensor = wider;
    }
  return g_steal_pointer (&tensor);
}

/* Whether @results, which the ops made of grids, are what the ops make of the grids written out. */
static gboolean
check_exact (Carry *self, const Companion *companion, GPtrArray *grids, GPtrArray *results, GError **error)
{
  g_autoptr (GPtrArray) written = new_tensor_array ();
  g_autoptr (GPtrArray) expected = NULL;

  for (guint i = 0; i < grids->len; i++)
    {
      WeftTensor *tensor = write_out (grids->pdata[i], weft_packed_weight_get_shape (self->packed->pdata[i]),
                                      companion->rows, companion->columns, error);

      if (tensor == NULL)
        return FALSE;
      g_ptr_array_add (written, tensor);
    }
  expected = run_on (self, written, self->model, error);
  if (expected == NULL)
    return FALSE;
  for (guint i = 0; i < results->len; i++)
    {
      g_autoptr (WeftTensor) found =
          write_out (results->pdata[i], weft_tensor_get_shape (get_output (self->conversion, i)->tensor),
                     companion->rows, companion->columns, error);

      if (found == NULL)
        return FALSE;
      if (!weft_tensor_is_same (found, expected->pdata[i]))
        {
          g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE,
                       "the ops move elements from one block to another");
          return FALSE;
        }
    }
  return TRUE;
}

/* What ops may ask of the model's parameters: their grids. */
static WeftOpContext *
make_grid_facts (Carry *self, const Companion *companion)
{
  static const gchar *const nothing[] = { NULL };
  WeftOpContext *facts = weft_op_context_new (nothing, nothing);

  weft_op_context_set_config (facts, weft_op_context_get_config (self->model));
  for (guint i = 0; weft_op_context_has_parameters (self->model) && i < self->conversion->outputs->len; i++)
    {
      const WeftConversionOutput *output = get_output (self->conversion, i);
      WeftShape shape =
          get_grid_shape (weft_tensor_get_shape (output->tensor), companion->rows, companion->columns);

      weft_op_context_add_parameter (facts, output->name, &shape, WEFT_DTYPE_INVALID);
    }
  return facts;
}

/* The grids of the outputs, if the ops may act on grids. */
static GPtrArray *
carry_grids (Carry *self, const Companion *companion, GPtrArray *grids, GError **error)
{
  g_autoptr (WeftOpContext) facts = make_grid_facts (self, companion);
  g_autoptr (GPtrArray) results = run_on (self, grids, facts, error);

  if (results == NULL)
    return NULL;
  if (companion->rows == 1 && companion->columns == 1)
    return g_steal_pointer (&results);
  return check_exact (self, companion, grids, results, error) ? g_steal_pointer (&results) : NULL;
}

static gboolean
have_equal_bytes (GPtrArray *tensors, gboolean *are_equal, GError **error)
{
  g_autoptr (GBytes) first = weft_tensor_read (tensors->pdata[0], NULL, error);

  *are_equal = TRUE;
  for (guint i = 1; first != NULL && *are_equal && i < tensors->len; i++)
    {
      g_autoptr (GBytes) bytes = weft_tensor_read (tensors->pdata[i], NULL, error);

      if (bytes == NULL)
        return FALSE;
      *are_equal = g_bytes_equal (first, bytes);
    }
  return first != NULL;
}

/* One element a weight, and all are equal: the outputs have it too, whatever the ops do. */
static GPtrArray *
share_scalar (Carry *self, const Companion *companion)
{
  GPtrArray *results = new_tensor_array ();

  for (guint i = 0; i < self->conversion->outputs->len; i++)
    g_ptr_array_add (results, weft_tensor_ref (companion->grids->pdata[0]));
  return results;
}

/* One element a weight becomes one for each of its rows. */
static GPtrArray *
carry_channels (Carry *self, const Companion *companion, GError **error)
{
  Companion channels = { companion->role, 1, 0, companion->grids };
  g_autoptr (GPtrArray) grids = new_tensor_array ();

  for (guint i = 0; i < companion->grids->len; i++)
    {
      const WeftShape *dense = weft_packed_weight_get_shape (self->packed->pdata[i]);
      gint64 n_rows = dense->rank >= 2 ? dense->dims[dense->rank - 2] : 0;
      WeftTensor *grid = dense->rank >= 2 ? weft_tensor_repeat (companion->grids->pdata[i], -2,
                                                                MAX (n_rows, 1), n_rows, error)
                                          : NULL;

      if (grid == NULL)
        return NULL;
      g_ptr_array_add (grids, grid);
    }
  return carry_grids (self, &channels, grids, error);
}

/* Of one element for the whole weight: what it can become if the ops cannot act on it. That depends on whether they are equal, so
 * that a plan reads them: a few bytes of each weight that is joined, and the only values that a plan of packed weights needs. */
static GPtrArray *
carry_scalars (Carry *self, const Companion *companion, WeftCarry *kind, GError **error)
{
  gboolean are_equal = FALSE;

  if (!have_equal_bytes (companion->grids, &are_equal, error))
    return NULL;
  *kind = are_equal ? WEFT_CARRY_SHARED : WEFT_CARRY_CHANNELS;
  if (are_equal)
    return share_scalar (self, companion);
  if (weft_packed_weight_allows_channels (self->packed->pdata[0], companion->role))
    return carry_channels (self, companion, error);
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE,
               "the weights that are joined have different values of it, and it may have one only");
  return NULL;
}

/* One element, whatever axes it has, or a grid. */
static WeftTensor *
shape_as_grid (WeftTensor *tensor, const WeftShape *grid, GError **error)
{
  return weft_tensor_reshape (tensor, grid->dims, grid->rank, error);
}

static gboolean
collect_companion (Carry *self, Companion *companion, GError **error)
{
  for (guint i = 0; i < self->packed->len; i++)
    {
      WeftPackedWeight *weight = self->packed->pdata[i];
      WeftTensor *part = weft_packed_weight_get_tensor (weight, companion->role);
      gint64 rows = 0, columns = 0;
      gboolean has_block = weft_packed_weight_get_block (weight, companion->role, &rows, &columns);
      WeftShape shape;
      WeftTensor *grid;

      if (part == NULL || !has_block || (i > 0 && (rows != companion->rows || columns != companion->columns)))
        {
          g_set_error (error, WEFT_ERROR, WEFT_ERROR_UNSUPPORTED,
                       part == NULL ? "'%s' has none, and others have one"
                       : !has_block ? "the ops cannot act on the way '%s' is packed"
                                    : "that of '%s' has other blocks than that of the others",
                       weft_packed_weight_get_name (weight));
          return FALSE;
        }
      companion->rows = rows;
      companion->columns = columns;
      shape = get_grid_shape (weft_packed_weight_get_shape (weight), rows, columns);
      grid = shape_as_grid (part, &shape, error);
      if (grid == NULL)
        return FALSE;
      g_ptr_array_add (companion->grids, grid);
    }
  return TRUE;
}

/* How a grid is written: as it is, or, where the stored companions have fewer axes, with theirs behind the new ones. */
static WeftTensor *
shape_as_stored (WeftTensor *grid, WeftTensor *stored, guint source_rank, GError **error)
{
  WeftShape shape = *weft_tensor_get_shape (grid);
  const WeftShape *old = weft_tensor_get_shape (stored);

  if (old->rank >= source_rank || shape.rank < source_rank || weft_tensor_get_n_elements (stored) != 1
      || shape.dims[shape.rank - 1] != 1 || (source_rank >= 2 && shape.dims[shape.rank - 2] != 1))
    return weft_tensor_ref (grid);
  shape.rank -= source_rank;
  for (guint i = 0; i < old->rank; i++)
    shape.dims[shape.rank++] = old->dims[i];
  return weft_tensor_reshape (grid, shape.dims, shape.rank, error);
}

/* The conversion of one role, run. */
static WeftConversion *
carry_role (Carry *self, const gchar *role, GError **error)
{
  g_autoptr (GPtrArray) grids = new_tensor_array ();
  Companion companion = { .role = role, .grids = grids };
  WeftTensor *stored = weft_packed_weight_get_tensor (self->packed->pdata[0], role);
  guint source_rank = weft_packed_weight_get_shape (self->packed->pdata[0])->rank;
  g_autoptr (WeftConversion) copy = new_for_role (self, role);
  g_autoptr (GPtrArray) results = NULL;
  g_autoptr (GError) reason = NULL;

  if (!collect_companion (self, &companion, error))
    return NULL;
  copy->carry = WEFT_CARRY_GRID;
  copy->output_rank = weft_tensor_get_rank (get_output (self->conversion, 0)->tensor);
  results = carry_grids (self, &companion, grids, &reason);
  if (results == NULL && companion.rows == 0 && companion.columns == 0)
    {
      g_clear_error (&reason);
      results = carry_scalars (self, &companion, &copy->carry, &reason);
    }
  if (results == NULL)
    {
      g_propagate_error (error, g_steal_pointer (&reason));
      return NULL;
    }
  for (guint i = 0; i < results->len; i++)
    {
      g_autoptr (WeftTensor) shaped = shape_as_stored (results->pdata[i], stored, source_rank, error);

      if (shaped == NULL || !add_output (self, copy, role, i, shaped, error))
        return NULL;
    }
  return g_steal_pointer (&copy);
}

static gchar *
describe_blocks (WeftPackedWeight *weight, const gchar *role)
{
  gint64 rows, columns;
  g_autofree gchar *row_text = NULL;
  g_autofree gchar *column_text = NULL;

  if (!weft_packed_weight_get_block (weight, role, &rows, &columns) || (rows == 1 && columns == 1))
    return g_strdup ("");
  row_text = rows == 0 ? g_strdup ("all") : g_strdup_printf ("%" G_GINT64_FORMAT, rows);
  column_text = columns == 0 ? g_strdup ("all") : g_strdup_printf ("%" G_GINT64_FORMAT, columns);
  return g_strdup_printf (" (one value for %s rows and %s columns)", row_text, column_text);
}

static gboolean
carry_ops (Carry *self, GPtrArray *carried, GError **error)
{
  WeftPackedWeight *first = self->packed->pdata[0];

  if (!weft_conversion_run (self->conversion, weft_packed_weights_get_dense (self->weights),
                            WEFT_DTYPE_INVALID, self->model, error))
    return FALSE;
  for (guint i = 0; i < weft_packed_weight_get_n_parts (first); i++)
    {
      const gchar *role = weft_packed_weight_get_role (first, i);
      g_autoptr (GError) reason = NULL;
      WeftConversion *conversion = carry_role (self, role, &reason);

      if (conversion == NULL)
        {
          g_autofree gchar *blocks = describe_blocks (first, role);

          g_set_error (error, WEFT_ERROR, WEFT_ERROR_UNSUPPORTED,
                       "the %s of '%s'%s cannot follow the ops: %s" WAY_OUT, role,
                       weft_packed_weight_get_name (first), blocks, reason->message);
          return FALSE;
        }
      g_ptr_array_add (carried, conversion);
    }
  return TRUE;
}

/* A renaming: every part gets the name that goes with the new one. */
static gboolean
carry_renaming (Carry *self, GPtrArray *carried, GError **error)
{
  WeftPackedWeight *weight = self->packed->pdata[0];

  weft_conversion_add_output (self->conversion, self->conversion->layer, 0, -1,
                              weft_state_dict_get_tensor (weft_packed_weights_get_dense (self->weights),
                                                          get_source (self->conversion, 0)->position));
  for (guint i = 0; i < weft_packed_weight_get_n_parts (weight); i++)
    {
      const gchar *role = weft_packed_weight_get_role (weight, i);
      WeftConversion *copy = new_for_role (self, role);

      copy->carry = WEFT_CARRY_RENAMED;
      g_ptr_array_add (carried, copy);
      if (!add_output (self, copy, role, 0, weft_packed_weight_get_tensor (weight, role), error))
        return FALSE;
    }
  return TRUE;
}

GPtrArray *
weft_carry (WeftPackedWeights *weights, WeftConversion *conversion, WeftOpContext *model,
            gboolean keeps_names, GError **error)
{
  g_autoptr (GPtrArray) packed = g_ptr_array_new ();
  g_autoptr (GPtrArray) carried = g_ptr_array_new_with_free_func ((GDestroyNotify) weft_conversion_free);
  Carry self = { weights, conversion, model, keeps_names, packed };

  if (!collect_weights (&self, error)
      || !(conversion->converter != NULL ? carry_ops : carry_renaming) (&self, carried, error))
    return NULL;
  return g_steal_pointer (&carried);
}
