/* SPDX-License-Identifier: Apache-2.0 */
/* A base: where the elements of a piece come from. Private to the tensor room. */
#pragma once

#include "tensor/weft-file-tensors-internal.h"
#include "tensor/weft-kernel.h"
#include "tensor/weft-tensor-source.h"

typedef enum
{
  WEFT_BASE_FILE,
  WEFT_BASE_MEMORY,
  WEFT_BASE_CONSTANT,
  WEFT_BASE_POINTWISE,
  WEFT_BASE_KERNEL,
  WEFT_BASE_SOURCE,
  WEFT_BASE_ONCE,
  WEFT_BASE_UNREADABLE,
} WeftBaseKind;

typedef enum
{
  WEFT_POINTWISE_CAST,
  WEFT_POINTWISE_BITCAST,
  WEFT_POINTWISE_SCALE,
  WEFT_POINTWISE_SHIFT,
} WeftPointwise;

#define WEFT_MAX_DEPTH 128

typedef struct _WeftBase WeftBase;

struct _WeftBase
{
  gatomicrefcount ref_count;
  guint8 kind;
  guint8 dtype;
  /* Some element comes from a source that is to be read on the owner's thread. */
  guint8 needs_owner;
  /* How many computations stand on one another. Each is a level of recursion and takes buffers. */
  guint8 depth;
  gint64 n_elements;
  union
  {
    struct
    {
      /* What it lies in. */
      WeftFileTensors *tensors;
      WeftFile *file;
      guint64 offset;
    } file;
    GBytes *bytes;
    guint8 element[8];
    struct
    {
      WeftBase *input;
      gdouble operand;
      WeftPointwise function;
    } pointwise;
    struct
    {
      const WeftKernel *kernel;
      gpointer params;
      GDestroyNotify destroy;
      WeftShape *shape;
      WeftTensor **inputs;
      guint n_inputs;
    } kernel;
    WeftTensorSource *source;
    /* Computed at the first reading and kept. */
    struct
    {
      WeftTensor *input;
      GMutex mutex;
      GBytes *bytes;
    } once;
  };
};

/* Units: elements for whole-byte dtypes, the smallest whole-byte run of elements for the others. */
guint weft_dtype_get_unit_elements (WeftDtype dtype);
guint weft_dtype_get_unit_bytes (WeftDtype dtype);

void weft_base_init (WeftBase *self, WeftBaseKind kind, WeftDtype dtype, gint64 n_elements);
WeftBase *weft_base_new (WeftBaseKind kind, WeftDtype dtype, gint64 n_elements);
WeftBase *weft_base_new_pointwise (WeftBase *input, WeftPointwise function, WeftDtype dtype, gdouble operand);
WeftBase *weft_base_ref (WeftBase *self);
void weft_base_unref (WeftBase *self);
gboolean weft_base_equal (const WeftBase *a, const WeftBase *b);
gboolean weft_base_check_depth (const WeftBase *self, const gchar *operation, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (WeftBase, weft_base_unref)
