// SPDX-License-Identifier: Apache-2.0
#include "step/StepImpl.h"

#include <ATen/Context.h>

namespace fcdp {

double Step::runBatch(StepFunction function) {
  StepState &state = impl->state;
  ResultPool &memory = impl->poolOf(function.role);
  impl->otherLosses.beginStep();
  memory.beginStep();
  {
    ComputeScope scope(memory, impl->computeStream);
    impl->hostCopies.uploadInputs(impl->filling);
    call(function);
  }
  state.backend.synchronize();
  throwIfFailed();
  impl->dropResults();
  memory.endStep();
  impl->otherLosses.endStep();
  return impl->otherLosses.take()[0];
}

std::vector<double>
Step::runModel(int64_t batches,
               const std::function<void(int64_t)> &fillInputs) {
  StepState &state = impl->state;
  std::vector<std::byte> random = randomState();
  {
    at::Generator generator =
        at::globalContext().defaultGenerator(state.device);
    std::lock_guard<std::mutex> lock(generator.mutex());
    generator.set_current_seed(impl->seed);
  }
  state.backend.synchronize();
  if (impl->recorder)
    impl->recorder->pause(true);
  state.otherLosses = &impl->otherLosses;
  impl->filling = impl->setBetweenSteps();
  std::vector<double> losses;
  for (int64_t batch = 0; batch < batches; ++batch) {
    fillInputs(batch);
    losses.push_back(runBatch({batch == 0 ? plan::Role::first_evaluation
                                          : plan::Role::next_evaluation}));
  }
  state.otherLosses = nullptr;
  if (impl->recorder)
    impl->recorder->pause(false);
  setRandomState(random);
  return losses;
}

} // namespace fcdp
