/* SPDX-License-Identifier: Apache-2.0 */
/* What an architecture file says of one model type. The JSON is read in place; the functions here find things in it, and
 * compile each expression once. */
#pragma once

#include "model/weft-architecture-registry.h"
#include "model/weft-expression-private.h"

G_BEGIN_DECLS

typedef struct _WeftArchitectureFile WeftArchitectureFile;
typedef struct _WeftArchitecture WeftArchitecture;

/* One file, for the life of the registry. */
struct _WeftArchitectureFile
{
  gchar *where;
  JsonNode *root;
  JsonObject *models;  /* (nullable) */
  JsonObject *classes; /* (nullable) */
  JsonObject *modules;
  const gchar *prefix;
};

struct _WeftArchitecture
{
  gatomicrefcount n_references;
  WeftArchitectureRegistry *registry;
  WeftArchitectureFile *file;
  gchar *model_type;
  JsonObject *model;
};

WeftArchitecture *weft_architecture_ref (WeftArchitecture *self);
void weft_architecture_unref (WeftArchitecture *self);

/* %NULL without an error: the model type is not known. */
WeftArchitecture *weft_architecture_registry_lookup (WeftArchitectureRegistry *self, const gchar *model_type,
                                                     GError **error);
/* A definition of the file, or one that families share. */
JsonObject *weft_architecture_registry_find_module (WeftArchitectureRegistry *self,
                                                    WeftArchitectureFile *file, const gchar *name,
                                                    GError **error);
/* The bases of a class that many classes derive from; %NULL if none are known. */
JsonArray *weft_architecture_registry_find_bases (WeftArchitectureRegistry *self, const gchar *class_name);
/* The definition of an activation as configs name it, such as `gelu`. */
JsonObject *weft_architecture_registry_find_activation (WeftArchitectureRegistry *self, const gchar *name,
                                                        GError **error);
/* The rule for a field that every config has; %NULL if there is none (no error is set then). */
JsonNode *weft_architecture_registry_find_common_field (WeftArchitectureRegistry *self, const gchar *name,
                                                        GError **error);
/* A text is an expression, anything else stands for itself. */
gboolean weft_architecture_registry_evaluate (WeftArchitectureRegistry *self, JsonNode *node,
                                              const WeftScope *scope, WeftValue *value, GError **error);

/* `$` at the beginning stands for the file's prefix. */
gchar *weft_architecture_file_expand (WeftArchitectureFile *self, const gchar *name);
/* The entry of a class, by its full name; %NULL if the family has none. @key is how the file writes it. */
JsonObject *weft_architecture_file_find_class (WeftArchitectureFile *self, const gchar *class_name,
                                               const gchar **key);

/* The class that a factory of the role @role makes for the model type; %NULL if it makes none. */
gchar *weft_architecture_dup_class_of_role (WeftArchitecture *self, const gchar *role);
/* A member of the model type's `config`: `fields`, `aliases` or `configs`; %NULL if it has none. */
JsonObject *weft_architecture_get_config_section (WeftArchitecture *self, const gchar *member);
/* The model type as configs write it. */
const gchar *weft_architecture_get_model_type (WeftArchitecture *self);

/* A member of an object that must be of a kind; %NULL without an error if there is none. */
JsonObject *weft_architecture_get_object (JsonObject *object, const gchar *member);
JsonArray *weft_architecture_get_array (JsonObject *object, const gchar *member);
const gchar *weft_architecture_get_text (JsonObject *object, const gchar *member);
gboolean weft_architecture_get_flag (JsonObject *object, const gchar *member, gboolean fallback);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (WeftArchitecture, weft_architecture_unref)

G_END_DECLS
