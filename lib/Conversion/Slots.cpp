// SPDX-License-Identifier: Apache-2.0

#include "Slots.h"

#include "Writing.h"
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
                     ArrayRef<RuntimeCall> calls) {
  int64_t index = 0;
  for (auto input : module.getOps<InputOp>())
    symbols[input.getSymNameAttr()] = add({Slot::Kind::Input, index++});
  index = 0;
  for (auto buffer : module.getOps<BufferOp>())
    symbols[buffer.getSymNameAttr()] = add({Slot::Kind::Buffer, index++});

  for (auto function : module.getOps<func::FuncOp>())
    for (Operation &op : function.front())
      addReads(&op);
  for (const RuntimeCall &call : calls) {
    if (!readsSlots(call.op))
      continue;
    addOperands(call.op, places);
    if (auto pack = dyn_cast<PackOp>(call.op))
      addMembers(pack, places);
    // What nobody uses is not kept.
    if (isa<aten::CallOp>(call.op))
      for (Value result : call.op->getResults())
        if (!result.use_empty())
          slots[result] = add({Slot::Kind::Transient});
  }
  findLastUses(calls);
}

int64_t SlotTable::addPlanned(BufferAttr buffer, RankedTensorType type,
                              Operation *op) {
  auto [it, isNew] = planned.try_emplace({buffer, type}, table.size());
  if (isNew)
    add({Slot::Kind::Planned, 0, buffer, type, op});
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

void SlotTable::findLastUses(ArrayRef<RuntimeCall> calls) {
  llvm::DenseSet<int64_t> seen;
  for (const RuntimeCall &call : llvm::reverse(calls)) {
    if (!readsSlots(call.op))
      continue;
    for (Value operand : call.op->getOperands()) {
      int64_t slot = lookup(operand);
      if (slot >= 0 && table[slot].kind == Slot::Kind::Transient &&
          seen.insert(slot).second)
        freed[call.op].push_back(slot);
    }
  }
}

static LogicalResult writePlanned(llvm::json::OStream &json, BufferAttr buffer,
                                  RankedTensorType type, Operation *op) {
  json.attribute("kind", "planned");
  writeBuffer(json, "buf", buffer);
  writeShape(json, type);
  return writeDType(json, "dtype", type.getElementType(), op);
}

LogicalResult SlotTable::write(llvm::json::OStream &json) const {
  LogicalResult result = success();
  auto writeKeys = [&](const Slot &slot) {
    switch (slot.kind) {
    case Slot::Kind::Transient:
      json.attribute("kind", "transient");
      return;
    case Slot::Kind::Input:
      json.attribute("kind", "input");
      json.attribute("input", slot.index);
      return;
    case Slot::Kind::Buffer:
      json.attribute("kind", "buffer");
      json.attribute("buffer", slot.index);
      return;
    case Slot::Kind::Planned:
      if (failed(writePlanned(json, slot.buffer, slot.type, slot.op)))
        result = failure();
    }
  };
  json.attributeArray("slots", [&] {
    for (const Slot &slot : table)
      json.object([&] { writeKeys(slot); });
  });
  return result;
}
