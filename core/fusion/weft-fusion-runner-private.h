/* SPDX-License-Identifier: Apache-2.0 */
/* What the runners of both interfaces share: names of features, and results that keep their promise. */
#pragma once

#include "base/weft-error.h"

/* `plugin/name`; the name of the class if it is not registered. */
gchar *weft_fusion_dup_feature_name (GObject *feature);

/* A slot that fails must say why, and one that says why must fail. Takes @local_error. */
gboolean weft_fusion_check_result (GObject *feature, const gchar *slot, gpointer result, GError *local_error,
                                   GError **error);

/* A test may say no without an error. Takes @local_error. */
gboolean weft_fusion_check_answer (GObject *feature, const gchar *slot, gboolean answer, GError *local_error,
                                   GError **error);
