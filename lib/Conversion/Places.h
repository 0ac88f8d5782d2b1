// SPDX-License-Identifier: Apache-2.0
//
// The positions of a planned module's symbols in the plan, and the places of
// its values and states in the arenas.
#pragma once

#include "dialects/Fcdp/Fcdp.h"

namespace fcdp {

/// Returns `bytes` bytes of `buffer`, from `offset` on.
BufferAttr slice(BufferAttr buffer, int64_t offset, int64_t bytes);

class Places {
public:
  static mlir::FailureOr<Places> compute(mlir::ModuleOp module);

  /// Returns the bucket, buffer, input, parameter or state of that name, or
  /// null.
  template <typename OpTy>
  OpTy lookup(mlir::StringAttr name) const {
    return symbols.lookup<OpTy>(name);
  }
  /// Returns the position of a bucket, buffer or input in the plan.
  uint32_t getPosition(mlir::StringAttr name) const {
    return positions.lookup(name);
  }
  /// Returns the bucket's state of that role, or null.
  StateOp lookup(mlir::StringAttr bucket, StateRole role) const {
    return states.lookup({bucket, static_cast<unsigned>(role)});
  }
  /// Returns the state that `op` adds to; null if there is none.
  StateOp getAccumulator(AccumulateOp op) const {
    mlir::StringAttr target = op.getTargetAttr().getAttr();
    auto state = lookup<StateOp>(target);
    return state ? state : lookup(target, StateRole::grad);
  }

  /// Returns the memory of `value`, exactly as large as its type; null for a
  /// value whose memory an ATen operator allocates.
  BufferAttr lookup(mlir::Value value) const { return ofValue.lookup(value); }
  /// Returns the place of `parameter` in the result of `pack`, whose type may
  /// differ from the bucket's own.
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
