/* SPDX-License-Identifier: Apache-2.0 */
/* What a plugin exports, and what the library knows of a plugin it found. A plugin includes `weft.h`, defines its
 * types and ends with one WEFT_PLUGIN_DEFINE. */
#pragma once

#include "base/weft-error.h"

G_BEGIN_DECLS

/**
 * WEFT_PLUGIN_ABI_MAJOR:
 *
 * A plugin built for another major number is refused.
 *
 * Since: 1.0
 */
#define WEFT_PLUGIN_ABI_MAJOR 1

/**
 * WEFT_PLUGIN_ABI_MINOR:
 *
 * A plugin built for a newer minor number is refused.
 *
 * Since: 1.0
 */
#define WEFT_PLUGIN_ABI_MINOR 0

/**
 * WeftFeatureKind:
 * @WEFT_FEATURE_KIND_OP: a conversion op
 * @WEFT_FEATURE_KIND_TRANSFORM: a kind of rule, such as a renaming or a converter
 * @WEFT_FEATURE_KIND_FUSION: a family of module fusions
 * @WEFT_FEATURE_KIND_QUANTIZER: a quantisation method
 * @WEFT_FEATURE_KIND_REPLACEMENT: a target of plan overrides, which takes the place of modules
 * @WEFT_FEATURE_KIND_COMMUNICATOR: a way for the processes of one job to work together
 *
 * What a feature of a plugin is.
 *
 * Since: 1.0
 */
typedef enum
{
  WEFT_FEATURE_KIND_OP,
  WEFT_FEATURE_KIND_TRANSFORM,
  WEFT_FEATURE_KIND_FUSION,
  WEFT_FEATURE_KIND_QUANTIZER,
  WEFT_FEATURE_KIND_REPLACEMENT,
  WEFT_FEATURE_KIND_COMMUNICATOR,
} WeftFeatureKind;

/**
 * WeftPluginState:
 * @WEFT_PLUGIN_STATE_USABLE: its features can be used
 * @WEFT_PLUGIN_STATE_DENIED: it matches `WEFT_PLUGIN_DENY`
 * @WEFT_PLUGIN_STATE_FAILED: it cannot be used; see weft_plugin_get_reason()
 *
 * What became of a plugin.
 *
 * Since: 1.0
 */
typedef enum
{
  WEFT_PLUGIN_STATE_USABLE,
  WEFT_PLUGIN_STATE_DENIED,
  WEFT_PLUGIN_STATE_FAILED,
} WeftPluginState;

#define WEFT_TYPE_PLUGIN (weft_plugin_get_type ())

/**
 * WeftPlugin:
 *
 * A shared object that was found on the plugin path, whether it can be used or not.
 *
 * Since: 1.0
 */
WEFT_PUBLIC
G_DECLARE_FINAL_TYPE (WeftPlugin, weft_plugin, WEFT, PLUGIN, GTypeModule)

WEFT_PUBLIC const gchar *weft_plugin_get_id (WeftPlugin *self);
WEFT_PUBLIC const gchar *weft_plugin_get_path (WeftPlugin *self);
WEFT_PUBLIC WeftPluginState weft_plugin_get_state (WeftPlugin *self);
WEFT_PUBLIC const gchar *weft_plugin_get_reason (WeftPlugin *self);
WEFT_PUBLIC const gchar *weft_plugin_get_description (WeftPlugin *self);
WEFT_PUBLIC const gchar *weft_plugin_get_version (WeftPlugin *self);
WEFT_PUBLIC const gchar *weft_plugin_get_license (WeftPlugin *self);
WEFT_PUBLIC const gchar *weft_plugin_get_origin (WeftPlugin *self);
WEFT_PUBLIC gint weft_plugin_get_abi_major (WeftPlugin *self);
WEFT_PUBLIC gint weft_plugin_get_abi_minor (WeftPlugin *self);
WEFT_PUBLIC guint weft_plugin_get_n_features (WeftPlugin *self);
WEFT_PUBLIC const gchar *weft_plugin_get_feature_name (WeftPlugin *self, guint position);
WEFT_PUBLIC WeftFeatureKind weft_plugin_get_feature_kind (WeftPlugin *self, guint position);
WEFT_PUBLIC gboolean weft_plugin_is_feature_denied (WeftPlugin *self, guint position);

/**
 * WeftPluginInitFunc: (skip)
 * @plugin: the plugin
 * @error: return location
 *
 * Called once, after all checks and before the types of the plugin are registered. Most plugins need none.
 *
 * Returns: whether the plugin can be used
 * Since: 1.0
 */
typedef gboolean (*WeftPluginInitFunc) (WeftPlugin *plugin, GError **error);

/**
 * WeftPluginFeature: (skip)
 * @kind: what it is
 * @name: its name in JSON and on the command line, such as `MergeModulelist`
 * @type_name: name of its GType, which carries the id of the plugin
 * @register_type: registers the GType
 *
 * One feature of a plugin. Use WEFT_PLUGIN_FEATURE() or its short forms.
 *
 * Since: 1.0
 */
typedef struct
{
  WeftFeatureKind kind;
  const gchar *name;
  const gchar *type_name;
  void (*register_type) (GTypeModule *module);

  /*< private >*/
  gpointer reserved[4];
} WeftPluginFeature;

/**
 * WeftPluginDescriptor: (skip)
 * @struct_size: `sizeof (WeftPluginDescriptor)`, in bytes
 * @abi_major: %WEFT_PLUGIN_ABI_MAJOR
 * @abi_minor: %WEFT_PLUGIN_ABI_MINOR
 * @id: short name, of `a-z`, `0-9` and `-`
 * @description: one sentence
 * @init: (nullable): called before the types are registered
 * @version: version of the plugin
 * @license: its licence, an SPDX expression
 * @origin: where it comes from, such as an address
 * @features: its features
 * @n_features: how many
 *
 * The one symbol, `weft_plugin_descriptor`, that a plugin exports. The first three members stay where they are in
 * every ABI.
 *
 * Since: 1.0
 */
typedef struct
{
  guint32 struct_size;
  guint16 abi_major;
  guint16 abi_minor;
  const gchar *id;
  const gchar *description;
  WeftPluginInitFunc init;
  const gchar *version;
  const gchar *license;
  const gchar *origin;
  const WeftPluginFeature *features;
  gsize n_features;

  /*< private >*/
  gpointer reserved[8];
} WeftPluginDescriptor;

/**
 * WEFT_PLUGIN_FEATURE: (skip)
 * @kind: a #WeftFeatureKind
 * @name: name of the feature, a string
 * @TypeName: name of its GType in camel case
 * @type_name: the same with underscores
 *
 * A feature whose type is defined by G_DEFINE_DYNAMIC_TYPE() (or WEFT_DEFINE_OP()) in the same file.
 *
 * Since: 1.0
 */
#define WEFT_PLUGIN_FEATURE(kind, name, TypeName, type_name)       \
  {                                                                \
    (kind), (name), #TypeName, type_name##_register_type, { NULL } \
  }

/**
 * WEFT_PLUGIN_OP: (skip)
 * @name: name of the op, a string
 * @TypeName: name of its GType in camel case
 * @type_name: the same with underscores
 *
 * Since: 1.0
 */
#define WEFT_PLUGIN_OP(name, TypeName, type_name) \
  WEFT_PLUGIN_FEATURE (WEFT_FEATURE_KIND_OP, name, TypeName, type_name)

/**
 * WEFT_PLUGIN_TRANSFORM: (skip)
 * @name: name of the kind of rule, a string
 * @TypeName: name of its GType in camel case
 * @type_name: the same with underscores
 *
 * Since: 1.0
 */
#define WEFT_PLUGIN_TRANSFORM(name, TypeName, type_name) \
  WEFT_PLUGIN_FEATURE (WEFT_FEATURE_KIND_TRANSFORM, name, TypeName, type_name)

/**
 * WEFT_PLUGIN_FUSION: (skip)
 * @name: name of the family, a string
 * @TypeName: name of its GType in camel case
 * @type_name: the same with underscores
 *
 * Since: 1.0
 */
#define WEFT_PLUGIN_FUSION(name, TypeName, type_name) \
  WEFT_PLUGIN_FEATURE (WEFT_FEATURE_KIND_FUSION, name, TypeName, type_name)

/**
 * WEFT_PLUGIN_REPLACEMENT: (skip)
 * @name: name of the replacement, a string
 * @TypeName: name of its GType in camel case
 * @type_name: the same with underscores
 *
 * Since: 1.0
 */
#define WEFT_PLUGIN_REPLACEMENT(name, TypeName, type_name) \
  WEFT_PLUGIN_FEATURE (WEFT_FEATURE_KIND_REPLACEMENT, name, TypeName, type_name)

/**
 * WEFT_PLUGIN_DEFINE: (skip)
 * @id: short name of the plugin, a string of `a-z`, `0-9` and `-`
 * @description: one sentence
 * @init: a #WeftPluginInitFunc or %NULL
 * @version: version of the plugin
 * @license: its licence, an SPDX expression
 * @origin: where it comes from, such as an address
 * @...: its features: WEFT_PLUGIN_OP(), WEFT_PLUGIN_TRANSFORM(), WEFT_PLUGIN_FUSION(), WEFT_PLUGIN_REPLACEMENT(),
 *   WEFT_PLUGIN_FEATURE()
 *
 * Emits the descriptor. Stands once, at the end of a plugin, with a `;` after it.
 *
 * Since: 1.0
 */
#define WEFT_PLUGIN_DEFINE(id, description, init, version, license, origin, ...) \
  static const WeftPluginFeature weft_plugin_features[] = { __VA_ARGS__ };       \
  WEFT_PUBLIC const WeftPluginDescriptor weft_plugin_descriptor;                 \
  const WeftPluginDescriptor weft_plugin_descriptor = {                          \
    sizeof (WeftPluginDescriptor),                                               \
    WEFT_PLUGIN_ABI_MAJOR,                                                       \
    WEFT_PLUGIN_ABI_MINOR,                                                       \
    (id),                                                                        \
    (description),                                                               \
    (init),                                                                      \
    (version),                                                                   \
    (license),                                                                   \
    (origin),                                                                    \
    weft_plugin_features,                                                        \
    G_N_ELEMENTS (weft_plugin_features),                                         \
    { NULL },                                                                    \
  }

G_END_DECLS
