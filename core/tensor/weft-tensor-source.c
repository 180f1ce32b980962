/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/weft-tensor-source.h"

G_DEFINE_ABSTRACT_TYPE (WeftTensorSource, weft_tensor_source, G_TYPE_OBJECT)

static void
weft_tensor_source_class_init (WeftTensorSourceClass *klass)
{
}

static void
weft_tensor_source_init (WeftTensorSource *self)
{
}

/**
 * weft_tensor_source_read:
 * @self: a source
 * @offset: first byte
 * @n_bytes: number of bytes
 * @error: return location
 *
 * Asks the class of @self for bytes and checks that it gave as many.
 *
 * Returns: (transfer full): exactly @n_bytes bytes
 * Errors: those of the class; %WEFT_ERROR_PLUGIN_CONTRACT if it gave nothing, or another number of bytes
 * Since: 1.0
 */
GBytes *
weft_tensor_source_read (WeftTensorSource *self, guint64 offset, guint64 n_bytes, GError **error)
{
  WeftTensorSourceClass *klass = WEFT_TENSOR_SOURCE_GET_CLASS (self);
  g_autoptr (GError) local_error = NULL;
  g_autoptr (GBytes) bytes = klass->read != NULL ? klass->read (self, offset, n_bytes, &local_error) : NULL;

  if (bytes == NULL && local_error != NULL)
    {
      g_propagate_prefixed_error (error, g_steal_pointer (&local_error), "%s: ", G_OBJECT_TYPE_NAME (self));
      return NULL;
    }
  if (bytes == NULL || g_bytes_get_size (bytes) != n_bytes)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_PLUGIN_CONTRACT,
                   "%s: read was asked for %" G_GUINT64_FORMAT " bytes and gave %s",
                   G_OBJECT_TYPE_NAME (self), n_bytes,
                   bytes == NULL ? "nothing, without an error" : "another number of bytes");
      return NULL;
    }
  return g_steal_pointer (&bytes);
}
