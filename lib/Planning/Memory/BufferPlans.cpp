// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Planning/Memory/BufferPlans.h"

using namespace mlir;
using namespace fcdp;

BufferPlans::BufferPlans(Operation *module)
    : timeline(cast<ModuleOp>(module)),
      states(planStates(cast<ModuleOp>(module))) {}

FailureOr<const BufferPlan *> BufferPlans::lookup(func::FuncOp function) {
  if (auto found = plans.find(function); found != plans.end())
    return &found->second;
  FailureOr<BufferPlan> plan = planBuffers(function, timeline, states);
  if (failed(plan))
    return failure();
  return &(plans[function] = std::move(*plan));
}

FailureOr<const BufferPlan *> BufferPlans::replan(func::FuncOp function) {
  timeline.update(function);
  plans.erase(function);
  return lookup(function);
}

void BufferPlans::restore(func::FuncOp function, BufferPlan plan) {
  timeline.update(function);
  plans[function] = std::move(plan);
}
