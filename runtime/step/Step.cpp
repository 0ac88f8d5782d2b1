// SPDX-License-Identifier: Apache-2.0
#include "operators/OuterStates.h"
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
    ops[index]->run(state);
  } catch (const std::exception &error) {
    throw wrapError(state.plan.descriptions[index] + ": ", error);
  }
  if (state.plan.ops[index]->body.type == plan::OpBody::wait)
    throwIfBackendFailed();
}

void Step::Impl::call(plan::Role role, uint32_t fragment) {
  size_t index = state.plan.indexOf(role, isOuter(role)        ? fragment
                                          : isMicrobatch(role) ? variant
                                                               : 0);
  const plan::FunctionT &function = *state.plan.functions[index];
  ResultPool &memory = poolOf(role);
  memory.beginFunction(state.plan.reservations[index], function.results);
  for (size_t op = function.first; op < function.end; ++op)
    execute(op, memory);
  memory.endFunction();
}

void Step::Impl::changeTo(uint32_t next) {
  if (next != variant && lastEnd)
    for (size_t stream = 0; stream < kNumStreams; ++stream)
      if (StreamId(stream) != StreamId::Compute)
        state.backend.wait(*lastEnd, StreamId(stream));
  variant = next;
}

void Step::Impl::dropResults() {
  for (size_t slot = 0; slot < state.plan.slots.size(); ++slot)
    if (state.plan.slots[slot]->kind == plan::SlotKind::transient)
      state.slots[slot].reset();
}

void Step::call(plan::Role role, uint32_t fragment) {
  throwIfFailed();
  if (impl->recorder)
    impl->recorder->beginFunction(impl->nameOf(role, fragment));
  try {
    impl->call(role, fragment);
  } catch (const std::exception &error) {
    impl->error = wrapError("", error);
  }
  throwIfFailed();
}

void Step::Impl::startOuter() {
  if (!state.plan.outer || hasOuter)
    return;
  for (uint32_t bucket = 0; bucket < state.plan.buckets.size(); ++bucket)
    if (OuterStates states(bucket, state); states.outer.defined())
      states.outer.copy_(states.own());
  hasOuter = true;
}

void Step::init() {
  ComputeScope scope(impl->pool(), impl->computeStream);
  impl->hostCopies.uploadAll();
  impl->startOuter();
  call(plan::Role::init);
  impl->state.backend.synchronize();
  throwIfFailed();
  impl->hostCopies.clear();
}

namespace {

/// Returns the role of the function that runs micro-batch k of a step. The last
/// one may contain an outer update.
plan::Role roleOf(int64_t k, int64_t microBatches, bool overlapsOuter) {
  if (microBatches == 1)
    return overlapsOuter ? plan::Role::only_outer_microbatch
                         : plan::Role::only_microbatch;
  if (k == 0)
    return plan::Role::first_microbatch;
  if (k + 1 < microBatches)
    return plan::Role::next_microbatch;
  return overlapsOuter ? plan::Role::last_outer_microbatch
                       : plan::Role::last_microbatch;
}

} // namespace

void Step::updateOuter(uint32_t fragment) {
  StepState &state = impl->state;
  ResultPool &memory = impl->outerPool;
  // The proofs guarantee that nothing else is in flight here.
  state.backend.synchronize();
  memory.beginStep();
  {
    ComputeScope scope(memory, impl->computeStream);
    call(plan::Role::outer_update, fragment);
  }
  state.backend.synchronize();
  throwIfFailed();
  memory.endStep();
}

void Step::run(const std::function<void(int64_t)> &fillInputs, uint32_t variant,
               std::span<const uint32_t> fragments) {
  StepState &state = impl->state;
  const StepPlan &plan = state.plan;
  impl->changeTo(variant);
  impl->overlapped.reset();
  if (plan.overlapsOuter() && !fragments.empty())
    impl->overlapped = fragments.front();
  state.losses.beginStep();
  if (impl->recorder)
    impl->recorder->beginStep();
  impl->pool().beginStep();
  for (int64_t k = 0; k < plan.microBatches; ++k) {
    // There are as many sets as there may be unread steps. After the losses of
    // a step are read, its inputs are free, too.
    impl->filling = state.losses.newest() * plan.microBatches + k;
    fillInputs(k);
    ComputeScope scope(impl->pool(), impl->computeStream);
    impl->hostCopies.uploadInputs(impl->filling);
    call(roleOf(k, plan.microBatches, impl->overlapped.has_value()),
         impl->overlapped.value_or(0));
  }
  state.skipsUpdates =
      state.onNonfinite == OnNonfinite::Skip && impl->isLossNonfinite();
  {
    ComputeScope scope(impl->pool(), impl->computeStream);
    call(plan::Role::update);
  }
  impl->checkGradients();
  if (!plan.overlapsOuter())
    for (uint32_t fragment : fragments)
      updateOuter(fragment);
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
