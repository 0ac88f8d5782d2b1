// SPDX-License-Identifier: Apache-2.0

#include "Slots.h"

#include "PlanValues.h"
#include "dialects/Aten/Aten.h"
#include "fcdp/Analysis/InPlaceGradients.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace fcdp;

FailureOr<SlotTable> SlotTable::fill(plan::PlanT &plan, ModuleOp module,
                                     const Places &places,
                                     ArrayRef<Operation *> calls) {
  SlotTable table(plan, places);
  auto addAll = [&](plan::SlotKind kind, size_t count) {
    size_t first = plan.slots.size();
    for (size_t index = 0; index < count; ++index) {
      plan::SlotT &slot = append(plan.slots);
      slot.kind = kind;
      slot.index = index;
    }
    return first;
  };
  size_t inputs = addAll(plan::SlotKind::input, plan.inputs.size());
  size_t buffers = addAll(plan::SlotKind::buffer, plan.buffers.size());
  module.walk([&](ReadInputOp read) {
    table.slots[read.getResult()] =
        inputs + places.getPosition(read.getSourceAttr().getAttr());
  });
  module.walk([&](ReadBufferOp read) {
    table.slots[read.getResult()] =
        buffers + places.getPosition(read.getSourceAttr().getAttr());
  });
  table.addFactor<ReadLossScaleOp>(module, plan::SlotKind::loss_scale);
  table.addFactor<ReadLossWeightOp>(module, plan::SlotKind::loss_weight);
  // Operators read tensors; all other operations read places.
  for (Operation *call : calls)
    if (runsOperators(call) && failed(table.add(call)))
      return failure();
  table.findLastUses(calls);
  return table;
}

/// Adds the slot that all operations of a type share, if there are any.
template <typename ReadOp>
void SlotTable::addFactor(ModuleOp module, plan::SlotKind kind) {
  std::optional<size_t> slot;
  module.walk([&](ReadOp read) {
    if (!slot) {
      slot = plan.slots.size();
      append(plan.slots).kind = kind;
    }
    slots[read.getResult()] = *slot;
  });
}

/// Adds slots for the operands and the results of `call`.
LogicalResult SlotTable::add(Operation *call) {
  for (Value operand : call->getOperands()) {
    BufferAttr place = places.lookup(operand);
    if (!place || slots.contains(operand))
      continue;
    // A load binds its slot to the strides of the value.
    if (isa_and_present<LoadValueOp>(operand.getDefiningOp())) {
      slots[operand] = plan.slots.size();
      if (failed(makePlanned(place, operand.getType(), call)))
        return failure();
      continue;
    }
    FailureOr<int64_t> slot = addPlanned(place, operand.getType(), call);
    if (failed(slot))
      return failure();
    slots[operand] = *slot;
  }
  if (auto pack = dyn_cast<PackOp>(call))
    return addMembers(pack);
  // Unused values are not kept.
  if (isa<aten::CallOp>(call))
    for (Value result : call->getResults())
      if (!result.use_empty()) {
        slots[result] = plan.slots.size();
        append(plan.slots).kind = plan::SlotKind::transient;
      }
  return success();
}

LogicalResult SlotTable::addMembers(PackOp pack) {
  for (auto [name, value] :
       llvm::zip(pack.getParameters().getAsRange<FlatSymbolRefAttr>(),
                 pack.getValues()))
    if (failed(addPlanned(places.getMember(pack, name),
                          pack.getPackedType(value), pack)))
      return failure();
  for (auto [producer, parameter] : getInPlaceGradients(pack)) {
    FailureOr<int64_t> slot =
        addPlanned(places.getMember(pack, parameter),
                   producer->getResult(0).getType(), producer);
    if (failed(slot))
      return failure();
    outs[producer] = *slot;
  }
  return success();
}

/// Returns the slot of a tensor of `tensorType` in `buffer`.
FailureOr<int64_t> SlotTable::addPlanned(BufferAttr buffer, Type tensorType,
                                         Operation *op) {
  auto [it, isNew] =
      planned.try_emplace({buffer, tensorType}, plan.slots.size());
  if (isNew && failed(makePlanned(buffer, tensorType, op)))
    return failure();
  return it->second;
}

LogicalResult SlotTable::makePlanned(BufferAttr buffer, Type tensorType,
                                     Operation *op) {
  plan::SlotT &slot = append(plan.slots);
  slot.kind = plan::SlotKind::planned;
  slot.buf = std::make_unique<plan::Buf>(toBuf(buffer));
  return setType(slot, cast<RankedTensorType>(tensorType), op);
}

void SlotTable::findLastUses(ArrayRef<Operation *> calls) {
  llvm::DenseSet<int64_t> seen;
  for (Operation *call : llvm::reverse(calls)) {
    if (!runsOperators(call))
      continue;
    for (Value operand : call->getOperands()) {
      int64_t slot = lookup(operand);
      if (slot >= 0 && plan.slots[slot]->kind == plan::SlotKind::transient &&
          seen.insert(slot).second)
        freed[call].push_back(slot);
    }
  }
}
