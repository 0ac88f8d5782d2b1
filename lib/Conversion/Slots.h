// SPDX-License-Identifier: Apache-2.0
//
// The numbers under which the runtime finds tensors.
#pragma once

#include "Places.h"
#include "plan/Plan_generated.h"

namespace fcdp {

/// One slot per value that an operation reads or writes as a tensor. Inputs
/// and buffers come first, in the module's order.
class SlotTable {
public:
  SlotTable(mlir::ModuleOp module, const Places &places,
            llvm::ArrayRef<mlir::Operation *> calls);

  /// The slot of `value`, or -1.
  int64_t lookup(mlir::Value value) const {
    auto it = slots.find(value);
    return it == slots.end() ? -1 : it->second;
  }
  /// The slot of a tensor in an arena, which must have been asked for before.
  int64_t lookup(BufferAttr buffer, mlir::RankedTensorType type) const {
    return planned.lookup({buffer, type});
  }
  /// The slots whose values `op` is the last to use.
  llvm::ArrayRef<int64_t> getFreed(mlir::Operation *op) const {
    auto it = freed.find(op);
    return it == freed.end() ? llvm::ArrayRef<int64_t>() : it->second;
  }

  /// The slot that the result of `call` is written to, or -1 if it is new
  /// memory.
  int64_t getOut(mlir::Operation *call) const {
    auto it = outs.find(call);
    return it == outs.end() ? -1 : it->second;
  }

  /// Describes the slots. Refuses a data type that the runtime lacks.
  mlir::LogicalResult fill(plan::PlanT &plan) const;

private:
  struct Slot {
    plan::SlotKind kind;
    /// The number of the input or buffer.
    uint32_t index = 0;
    BufferAttr buffer = {};
    mlir::RankedTensorType type = {};
    /// The operation that needs it, for diagnostics.
    mlir::Operation *op = nullptr;
  };

  int64_t add(Slot slot) {
    table.push_back(slot);
    return table.size() - 1;
  }
  int64_t addPlanned(BufferAttr buffer, mlir::RankedTensorType type,
                     mlir::Operation *op);
  void addReads(mlir::Operation *op);
  void addOperands(mlir::Operation *op, const Places &places);
  void addMembers(PackOp pack, const Places &places);
  void findLastUses(llvm::ArrayRef<mlir::Operation *> calls);

  std::vector<Slot> table;
  /// Inputs and buffers, by symbol.
  llvm::DenseMap<mlir::StringAttr, int64_t> symbols;
  llvm::DenseMap<mlir::Value, int64_t> slots;
  llvm::DenseMap<std::pair<BufferAttr, mlir::Type>, int64_t> planned;
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<int64_t, 2>> freed;
  llvm::DenseMap<mlir::Operation *, int64_t> outs;
};

} // namespace fcdp
