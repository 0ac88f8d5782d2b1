// SPDX-License-Identifier: Apache-2.0
#include "step/StepImpl.h"

#include <algorithm>
#include <stdexcept>

namespace fcdp {

void Step::Impl::waitForOldest() {
  if (state.losses.numUnread() == 1)
    state.backend.synchronize();
  else
    state.backend.waitOnHost(eventOfStep(state.losses.oldest()));
}

bool Step::Impl::isLossNonfinite() {
  if (!isOnCpu()) {
    // The end of the step uses this event again.
    uint32_t event = eventOfStep(state.losses.newest());
    state.backend.record(event, StreamId::Compute);
    state.backend.waitOnHost(event);
  }
  bool own = !state.losses.isFinite();
  return isNonfiniteAnywhere ? isNonfiniteAnywhere(own) : own;
}

void Step::Impl::judgeLoss() {
  isJudged = true;
  state.skipsUpdates =
      state.onNonfinite == OnNonfinite::Skip && isLossNonfinite();
}

void Step::Impl::findEarlyUpdates() {
  const StepPlan &plan = state.plan;
  for (const auto &function : plan.functions) {
    if (!isMicrobatch(function->role))
      continue;
    std::set<size_t> begun;
    for (size_t op = function->first; op < function->end; ++op) {
      const auto &body = plan.ops[op]->body;
      std::optional<size_t> bucket;
      if (const auto *update = body.Asshard_update())
        bucket = update->bucket;
      else if (const auto *store = body.Asstore_gradient())
        bucket = store->bucket;
      if (!bucket || !begun.insert(*bucket).second)
        continue;
      earlyUpdates.resize(plan.ops.size());
      earlyUpdates[op] = bucket;
    }
  }
}

void Step::Impl::beginEarlyUpdate(size_t bucket) {
  if (!isJudged)
    judgeLoss();
  if (gradientCheck)
    gradientCheck->issueEarly(bucket);
}

void Step::Impl::checkGradients() {
  if (!gradientCheck)
    return;
  at::NoGradGuard noGrad;
  StreamScope streamScope(computeStream);
  wasSkipped[state.losses.newest()] = state.skipsUpdates;
  gradientCheck->issue(state, state.losses.newest());
}

void Step::Impl::readGradients(size_t place) {
  gradientNorm = gradientCheck->norm(place);
  bool isJudged =
      state.onNonfinite != OnNonfinite::Continue && !wasSkipped[place];
  nonfiniteGradient = isJudged ? gradientCheck->find(place) : std::nullopt;
}

bool Step::isSkipped() const { return impl->state.skipsUpdates; }

std::optional<int64_t> Step::nonfiniteGradient() const {
  return impl->nonfiniteGradient;
}

std::optional<double> Step::gradientNorm() const { return impl->gradientNorm; }

std::vector<double> Step::losses() {
  StepState &state = impl->state;
  if (state.losses.numUnread() == 0)
    throw std::runtime_error("the losses of all steps have been read");
  if (!impl->isOnCpu())
    impl->waitForOldest();
  throwIfFailed();
  if (impl->gradientCheck)
    impl->readGradients(state.losses.oldest());
  return state.losses.take();
}

Step::Memory Step::memory() const {
  const StepState &state = impl->state;
  if (impl->gpuMemory) {
    auto stats = impl->gpuMemory->getDeviceStats(state.device.index());
    return {impl->usedInStep, uint64_t(stats.num_device_alloc)};
  }
  uint64_t bytes = state.plan.deviceBytes, systemAllocations = 0;
  std::vector<const ResultPool *> pools;
  for (const auto &[role, pool] : impl->ownPools)
    pools.push_back(&pool);
  for (const auto &pool : impl->pools) {
    pools.push_back(pool.get());
    systemAllocations += pool->systemAllocations();
  }
  for (const ResultPool *one : pools)
    bytes = std::max<uint64_t>(bytes, one->regionBytes());
  bytes += impl->pool().systemBytes();
  for (size_t i = 0; i < state.inputs.size(); ++i)
    if (state.plan.memoryOfInput(i) == i)
      bytes += state.inputs[i].nbytes();
  for (const at::Tensor &buffer : state.buffers)
    bytes += buffer.nbytes();
  return {bytes, systemAllocations};
}

} // namespace fcdp
