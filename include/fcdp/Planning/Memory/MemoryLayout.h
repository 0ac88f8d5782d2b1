// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fcdp/Planning/Memory/BufferPlan.h"

namespace fcdp {

/// The places of one function's values and of the module's states, as the
/// module has them or as --fcdp-plan-memory would give them.
class MemoryLayout {
public:
  /// Computes the layout of a function of a scheduled or planned module.
  /// Changes
  /// nothing.
  static mlir::FailureOr<MemoryLayout> compute(mlir::func::FuncOp function,
                                               const MemoryTimeline &timeline);

  /// Returns the state's place, or null.
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

/// The places and times of the memory that the functions of a module use.
struct MemoryLayouts {
  explicit MemoryLayouts(mlir::ModuleOp module) : timeline(module) {}

  MemoryTimeline timeline;
  llvm::DenseMap<mlir::Operation *, MemoryLayout> functions;

  const MemoryLayout &lookup(mlir::func::FuncOp function) const {
    return functions.find(function)->second;
  }
  /// Returns the place of a buffer of any of the functions; null if it has
  /// none.
  BufferAttr lookup(const BufferUse &buffer) const;
};
mlir::FailureOr<MemoryLayouts> computeMemoryLayouts(mlir::ModuleOp module);

} // namespace fcdp
