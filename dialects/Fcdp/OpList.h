// SPDX-License-Identifier: Apache-2.0
//
// Visits an operation as its own class, over the list of the dialect that ODS
// makes. A class that the visitor does not take does not compile, and the error
// names it.
#pragma once

#include "dialects/Fcdp/Fcdp.h"

namespace fcdp {

template <typename... Ops>
struct OpList {
  /// Calls `visit` with `op` as its own class, if `Filter` holds for that
  /// class. Returns whether it does.
  template <template <typename> class Filter, typename Visit>
  static bool visit(mlir::Operation *op, Visit visit) {
    return (visitAs<Filter, Ops>(op, visit) || ...);
  }

private:
  template <template <typename> class Filter, typename Op, typename Visit>
  static bool visitAs(mlir::Operation *op, Visit &visit) {
    if constexpr (Filter<Op>::value)
      if (auto typed = llvm::dyn_cast<Op>(op)) {
        visit(typed);
        return true;
      }
    return false;
  }
};

using FcdpOps = OpList<
#define GET_OP_LIST
#include "dialects/Fcdp/FcdpOps.cpp.inc"
    >;

/// Selects the operations that the runtime runs.
template <typename Op>
struct IsInPlan : std::bool_constant<Op::template hasTrait<InPlanned>() &&
                                     !Op::template hasTrait<RunsNothing>()> {};

/// Selects the operations that take time.
template <typename Op>
struct TakesTime : std::bool_constant<Op::template hasTrait<InPlanned>() &&
                                      !Op::template hasTrait<TakesNoTime>() &&
                                      !Op::template hasTrait<RunsNothing>()> {};

/// Selects copies between device and host.
template <typename Op>
struct IsHostCopy {
  static constexpr bool isCopy() {
    if constexpr (TakesTime<Op>::value)
      return Op::getWorkKind() == WorkKind::copy;
    return false;
  }
  static constexpr bool value = isCopy();
};

/// Returns whether a copy between device and host loads its result, or else
/// stores its operand.
template <typename Copy>
bool isLoad(Copy copy) {
  return copy.chooseStream() == Stream::h2d;
}
/// Returns the type of the values on the device that such a copy reads or
/// makes.
template <typename Copy>
mlir::RankedTensorType getCopiedType(Copy copy) {
  if constexpr (llvm::is_one_of<Copy, StoreGradientOp, LoadShardOp>::value) {
    return copy.getCopiedType();
  } else {
    mlir::Value value =
        isLoad(copy) ? mlir::Value(copy->getResult(0)) : copy->getOperand(0);
    return llvm::cast<mlir::RankedTensorType>(value.getType());
  }
}

} // namespace fcdp
