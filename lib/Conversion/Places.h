// SPDX-License-Identifier: Apache-2.0
//
// The positions of a planned module's symbols in the plan, and the places of
// its values and states in the arenas.
#pragma once

#include "dialects/Fcdp/Fcdp.h"

namespace fcdp {

/// `bytes` of `buffer`, from `offset` on.
BufferAttr slice(BufferAttr buffer, int64_t offset, int64_t bytes);

class Places {
public:
  static mlir::FailureOr<Places> compute(mlir::ModuleOp module);

  /// The bucket, buffer, input, parameter or state of that name, or null.
  template <typename OpTy>
  OpTy lookup(mlir::StringAttr name) const {
    return symbols.lookup<OpTy>(name);
  }
  /// The position of a bucket, buffer or input in the plan.
  uint32_t getPosition(mlir::StringAttr name) const {
    return positions.lookup(name);
  }
  /// Null if `bucket` has no such state.
  StateOp lookup(mlir::StringAttr bucket, StateRole role) const {
    return states.lookup({bucket, static_cast<unsigned>(role)});
  }
  /// The state that `op` adds to; null if there is none.
  StateOp getAccumulator(AccumulateOp op) const {
    mlir::StringAttr target = op.getTargetAttr().getAttr();
    auto state = lookup<StateOp>(target);
    return state ? state : lookup(target, StateRole::grad);
  }

  /// The memory of `value`, exactly as large as its type; null for a value
  /// that ATen makes.
  BufferAttr lookup(mlir::Value value) const { return ofValue.lookup(value); }
  /// The place of `parameter` in the result of `pack`, whose type may differ
  /// from the bucket's own.
  BufferAttr getMember(PackOp pack, mlir::FlatSymbolRefAttr parameter) const;

private:
  explicit Places(mlir::ModuleOp module);
  mlir::LogicalResult addState(StateOp state);
  mlir::LogicalResult addResult(mlir::Operation *op);
  mlir::FailureOr<BufferAttr> findPlace(mlir::Operation *op) const;
  mlir::FailureOr<BufferAttr> findPlace(ViewMemberOp view) const;

  mlir::SymbolTable symbols;
  llvm::DenseMap<mlir::StringAttr, uint32_t> positions;
  llvm::DenseMap<std::pair<mlir::StringAttr, unsigned>, StateOp> states;
  /// First element of a member, by bucket and parameter.
  llvm::DenseMap<std::pair<mlir::StringAttr, mlir::StringAttr>, int64_t>
      members;
  llvm::DenseMap<mlir::Value, BufferAttr> ofValue;
};

} // namespace fcdp
