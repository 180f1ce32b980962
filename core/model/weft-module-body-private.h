/* SPDX-License-Identifier: Apache-2.0 */
/* What a module is, without where it is: class, attributes, tensors, children. Bodies are shared: by the layers of a model
 * that are alike, and by a tree and the changed trees that are made of it. One that is shared is never changed. */
#pragma once

#include "model/weft-tensor-spec.h"

G_BEGIN_DECLS

/* Modules within modules; more is no model. */
#define WEFT_MAX_MODULE_DEPTH 128

typedef struct _WeftModuleBody WeftModuleBody;

typedef struct
{
  gchar *name; /* a GRefString, as are all texts here */
  GVariant *value;
} WeftModuleAttribute;

typedef struct
{
  gchar *name;
  WeftTensorSpec *spec;
} WeftModuleTensor;

typedef struct
{
  gchar *name;
  WeftModuleBody *body;
  gchar *alias_of; /* (nullable): path of the place where this very module is registered first */
} WeftModuleChild;

struct _WeftModuleBody
{
  gatomicrefcount n_references;
  gchar *class_name;
  GPtrArray *bases; /* of GRefString; the last element is NULL */
  GArray *attributes;
  GArray *tensors;
  GArray *children;
};

WeftModuleBody *weft_module_body_new (const gchar *class_name, GPtrArray *bases);
WeftModuleBody *weft_module_body_ref (WeftModuleBody *self);
void weft_module_body_unref (WeftModuleBody *self);
/* Shares children and specifications. */
WeftModuleBody *weft_module_body_copy (const WeftModuleBody *self);

GPtrArray *weft_module_bases_new (const gchar *const *names);
void weft_module_body_set_class (WeftModuleBody *self, const gchar *class_name, GPtrArray *bases);
void weft_module_body_set_attribute (WeftModuleBody *self, const gchar *name, GVariant *value);
/* The next three replace what has the name @old_name (in its place), or append if there is none. */
void weft_module_body_set_tensor (WeftModuleBody *self, const gchar *old_name, const gchar *name,
                                  WeftTensorSpec *spec);
void weft_module_body_set_child (WeftModuleBody *self, const gchar *old_name, const gchar *name,
                                 WeftModuleBody *body, const gchar *alias_of);
gboolean weft_module_body_remove_tensor (WeftModuleBody *self, const gchar *name);
gboolean weft_module_body_remove_child (WeftModuleBody *self, const gchar *name);

const WeftModuleAttribute *weft_module_body_find_attribute (const WeftModuleBody *self, const gchar *name);
const WeftModuleTensor *weft_module_body_find_tensor (const WeftModuleBody *self, const gchar *name);
const WeftModuleChild *weft_module_body_find_child (const WeftModuleBody *self, const gchar *name);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (WeftModuleBody, weft_module_body_unref)

/* Whether the path @name is not nested deeper than %WEFT_MAX_MODULE_DEPTH; else %WEFT_ERROR_LIMIT, which begins with @where. */
gboolean weft_module_body_check_depth (const gchar *name, const gchar *where, GError **error);

G_END_DECLS
