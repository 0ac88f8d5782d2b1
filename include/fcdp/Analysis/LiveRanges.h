// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/Fcdp/Fcdp.h"
#include "llvm/ADT/DenseSet.h"

namespace fcdp {

/// A use of a parameter's values: an operand of an operation that is no view.
struct ParameterUse {
  ParameterOp parameter;
  mlir::OpOperand *operand;
  /// Index from 0 of the live range of the parameter's unit that contains the
  /// use.
  int64_t range;
};

/// Numbers live ranges: a live range of a unit is a longest run of uses of its
/// parameters that no use of another unit interrupts.
class LiveRangeCounter {
public:
  /// Adds the next use in program order, which is a use of `unit`, and returns
  /// its live range, counted over all units from 0.
  int64_t add(mlir::StringAttr unit) {
    if (isEnded || unit != lastUnit)
      ++last;
    isEnded = false;
    lastUnit = unit;
    return last;
  }

  /// Ends the current range: the next use begins another one.
  void end() { isEnded = true; }

private:
  mlir::StringAttr lastUnit;
  int64_t last = -1;
  bool isEnded = true;
};

/// The uses of all parameters of a function, in program order, with their live
/// ranges.
struct LiveRanges {
  llvm::SmallVector<ParameterUse> uses;
  /// The operations between a parameter and its uses: views, and the casts of
  /// parameters that are read only through casts to one narrower type. A use
  /// through these is a use of the parameter.
  llvm::DenseSet<mlir::Operation *> views;
};

/// The events that end a live range, besides a use of another unit.
enum class RangeEnd {
  OtherUnit,
  /// Also the first use after recomputed calls that is not by one of them.
  Recomputation
};

/// Returns the live ranges of `function`. Requires reads in the form of
/// `fcdp.read_parameter`.
LiveRanges findLiveRanges(mlir::Operation *function,
                          mlir::SymbolTableCollection &symbols,
                          RangeEnd end = RangeEnd::OtherUnit);

} // namespace fcdp
