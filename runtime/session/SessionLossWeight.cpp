// SPDX-License-Identifier: Apache-2.0
//
// Manages the weights of the losses of a session's steps and evaluations.
#include "session/SessionImpl.h"

#include <algorithm>

namespace fcdp {

void Session::Impl::findWeights() {
  if (!plan.weightsLoss())
    return;
  stepWeight = plan.weightIn(plan.stepInputs(0));
  evaluationWeight = plan.weightIn(plan.evaluationInputs());
}

StepNeeds Session::Impl::agreeOnNeeds(const StepNeeds &own) {
  if (plan.numVariants() == 1 && !plan.weightsLoss())
    return {};
  const double numbers[] = {double(own.variant), own.weight};
  std::vector<double> all =
      job->gather(numbers, "agreement on the shape and weight of a step");
  StepNeeds needs;
  for (size_t i = 0; i < all.size(); i += std::size(numbers)) {
    needs.variant = std::max(needs.variant, uint32_t(all[i]));
    needs.weight += all[i + 1];
  }
  return needs;
}

double Session::Impl::sumOwnWeights(std::span<const TensorView> inputs) const {
  if (!plan.weightsLoss())
    return 0;
  const size_t count = plan.numStepInputs();
  double sum = 0;
  for (int64_t k = 0; k < int64_t(plan.microBatches); ++k) {
    const TensorView &given = inputs[size_t(k) * count + stepWeight];
    const size_t bytes =
        size_t(numElements(given.shape)) * byteSize(given.dtype);
    sum += sumWeights(*plan.inputs[stepWeight], {given.data, bytes},
                      "micro-batch", k, job->rank());
  }
  return sum;
}

void Session::Impl::weightLoss(int64_t microBatch, double total,
                               RankStats &stats) {
  const size_t which = stats.variant * plan.numStepInputs() + stepWeight;
  double weight = sumWeights(*plan.inputs[which], step->input(which),
                             "micro-batch", microBatch, job->rank());
  stats.weights.push_back(weight);
  step->setLossWeight(
      float(lossFactor(weight, total, plan.mesh.size() * plan.microBatches)));
}

void Session::Impl::weightEvaluation(int64_t batch, RankStats &stats) {
  const size_t which =
      plan.inputs.size() - plan.evaluationInputs().size() + evaluationWeight;
  double weight = sumWeights(*plan.inputs[which], step->input(which), "batch",
                             batch, job->rank());
  stats.weights.push_back(weight);
  step->setLossWeight(weight == 0 ? 0 : 1);
}

void Session::Impl::requireWeight(double total, const std::string &what) {
  if (total > 0)
    return;
  endTogether(SessionError(
      SessionErrorCode::InputMismatch,
      what +
          ": expected a loss with a weight above 0, but all elements of the "
          "input '" +
          plan.lossWeight +
          "', by which losses are weighted, are 0 on all ranks"));
}

StepNeeds Session::agreeOnNeeds(const StepNeeds &own) {
  StepNeeds needs;
  impl->attemptTogether(SessionErrorCode::Failed,
                        [&] { needs = impl->agreeOnNeeds(own); });
  return needs;
}

} // namespace fcdp
