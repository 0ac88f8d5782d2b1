// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/Fcdp/Fcdp.h"

namespace fcdp {

/// A use of a parameter's values: an operand of an operation that is no view.
struct ParameterUse {
  ParameterOp parameter;
  mlir::OpOperand *operand;
  /// Which live range of the parameter's unit the use is in, from 0.
  int64_t range;
};

/// The uses of all parameters in `function`, in program order, cut into live
/// ranges: a live range of a unit is a longest run of uses that no use of
/// another unit interrupts. Uses through views count as uses of the parameter.
/// Requires reads in the form of `fcdp.read_parameter`.
llvm::SmallVector<ParameterUse>
findLiveRanges(mlir::Operation *function, mlir::SymbolTableCollection &symbols);

} // namespace fcdp
