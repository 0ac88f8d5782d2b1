// SPDX-License-Identifier: Apache-2.0
//
// Numbers the tensors of a plan. The runtime finds them by these slots.
#pragma once

#include "Places.h"
#include "plan/Plan_generated.h"

namespace fcdp {

/// One slot per value that an operation reads or writes as a tensor. Inputs
/// and buffers come first, in the module's order.
class SlotTable {
public:
  /// Fills in the slots of `plan`. Refuses a data type that the runtime lacks.
  static mlir::FailureOr<SlotTable>
  fill(plan::PlanT &plan, mlir::ModuleOp module, const Places &places,
       llvm::ArrayRef<mlir::Operation *> calls);

  /// Returns the slot of `value`, or -1.
  int64_t lookup(mlir::Value value) const { return find(slots, value); }
  /// Returns the slot of a tensor in an arena, which `fill` must have seen.
  int64_t lookup(BufferAttr buffer, mlir::RankedTensorType type) const {
    return find(planned, {buffer, type});
  }
  /// Returns the slot that the result of `call` is written to, or -1 if it is
  /// new memory.
  int64_t getOut(mlir::Operation *call) const { return find(outs, call); }
  /// Returns the slots whose values `op` is the last to use.
  std::vector<uint32_t> getFreed(mlir::Operation *op) const {
    return freed.lookup(op);
  }

private:
  template <typename Key>
  using Slots = llvm::DenseMap<Key, int64_t>;
  template <typename Key>
  static int64_t find(const Slots<Key> &slots, Key key) {
    auto it = slots.find(key);
    return it == slots.end() ? -1 : it->second;
  }

  SlotTable(plan::PlanT &plan, const Places &places)
      : plan(plan), places(places) {}
  template <typename ReadOp>
  void addFactor(mlir::ModuleOp module, plan::SlotKind kind);
  mlir::LogicalResult add(mlir::Operation *call);
  mlir::LogicalResult addMembers(PackOp pack);
  mlir::FailureOr<int64_t> addPlanned(BufferAttr buffer, mlir::Type type,
                                      mlir::Operation *op);
  mlir::LogicalResult makePlanned(BufferAttr buffer, mlir::Type type,
                                  mlir::Operation *op);
  void findLastUses(llvm::ArrayRef<mlir::Operation *> calls);

  plan::PlanT &plan;
  const Places &places;
  Slots<mlir::Value> slots;
  Slots<std::pair<BufferAttr, mlir::Type>> planned;
  Slots<mlir::Operation *> outs;
  llvm::DenseMap<mlir::Operation *, std::vector<uint32_t>> freed;
};

} // namespace fcdp
