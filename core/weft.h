/* SPDX-License-Identifier: Apache-2.0 */
/* The one header of libweft-1. */
#pragma once

#include "base/weft-macros.h"
#include "base/weft-dtype.h"
#include "base/weft-error.h"
#include "base/weft-json.h"
#include "base/weft-shape.h"
#include "base/weft-text.h"
#include "tensor/weft-file.h"
#include "tensor/weft-kernel.h"
#include "tensor/weft-state-dict.h"
#include "tensor/weft-tensor-groups.h"
#include "tensor/weft-tensor-source.h"
#include "tensor/weft-tensor.h"
#include "tensor/weft-transfer.h"
#include "checkpoint/weft-buffer-sink.h"
#include "checkpoint/weft-checkpoint.h"
#include "checkpoint/weft-memory-sink.h"
#include "checkpoint/weft-safetensors-sink.h"
#include "checkpoint/weft-shard-layout.h"
#include "checkpoint/weft-shard.h"
#include "checkpoint/weft-sink.h"
