/* SPDX-License-Identifier: Apache-2.0 */
/* The groups of a config: which modules are packed, and how. */
#pragma once

#include "weft.h"

G_BEGIN_DECLS

typedef struct
{
  gchar *format;
  gchar **targets;
  guint bits;
  gboolean is_integer;
  gboolean is_symmetric;
  /* Rows and columns that share a scale; 0: all. */
  gint64 block[2];
} WeftCtGroup;

/* The groups of @config in its order, of type WeftCtGroup. A config of sparsity alone has none. */
GPtrArray *weft_ct_groups_read (WeftQuantizationConfig *config, GError **error);

/* The group of a module: the first that names it, or else the first that names a class. NULL: none. */
const WeftCtGroup *weft_ct_groups_find (GPtrArray *groups, const gchar *module);

G_END_DECLS
