/* SPDX-License-Identifier: Apache-2.0 */
/* One plugin file: what its descriptor says, and whether it can be used. A module stays resident: its types, and code
 * that objects point into, cannot be taken away. */
#include "plugin/weft-plugin-private.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <gmodule.h>
#include <string.h>

#include "plugin/weft-elf-private.h"

#define DESCRIPTOR_SYMBOL "weft_plugin_descriptor"

/* The size of the descriptor of ABI 1.0, in bytes. A later minor number may only add to it. */
#define MIN_DESCRIPTOR_SIZE sizeof (WeftPluginDescriptor)

/* A descriptor is read before its plugin is trusted; these bounds catch one that is not what it says. */
#define MAX_FEATURES 4096
#define MAX_ID_LENGTH 64

typedef struct
{
  WeftFeatureKind kind;
  gchar *name;
  gchar *type_name;
  void (*register_type) (GTypeModule *module);
  gboolean is_denied;
} Feature;

struct _WeftPlugin
{
  GTypeModule parent_instance;

  gchar *path;
  WeftPluginState state;
  gchar *reason;
  gchar *id;
  gchar *description;
  gchar *version;
  gchar *license;
  gchar *origin;
  gint abi_major;
  gint abi_minor;
  WeftPluginInitFunc init;
  GArray *features;
};

G_DEFINE_FINAL_TYPE (WeftPlugin, weft_plugin, G_TYPE_TYPE_MODULE)

static void
clear_feature (gpointer feature)
{
  g_free (((Feature *) feature)->name);
  g_free (((Feature *) feature)->type_name);
}

/* The module is open and resident before a type is registered, so there is nothing to load or unload. */
static gboolean
weft_plugin_load (GTypeModule *module)
{
  return TRUE;
}

static void
weft_plugin_unload (GTypeModule *module)
{
}

static void
weft_plugin_finalize (GObject *object)
{
  WeftPlugin *self = WEFT_PLUGIN (object);

  g_free (self->path);
  g_free (self->reason);
  g_free (self->id);
  g_free (self->description);
  g_free (self->version);
  g_free (self->license);
  g_free (self->origin);
  g_array_unref (self->features);
  G_OBJECT_CLASS (weft_plugin_parent_class)->finalize (object);
}

static void
weft_plugin_class_init (WeftPluginClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = weft_plugin_finalize;
  G_TYPE_MODULE_CLASS (klass)->load = weft_plugin_load;
  G_TYPE_MODULE_CLASS (klass)->unload = weft_plugin_unload;
}

static void
weft_plugin_init (WeftPlugin *self)
{
  self->abi_major = -1;
  self->abi_minor = -1;
  self->features = g_array_new (FALSE, TRUE, sizeof (Feature));
  g_array_set_clear_func (self->features, clear_feature);
}

void
weft_plugin_fail (WeftPlugin *self, const gchar *format, ...)
{
  va_list arguments;

  va_start (arguments, format);
  g_free (self->reason);
  self->reason = g_strdup_vprintf (format, arguments);
  self->state = WEFT_PLUGIN_STATE_FAILED;
  va_end (arguments);
}

void
weft_plugin_deny (WeftPlugin *self, const gchar *glob)
{
  g_free (self->reason);
  self->reason = g_strdup_printf ("denied by '%s' of WEFT_PLUGIN_DENY", glob);
  self->state = WEFT_PLUGIN_STATE_DENIED;
}

void
weft_plugin_deny_feature (WeftPlugin *self, guint position)
{
  g_array_index (self->features, Feature, position).is_denied = TRUE;
}

static gboolean
is_valid_id (const gchar *id)
{
  gsize length = strnlen (id, MAX_ID_LENGTH + 1);

  return length > 0 && length <= MAX_ID_LENGTH
         && strspn (id, "abcdefghijklmnopqrstuvwxyz0123456789-") == length;
}

/* Letters and digits of a name in lower case: `conv3d-linear` and `WeftConv3dLinearFlatten` meet here. */
static gchar *
fold_name (const gchar *name)
{
  GString *folded = g_string_new (NULL);

  for (const gchar *c = name; *c != '\0'; c++)
    if (g_ascii_isalnum (*c))
      g_string_append_c (folded, g_ascii_tolower (*c));
  return g_string_free (folded, FALSE);
}

static gboolean
carries_id (const gchar *type_name, const gchar *id)
{
  g_autofree gchar *folded_type_name = fold_name (type_name);
  g_autofree gchar *folded_id = fold_name (id);

  return strstr (folded_type_name, folded_id) != NULL;
}

static gboolean
has_feature (WeftPlugin *self, const Feature *wanted)
{
  for (guint i = 0; i < self->features->len; i++)
    {
      const Feature *feature = &g_array_index (self->features, Feature, i);

      if ((feature->kind == wanted->kind && g_str_equal (feature->name, wanted->name))
          || g_str_equal (feature->type_name, wanted->type_name))
        return TRUE;
    }
  return FALSE;
}

static gboolean
read_features (WeftPlugin *self, const WeftPluginDescriptor *descriptor)
{
  if (descriptor->n_features > MAX_FEATURES || (descriptor->n_features > 0 && descriptor->features == NULL))
    {
      weft_plugin_fail (self, "its descriptor lists %" G_GSIZE_FORMAT " features, expected at most %d",
                        descriptor->n_features, MAX_FEATURES);
      return FALSE;
    }
  for (gsize i = 0; i < descriptor->n_features; i++)
    {
      const WeftPluginFeature *declared = &descriptor->features[i];
      Feature feature = { .kind = declared->kind, .register_type = declared->register_type };

      if (declared->name == NULL || declared->name[0] == '\0' || declared->type_name == NULL
          || declared->register_type == NULL || (guint) declared->kind > WEFT_FEATURE_KIND_COMMUNICATOR)
        {
          weft_plugin_fail (
              self, "feature %" G_GSIZE_FORMAT " of its descriptor lacks a known kind, a name or a type", i);
          return FALSE;
        }
      if (!carries_id (declared->type_name, self->id))
        {
          weft_plugin_fail (self, "type '%s' of feature '%s' does not carry the plugin's id '%s'",
                            declared->type_name, declared->name, self->id);
          return FALSE;
        }
      feature.name = (gchar *) declared->name;
      feature.type_name = (gchar *) declared->type_name;
      if (has_feature (self, &feature))
        {
          weft_plugin_fail (self, "its descriptor lists feature '%s' (type '%s') twice", declared->name,
                            declared->type_name);
          return FALSE;
        }
      feature.name = g_strdup (declared->name);
      feature.type_name = g_strdup (declared->type_name);
      g_array_append_val (self->features, feature);
    }
  return TRUE;
}

static gboolean
check_abi (WeftPlugin *self, const WeftPluginDescriptor *descriptor)
{
  self->abi_major = descriptor->abi_major;
  self->abi_minor = descriptor->abi_minor;
  if (descriptor->abi_major != WEFT_PLUGIN_ABI_MAJOR || descriptor->abi_minor > WEFT_PLUGIN_ABI_MINOR)
    {
      weft_plugin_fail (
          self, "it was built for plugin ABI %d.%d, this library has %d.%d: %s", self->abi_major,
          self->abi_minor, WEFT_PLUGIN_ABI_MAJOR, WEFT_PLUGIN_ABI_MINOR,
          self->abi_major > WEFT_PLUGIN_ABI_MAJOR
                  || (self->abi_major == WEFT_PLUGIN_ABI_MAJOR && self->abi_minor > WEFT_PLUGIN_ABI_MINOR)
              ? "install a newer Weft"
              : "build the plugin again");
      return FALSE;
    }
  if (descriptor->struct_size < MIN_DESCRIPTOR_SIZE)
    {
      weft_plugin_fail (self, "its descriptor has %u bytes, expected at least %" G_GSIZE_FORMAT,
                        descriptor->struct_size, MIN_DESCRIPTOR_SIZE);
      return FALSE;
    }
  return TRUE;
}

static void
read_descriptor (WeftPlugin *self, const WeftPluginDescriptor *descriptor)
{
  if (!check_abi (self, descriptor))
    return;
  if (descriptor->id == NULL || !is_valid_id (descriptor->id))
    {
      weft_plugin_fail (self, "its id must be 1 to %d characters of a-z, 0-9 and '-'", MAX_ID_LENGTH);
      return;
    }
  self->id = g_strdup (descriptor->id);
  self->description = g_strdup (descriptor->description);
  self->version = g_strdup (descriptor->version);
  self->license = g_strdup (descriptor->license);
  self->origin = g_strdup (descriptor->origin);
  self->init = descriptor->init;
  read_features (self, descriptor);
}

/* Opening a pipe would wait for a writer, so what is there is looked at first. */
static gboolean
check_regular (WeftPlugin *self)
{
  GStatBuf status;

  if (g_stat (self->path, &status) != 0)
    weft_plugin_fail (self, "it cannot be found: %s", g_strerror (errno));
  else if (!S_ISREG (status.st_mode))
    weft_plugin_fail (self, "it is %s, expected a shared object",
                      S_ISDIR (status.st_mode) ? "a folder" : "a pipe, a socket or a device");
  return self->state != WEFT_PLUGIN_STATE_FAILED;
}

WeftPlugin *
weft_plugin_open (const gchar *path)
{
  WeftPlugin *self = g_object_new (WEFT_TYPE_PLUGIN, NULL);
  g_autoptr (GError) error = NULL;
  g_autofree gchar *name = g_path_get_basename (path);
  GModule *module;
  gpointer descriptor = NULL;

  self->path = g_strdup (path);
  g_type_module_set_name (G_TYPE_MODULE (self), name);
  if (!check_regular (self))
    return self;
  if (!weft_elf_check_complete (path, &error))
    {
      weft_plugin_fail (self, "%s", error->message);
      return self;
    }
  module = g_module_open (path, G_MODULE_BIND_LOCAL);
  if (module == NULL)
    {
      weft_plugin_fail (self, "it cannot be opened: %s", g_module_error ());
      return self;
    }
  g_module_make_resident (module);
  if (!g_module_symbol (module, DESCRIPTOR_SYMBOL, &descriptor) || descriptor == NULL)
    weft_plugin_fail (self, "it exports no '%s': no plugin of Weft, or without WEFT_PLUGIN_DEFINE",
                      DESCRIPTOR_SYMBOL);
  else
    read_descriptor (self, descriptor);
  return self;
}

WeftPlugin *
weft_plugin_new_for_runtime (void)
{
  WeftPlugin *self = g_object_new (WEFT_TYPE_PLUGIN, NULL);

  self->id = g_strdup ("runtime");
  self->description = g_strdup ("Features that this process registered itself");
  self->abi_major = WEFT_PLUGIN_ABI_MAJOR;
  self->abi_minor = WEFT_PLUGIN_ABI_MINOR;
  return self;
}

void
weft_plugin_add_runtime_feature (WeftPlugin *self, WeftFeatureKind kind, const gchar *name)
{
  Feature feature = { .kind = kind, .name = g_strdup (name) };

  g_array_append_val (self->features, feature);
}

gboolean
weft_plugin_start (WeftPlugin *self)
{
  g_autoptr (GError) error = NULL;

  g_type_module_use (G_TYPE_MODULE (self));
  if (self->init != NULL && !self->init (self, &error))
    {
      weft_plugin_fail (self, "its init failed: %s",
                        error != NULL ? error->message
                                      : "no error was set (this breaks the contract of init)");
      return FALSE;
    }
  for (guint i = 0; i < self->features->len; i++)
    {
      const Feature *feature = &g_array_index (self->features, Feature, i);

      feature->register_type (G_TYPE_MODULE (self));
      if (g_type_from_name (feature->type_name) == 0)
        {
          weft_plugin_fail (self, "feature '%s' did not register its type '%s'", feature->name,
                            feature->type_name);
          return FALSE;
        }
    }
  return TRUE;
}

const gchar *
weft_plugin_get_feature_type_name (WeftPlugin *self, guint position)
{
  return g_array_index (self->features, Feature, position).type_name;
}

/**
 * weft_plugin_get_id:
 * @self: a plugin
 *
 * Returns: (nullable): its short name; %NULL if its descriptor could not be read
 * Since: 1.0
 */
const gchar *
weft_plugin_get_id (WeftPlugin *self)
{
  return self->id;
}

/**
 * weft_plugin_get_path:
 * @self: a plugin
 *
 * Returns: (nullable): the path of its file; %NULL for the features that this process registered itself
 * Since: 1.0
 */
const gchar *
weft_plugin_get_path (WeftPlugin *self)
{
  return self->path;
}

/**
 * weft_plugin_get_state:
 * @self: a plugin
 *
 * Returns: what became of it
 * Since: 1.0
 */
WeftPluginState
weft_plugin_get_state (WeftPlugin *self)
{
  return self->state;
}

/**
 * weft_plugin_get_reason:
 * @self: a plugin
 *
 * Returns: (nullable): why it cannot be used; %NULL if it can
 * Since: 1.0
 */
const gchar *
weft_plugin_get_reason (WeftPlugin *self)
{
  return self->reason;
}

/**
 * weft_plugin_get_description:
 * @self: a plugin
 *
 * Returns: (nullable): a sentence about it
 * Since: 1.0
 */
const gchar *
weft_plugin_get_description (WeftPlugin *self)
{
  return self->description;
}

/**
 * weft_plugin_get_version:
 * @self: a plugin
 *
 * Returns: (nullable): its version
 * Since: 1.0
 */
const gchar *
weft_plugin_get_version (WeftPlugin *self)
{
  return self->version;
}

/**
 * weft_plugin_get_license:
 * @self: a plugin
 *
 * Returns: (nullable): its licence
 * Since: 1.0
 */
const gchar *
weft_plugin_get_license (WeftPlugin *self)
{
  return self->license;
}

/**
 * weft_plugin_get_origin:
 * @self: a plugin
 *
 * Returns: (nullable): where it comes from
 * Since: 1.0
 */
const gchar *
weft_plugin_get_origin (WeftPlugin *self)
{
  return self->origin;
}

/**
 * weft_plugin_get_abi_major:
 * @self: a plugin
 *
 * Returns: the ABI it was built for, to be compared with %WEFT_PLUGIN_ABI_MAJOR; -1 if it has no descriptor
 * Since: 1.0
 */
gint
weft_plugin_get_abi_major (WeftPlugin *self)
{
  return self->abi_major;
}

/**
 * weft_plugin_get_abi_minor:
 * @self: a plugin
 *
 * Returns: the minor number of the ABI it was built for; -1 if it has no descriptor
 * Since: 1.0
 */
gint
weft_plugin_get_abi_minor (WeftPlugin *self)
{
  return self->abi_minor;
}

/**
 * weft_plugin_get_n_features:
 * @self: a plugin
 *
 * Returns: how many features it has
 * Since: 1.0
 */
guint
weft_plugin_get_n_features (WeftPlugin *self)
{
  return self->features->len;
}

/**
 * weft_plugin_get_feature_name:
 * @self: a plugin
 * @position: position of a feature
 *
 * Returns: its name in JSON and on the command line
 * Since: 1.0
 */
const gchar *
weft_plugin_get_feature_name (WeftPlugin *self, guint position)
{
  g_return_val_if_fail (position < self->features->len, NULL);
  return g_array_index (self->features, Feature, position).name;
}

/**
 * weft_plugin_get_feature_kind:
 * @self: a plugin
 * @position: position of a feature
 *
 * Returns: what it is
 * Since: 1.0
 */
WeftFeatureKind
weft_plugin_get_feature_kind (WeftPlugin *self, guint position)
{
  g_return_val_if_fail (position < self->features->len, WEFT_FEATURE_KIND_OP);
  return g_array_index (self->features, Feature, position).kind;
}

/**
 * weft_plugin_is_feature_denied:
 * @self: a plugin
 * @position: position of a feature
 *
 * Returns: whether the feature matches `WEFT_PLUGIN_DENY`, so that it cannot be found by its name
 * Since: 1.0
 */
gboolean
weft_plugin_is_feature_denied (WeftPlugin *self, guint position)
{
  g_return_val_if_fail (position < self->features->len, FALSE);
  return g_array_index (self->features, Feature, position).is_denied;
}
