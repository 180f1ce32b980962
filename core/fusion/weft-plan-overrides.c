/* SPDX-License-Identifier: Apache-2.0 */
#include "fusion/weft-plan-overrides.h"

#include <string.h>

#include "base/weft-json.h"
#include "fusion/weft-yaml-private.h"

typedef struct
{
  gchar *match;
  gchar *target;
  JsonObject *options;
  gboolean skips_mismatch;
  gchar *where;
} Entry;

struct _WeftPlanOverrides
{
  GObject parent_instance;

  GArray *entries;
};

G_DEFINE_FINAL_TYPE (WeftPlanOverrides, weft_plan_overrides, G_TYPE_OBJECT)

static void
entry_clear (gpointer pointer)
{
  Entry *entry = pointer;

  g_free (entry->match);
  g_free (entry->target);
  g_clear_pointer (&entry->options, json_object_unref);
  g_free (entry->where);
}

static void
weft_plan_overrides_finalize (GObject *object)
{
  g_array_unref (WEFT_PLAN_OVERRIDES (object)->entries);
  G_OBJECT_CLASS (weft_plan_overrides_parent_class)->finalize (object);
}

static void
weft_plan_overrides_class_init (WeftPlanOverridesClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = weft_plan_overrides_finalize;
}

static void
weft_plan_overrides_init (WeftPlanOverrides *self)
{
  self->entries = g_array_new (FALSE, TRUE, sizeof (Entry));
  g_array_set_clear_func (self->entries, entry_clear);
}

/* `FILE:LINE:COLUMN: entry N` where the document is YAML, `FILE: entry N` where it is not. */
static gchar *
describe_place (WeftYaml *yaml, JsonNode *node, const gchar *where, guint number)
{
  WeftYamlPlace place;

  return weft_yaml_find_place (yaml, node, &place)
             ? g_strdup_printf ("%s:%u:%u: entry %u", where, place.line, place.column, number)
             : g_strdup_printf ("%s: entry %u", where, number);
}

static gboolean
read_text (JsonObject *object, const gchar *member, const gchar *where, gchar **text, GError **error)
{
  JsonNode *node = json_object_get_member (object, member);

  if (node != NULL && JSON_NODE_HOLDS_VALUE (node) && json_node_get_value_type (node) == G_TYPE_STRING
      && *json_node_get_string (node) != '\0')
    {
      *text = json_node_dup_string (node);
      return TRUE;
    }
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT, "%s: '%s' must be a text, found %s", where, member,
               weft_json_describe (node));
  return FALSE;
}

/* `**` stands for whole components, so nothing else may share its component. */
static gboolean
check_match (const gchar *match, const gchar *where, GError **error)
{
  g_auto (GStrv) parts = g_strsplit (match, ".", -1);

  for (guint i = 0; parts[i] != NULL; i++)
    if (parts[i][0] == '\0' || (strstr (parts[i], "**") != NULL && strcmp (parts[i], "**") != 0))
      {
        g_set_error (
            error, WEFT_ERROR, WEFT_ERROR_PATTERN,
            "%s: match '%s' has the component '%s'; components are not empty, `*` matches within one, and `**` "
            "stands alone for any number of them",
            where, match, parts[i]);
        return FALSE;
      }
  return TRUE;
}

static gboolean
read_on_mismatch (JsonObject *object, const gchar *where, gboolean *skips, GError **error)
{
  g_autofree gchar *text = NULL;

  if (!json_object_has_member (object, "on_mismatch"))
    return TRUE;
  if (!read_text (object, "on_mismatch", where, &text, error))
    return FALSE;
  *skips = strcmp (text, "skip") == 0;
  if (*skips || strcmp (text, "error") == 0)
    return TRUE;
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT, "%s: 'on_mismatch' takes error or skip, found '%s'",
               where, text);
  return FALSE;
}

/* The target, and every other member as its option. */
static gboolean
read_replacement (Entry *entry, JsonNode *node, const gchar *where, GError **error)
{
  JsonObject *object;
  g_autoptr (GList) members = NULL;

  if (node == NULL || !JSON_NODE_HOLDS_OBJECT (node))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT,
                   "%s: 'replace_module' must be a map with '_target_', found %s", where,
                   weft_json_describe (node));
      return FALSE;
    }
  object = json_node_get_object (node);
  if (!read_text (object, "_target_", where, &entry->target, error))
    return FALSE;
  entry->options = json_object_new ();
  members = json_object_get_members (object);
  for (GList *member = members; member != NULL; member = member->next)
    {
      if (strcmp (member->data, "module_type") == 0 || strcmp (member->data, "exact_type") == 0)
        {
          g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT,
                       "%s: '%s' belongs to the target, not to the entry; leave it out", where,
                       (const gchar *) member->data);
          return FALSE;
        }
      if (strcmp (member->data, "_target_") != 0)
        json_object_set_member (entry->options, member->data,
                                json_node_copy (json_object_get_member (object, member->data)));
    }
  return TRUE;
}

static gboolean
check_members (JsonObject *object, const gchar *where, GError **error)
{
  static const gchar *const known[] = { "match", "replace_module", "on_mismatch", NULL };
  g_autoptr (GList) members = json_object_get_members (object);

  for (GList *member = members; member != NULL; member = member->next)
    {
      const gchar *name = member->data;

      if (g_strv_contains (known, name))
        continue;
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT, "%s: '%s' is unknown%s", where, name,
                   strcmp (name, "module_type") == 0 || strcmp (name, "exact_type") == 0
                       ? ": it belongs to the target, not to the entry"
                       : ", expected match, replace_module and on_mismatch");
      return FALSE;
    }
  return TRUE;
}

static gboolean
read_entry (WeftPlanOverrides *self, WeftYaml *yaml, JsonNode *node, const gchar *file, guint number,
            GError **error)
{
  g_autofree gchar *where = describe_place (yaml, node, file, number);
  JsonObject *object;
  Entry *entry;

  if (!JSON_NODE_HOLDS_OBJECT (node))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT, "%s must be a map, found %s", where,
                   weft_json_describe (node));
      return FALSE;
    }
  object = json_node_get_object (node);
  g_array_set_size (self->entries, self->entries->len + 1);
  entry = &g_array_index (self->entries, Entry, self->entries->len - 1);
  entry->where = g_strdup (where);
  return check_members (object, where, error) && read_text (object, "match", where, &entry->match, error)
         && check_match (entry->match, where, error)
         && read_on_mismatch (object, where, &entry->skips_mismatch, error)
         && read_replacement (entry, json_object_get_member (object, "replace_module"), where, error);
}

/* The list itself, or a document that has it where a training or serving config has it. */
static JsonNode *
find_list (JsonNode *root)
{
  JsonNode *list = weft_json_lookup (root, "parallelism.plan_overrides");

  if (list == NULL)
    list = weft_json_lookup (root, "plan_overrides");
  return list != NULL ? list : root;
}

static WeftPlanOverrides *
read_document (JsonNode *root, WeftYaml *yaml, const gchar *where, GError **error)
{
  g_autoptr (WeftPlanOverrides) self = g_object_new (WEFT_TYPE_PLAN_OVERRIDES, NULL);
  JsonNode *list = find_list (root);
  JsonArray *array;

  if (!JSON_NODE_HOLDS_ARRAY (list))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT,
                   "%s: expected a list of entries, or parallelism.plan_overrides with one, found %s", where,
                   weft_json_describe (list));
      return NULL;
    }
  array = json_node_get_array (list);
  for (guint i = 0; i < json_array_get_length (array); i++)
    if (!read_entry (self, yaml, json_array_get_element (array, i), where, i + 1, error))
      return NULL;
  return g_steal_pointer (&self);
}

/**
 * weft_plan_overrides_load:
 * @path: (type filename): a YAML or JSON file
 * @error: return location
 *
 * Returns: (transfer full): its entries
 * Errors: %WEFT_ERROR_IO, %WEFT_ERROR_FORMAT if it is no YAML, %WEFT_ERROR_ARGUMENT if an entry is malformed; messages name the
 *   file, the line, the column and the entry
 * Since: 1.0
 */
WeftPlanOverrides *
weft_plan_overrides_load (const gchar *path, GError **error)
{
  g_autoptr (WeftYaml) yaml = weft_yaml_load (path, error);

  return yaml != NULL ? read_document (yaml->root, yaml, path, error) : NULL;
}

/**
 * weft_plan_overrides_new_from_json:
 * @root: a list of entries, or an object that has it as `plan_overrides` or `parallelism.plan_overrides`
 * @where: what messages call it, such as a path
 * @error: return location
 *
 * Returns: (transfer full): its entries
 * Errors: %WEFT_ERROR_ARGUMENT if an entry is malformed
 * Since: 1.0
 */
WeftPlanOverrides *
weft_plan_overrides_new_from_json (JsonNode *root, const gchar *where, GError **error)
{
  return read_document (root, NULL, where, error);
}

static Entry *
get_entry (WeftPlanOverrides *self, guint entry)
{
  return &g_array_index (self->entries, Entry, entry);
}

/**
 * weft_plan_overrides_get_n_entries:
 * @self: overrides
 *
 * Returns: the number of entries
 * Since: 1.0
 */
guint
weft_plan_overrides_get_n_entries (WeftPlanOverrides *self)
{
  return self->entries->len;
}

/**
 * weft_plan_overrides_get_match:
 * @self: overrides
 * @entry: which entry
 *
 * Returns: (transfer none): the pattern of paths: `*` within one component, `**` for any number of them
 * Since: 1.0
 */
const gchar *
weft_plan_overrides_get_match (WeftPlanOverrides *self, guint entry)
{
  g_return_val_if_fail (entry < self->entries->len, NULL);
  return get_entry (self, entry)->match;
}

/**
 * weft_plan_overrides_get_target:
 * @self: overrides
 * @entry: which entry
 *
 * Returns: (transfer none): what takes the place of the modules
 * Since: 1.0
 */
const gchar *
weft_plan_overrides_get_target (WeftPlanOverrides *self, guint entry)
{
  g_return_val_if_fail (entry < self->entries->len, NULL);
  return get_entry (self, entry)->target;
}

/**
 * weft_plan_overrides_get_options:
 * @self: overrides
 * @entry: which entry
 *
 * Returns: (transfer none): the options of the target
 * Since: 1.0
 */
JsonObject *
weft_plan_overrides_get_options (WeftPlanOverrides *self, guint entry)
{
  g_return_val_if_fail (entry < self->entries->len, NULL);
  return get_entry (self, entry)->options;
}

/**
 * weft_plan_overrides_skips_mismatch:
 * @self: overrides
 * @entry: which entry
 *
 * Returns: whether modules that the target does not fit are skipped
 * Since: 1.0
 */
gboolean
weft_plan_overrides_skips_mismatch (WeftPlanOverrides *self, guint entry)
{
  g_return_val_if_fail (entry < self->entries->len, FALSE);
  return get_entry (self, entry)->skips_mismatch;
}

/**
 * weft_plan_overrides_get_where:
 * @self: overrides
 * @entry: which entry
 *
 * Returns: (transfer none): where it stands: file, line, column and number
 * Since: 1.0
 */
const gchar *
weft_plan_overrides_get_where (WeftPlanOverrides *self, guint entry)
{
  g_return_val_if_fail (entry < self->entries->len, NULL);
  return get_entry (self, entry)->where;
}

static JsonObject *
write_entry (const Entry *entry)
{
  JsonObject *object = json_object_new ();
  JsonObject *replacement = json_object_new ();
  g_autoptr (GList) members = json_object_get_members (entry->options);

  json_object_set_string_member (replacement, "_target_", entry->target);
  for (GList *member = members; member != NULL; member = member->next)
    json_object_set_member (replacement, member->data,
                            json_node_copy (json_object_get_member (entry->options, member->data)));
  json_object_set_string_member (object, "match", entry->match);
  json_object_set_object_member (object, "replace_module", replacement);
  if (entry->skips_mismatch)
    json_object_set_string_member (object, "on_mismatch", "skip");
  return object;
}

/**
 * weft_plan_overrides_to_json:
 * @self: overrides
 *
 * Returns: (transfer full): the list of entries, which weft_plan_overrides_new_from_json() reads
 * Since: 1.0
 */
JsonNode *
weft_plan_overrides_to_json (WeftPlanOverrides *self)
{
  g_autoptr (JsonArray) array = json_array_new ();

  for (guint i = 0; i < self->entries->len; i++)
    json_array_add_object_element (array, write_entry (get_entry (self, i)));
  return json_node_init_array (json_node_alloc (), array);
}
