/* SPDX-License-Identifier: Apache-2.0 */
/* The one header of libweft-1. */
#pragma once

#include "base/weft-macros.h"
#include "base/weft-dtype.h"
#include "base/weft-error.h"
#include "base/weft-json.h"
#include "base/weft-shape.h"
#include "base/weft-text.h"
#include "transform/weft-group-weight-rename.h"
#include "transform/weft-prefix-change.h"
#include "transform/weft-renamed-key.h"
#include "transform/weft-rule-trial.h"
#include "transform/weft-transform-list.h"
#include "transform/weft-transform-names.h"
#include "transform/weft-weight-converter.h"
#include "transform/weft-weight-renaming.h"
#include "transform/weft-weight-transform-base.h"
#include "transform/weft-weight-transform.h"
