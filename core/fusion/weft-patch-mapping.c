/* SPDX-License-Identifier: Apache-2.0 */
#include "fusion/weft-patch-mapping.h"

#include <string.h>

#define PATTERN_PREFIX "re:"

typedef struct
{
  gchar *name;
  gchar *class_name;
  GRegex *regex; /* (nullable) */
} Patch;

struct _WeftPatchMapping
{
  GObject parent_instance;

  /* In the order of registration, which is that in which patterns are tried. */
  GArray *patches;
};

G_DEFINE_FINAL_TYPE (WeftPatchMapping, weft_patch_mapping, G_TYPE_OBJECT)

static void
patch_clear (gpointer pointer)
{
  Patch *patch = pointer;

  g_free (patch->name);
  g_free (patch->class_name);
  g_clear_pointer (&patch->regex, g_regex_unref);
}

static void
weft_patch_mapping_finalize (GObject *object)
{
  g_array_unref (WEFT_PATCH_MAPPING (object)->patches);
  G_OBJECT_CLASS (weft_patch_mapping_parent_class)->finalize (object);
}

static void
weft_patch_mapping_class_init (WeftPatchMappingClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = weft_patch_mapping_finalize;
}

static void
weft_patch_mapping_init (WeftPatchMapping *self)
{
  self->patches = g_array_new (FALSE, FALSE, sizeof (Patch));
  g_array_set_clear_func (self->patches, patch_clear);
}

/**
 * weft_patch_mapping_new:
 *
 * Returns: (transfer full): an empty map
 * Since: 1.0
 */
WeftPatchMapping *
weft_patch_mapping_new (void)
{
  return g_object_new (WEFT_TYPE_PATCH_MAPPING, NULL);
}

static Patch *
get_patch (WeftPatchMapping *self, guint i)
{
  return &g_array_index (self->patches, Patch, i);
}

/**
 * weft_patch_mapping_copy:
 * @self: a map
 *
 * Returns: (transfer full): a map that no longer changes with @self
 * Since: 1.0
 */
WeftPatchMapping *
weft_patch_mapping_copy (WeftPatchMapping *self)
{
  WeftPatchMapping *copy = weft_patch_mapping_new ();

  for (guint i = 0; i < self->patches->len; i++)
    {
      const Patch *patch = get_patch (self, i);
      Patch new_patch = { g_strdup (patch->name), g_strdup (patch->class_name),
                          patch->regex != NULL ? g_regex_ref (patch->regex) : NULL };

      g_array_append_val (copy->patches, new_patch);
    }
  return copy;
}

static gint
find_patch (WeftPatchMapping *self, const gchar *name)
{
  for (guint i = 0; i < self->patches->len; i++)
    if (strcmp (get_patch (self, i)->name, name) == 0)
      return (gint) i;
  return -1;
}

static gboolean
check_new (WeftPatchMapping *self, const gchar *name, const gchar *class_name, gboolean overwrite,
           GError **error)
{
  gint known = find_patch (self, name);

  if (class_name == NULL || class_name[0] == '\0' || name[0] == '\0')
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT, "'%s' needs the name of a class, found '%s'", name,
                   class_name != NULL ? class_name : "nothing");
      return FALSE;
    }
  if (known >= 0 && !overwrite)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_CONFLICT,
                   "'%s' already has a patch mapping, to '%s'; register with overwrite to replace it", name,
                   get_patch (self, (guint) known)->class_name);
      return FALSE;
    }
  return TRUE;
}

/* Compiles the pattern of a name that is one. */
static gboolean
prepare (const gchar *name, const gchar *class_name, Patch *patch, GError **error)
{
  g_autoptr (GError) local_error = NULL;

  *patch = (Patch){ g_strdup (name), g_strdup (class_name), NULL };
  if (!g_str_has_prefix (name, PATTERN_PREFIX))
    return TRUE;
  patch->regex = g_regex_new (name + strlen (PATTERN_PREFIX), 0, 0, &local_error);
  if (patch->regex == NULL)
    g_set_error (error, WEFT_ERROR, WEFT_ERROR_PATTERN, "'%s' is no pattern: %s", name, local_error->message);
  return patch->regex != NULL;
}

/**
 * weft_patch_mapping_register:
 * @self: a map
 * @names: (array zero-terminated=1): class names, or patterns that begin with `re:`
 * @classes: (array zero-terminated=1): for each the class in its place
 * @overwrite: whether names that are there get the new class
 * @error: return location
 *
 * Registers all, or none.
 *
 * Returns: whether they were registered
 * Errors: %WEFT_ERROR_ARGUMENT if a class is missing, %WEFT_ERROR_CONFLICT if a name is taken, %WEFT_ERROR_PATTERN
 * Since: 1.0
 */
gboolean
weft_patch_mapping_register (WeftPatchMapping *self, const gchar *const *names, const gchar *const *classes,
                             gboolean overwrite, GError **error)
{
  g_autoptr (WeftPatchMapping) copy = weft_patch_mapping_copy (self);
  guint n_classes = g_strv_length ((GStrv) classes);

  for (guint i = 0; names[i] != NULL; i++)
    {
      gint known = find_patch (copy, names[i]);
      Patch patch;

      if (!check_new (copy, names[i], i < n_classes ? classes[i] : NULL, overwrite, error))
        return FALSE;
      if (!prepare (names[i], classes[i], &patch, error))
        {
          patch_clear (&patch);
          return FALSE;
        }
      if (known < 0)
        g_array_append_val (copy->patches, patch);
      else
        {
          patch_clear (get_patch (copy, (guint) known));
          *get_patch (copy, (guint) known) = patch;
        }
    }
  g_array_unref (self->patches);
  self->patches = g_array_ref (copy->patches);
  return TRUE;
}

/**
 * weft_patch_mapping_unregister:
 * @self: a map
 * @names: (array zero-terminated=1): names as they were registered
 * @error: return location
 *
 * Removes all, or none.
 *
 * Returns: whether they were removed
 * Errors: %WEFT_ERROR_MISSING if one is not registered
 * Since: 1.0
 */
gboolean
weft_patch_mapping_unregister (WeftPatchMapping *self, const gchar *const *names, GError **error)
{
  for (guint i = 0; names[i] != NULL; i++)
    if (find_patch (self, names[i]) < 0)
      {
        g_set_error (error, WEFT_ERROR, WEFT_ERROR_MISSING, "'%s' has no patch mapping", names[i]);
        return FALSE;
      }
  for (guint i = 0; names[i] != NULL; i++)
    {
      gint known = find_patch (self, names[i]);

      if (known >= 0)
        g_array_remove_index (self->patches, (guint) known);
    }
  return TRUE;
}

/**
 * weft_patch_mapping_clear:
 * @self: a map
 *
 * Removes everything.
 *
 * Since: 1.0
 */
void
weft_patch_mapping_clear (WeftPatchMapping *self)
{
  g_array_set_size (self->patches, 0);
}

/**
 * weft_patch_mapping_list_names:
 * @self: a map
 *
 * Returns: (transfer full): the names in the order of their registration
 * Since: 1.0
 */
GStrv
weft_patch_mapping_list_names (WeftPatchMapping *self)
{
  g_autoptr (GStrvBuilder) builder = g_strv_builder_new ();

  for (guint i = 0; i < self->patches->len; i++)
    g_strv_builder_add (builder, get_patch (self, i)->name);
  return g_strv_builder_end (builder);
}

/**
 * weft_patch_mapping_lookup:
 * @self: a map
 * @class_name: the name of a class
 *
 * Exact names go before patterns, which are searched in the order of their registration.
 *
 * Returns: (transfer none) (nullable): the class in its place
 * Since: 1.0
 */
const gchar *
weft_patch_mapping_lookup (WeftPatchMapping *self, const gchar *class_name)
{
  gint exact = find_patch (self, class_name);

  if (exact >= 0 && get_patch (self, (guint) exact)->regex == NULL)
    return get_patch (self, (guint) exact)->class_name;
  for (guint i = 0; i < self->patches->len; i++)
    if (get_patch (self, i)->regex != NULL && g_regex_match (get_patch (self, i)->regex, class_name, 0, NULL))
      return get_patch (self, i)->class_name;
  return NULL;
}
