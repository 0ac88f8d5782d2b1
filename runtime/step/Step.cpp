// SPDX-License-Identifier: Apache-2.0
#include "operators/StartStates.h"
#include "step/StepImpl.h"

#include <stdexcept>

namespace fcdp {

void Step::throwIfFailed() const {
  if (impl->error)
    throw *impl->error;
  impl->throwIfBackendFailed();
}

void Step::Impl::throwIfBackendFailed() const {
  const Backend &backend = state.backend;
  if (backend.failed())
    throw Failure(backend.failure(), backend.failureKind());
}

void Step::Impl::execute(size_t index, ResultPool &memory) {
  try {
    memory.reach(index);
    if (!earlyUpdates.empty() && earlyUpdates[index])
      beginEarlyUpdate(*earlyUpdates[index]);
    ops[index]->run(state);
  } catch (const std::exception &error) {
    throw wrapError(state.plan.descriptions[index] + ": ", error);
  }
  if (state.plan.ops[index]->body.type == plan::OpBody::wait)
    throwIfBackendFailed();
}

void Step::Impl::call(StepFunction called) {
  size_t index = state.plan.indexOf(called.role, called.number);
  const plan::FunctionT &function = *state.plan.functions[index];
  ResultPool &memory = poolOf(called.role);
  memory.beginFunction(state.plan.reservations[index], function.results);
  for (size_t op = function.first; op < function.end; ++op)
    execute(op, memory);
  memory.endFunction();
}

void Step::Impl::changeTo(const StepRun &next) {
  if (next.number != number && lastEnd)
    for (size_t stream = 0; stream < kNumStreams; ++stream)
      if (StreamId(stream) != StreamId::Compute)
        state.backend.wait(*lastEnd, StreamId(stream));
  number = next.number;
  kind = next.kind;
}

void Step::Impl::dropResults() {
  for (size_t slot = 0; slot < state.plan.slots.size(); ++slot)
    if (state.plan.slots[slot]->kind == plan::SlotKind::transient)
      state.slots[slot].reset();
}

void Step::call(StepFunction function) {
  throwIfFailed();
  if (impl->recorder)
    impl->recorder->beginFunction(impl->state.plan.nameOf(function));
  try {
    impl->call(function);
  } catch (const std::exception &error) {
    impl->error = wrapError("", error);
  }
  throwIfFailed();
}

void Step::init() {
  ComputeScope scope(impl->pool(), impl->computeStream);
  impl->fileCopy.end();
  impl->fileCopy.isWritten = false;
  impl->hostCopies.uploadAll();
  startStates(impl->state, impl->kept);
  call({plan::Role::init});
  impl->state.backend.synchronize();
  throwIfFailed();
  impl->hostCopies.clear();
}

void Step::runAlone(StepFunction function) {
  StepState &state = impl->state;
  ResultPool &memory = impl->poolOf(function.role);
  // The proofs guarantee that nothing else is in flight here.
  state.backend.synchronize();
  memory.beginStep();
  {
    ComputeScope scope(memory, impl->computeStream);
    call(function);
  }
  state.backend.synchronize();
  throwIfFailed();
  memory.endStep();
}

void Step::run(const std::function<void(int64_t)> &fillInputs) {
  run(fillInputs, impl->state.plan.stepRun(0, std::span<const uint32_t>()));
}

void Step::run(const std::function<void(int64_t)> &fillInputs,
               const StepRun &functions) {
  StepState &state = impl->state;
  const StepPlan &plan = state.plan;
  impl->changeTo(functions);
  state.losses.beginStep();
  if (impl->recorder)
    impl->recorder->beginStep();
  impl->pool().beginStep();
  impl->isJudged = false;
  for (int64_t k = 0; k < plan.microBatches; ++k) {
    // There are as many sets as there may be unread steps. After the losses of
    // a step are read, its inputs are free, too.
    impl->filling = state.losses.newest() * plan.microBatches + k;
    fillInputs(k);
    ComputeScope scope(impl->pool(), impl->computeStream);
    impl->hostCopies.uploadInputs(impl->filling);
    call(functions.microBatches[k]);
  }
  if (!impl->isJudged)
    impl->judgeLoss();
  {
    ComputeScope scope(impl->pool(), impl->computeStream);
    call({plan::Role::update});
  }
  impl->checkGradients();
  for (StepFunction function : functions.behind)
    runAlone(function);
  if (!impl->isOnCpu())
    state.backend.record(
        impl->lastEnd.emplace(impl->eventOfStep(state.losses.newest())),
        StreamId::Compute);
  if (impl->isOnCpu() || impl->recorder)
    state.backend.synchronize();
  throwIfFailed();
  if (impl->recorder)
    impl->recorder->endStep();
  impl->dropResults();
  // libtorch keeps its reserved memory until the pool empties the cache.
  if (impl->usedBytes)
    impl->usedInStep = impl->usedBytes();
  impl->pool().endStep();
  try {
    state.losses.endStep();
  } catch (const std::exception &error) {
    throw std::runtime_error(impl->object.path() + ": " + error.what());
  }
}

} // namespace fcdp
