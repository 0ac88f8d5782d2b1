// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Planning/Memory/MemoryLayout.h"

using namespace mlir;
using namespace fcdp;

void MemoryLayout::read(ModuleOp module, func::FuncOp function) {
  for (auto state : module.getOps<StateOp>())
    if (state.getBuffer())
      states.places[state.getSymNameAttr()] = *state.getBuffer();
  for (auto op : function.getOps<BufferedOpInterface>()) {
    if (BufferAttr buffer = op.getBufferAttr())
      plan.places[op] = buffer;
    if (BufferAttr buffer = op.getScratchAttr())
      plan.scratches[op] = buffer;
  }
}

FailureOr<MemoryLayout> MemoryLayout::compute(func::FuncOp function,
                                              const MemoryTimeline &timeline) {
  auto module = function->getParentOfType<ModuleOp>();
  std::optional<Phase> phase = getPhase(module);
  MemoryLayout layout;
  if (phase == Phase::planned) {
    layout.read(module, function);
    return layout;
  }
  if (phase != Phase::scheduled)
    return module.emitError("expected a module in phase 'scheduled' or "
                            "'planned'");
  layout.states = planStates(module);
  FailureOr<BufferPlan> plan = planBuffers(function, timeline, layout.states);
  if (failed(plan))
    return failure();
  layout.plan = std::move(*plan);
  return layout;
}

BufferAttr MemoryLayouts::lookup(const BufferUse &buffer) const {
  const MemoryLayout &layout =
      lookup(buffer.op->getParentOfType<func::FuncOp>());
  return buffer.isScratch ? layout.lookupScratch(buffer.op)
                          : layout.lookup(buffer.op);
}

FailureOr<MemoryLayouts> fcdp::computeMemoryLayouts(ModuleOp module) {
  MemoryLayouts layouts(module);
  for (auto function : module.getOps<func::FuncOp>()) {
    FailureOr<MemoryLayout> layout =
        MemoryLayout::compute(function, layouts.timeline);
    if (failed(layout))
      return failure();
    layouts.functions.try_emplace(function, std::move(*layout));
  }
  return layouts;
}
