// SPDX-License-Identifier: Apache-2.0
#include "step/StepImpl.h"

#include <ATen/Context.h>

namespace fcdp {

double Step::evaluateBatch(plan::Role role) {
  StepState &state = impl->state;
  ResultPool &memory = impl->poolOf(role);
  state.evaluated.beginStep();
  memory.beginStep();
  {
    ComputeScope scope(memory, impl->computeStream);
    impl->hostCopies.uploadInputs(impl->filling);
    call(role);
  }
  state.backend.synchronize();
  throwIfFailed();
  impl->dropResults();
  memory.endStep();
  state.evaluated.endStep();
  return state.evaluated.take()[0];
}

std::vector<double>
Step::evaluate(int64_t batches,
               const std::function<void(int64_t)> &fillInputs) {
  StepState &state = impl->state;
  std::vector<std::byte> random = randomState();
  {
    at::Generator generator =
        at::globalContext().defaultGenerator(state.device);
    std::lock_guard<std::mutex> lock(generator.mutex());
    generator.set_current_seed(impl->evaluationSeed);
  }
  state.backend.synchronize();
  if (impl->recorder)
    impl->recorder->pause(true);
  state.isEvaluating = true;
  impl->filling = impl->evaluationSet();
  std::vector<double> losses;
  for (int64_t batch = 0; batch < batches; ++batch) {
    fillInputs(batch);
    losses.push_back(evaluateBatch(batch == 0 ? plan::Role::first_evaluation
                                              : plan::Role::next_evaluation));
  }
  state.isEvaluating = false;
  if (impl->recorder)
    impl->recorder->pause(false);
  setRandomState(random);
  return losses;
}

} // namespace fcdp
