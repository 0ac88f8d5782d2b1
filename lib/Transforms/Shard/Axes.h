// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/Fcdp/Fcdp.h"

namespace fcdp {

/// Returns the axes of a collective over `axis` alone.
inline mlir::ArrayAttr oneAxis(mlir::MLIRContext *context, Axis axis) {
  return mlir::ArrayAttr::get(context, {AxisAttr::get(context, axis)});
}

} // namespace fcdp
