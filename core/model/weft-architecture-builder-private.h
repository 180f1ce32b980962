/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluates the definitions of an architecture on a config. A definition gives the same body wherever its arguments are the
 * same, so that the layers of a model that are alike are evaluated once. */
#pragma once

#include "model/weft-model-config-private.h"
#include "model/weft-module-body-private.h"

G_BEGIN_DECLS

typedef struct _WeftArchitectureBuilder WeftArchitectureBuilder;

/* A body that is a model itself. */
typedef struct
{
  WeftModuleBody *body;
  WeftArchitectureFile *file;
  JsonObject *entry; /* of `classes` */
  gchar *class_name;
  WeftModelConfig *config;
} WeftBuiltModel;

/* @dtype: of tensors for which the data names none */
WeftArchitectureBuilder *weft_architecture_builder_new (WeftArchitectureRegistry *registry, WeftDtype dtype);
void weft_architecture_builder_free (WeftArchitectureBuilder *self);

/* @class_name must be a class of the config's family. */
WeftModuleBody *weft_architecture_builder_build (WeftArchitectureBuilder *self, const gchar *class_name,
                                                 WeftModelConfig *config, GError **error);
/* %NULL if the body is no model. */
const WeftBuiltModel *weft_architecture_builder_find_model (WeftArchitectureBuilder *self,
                                                            WeftModuleBody *body);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (WeftArchitectureBuilder, weft_architecture_builder_free)

G_END_DECLS
