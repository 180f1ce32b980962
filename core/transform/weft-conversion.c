/* SPDX-License-Identifier: Apache-2.0 */
#include "transform/weft-conversion-internal.h"

#include <string.h>

#include "base/weft-text.h"
#include "transform/weft-conversion-ops.h"
#include "transform/weft-transform-names.h"

static void
output_clear (gpointer user_data)
{
  WeftConversionOutput *output = user_data;

  g_free (output->name);
  g_clear_pointer (&output->tensor, weft_tensor_unref);
}

WeftConversion *
weft_conversion_new (const gchar *layer, WeftWeightConverter *converter, gint rule)
{
  WeftConversion *self = g_new0 (WeftConversion, 1);

  self->layer = g_strdup (layer);
  self->converter = converter != NULL ? g_object_ref (converter) : NULL;
  self->rule = rule;
  self->sources = g_array_sized_new (FALSE, FALSE, sizeof (WeftConversionSource), 1);
  self->outputs = g_array_sized_new (FALSE, FALSE, sizeof (WeftConversionOutput), 1);
  g_array_set_clear_func (self->outputs, output_clear);
  return self;
}

void
weft_conversion_free (WeftConversion *self)
{
  g_free (self->layer);
  g_clear_object (&self->converter);
  g_strfreev (self->source_patterns);
  g_strfreev (self->target_patterns);
  g_array_unref (self->sources);
  g_array_unref (self->outputs);
  g_free (self->proof_reason);
  g_free (self);
}

void
weft_conversion_add_source (WeftConversion *self, guint position, guint pattern, gint64 number)
{
  WeftConversionSource source = { position, pattern, number };

  g_array_append_val (self->sources, source);
}

void
weft_conversion_add_output (WeftConversion *self, const gchar *name, guint pattern, gint64 number,
                            WeftTensor *tensor)
{
  WeftConversionOutput output = { g_strdup (name), pattern, number,
                                  tensor != NULL ? weft_tensor_ref (tensor) : NULL, FALSE };

  g_array_append_val (self->outputs, output);
}

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

/* Whether @text begins with @pattern, where `.` stands for any character and `\.` for a dot. */
static gboolean
begins_with (const gchar *text, const gchar *pattern)
{
  for (; *pattern != '\0'; pattern++, text++)
    {
      gboolean is_literal = *pattern == '\\';

      if (is_literal)
        pattern++;
      if (*text == '\0' || (*text != *pattern && (is_literal || *pattern != '.')))
        return FALSE;
    }
  return TRUE;
}

/* Whether a pattern has nothing but characters, escaped ones and dots. */
static gboolean
is_plain (const gchar *pattern)
{
  while (*(pattern += strcspn (pattern, "\\()[]{}|?+*^$")) == '\\')
    {
      if (pattern[1] == '\0' || g_ascii_isalnum (pattern[1]))
        return FALSE;
      pattern += 2;
    }
  return *pattern == '\0';
}

static gint64
find_number_by_regex (const gchar *tail, const gchar *key)
{
  g_autofree gchar *expression = g_strdup_printf ("^(?:.*\\.)?(\\d+)\\.(?:%s)", tail);
  g_autoptr (GRegex) regex = g_regex_new (expression, 0, 0, NULL);
  g_autoptr (GMatchInfo) match = NULL;
  g_autofree gchar *digits = NULL;

  if (regex == NULL || !g_regex_match (regex, key, 0, &match))
    return -1;
  digits = g_match_info_fetch (match, 1);
  return g_ascii_strtoll (digits, NULL, 10);
}

gint64
weft_conversion_find_number (const gchar *pattern, const gchar *key)
{
  const gchar *star = g_strrstr (pattern, "*.");
  const gchar *tail;

  if (star == NULL)
    return -1;
  tail = star + 2;
  if (!is_plain (tail))
    return find_number_by_regex (tail, key);
  for (const gchar *dot = strrchr (key, '.'); dot != NULL; dot = memrchr (key, '.', (gsize) (dot - key)))
    if (begins_with (dot + 1, tail))
      {
        const gchar *digits = dot;

        while (digits > key && g_ascii_isdigit (digits[-1]))
          digits--;
        if (digits < dot && (digits == key || digits[-1] == '.'))
          return g_ascii_strtoll (digits, NULL, 10);
      }
  return -1;
}

WeftConversion *
weft_conversion_new_for_key (WeftRenamedKey *renamed, WeftTransformList *rules, GError **error)
{
  gint rule = weft_renamed_key_get_converter (renamed);
  WeftWeightTransform *converter = rule >= 0 ? weft_transform_list_get_transform (rules, (guint) rule) : NULL;
  g_autoptr (WeftConversion) self =
      weft_conversion_new (weft_renamed_key_get_name (renamed),
                           converter != NULL ? WEFT_WEIGHT_CONVERTER (converter) : NULL, rule);

  if (converter == NULL)
    return g_steal_pointer (&self);
  self->source_patterns = g_strdupv ((GStrv) weft_weight_transform_get_source_patterns (converter));
  self->target_patterns = weft_weight_transform_resolve_targets (
      converter, weft_renamed_key_get_converter_input (renamed), error);
  return self->target_patterns != NULL ? g_steal_pointer (&self) : NULL;
}

void
weft_conversion_collect (WeftConversion *self, WeftRenamedKey *renamed, guint position)
{
  guint pattern = 0;

  if (self->converter == NULL)
    {
      weft_conversion_add_source (self, position, 0, -1);
      return;
    }
  while (self->source_patterns[pattern + 1] != NULL
         && strcmp (self->source_patterns[pattern], weft_renamed_key_get_converter_pattern (renamed)) != 0)
    pattern++;
  weft_conversion_add_source (self, position, pattern,
                              weft_conversion_find_number (self->source_patterns[pattern],
                                                           weft_renamed_key_get_converter_input (renamed)));
}

static WeftOpTraits
get_chain_traits (WeftConversion *self)
{
  GPtrArray *ops = weft_weight_converter_get_operations (self->converter);
  WeftOpTraits traits = WEFT_OP_TRAITS_NONE;

  for (guint i = 0; i < ops->len; i++)
    traits |= weft_conversion_ops_get_traits (ops->pdata[i]);
  return traits;
}

/* Numbers as runs, such as `0-2 and 4-7`. */
static gchar *
describe_numbers (const gint64 *numbers, guint n)
{
  GString *text = g_string_new (NULL);

  for (guint i = 0, next; i < n; i = next)
    {
      for (next = i + 1; next < n && numbers[next] == numbers[next - 1] + 1;)
        next++;
      if (text->len > 0)
        g_string_append (text, next == n ? " and " : ", ");
      if (next - i == 1)
        g_string_append_printf (text, "%" G_GINT64_FORMAT, numbers[i]);
      else
        g_string_append_printf (text, "%" G_GINT64_FORMAT "-%" G_GINT64_FORMAT, numbers[i],
                                numbers[next - 1]);
    }
  return g_string_free (text, FALSE);
}

static gint
compare_numbers (gconstpointer a, gconstpointer b)
{
  gint64 number_a = *(const gint64 *) a;
  gint64 number_b = *(const gint64 *) b;

  return (number_a > number_b) - (number_a < number_b);
}

/* The sorted numbers under one source pattern have to be 0 ... n_wanted - 1. */
static gboolean
check_numbers (WeftConversion *self, guint pattern, gint64 n_wanted, GError **error)
{
  g_autoptr (GArray) numbers = g_array_new (FALSE, FALSE, sizeof (gint64));
  g_autofree gchar *found = NULL;
  gint64 gap = -1;

  for (guint i = 0; i < self->sources->len; i++)
    if (get_source (self, i)->pattern == pattern)
      g_array_append_val (numbers, get_source (self, i)->number);
  g_array_sort (numbers, compare_numbers);
  if (numbers->len > 0 && g_array_index (numbers, gint64, 0) < 0)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_MISSING,
                   "'%s' needs a number in place of the '*' of '%s' in every name that it is made of",
                   self->layer, self->source_patterns[pattern]);
      return FALSE;
    }
  for (guint i = 0; i < numbers->len && gap < 0; i++)
    {
      gint64 number = g_array_index (numbers, gint64, i);

      if (i > 0 && number == g_array_index (numbers, gint64, i - 1))
        {
          g_set_error (error, WEFT_ERROR, WEFT_ERROR_CONFLICT,
                       "'%s' has number %" G_GINT64_FORMAT " twice for '%s'", self->layer, number,
                       self->source_patterns[pattern]);
          return FALSE;
        }
      if (number != (gint64) i)
        gap = i;
    }
  if (gap < 0 && (gint64) numbers->len < n_wanted)
    gap = numbers->len;
  if (gap < 0)
    return TRUE;
  found = describe_numbers ((const gint64 *) (gpointer) numbers->data, numbers->len);
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_MISSING,
               "'%s' needs numbers 0-%" G_GINT64_FORMAT " for '%s', found %s (%" G_GINT64_FORMAT
               " is missing)",
               self->layer, n_wanted - 1, self->source_patterns[pattern], found, gap);
  return FALSE;
}

/* Numbers of experts that a config speaks of, at any place: models name them in several ways. */
static void
collect_expert_counts (JsonNode *node, GArray *counts)
{
  static const gchar *const names[] = { "num_local_experts", "num_experts", "n_routed_experts",
                                        "moe_num_experts" };
  g_autoptr (GList) members = NULL;

  if (node == NULL || !JSON_NODE_HOLDS_OBJECT (node))
    return;
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      JsonNode *value = json_object_get_member (json_node_get_object (node), names[i]);

      if (value != NULL && JSON_NODE_HOLDS_VALUE (value) && json_node_get_value_type (value) == G_TYPE_INT64)
        {
          gint64 count = json_node_get_int (value);

          g_array_append_val (counts, count);
        }
    }
  members = json_object_get_values (json_node_get_object (node));
  for (GList *member = members; member != NULL; member = member->next)
    collect_expert_counts (member->data, counts);
}

/* Numbers without a hole may still lack the last ones: the config says how many experts there are. */
static gboolean
check_expert_count (WeftConversion *self, gint64 n_found, WeftOpContext *facts, GError **error)
{
  g_autoptr (GArray) counts = g_array_new (FALSE, FALSE, sizeof (gint64));
  gint64 most = 0;

  if (strstr (self->source_patterns[0], "experts.*.") == NULL)
    return TRUE;
  collect_expert_counts (weft_op_context_get_config (facts), counts);
  for (guint i = 0; i < counts->len; i++)
    {
      if (g_array_index (counts, gint64, i) == n_found)
        return TRUE;
      most = MAX (most, g_array_index (counts, gint64, i));
    }
  if (n_found >= most)
    return TRUE;
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_MISSING,
               "'%s' is made of experts 0-%" G_GINT64_FORMAT ", the config speaks of %" G_GINT64_FORMAT
               "; the last ones are missing in the checkpoint",
               self->layer, n_found - 1, most);
  return FALSE;
}

/* A stacked list has to be complete: numbers without a hole, equal for all sources, and every source there. */
static gboolean
check_complete (WeftConversion *self, WeftOpTraits traits, WeftOpContext *facts, GError **error)
{
  guint n_patterns = g_strv_length (self->source_patterns);
  g_autofree gboolean *is_there = g_new0 (gboolean, n_patterns);
  gint64 n_wanted = 0;
  gboolean ok = TRUE;

  for (guint i = 0; i < self->sources->len; i++)
    {
      is_there[get_source (self, i)->pattern] = TRUE;
      n_wanted = MAX (n_wanted, MIN (get_source (self, i)->number, G_MAXINT64 - 1) + 1);
    }
  for (guint i = 0; i < n_patterns; i++)
    if (!is_there[i] && (traits & WEFT_OP_TRAITS_CONSUMES_COMPANIONS) == 0)
      {
        g_set_error (error, WEFT_ERROR, WEFT_ERROR_MISSING,
                     "'%s' needs a tensor for '%s'; the checkpoint has none", self->layer,
                     self->source_patterns[i]);
        return FALSE;
      }
  if ((traits & WEFT_OP_TRAITS_STACKS_LIST) == 0 || n_wanted == 0)
    return TRUE;
  for (guint i = 0; ok && i < n_patterns; i++)
    if (is_there[i] && strstr (self->source_patterns[i], "*.") != NULL)
      ok = check_numbers (self, i, n_wanted, error);
  return ok && check_expert_count (self, n_wanted, facts, error);
}

static WeftOpContext *
make_context (WeftConversion *self, GStrv sources, GStrv targets, const gchar *layer, WeftOpContext *facts)
{
  WeftOpContext *context =
      weft_op_context_new ((const gchar *const *) sources, (const gchar *const *) targets);

  weft_op_context_set_full_layer_name (context, layer);
  weft_op_context_set_config (context, weft_op_context_get_config (facts));
  weft_op_context_share_parameters (context, facts);
  return context;
}

/* Whether @name is @pattern, or @pattern with a number in place of its `*`. */
static gboolean
matches_pattern (const gchar *pattern, const gchar *name, gint64 *number)
{
  const gchar *star = strchr (pattern, '*');
  gsize n_before, n_after, n_digits = 0;

  *number = -1;
  if (star == NULL)
    return strcmp (pattern, name) == 0;
  n_before = (gsize) (star - pattern);
  n_after = strlen (star + 1);
  if (strncmp (pattern, name, n_before) != 0)
    return FALSE;
  while (g_ascii_isdigit (name[n_before + n_digits]))
    n_digits++;
  if (n_digits == 0 || strcmp (name + n_before + n_digits, star + 1) != 0
      || strlen (name) != n_before + n_digits + n_after)
    return FALSE;
  *number = g_ascii_strtoll (name + n_before, NULL, 10);
  return TRUE;
}

/* Notes the tensors that the last op gave as outputs, under full names. */
static gboolean
take_outputs (WeftConversion *self, WeftTensorGroups *result, GError **error)
{
  guint n = weft_tensor_groups_get_n_groups (result);
  g_autofree const gchar **names = g_new0 (const gchar *, n + 1);
  g_auto (GStrv) full_names = NULL;

  for (guint i = 0; i < n; i++)
    names[i] = weft_tensor_groups_get_name (result, i);
  full_names = weft_transform_expand_names (self->layer, names, error);
  if (full_names == NULL)
    return FALSE;
  for (guint i = 0; i < n; i++)
    {
      gint64 number = -1;
      guint pattern = 0;

      if (weft_tensor_groups_get_n_tensors (result, i) != 1)
        {
          g_set_error (
              error, WEFT_ERROR, WEFT_ERROR_SHAPE,
              "'%s' is still a list of %u tensors after the last op; a merging op is missing from the chain",
              names[i], weft_tensor_groups_get_n_tensors (result, i));
          return FALSE;
        }
      while (self->target_patterns[pattern] != NULL
             && !matches_pattern (self->target_patterns[pattern], names[i], &number))
        pattern++;
      /* An op may give full names of its own; they count as the first target's. */
      if (self->target_patterns[pattern] == NULL)
        pattern = 0;
      weft_conversion_add_output (self, full_names[i], pattern, number,
                                  weft_tensor_groups_get_tensor (result, i, 0));
    }
  return TRUE;
}

/* FP8 numbers are codes that a scale belongs to. Where one is known they are no plain tensor any more. */
static WeftTensor *
read_source (WeftConversion *self, guint i, WeftStateDict *published, WeftDtype read_dtype, GError **error)
{
  const guint position = get_source (self, i)->position;
  WeftTensor *tensor = weft_state_dict_get_tensor (published, position);
  WeftDtype stored = weft_tensor_get_dtype (tensor);

  if (read_dtype == WEFT_DTYPE_INVALID || read_dtype == stored)
    return weft_tensor_ref (tensor);
  if (!weft_dtype_is_floating (stored) || weft_dtype_get_bits (stored) > 8)
    return weft_tensor_cast (tensor, read_dtype, error);
  g_set_error (
      error, WEFT_ERROR, WEFT_ERROR_MISSING,
      "'%s' is stored as %s and has no scale that is known, so that its codes are no values of %s; keep them "
      "with the dtype `keep`, or name the method in quantization_config",
      weft_state_dict_get_name (published, position), weft_dtype_get_name (stored),
      weft_dtype_get_name (read_dtype));
  return NULL;
}

/* Whether sources for several patterns are there, as a weight and its companions are. */
static gboolean
has_several_patterns (WeftConversion *self)
{
  for (guint i = 1; i < self->sources->len; i++)
    if (get_source (self, i)->pattern != get_source (self, 0)->pattern)
      return TRUE;
  return FALSE;
}

/* Codes and their companions are read as they are stored where an op of the chain makes values of them. */
static gboolean
is_read_as_stored (WeftConversion *self, WeftOpTraits traits, WeftTensor *tensor)
{
  if ((traits & WEFT_OP_TRAITS_CONSUMES_COMPANIONS) != 0 && has_several_patterns (self))
    return TRUE;
  return (traits & WEFT_OP_TRAITS_NEEDS_VALUES) != 0
         && !weft_dtype_is_floating (weft_tensor_get_dtype (tensor));
}

gboolean
weft_conversion_run (WeftConversion *self, WeftStateDict *published, WeftDtype read_dtype,
                     WeftOpContext *facts, GError **error)
{
  g_autoptr (WeftTensorGroups) inputs = NULL;
  g_autoptr (WeftTensorGroups) result = NULL;
  g_autoptr (WeftOpContext) context = NULL;
  WeftOpTraits traits;

  if (self->converter == NULL)
    {
      g_autoptr (WeftTensor) tensor = read_source (self, 0, published, read_dtype, error);

      if (tensor == NULL)
        return FALSE;
      weft_conversion_add_output (self, self->layer, 0, -1, tensor);
      return TRUE;
    }
  traits = get_chain_traits (self);
  if (!check_complete (self, traits, facts, error))
    return FALSE;
  inputs = weft_tensor_groups_new ();
  for (guint i = 0; i < self->sources->len; i++)
    {
      const WeftConversionSource *source = get_source (self, i);
      WeftTensor *stored = weft_state_dict_get_tensor (published, source->position);
      WeftDtype dtype = is_read_as_stored (self, traits, stored) ? WEFT_DTYPE_INVALID : read_dtype;
      g_autoptr (WeftTensor) tensor = read_source (self, i, published, dtype, error);

      if (tensor == NULL)
        return FALSE;
      weft_tensor_groups_append (inputs, self->source_patterns[source->pattern], tensor,
                                 weft_state_dict_get_name (published, source->position));
    }
  context = make_context (self, self->source_patterns, self->target_patterns, self->layer, facts);
  result =
      weft_op_chain_convert (weft_weight_converter_get_operations (self->converter), inputs, context, error);
  return result != NULL && take_outputs (self, result, error);
}

/* One tensor of the way back, under the dtype and shape that were published. */
static WeftTensor *
finish_inverse (WeftTensor *tensor, WeftTensor *leaf, const gchar *key, GError **error)
{
  g_autoptr (WeftTensor) cast = weft_tensor_cast (tensor, weft_tensor_get_dtype (leaf), error);

  if (cast == NULL)
    return NULL;
  if (!weft_shape_equal (weft_tensor_get_shape (cast), weft_tensor_get_shape (leaf)))
    {
      g_autofree gchar *expected = weft_shape_to_string (weft_tensor_get_shape (leaf));
      g_autofree gchar *found = weft_shape_to_string (weft_tensor_get_shape (cast));

      g_set_error (error, WEFT_ERROR, WEFT_ERROR_NOT_REVERSIBLE,
                   "'%s' was published with shape %s, the inverse gives %s", key, expected, found);
      return NULL;
    }
  return g_steal_pointer (&cast);
}

/* A companion with fewer axes than its weight, in as many: new axes of one index stand behind the others. */
static WeftTensor *
raise_companion (WeftConversion *self, WeftTensor *tensor, GError **error)
{
  WeftShape shape = *weft_tensor_get_shape (tensor);

  if (self->carry == WEFT_CARRY_NONE || shape.rank >= self->output_rank || self->output_rank > WEFT_MAX_RANK)
    return weft_tensor_ref (tensor);
  while (shape.rank < self->output_rank)
    shape.dims[shape.rank++] = 1;
  return weft_tensor_reshape (tensor, shape.dims, shape.rank, error);
}

/* What the inverse ops gave for a companion, with the axes that it was published with. */
static WeftTensor *
lower_companion (WeftConversion *self, WeftTensor *tensor, WeftTensor *leaf, GError **error)
{
  const WeftShape *shape = weft_tensor_get_shape (leaf);
  g_autoptr (WeftTensor) element = self->carry == WEFT_CARRY_CHANNELS && weft_tensor_get_rank (tensor) >= 2
                                           && weft_tensor_get_dim (tensor, -2) > 0
                                       ? weft_tensor_slice (tensor, -2, 0, 1, error)
                                       : weft_tensor_ref (tensor);

  if (element == NULL || self->carry == WEFT_CARRY_NONE
      || weft_tensor_get_n_elements (element) != weft_tensor_get_n_elements (leaf))
    return g_steal_pointer (&element);
  return weft_tensor_reshape (element, shape->dims, shape->rank, error);
}

static WeftTensor *
finish_companion (WeftConversion *self, WeftTensor *tensor, WeftTensor *leaf, const gchar *key,
                  GError **error)
{
  g_autoptr (WeftTensor) lowered = lower_companion (self, tensor, leaf, error);

  return lowered != NULL ? finish_inverse (lowered, leaf, key, error) : NULL;
}

/* All sources had the one element that the outputs have. */
static GPtrArray *
share_inverse (WeftConversion *self, WeftTensor *runtime, WeftStateDict *published, GError **error)
{
  g_autoptr (GPtrArray) tensors = g_ptr_array_new_with_free_func ((GDestroyNotify) weft_tensor_unref);

  for (guint i = 0; i < self->sources->len; i++)
    {
      guint position = get_source (self, i)->position;
      WeftTensor *tensor = finish_companion (self, runtime, weft_state_dict_get_tensor (published, position),
                                             weft_state_dict_get_name (published, position), error);

      if (tensor == NULL)
        return NULL;
      g_ptr_array_add (tensors, tensor);
    }
  return g_steal_pointer (&tensors);
}

/* The name that the inverse chain gives a source: its pattern, with the number (or the place in the list) for the `*`. */
static gchar *
get_inverse_name (WeftConversion *self, const gchar *pattern, guint i)
{
  const WeftConversionSource *source = get_source (self, i);
  gint64 number = source->number;

  if (number < 0 && strchr (pattern, '*') != NULL)
    {
      number = 0;
      for (guint j = 0; j < i; j++)
        number += get_source (self, j)->pattern == source->pattern;
    }
  return weft_text_number_pattern (pattern, (guint64) number);
}

/* Picks the tensor of each source out of what the inverse chain gave. */
static GPtrArray *
pick_sources (WeftConversion *self, WeftTensorGroups *result, GStrv patterns, WeftStateDict *published,
              GError **error)
{
  g_autoptr (GPtrArray) tensors = g_ptr_array_new_with_free_func ((GDestroyNotify) weft_tensor_unref);

  for (guint i = 0; i < self->sources->len; i++)
    {
      guint position = get_source (self, i)->position;
      const gchar *key = weft_state_dict_get_name (published, position);
      g_autofree gchar *name = get_inverse_name (self, patterns[get_source (self, i)->pattern], i);
      WeftTensor *tensor = NULL;
      guint group;

      if (weft_tensor_groups_find (result, name, &group)
          && weft_tensor_groups_get_n_tensors (result, group) == 1)
        tensor = finish_companion (self, weft_tensor_groups_get_tensor (result, group, 0),
                                   weft_state_dict_get_tensor (published, position), key, error);
      else
        g_set_error (error, WEFT_ERROR, WEFT_ERROR_NOT_REVERSIBLE,
                     "the inverse ops give no tensor '%s' for '%s'", name, key);
      if (tensor == NULL)
        return NULL;
      g_ptr_array_add (tensors, tensor);
    }
  return g_steal_pointer (&tensors);
}

GPtrArray *
weft_conversion_invert (WeftConversion *self, WeftTensor **runtime, WeftStateDict *published,
                        WeftOpContext *facts, GError **error)
{
  const gchar *key = weft_state_dict_get_name (published, get_source (self, 0)->position);
  g_autoptr (WeftWeightTransform) inverse = NULL;
  g_autoptr (WeftTensorGroups) inputs = NULL;
  g_autoptr (WeftTensorGroups) result = NULL;
  g_autoptr (WeftOpContext) context = NULL;
  g_auto (GStrv) patterns = NULL;

  if (self->converter == NULL)
    {
      g_autoptr (GPtrArray) tensors = g_ptr_array_new_with_free_func ((GDestroyNotify) weft_tensor_unref);
      WeftTensor *tensor = finish_inverse (
          runtime[0], weft_state_dict_get_tensor (published, get_source (self, 0)->position), key, error);

      if (tensor == NULL)
        return NULL;
      g_ptr_array_add (tensors, tensor);
      return g_steal_pointer (&tensors);
    }
  if (self->carry == WEFT_CARRY_SHARED)
    return share_inverse (self, runtime[0], published, error);
  inverse = weft_weight_transform_dup_inverse (WEFT_WEIGHT_TRANSFORM (self->converter), error);
  if (inverse == NULL)
    return NULL;
  patterns = weft_weight_transform_resolve_targets (inverse, self->layer, error);
  if (patterns == NULL)
    return NULL;
  inputs = weft_tensor_groups_new ();
  for (guint i = 0; i < self->outputs->len; i++)
    {
      g_autoptr (WeftTensor) raised = raise_companion (self, runtime[i], error);

      if (raised == NULL)
        return NULL;
      weft_tensor_groups_append (inputs, self->target_patterns[get_output (self, i)->pattern], raised,
                                 get_output (self, i)->name);
    }
  context = make_context (self, self->target_patterns, patterns, key, facts);
  result = weft_op_chain_convert (weft_weight_converter_get_operations (WEFT_WEIGHT_CONVERTER (inverse)),
                                  inputs, context, error);
  return result != NULL ? pick_sources (self, result, patterns, published, error) : NULL;
}

void
weft_conversion_set_lossy (WeftConversion *self, const gchar *reason)
{
  self->proof = WEFT_PROOF_LOSSY;
  g_free (self->proof_reason);
  self->proof_reason = g_strdup (reason);
}

/* Whether the ops gave the one tensor back that they were given, as they do for one that is in its runtime layout already. */
static gboolean
has_changed_nothing (WeftConversion *self, WeftStateDict *published)
{
  return self->converter != NULL && self->sources->len == 1 && self->outputs->len == 1
         && weft_tensor_is_same (get_output (self, 0)->tensor,
                                 weft_state_dict_get_tensor (published, get_source (self, 0)->position));
}

/* What changed nothing is a renaming, whose inverse is exact whatever that of the ops is. */
static void
become_renaming (WeftConversion *self)
{
  g_clear_object (&self->converter);
  g_clear_pointer (&self->source_patterns, g_strfreev);
  g_clear_pointer (&self->target_patterns, g_strfreev);
  get_source (self, 0)->pattern = get_output (self, 0)->pattern = 0;
  get_source (self, 0)->number = get_output (self, 0)->number = -1;
}

gboolean
weft_conversion_prove (WeftConversion *self, WeftStateDict *published, WeftOpContext *facts, GError **error)
{
  g_autofree WeftTensor **runtime = g_new (WeftTensor *, self->outputs->len);
  g_autoptr (GPtrArray) tensors = NULL;
  g_autoptr (GError) local_error = NULL;

  /* That all sources are equal was seen in their values. */
  if (self->carry == WEFT_CARRY_SHARED)
    return TRUE;
  if (has_changed_nothing (self, published))
    become_renaming (self);
  for (guint i = 0; i < self->outputs->len; i++)
    runtime[i] = get_output (self, i)->tensor;
  tensors = weft_conversion_invert (self, runtime, published, facts, &local_error);
  if (tensors == NULL)
    {
      weft_conversion_set_lossy (self, local_error->message);
      return TRUE;
    }
  for (guint i = 0; i < tensors->len; i++)
    {
      guint position = get_source (self, i)->position;

      if (weft_tensor_is_same (tensors->pdata[i], weft_state_dict_get_tensor (published, position)))
        continue;
      if (self->converter != NULL && (get_chain_traits (self) & WEFT_OP_TRAITS_DROPS_ZEROS) != 0)
        {
          self->proof = WEFT_PROOF_CONDITIONAL;
          continue;
        }
      if (!weft_tensor_is_layout (tensors->pdata[i]))
        {
          weft_conversion_set_lossy (self, "it computes values, which no inverse gives back exactly");
          return TRUE;
        }
      g_set_error (
          error, WEFT_ERROR, WEFT_ERROR_NOT_REVERSIBLE,
          "the inverse of the ops puts other elements in '%s' than it was published with; one of the ops has a wrong inverse",
          weft_state_dict_get_name (published, position));
      return FALSE;
    }
  return TRUE;
}
