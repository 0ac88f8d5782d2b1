// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Planning/Memory/MemoryLayout.h"

#include "fcdp/Analysis/Borders.h"

using namespace mlir;
using namespace fcdp;

void MemoryLayout::read(ModuleOp module, func::FuncOp function) {
  for (auto state : module.getOps<StateOp>())
    if (state.getBuffer())
      states.places[state.getSymNameAttr()] = *state.getBuffer();
  for (Operation &op : function.front()) {
    if (auto buffer = op.getAttrOfType<BufferAttr>("buffer"))
      plan.places[&op] = buffer;
    if (auto buffer = op.getAttrOfType<BufferAttr>("scratch"))
      plan.scratches[&op] = buffer;
  }
}

FailureOr<MemoryLayout> MemoryLayout::compute(func::FuncOp function) {
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
  FailureOr<BufferPlan> plan = planBuffers(function, layout.states);
  if (failed(plan))
    return failure();
  layout.plan = std::move(*plan);
  return layout;
}

FailureOr<MemoryLayouts> fcdp::computeMemoryLayouts(ModuleOp module,
                                                    func::FuncOp function) {
  MemoryLayouts layouts;
  auto functions = llvm::to_vector(module.getOps<func::FuncOp>());
  if (function) {
    functions = findPredecessors(function);
    functions.push_back(function);
  }
  for (func::FuncOp one : functions) {
    if (layouts.contains(one))
      continue;
    FailureOr<MemoryLayout> layout = MemoryLayout::compute(one);
    if (failed(layout))
      return failure();
    layouts.try_emplace(one, std::move(*layout));
  }
  return layouts;
}
