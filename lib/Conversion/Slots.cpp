// SPDX-License-Identifier: Apache-2.0

#include "Slots.h"

#include "PlanValues.h"
#include "dialects/Aten/Aten.h"
#include "fcdp/Analysis/InPlaceGradients.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace fcdp;

/// Whether `op` reads its operands as tensors, not as places.
static bool readsSlots(Operation *op) {
  return isa<aten::CallOp, LossOp, PackOp, WriteBufferOp>(op);
}

SlotTable::SlotTable(ModuleOp module, const Places &places,
                     ArrayRef<Operation *> calls) {
  uint32_t index = 0;
  for (auto input : module.getOps<InputOp>())
    symbols[input.getSymNameAttr()] = add({plan::SlotKind::input, index++});
  index = 0;
  for (auto buffer : module.getOps<BufferOp>())
    symbols[buffer.getSymNameAttr()] = add({plan::SlotKind::buffer, index++});

  for (auto function : module.getOps<func::FuncOp>())
    for (Operation &op : function.front())
      addReads(&op);
  for (Operation *call : calls) {
    if (!readsSlots(call))
      continue;
    addOperands(call, places);
    if (auto pack = dyn_cast<PackOp>(call))
      addMembers(pack, places);
    // Unused values are not kept.
    if (isa<aten::CallOp>(call))
      for (Value result : call->getResults())
        if (!result.use_empty())
          slots[result] = add({plan::SlotKind::transient});
  }
  findLastUses(calls);
}

int64_t SlotTable::addPlanned(BufferAttr buffer, RankedTensorType type,
                              Operation *op) {
  auto [it, isNew] = planned.try_emplace({buffer, type}, table.size());
  if (isNew)
    add({plan::SlotKind::planned, 0, buffer, type, op});
  return it->second;
}

void SlotTable::addReads(Operation *op) {
  if (auto read = dyn_cast<ReadInputOp>(op))
    slots[read.getResult()] = symbols.lookup(read.getSourceAttr().getAttr());
  else if (auto read = dyn_cast<ReadBufferOp>(op))
    slots[read.getResult()] = symbols.lookup(read.getSourceAttr().getAttr());
}

void SlotTable::addOperands(Operation *op, const Places &places) {
  for (Value operand : op->getOperands())
    if (BufferAttr place = places.lookup(operand))
      slots[operand] =
          addPlanned(place, cast<RankedTensorType>(operand.getType()), op);
}

void SlotTable::addMembers(PackOp pack, const Places &places) {
  for (auto [name, value] :
       llvm::zip(pack.getParameters().getAsRange<FlatSymbolRefAttr>(),
                 pack.getValues()))
    addPlanned(places.getMember(pack, name),
               cast<RankedTensorType>(value.getType()), pack);
  for (auto [producer, parameter] : getInPlaceGradients(pack))
    outs[producer] = addPlanned(
        places.getMember(pack, parameter),
        cast<RankedTensorType>(producer->getResult(0).getType()), producer);
}

void SlotTable::findLastUses(ArrayRef<Operation *> calls) {
  llvm::DenseSet<int64_t> seen;
  for (Operation *call : llvm::reverse(calls)) {
    if (!readsSlots(call))
      continue;
    for (Value operand : call->getOperands()) {
      int64_t slot = lookup(operand);
      if (slot >= 0 && table[slot].kind == plan::SlotKind::transient &&
          seen.insert(slot).second)
        freed[call].push_back(slot);
    }
  }
}

LogicalResult SlotTable::fill(plan::PlanT &plan) const {
  for (const Slot &slot : table) {
    plan::SlotT &out =
        *plan.slots.emplace_back(std::make_unique<plan::SlotT>());
    out.kind = slot.kind;
    if (slot.kind == plan::SlotKind::input ||
        slot.kind == plan::SlotKind::buffer)
      out.index = slot.index;
    if (slot.kind != plan::SlotKind::planned)
      continue;
    out.buf = std::make_unique<plan::Buf>(toBuf(slot.buffer));
    out.shape = toShape(slot.type);
    if (failed(
            setDType(out.dtype.emplace(), slot.type.getElementType(), slot.op)))
      return failure();
  }
  return success();
}
