// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/Fcdp/Fcdp.h"
#include "llvm/ADT/DenseSet.h"

namespace fcdp {

/// A use of a parameter's values: an operand of an operation that is no view.
struct ParameterUse {
  ParameterOp parameter;
  mlir::OpOperand *operand;
  /// Which live range of the parameter's unit the use is in, from 0.
  int64_t range;
};

/// The uses of all parameters of a function, in program order, cut into live
/// ranges: a live range of a unit is a longest run of uses that no use of
/// another unit interrupts.
struct LiveRanges {
  llvm::SmallVector<ParameterUse> uses;
  /// What stands between a parameter and its uses: views, and the casts of
  /// parameters that are read through casts to one narrower type only. A use
  /// through these is a use of the parameter.
  llvm::DenseSet<mlir::Operation *> views;
};

/// Requires reads in the form of `fcdp.read_parameter`.
LiveRanges findLiveRanges(mlir::Operation *function,
                          mlir::SymbolTableCollection &symbols);

} // namespace fcdp
