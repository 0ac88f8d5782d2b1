// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fcdp/Planning/Memory/BufferPlan.h"

namespace fcdp {

/// The places of one function's values and of the module's states: those that
/// they have, or that --fcdp-plan-memory would give.
class MemoryLayout {
public:
  /// Of a function of a scheduled or planned module. Changes nothing.
  static mlir::FailureOr<MemoryLayout> compute(mlir::func::FuncOp function);

  /// Null if there is none.
  BufferAttr lookup(StateOp state) const {
    return states.places.lookup(state.getSymNameAttr());
  }
  BufferAttr lookup(mlir::Operation *op) const {
    return plan.places.lookup(op);
  }
  BufferAttr lookupScratch(mlir::Operation *op) const {
    return plan.scratches.lookup(op);
  }

private:
  void read(mlir::ModuleOp module, mlir::func::FuncOp function);

  StatePlan states;
  BufferPlan plan;
};

/// Of all functions of a module.
using MemoryLayouts = llvm::DenseMap<mlir::Operation *, MemoryLayout>;
/// Only of `function` and those that it may come after, if it is given.
mlir::FailureOr<MemoryLayouts>
computeMemoryLayouts(mlir::ModuleOp module, mlir::func::FuncOp function = {});

} // namespace fcdp
