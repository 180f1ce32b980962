/* SPDX-License-Identifier: Apache-2.0 */
#include "parallel/weft-sharding-internal.h"

#include <string.h>

#include "base/weft-json.h"
#include "base/weft-text.h"
#include "parallel/weft-parallel-plan-private.h"

/* Which world sizes are tried to say which would do. */
#define MAX_PROPOSED_SIZE 64

/* A part of a packed weight: an element stands for so many rows and columns (0: all) of a weight of this shape. */
typedef struct
{
  WeftShape dense;
  gint64 rows, columns;
  /* All of it goes to every rank that has anything of the weight. */
  gboolean is_whole;
} Block;

typedef struct
{
  const WeftParallelRule *rule;
  WeftPlacement *placement; /* NULL: whole */
  guint n_ranks;            /* that cut it; 0: the mesh of the placement */
  /* One of a list of tensors: its number, and how many there are. 0: it is none. */
  gint64 item, n_items;
  Block *block; /* NULL: a plain tensor */
} Entry;

struct _WeftSharding
{
  WeftStateDict *tensors;
  WeftPackedWeights *packed; /* (nullable) */
  WeftParallelPlan *plan;
  WeftMesh mesh;
  WeftModuleTree *tree;    /* (nullable) */
  WeftModelConfig *config; /* (nullable) */
  /* Names are the runtime's: tensors are converted, and may be dequantized on the way. */
  gboolean has_names;
  gboolean has_experts;
  GArray *entries; /* of Entry */
  GPtrArray *notes;
};

guint
weft_mesh_get_world_size (const WeftMesh *self)
{
  guint n = 1;

  for (guint i = 0; i < self->n_sizes; i++)
    n *= self->sizes[i];
  return MAX (n, MAX (self->tp_size, self->ep_size));
}

static void
clear_entry (gpointer pointer)
{
  Entry *entry = pointer;

  g_clear_pointer (&entry->placement, weft_placement_free);
  g_free (entry->block);
}

static Entry *
get_entry (WeftSharding *self, guint position)
{
  return &g_array_index (self->entries, Entry, position);
}

static void G_GNUC_PRINTF (3, 4) add_note (WeftSharding *self, const gchar *name, const gchar *format, ...)
{
  va_list values;

  va_start (values, format);
  g_ptr_array_add (self->notes, g_strdup (name));
  g_ptr_array_add (self->notes, g_strdup_vprintf (format, values));
  va_end (values);
}

/* Heads. */

static gint64
get_config_int (WeftModelConfig *config, const gchar *name)
{
  gint64 value = 0;

  return config != NULL && weft_model_config_get_int (config, name, &value, NULL) && value > 0 ? value : 0;
}

static gboolean
is_below (const gchar *name, const gchar *module)
{
  gsize n = strlen (module);

  return n == 0 || (strncmp (name, module, n) == 0 && name[n] == '.');
}

/* The config of the innermost sub-model that a tensor is in. */
static WeftModelConfig *
find_config (WeftSharding *self, const gchar *name)
{
  WeftModelConfig *config = self->config;
  gsize longest = 0;

  for (guint i = 0; self->tree != NULL && i < weft_module_tree_get_n_sub_models (self->tree); i++)
    {
      const gchar *module = weft_module_tree_get_sub_model_fqn (self->tree, i);
      WeftModelConfig *own = weft_module_tree_get_sub_model_config (self->tree, i);

      if (own != NULL && strlen (module) >= longest && is_below (name, module))
        {
          config = own;
          longest = strlen (module);
        }
    }
  return config;
}

static WeftHeads
find_heads (WeftSharding *self, const gchar *name)
{
  WeftModelConfig *config = find_config (self, name);
  WeftHeads heads = { get_config_int (config, "num_attention_heads"),
                      get_config_int (config, "num_key_value_heads") };

  if (heads.n_kv_heads == 0)
    heads.n_kv_heads = heads.n_heads;
  return heads;
}

/* Items of lists. */

/* The number that a name ends in, as `experts.3`; or that follows on `experts` in it. -1: none. */
static gint64
find_number (const gchar *text)
{
  gsize n = strspn (text, "0123456789");

  return n > 0 && n < 10 && (text[n] == '\0' || text[n] == '.') ? g_ascii_strtoll (text, NULL, 10) : -1;
}

/* Where the number of the list that a tensor is an item of begins in its name; NULL: it is no item. @rule: that for it. */
static const gchar *
find_item (const WeftParallelRule *rule, gboolean is_own, const gchar *name)
{
  const gchar *last = strrchr (name, '.');
  const gchar *experts = NULL;

  if (rule->style != NULL && weft_parallel_style_is_even (rule->style))
    for (const gchar *next = name; (next = strstr (next, "experts.")) != NULL; next += strlen ("experts."))
      experts = next + strlen ("experts.");
  if (experts != NULL && find_number (experts) >= 0)
    return experts;
  return !is_own && last != NULL && find_number (last + 1) >= 0
                 && last[1 + strspn (last + 1, "0123456789")] == '\0'
             ? last + 1
             : NULL;
}

/* The tensors that @name is one of: those that are cut, or the dense ones that packed weights stand for. */
static WeftStateDict *
find_siblings (WeftSharding *self, const gchar *name)
{
  return self->packed == NULL || weft_state_dict_find (self->tensors, name, NULL)
             ? self->tensors
             : weft_packed_weights_get_dense (self->packed);
}

/* How many tensors there are whose names differ from @name in the number at @number alone, by the highest of them; an error names one
 * that is not there. */
static gboolean
count_items (WeftSharding *self, const gchar *name, const gchar *number, gint64 *n_items, GError **error)
{
  g_autofree gchar *list = g_strndup (name, (gsize) (number - name));
  const gchar *rest = number + strspn (number, "0123456789");
  WeftStateDict *siblings = find_siblings (self, name);
  gint64 n_found = 0, n = 0;

  for (guint i = 0; i < weft_state_dict_get_n_tensors (siblings); i++)
    {
      const gchar *other = weft_state_dict_get_name (siblings, i);
      gint64 item = g_str_has_prefix (other, list) ? find_number (other + strlen (list)) : -1;

      if (item < 0
          || strcmp (other + strlen (list) + strspn (other + strlen (list), "0123456789"), rest) != 0)
        continue;
      n_found++;
      n = MAX (n, item + 1);
    }
  *n_items = n;
  for (gint64 i = 0; n_found < n && i < n; i++)
    {
      g_autofree gchar *wanted = g_strdup_printf ("%s%" G_GINT64_FORMAT "%s", list, i, rest);

      if (weft_state_dict_find (siblings, wanted, NULL))
        continue;
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_MISSING,
                   "'%s' is missing among the %" G_GINT64_FORMAT " of its list; a rank owns them by number",
                   wanted, n);
      return FALSE;
    }
  return TRUE;
}

/* The name of the tensor that the items of a list make. */
static gchar *
dup_stack_name (const gchar *name, const gchar *number)
{
  g_autofree gchar *list = g_strndup (name, (gsize) (number - name - 1));

  return g_strconcat (list, number + strspn (number, "0123456789"), NULL);
}

/* The length of the list: what the model says of the parameter that the items make, or how many there are. */
static gboolean
find_n_items (WeftSharding *self, GHashTable *counts, const gchar *name, const gchar *number, gint64 *n_items,
              GError **error)
{
  g_autofree gchar *list = g_strndup (name, (gsize) (number - name - 1));
  g_autofree gchar *key = dup_stack_name (name, number);
  gint64 *known = g_hash_table_lookup (counts, key);
  guint position;

  if (known == NULL)
    {
      g_autofree gint64 *counted = g_new0 (gint64, 1);

      if (self->tree != NULL && weft_module_tree_find_tensor (self->tree, list, &position)
          && weft_module_tree_get_tensor_shape (self->tree, position)->rank > 0)
        *counted = weft_module_tree_get_tensor_shape (self->tree, position)->dims[0];
      if (*counted <= 0 && !count_items (self, name, number, counted, error))
        return FALSE;
      known = counted;
      g_hash_table_insert (counts, g_steal_pointer (&key), g_steal_pointer (&counted));
    }
  *n_items = *known;
  return TRUE;
}

/* Slices. */

static gboolean
find_plain_slice (WeftSharding *self, const Entry *entry, const WeftShape *shape, guint rank,
                  WeftSlice *slice, gboolean *is_owned, GError **error)
{
  guint world_size = weft_mesh_get_world_size (&self->mesh);
  guint mesh[2] = { world_size / MAX (entry->n_ranks, 1), entry->n_ranks };
  const guint *sizes = entry->n_ranks > 0 ? mesh : self->mesh.sizes;
  gsize n_sizes = entry->n_ranks > 0 ? G_N_ELEMENTS (mesh) : self->mesh.n_sizes;

  *is_owned = TRUE;
  if (entry->placement == NULL)
    {
      weft_slice_init (slice, shape);
      return TRUE;
    }
  if (entry->n_items > 0)
    return weft_placement_find_item_slice (entry->placement, entry->item, entry->n_items, shape, sizes,
                                           n_sizes, rank, slice, is_owned, error);
  return weft_placement_find_slice (entry->placement, shape, sizes, n_sizes, rank, slice, error);
}

/* How many elements of @axis of a dense weight one of the part stands for; 0: all. */
static gint64
get_axis_block (const Block *block, guint axis)
{
  if (axis + 1 == block->dense.rank)
    return block->columns;
  return axis + 2 == block->dense.rank ? block->rows : 1;
}

/* Where @dense, a part of an axis of @n elements, stands in a grid of blocks; NULL: it cuts through a block. */
static GArray *
scale_ranges (const GArray *dense, gint64 n, gint64 block)
{
  g_autoptr (GArray) ranges = g_array_new (FALSE, FALSE, sizeof (WeftRange));

  for (guint i = 0; i < dense->len; i++)
    {
      gint64 begin = g_array_index (dense, WeftRange, i).start;
      gint64 end = begin + g_array_index (dense, WeftRange, i).length;

      if (begin % block != 0 || (end % block != 0 && end != n))
        return NULL;
      weft_ranges_append (ranges, begin / block, end / block + (end % block != 0) - begin / block);
    }
  return g_steal_pointer (&ranges);
}

/* The part of the dense weight as one of the grid. FALSE without an error: it cuts through a block. */
static gboolean
scale_slice (const Block *block, const WeftSlice *dense, const WeftShape *shape, WeftSlice *slice)
{
  weft_slice_init (slice, shape);
  for (guint i = 0; !block->is_whole && i < block->dense.rank; i++)
    {
      gint64 n = get_axis_block (block, i);

      if (dense->ranges[i] == NULL || n == 0)
        continue;
      slice->ranges[i] = scale_ranges (dense->ranges[i], block->dense.dims[i], n);
      if (slice->ranges[i] == NULL)
        return FALSE;
    }
  return TRUE;
}

static gboolean
find_slice (WeftSharding *self, const Entry *entry, WeftTensor *tensor, guint rank, WeftSlice *slice,
            gboolean *is_owned, gboolean *is_through_block, GError **error)
{
  const WeftShape *shape = weft_tensor_get_shape (tensor);
  g_auto (WeftSlice) dense = { .shape = { 0 } };

  *is_through_block = FALSE;
  if (entry->block == NULL)
    return find_plain_slice (self, entry, shape, rank, slice, is_owned, error);
  if (!find_plain_slice (self, entry, &entry->block->dense, rank, &dense, is_owned, error))
    return FALSE;
  *is_through_block = !scale_slice (entry->block, &dense, shape, slice);
  return TRUE;
}

gboolean
weft_sharding_find_slice (WeftSharding *self, guint position, guint rank, WeftSlice *slice,
                          gboolean *is_owned, GError **error)
{
  gboolean is_through_block;

  return find_slice (self, get_entry (self, position), weft_state_dict_get_tensor (self->tensors, position),
                     rank, slice, is_owned, &is_through_block, error);
}

/* Making one. */

/* Whether ranks of a world of @n, all of which cut, hold whole blocks. */
static gboolean
would_do (const Entry *entry, const WeftShape *shape, guint n)
{
  for (guint rank = 0; rank < n; rank++)
    {
      g_auto (WeftSlice) dense = { .shape = { 0 } };
      g_auto (WeftSlice) slice = { .shape = { 0 } };

      if (!weft_placement_find_slice (entry->placement, &entry->block->dense, &n, 1, rank, &dense, NULL)
          || !scale_slice (entry->block, &dense, shape, &slice))
        return FALSE;
    }
  return TRUE;
}

static gchar *
list_sizes_that_do (const Entry *entry, const WeftShape *shape)
{
  GString *sizes = g_string_new (NULL);

  for (guint n = 2; n <= MAX_PROPOSED_SIZE && entry->n_items == 0; n++)
    if (would_do (entry, shape, n))
      g_string_append_printf (sizes, "%s%u", sizes->len > 0 ? ", " : "", n);
  return g_string_free (sizes, FALSE);
}

/* What can be done about packed weights that cannot be cut. */
static const gchar *
get_way_out (WeftSharding *self)
{
  return self->has_names ? "replicate it, or ask for --dequantize"
                         : "replicate it, or cut what `weft dequantize` makes of the checkpoint";
}

static gboolean
refuse_block (WeftSharding *self, const Entry *entry, const gchar *name, WeftTensor *tensor, GError **error)
{
  g_autofree gchar *sizes = list_sizes_that_do (entry, weft_tensor_get_shape (tensor));
  g_autofree gchar *shape = weft_shape_to_string (&entry->block->dense);
  guint n_ranks = entry->n_ranks > 0 ? entry->n_ranks : weft_mesh_get_world_size (&self->mesh);

  g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE,
               "'%s': %s over %u ranks cuts through a block of %" G_GINT64_FORMAT
               " rows and %" G_GINT64_FORMAT " columns of a packed weight of shape %s%s%s; %s",
               name, entry->rule->text, n_ranks, entry->block->rows, entry->block->columns, shape,
               sizes[0] != '\0' ? "; sizes that would do: " : "", sizes, get_way_out (self));
  return FALSE;
}

/* Every rank finds the same faults, whichever is asked for. */
static gboolean
check_ranks (WeftSharding *self, guint position, GError **error)
{
  const Entry *entry = get_entry (self, position);
  WeftTensor *tensor = weft_state_dict_get_tensor (self->tensors, position);
  const gchar *name = weft_state_dict_get_name (self->tensors, position);
  guint world_size = weft_mesh_get_world_size (&self->mesh);

  for (guint rank = 0; entry->placement != NULL && rank < world_size; rank++)
    {
      g_auto (WeftSlice) slice = { .shape = { 0 } };
      gboolean is_owned, is_through_block;

      if (!find_slice (self, entry, tensor, rank, &slice, &is_owned, &is_through_block, error))
        {
          g_prefix_error (error, "'%s': ", name);
          return FALSE;
        }
      if (is_through_block)
        return refuse_block (self, entry, name, tensor, error);
    }
  return TRUE;
}

static gboolean
check_even (const Entry *entry, const gchar *name, const WeftShape *shape, GError **error)
{
  gint64 n = entry->n_items > 0 ? entry->n_items : shape->rank > 0 ? shape->dims[0] : 0;

  if (entry->rule->style == NULL || !weft_parallel_style_is_even (entry->rule->style)
      || n % entry->n_ranks == 0)
    return TRUE;
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE,
               "'%s': %" G_GINT64_FORMAT
               " experts cannot be spread evenly over %u ranks; take a size that divides them",
               name, n, entry->n_ranks);
  return FALSE;
}

/* By a style. One for an item of a list is a style of the tensor that the items make. */
static WeftPlacement *
place_styled (WeftSharding *self, const Entry *entry, const gchar *name, const gchar *number,
              const WeftShape *shape, GError **error)
{
  WeftHeads heads = find_heads (self, name);
  g_autofree gchar *stack_name = number != NULL ? dup_stack_name (name, number) : NULL;
  WeftShape stack = { .rank = 1, .dims = { entry->n_items } };

  if (number == NULL)
    return weft_parallel_style_place (entry->rule->style, name, shape, &heads, entry->n_ranks, error);
  if (shape->rank == WEFT_MAX_RANK)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE, "a stack of tensors of %u axes has too many",
                   shape->rank);
      return NULL;
    }
  for (guint i = 0; i < shape->rank; i++)
    stack.dims[stack.rank++] = shape->dims[i];
  return weft_parallel_style_place (entry->rule->style, stack_name, &stack, &heads, entry->n_ranks, error);
}

/* Whether a tensor is one number for all of its module, such as a scale that dequantising has left: no row of it. */
static gboolean
is_number_of_module (const gchar *name, const WeftShape *shape)
{
  return shape->rank <= 1 && (shape->rank == 0 || shape->dims[0] == 1) && !g_str_has_suffix (name, "weight")
         && !g_str_has_suffix (name, "bias");
}

/* Places a tensor, or a packed weight of that shape, by the rule that is for its name. */
static gboolean
place (WeftSharding *self, Entry *entry, GHashTable *counts, const gchar *name, const WeftShape *shape,
       GError **error)
{
  gboolean is_own = FALSE;
  const gchar *number;

  entry->rule = weft_parallel_plan_lookup (self->plan, self->has_experts, name, &is_own);
  if (entry->rule == NULL)
    return TRUE;
  number = find_item (entry->rule, is_own, name);
  if (number == NULL && !is_own && entry->rule->kind != WEFT_PARALLEL_KIND_EXPERT
      && is_number_of_module (name, shape))
    return TRUE;
  entry->item = number != NULL ? find_number (number) : 0;
  if (number != NULL && !find_n_items (self, counts, name, number, &entry->n_items, error))
    return FALSE;
  if (entry->rule->style != NULL)
    entry->n_ranks = entry->rule->kind == WEFT_PARALLEL_KIND_EXPERT ? self->mesh.ep_size : self->mesh.tp_size;
  entry->placement = entry->rule->style != NULL ? place_styled (self, entry, name, number, shape, error)
                                                : weft_placement_copy (entry->rule->placement);
  if (entry->placement == NULL)
    {
      g_prefix_error (error, "'%s': ", name);
      return FALSE;
    }
  if (weft_placement_is_whole (entry->placement))
    g_clear_pointer (&entry->placement, weft_placement_free);
  return check_even (entry, name, shape, error);
}

/* Whether a tensor has an element for each block of the weight. Innermost axes that have one for all may be missing. */
static gboolean
describe_block (WeftPackedWeight *weight, const gchar *role, Block *block)
{
  WeftTensor *part = weft_packed_weight_get_tensor (weight, role);
  guint n_missing;

  block->dense = *weft_packed_weight_get_shape (weight);
  if (!weft_packed_weight_get_block (weight, role, &block->rows, &block->columns))
    return FALSE;
  block->is_whole = block->rows == 0 && block->columns == 0 && weft_tensor_get_n_elements (part) == 1
                    && !(block->dense.rank > 2 && block->dense.dims[0] == 1);
  n_missing = block->dense.rank - MIN (weft_tensor_get_rank (part), block->dense.rank);
  return block->is_whole || n_missing == 0 || (n_missing == 1 && block->columns == 0)
         || (n_missing == 2 && block->columns == 0 && block->rows == 0);
}

/* A rule for a companion itself: all ranks get it if that is asked; otherwise it has to agree with what its weight needs. */
static gboolean
place_companion_itself (WeftSharding *self, Entry *entry, guint position, GError **error)
{
  const gchar *name = weft_state_dict_get_name (self->tensors, position);
  WeftTensor *tensor = weft_state_dict_get_tensor (self->tensors, position);
  g_autoptr (GHashTable) counts = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  Entry own = { 0 };
  gboolean is_own = FALSE, is_same = TRUE, ok;

  if (weft_parallel_plan_lookup (self->plan, self->has_experts, name, &is_own) == NULL || !is_own)
    return TRUE;
  ok = place (self, &own, counts, name, weft_tensor_get_shape (tensor), error);
  for (guint rank = 0;
       ok && is_same && own.placement != NULL && rank < weft_mesh_get_world_size (&self->mesh); rank++)
    {
      g_auto (WeftSlice) asked = { .shape = { 0 } };
      g_auto (WeftSlice) needed = { .shape = { 0 } };
      gboolean is_owned, is_through_block;

      ok = find_slice (self, &own, tensor, rank, &asked, &is_owned, &is_through_block, error)
           && find_slice (self, entry, tensor, rank, &needed, &is_owned, &is_through_block, error);
      is_same = ok && !is_through_block && weft_slice_equal (&asked, &needed);
    }
  if (ok && own.placement == NULL)
    {
      g_clear_pointer (&entry->placement, weft_placement_free);
      entry->rule = own.rule;
    }
  if (ok && !is_same)
    g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE,
                 "'%s': %s does not cut it where its weight is cut; leave its rule out, or replicate it",
                 name, own.rule->text);
  clear_entry (&own);
  return ok && is_same;
}

/* Whether a rank holds a part of the weight, not all of it or nothing. */
static gboolean
is_cut (WeftSharding *self, const Entry *entry, const WeftShape *dense, gboolean *cuts, GError **error)
{
  *cuts = FALSE;
  for (guint rank = 0; !*cuts && rank < weft_mesh_get_world_size (&self->mesh); rank++)
    {
      g_auto (WeftSlice) slice = { .shape = { 0 } };
      gboolean is_owned;

      if (!find_plain_slice (self, entry, dense, rank, &slice, &is_owned, error))
        return FALSE;
      *cuts = is_owned && !weft_slice_is_whole (&slice);
    }
  return TRUE;
}

/* Where a part of a packed weight goes: what its quantizer says that elements of it stand for decides whether it can be cut. */
static gboolean
place_part (WeftSharding *self, WeftPackedWeight *weight, const gchar *role, Entry *entry, GError **error)
{
  const gchar *name = weft_packed_weight_get_name (weight);
  Block block = { .rows = 0 };
  gboolean cuts;

  if (entry->placement == NULL)
    return TRUE;
  if (!is_cut (self, entry, weft_packed_weight_get_shape (weight), &cuts, error))
    {
      g_prefix_error (error, "'%s': ", name);
      return FALSE;
    }
  if (!describe_block (weight, role, &block) && cuts)
    {
      g_set_error (
          error, WEFT_ERROR, WEFT_ERROR_UNSUPPORTED,
          "'%s': %s would cut it, and it is packed (%s): the rows and columns that its %s would be cut at are not "
          "known, so that ranks cannot get parts of it; %s",
          name, entry->rule->text, weft_packed_weight_get_scheme (weight), role, get_way_out (self));
      return FALSE;
    }
  block.is_whole |= !cuts;
  entry->block = g_new (Block, 1);
  *entry->block = block;
  return TRUE;
}

/* The parts of a rank as the weight that they are to be. NULL without an error: there is nothing to read. */
static WeftPackedWeight *
cut_weight (WeftSharding *self, WeftPackedWeight *weight, guint rank, GError **error)
{
  g_autoptr (WeftPackedWeight) part = weft_packed_weight_new (weft_packed_weight_get_name (weight));

  for (guint i = 0; i < weft_packed_weight_get_n_parts (weight); i++)
    {
      const gchar *role = weft_packed_weight_get_role (weight, i);
      g_auto (WeftSlice) slice = { .shape = { 0 } };
      g_autoptr (WeftTensor) tensor = NULL;
      gboolean is_owned;
      guint position;

      if (!weft_packed_weight_get_position (weight, role, &position))
        continue;
      if (!weft_sharding_find_slice (self, position, rank, &slice, &is_owned, error))
        return NULL;
      tensor = weft_slice_cut (&slice, weft_packed_weight_get_tensor (weight, role), error);
      if (tensor == NULL
          || !weft_packed_weight_add_stored_part (part, role, weft_packed_weight_get_key (weight, role),
                                                  position, tensor, error))
        return NULL;
      if (!is_owned || weft_tensor_get_n_elements (tensor) == 0)
        return NULL;
    }
  return g_steal_pointer (&part);
}

/* Whether two weights are packed alike: an element of each part stands for as much. */
static gboolean
are_packed_alike (WeftPackedWeight *a, WeftPackedWeight *b)
{
  gboolean is_same = weft_packed_weight_is_packed (a);

  for (guint i = 0; is_same && i < weft_packed_weight_get_n_parts (a); i++)
    {
      const gchar *role = weft_packed_weight_get_role (a, i);
      gint64 rows_a, columns_a, rows_b, columns_b;

      weft_packed_weight_get_block (a, role, &rows_a, &columns_a);
      weft_packed_weight_get_block (b, role, &rows_b, &columns_b);
      is_same = rows_a == rows_b && columns_a == columns_b;
    }
  return is_same;
}

/* Whether all parts are cut as the weight is, none because a rule asks for all of it. */
static gboolean
is_cut_as_one (WeftSharding *self, WeftPackedWeight *weight)
{
  guint position;

  for (guint i = 0; i < weft_packed_weight_get_n_parts (weight); i++)
    if (weft_packed_weight_get_position (weight, weft_packed_weight_get_role (weight, i), &position)
        && get_entry (self, position)->placement == NULL)
      return FALSE;
  return TRUE;
}

/* What ranks get has to be read as what it is: by sizes alone, a reader may take it for a weight of other blocks. */
static gboolean
check_parts (WeftSharding *self, WeftPackedWeight *weight, GError **error)
{
  WeftQuantizer *quantizer = weft_packed_weights_get_quantizer (self->packed);
  guint n_ranks = is_cut_as_one (self, weight) ? weft_mesh_get_world_size (&self->mesh) : 0;

  for (guint rank = 0; rank < n_ranks; rank++)
    {
      g_autoptr (GError) local_error = NULL;
      g_autoptr (WeftPackedWeight) part = cut_weight (self, weight, rank, &local_error);

      if (local_error == NULL
          && (part == NULL
              || (weft_quantizer_describe (quantizer, part, &local_error)
                  && are_packed_alike (part, weight))))
        continue;
      g_set_error (
          error, WEFT_ERROR, WEFT_ERROR_UNSUPPORTED,
          "'%s' is packed (%s), and what rank %u would get of it would be read as another weight%s%s; %s",
          weft_packed_weight_get_name (weight), weft_packed_weight_get_scheme (weight), rank,
          local_error != NULL ? ": " : "", local_error != NULL ? local_error->message : "",
          get_way_out (self));
      return FALSE;
    }
  return TRUE;
}

/* All parts of a packed weight follow it. */
static gboolean
place_packed (WeftSharding *self, WeftPackedWeight *weight, GHashTable *counts, gboolean *is_placed,
              GError **error)
{
  const gchar *name = weft_packed_weight_get_name (weight);

  for (guint i = 0; i < weft_packed_weight_get_n_parts (weight); i++)
    {
      const gchar *role = weft_packed_weight_get_role (weight, i);
      guint position;
      Entry *entry;

      if (!weft_packed_weight_get_position (weight, role, &position))
        continue;
      entry = get_entry (self, position);
      is_placed[position] = TRUE;
      if (!place (self, entry, counts, name, weft_packed_weight_get_shape (weight), error)
          || !place_part (self, weight, role, entry, error)
          || !place_companion_itself (self, entry, position, error) || !check_ranks (self, position, error))
        return FALSE;
    }
  return check_parts (self, weight, error);
}

/* A companion without a packed weight that it belongs to: nothing says how it could be cut, so all ranks get it. */
static gboolean
is_lone_companion (WeftSharding *self, guint position)
{
  const gchar *role = NULL;
  g_autofree gchar *dense_name =
      self->packed != NULL
          ? weft_quantizer_find_part (weft_packed_weights_get_quantizer (self->packed),
                                      weft_state_dict_get_name (self->tensors, position), &role)
          : NULL;

  return dense_name != NULL && strcmp (role, WEFT_ROLE_CODES) != 0;
}

/* A tensor that is no part of a packed weight. */
static gboolean
place_plain (WeftSharding *self, guint position, GHashTable *counts, GError **error)
{
  Entry *entry = get_entry (self, position);

  if (is_lone_companion (self, position))
    return TRUE;
  return place (self, entry, counts, weft_state_dict_get_name (self->tensors, position),
                weft_tensor_get_shape (weft_state_dict_get_tensor (self->tensors, position)), error)
         && check_ranks (self, position, error);
}

static gboolean
place_all (WeftSharding *self, GError **error)
{
  WeftPackedWeights *packed = self->packed;
  guint n = weft_state_dict_get_n_tensors (self->tensors);
  g_autofree gboolean *is_placed = g_new0 (gboolean, n + 1);
  g_autoptr (GHashTable) counts = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  guint n_dense = packed != NULL ? weft_state_dict_get_n_tensors (weft_packed_weights_get_dense (packed)) : 0;

  g_array_set_size (self->entries, n);
  for (guint i = 0; i < n_dense; i++)
    {
      WeftPackedWeight *weight = weft_packed_weights_get_weight (packed, i);

      if (weight != NULL && !place_packed (self, weight, counts, is_placed, error))
        return FALSE;
    }
  for (guint i = 0; i < n; i++)
    if (!is_placed[i] && !place_plain (self, i, counts, error))
      return FALSE;
  return TRUE;
}

/* The patterns of all names, and of all modules that they are in. */
static void
add_patterns (GHashTable *patterns, const gchar *name)
{
  g_autofree gchar *module = g_strdup (name);

  for (gchar *dot = module; dot != NULL; dot = strrchr (module, '.'))
    {
      gchar *pattern;

      if (dot != module)
        *dot = '\0';
      pattern = weft_parallel_plan_generalize_name (module);
      if (!g_hash_table_add (patterns, pattern))
        return;
    }
}

/* A rule of the user that fits no name would leave a tensor whole, on every rank. */
static gboolean
check_rules (WeftSharding *self, GError **error)
{
  g_autoptr (GHashTable) patterns = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  WeftStateDict *dense = self->packed != NULL ? weft_packed_weights_get_dense (self->packed) : NULL;

  for (guint i = 0; i < weft_state_dict_get_n_tensors (self->tensors); i++)
    add_patterns (patterns, weft_state_dict_get_name (self->tensors, i));
  for (guint i = 0; dense != NULL && i < weft_state_dict_get_n_tensors (dense); i++)
    add_patterns (patterns, weft_state_dict_get_name (dense, i));
  for (guint i = 0; self->has_names && self->tree != NULL && i < weft_module_tree_get_n_tensors (self->tree);
       i++)
    add_patterns (patterns, weft_module_tree_get_tensor_name (self->tree, i));
  for (guint i = 0; i < weft_parallel_plan_get_n_rules (self->plan); i++)
    {
      const WeftParallelRule *rule = weft_parallel_plan_get_rule (self->plan, i);

      if (g_hash_table_contains (patterns, rule->pattern))
        continue;
      if (!rule->is_shipped)
        {
          g_set_error (error, WEFT_ERROR, WEFT_ERROR_MISSING,
                       "the rule '%s' (%s) of the plan is for no module or tensor; numbers between dots are "
                       "written *, and names are those of the runtime (`weft plan` lists them)",
                       rule->pattern, rule->text);
          return FALSE;
        }
      add_note (self, rule->pattern, "the model's own plan has this rule (%s), which is for no tensor",
                rule->text);
    }
  return TRUE;
}

static gboolean
check_mesh (WeftSharding *self, GError **error)
{
  guint world_size = weft_mesh_get_world_size (&self->mesh);
  gboolean has_user_experts = FALSE;

  for (guint i = 0; i < weft_parallel_plan_get_n_rules (self->plan); i++)
    {
      const WeftParallelRule *rule = weft_parallel_plan_get_rule (self->plan, i);

      has_user_experts |= !rule->is_shipped && rule->kind == WEFT_PARALLEL_KIND_EXPERT;
    }
  if (self->mesh.ep_size == 1 && has_user_experts)
    self->mesh.ep_size = world_size;
  self->has_experts = self->mesh.ep_size > 1;
  if (weft_parallel_plan_get_n_rules (self->plan) == 0 && world_size > 1)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_MISSING,
                   "no plan says what is cut over %u ranks; give one (--plan)", world_size);
      return FALSE;
    }
  if (world_size % self->mesh.tp_size == 0 && world_size % self->mesh.ep_size == 0
      && (self->mesh.ep_size == 1 || self->mesh.ep_size % self->mesh.tp_size == 0))
    return TRUE;
  g_set_error (
      error, WEFT_ERROR, WEFT_ERROR_ARGUMENT,
      "experts over %u ranks and tensors over %u do not make one mesh; the first has to be a multiple of "
      "the second",
      self->mesh.ep_size, self->mesh.tp_size);
  return FALSE;
}

static void
note_heads (WeftSharding *self)
{
  gint64 n_kv_heads = get_config_int (self->config, "num_key_value_heads");
  gint64 n_ranks = self->mesh.tp_size;

  if (n_kv_heads > 0 && n_kv_heads < n_ranks)
    add_note (self, "key and value heads",
              "there are %" G_GINT64_FORMAT " for %" G_GINT64_FORMAT
              " ranks: each rank holds a whole one, which others hold too%s",
              n_kv_heads, n_ranks,
              n_ranks % n_kv_heads != 0 ? "; they are not shared evenly, as the sizes do not divide" : "");
}

WeftSharding *
weft_sharding_new (WeftStateDict *tensors, WeftPackedWeights *packed, WeftParallelPlan *plan,
                   const WeftMesh *mesh, WeftModuleTree *tree, gboolean has_names, JsonNode *config,
                   GError **error)
{
  g_autoptr (WeftSharding) self = g_new0 (WeftSharding, 1);

  self->tensors = g_object_ref (tensors);
  self->plan = g_object_ref (plan);
  self->mesh = *mesh;
  self->tree = tree != NULL ? g_object_ref (tree) : NULL;
  self->packed = packed != NULL ? g_object_ref (packed) : NULL;
  self->has_names = has_names;
  self->entries = g_array_new (FALSE, TRUE, sizeof (Entry));
  g_array_set_clear_func (self->entries, clear_entry);
  self->notes = g_ptr_array_new_with_free_func (g_free);
  if (config != NULL)
    {
      self->config = weft_model_config_new (config, "config.json", error);
      if (self->config == NULL)
        return NULL;
    }
  if (!check_mesh (self, error) || !check_rules (self, error) || !place_all (self, error))
    return NULL;
  note_heads (self);
  return g_steal_pointer (&self);
}

void
weft_sharding_free (WeftSharding *self)
{
  g_clear_object (&self->tensors);
  g_clear_object (&self->packed);
  g_clear_object (&self->plan);
  g_clear_object (&self->tree);
  g_clear_object (&self->config);
  g_array_unref (self->entries);
  g_ptr_array_unref (self->notes);
  g_free (self);
}

const WeftMesh *
weft_sharding_get_mesh (WeftSharding *self)
{
  return &self->mesh;
}

const gchar *
weft_sharding_get_style (WeftSharding *self, guint position)
{
  const Entry *entry = get_entry (self, position);

  return entry->rule != NULL ? entry->rule->text : NULL;
}

static gint64
count_elements (WeftSharding *self, guint position, guint rank, gboolean *is_owned)
{
  g_auto (WeftSlice) slice = { .shape = { 0 } };
  WeftShape shape;
  gint64 n = 0;

  if (!weft_sharding_find_slice (self, position, rank, &slice, is_owned, NULL) || !*is_owned)
    return 0;
  shape = weft_slice_get_shape (&slice);
  weft_shape_count_elements (&shape, &n, NULL);
  return n;
}

WeftRankShare
weft_sharding_count_share (WeftSharding *self, guint rank)
{
  WeftRankShare share = { 0, 0 };

  for (guint i = 0; i < weft_state_dict_get_n_tensors (self->tensors); i++)
    {
      WeftTensor *tensor = weft_state_dict_get_tensor (self->tensors, i);
      gint64 n_elements = weft_tensor_get_n_elements (tensor);
      gboolean is_owned = TRUE;
      gint64 n = count_elements (self, i, rank, &is_owned);

      share.n_tensors += is_owned;
      if (n > 0)
        share.n_bytes += (guint64) n * (weft_tensor_get_n_bytes (tensor) * 8 / (guint64) n_elements) / 8;
    }
  return share;
}

gint64
weft_sharding_count_padding (WeftSharding *self, guint position)
{
  guint world_size = weft_mesh_get_world_size (&self->mesh);
  gint64 most = 0, total = 0;

  if (get_entry (self, position)->placement == NULL || get_entry (self, position)->n_items > 0)
    return 0;
  for (guint rank = 0; rank < world_size; rank++)
    {
      gboolean is_owned;
      gint64 n = count_elements (self, position, rank, &is_owned);

      most = MAX (most, n);
      total += n;
    }
  return most * world_size - total;
}

GPtrArray *
weft_sharding_get_notes (WeftSharding *self)
{
  return self->notes;
}
