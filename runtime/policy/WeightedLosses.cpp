// SPDX-License-Identifier: Apache-2.0
#include "policy/WeightedLosses.h"

#include <algorithm>

namespace fcdp {

WeightedLosses::WeightedLosses(const StepPlan &plan, uint32_t rank)
    : plan(plan), rank(rank) {
  if (!plan.weightsLoss())
    return;
  ofStep = plan.weightIn(plan.stepInputs(0));
  ofBatch = plan.weightIn(plan.evaluationInputs());
}

double WeightedLosses::sum(size_t index, std::span<const std::byte> data,
                           const std::string &batch, int64_t number) const {
  return sumWeights(*plan.inputs[index], data, batch, number, rank);
}

double WeightedLosses::sumOwn(std::span<const TensorView> inputs) const {
  if (!plan.weightsLoss())
    return 0;
  const size_t count = plan.numStepInputs();
  double total = 0;
  for (int64_t k = 0; k < int64_t(plan.microBatches); ++k) {
    const TensorView &given = inputs[size_t(k) * count + ofStep];
    const size_t bytes =
        size_t(numElements(given.shape)) * byteSize(given.dtype);
    total += sum(ofStep, {given.data, bytes}, "micro-batch", k);
  }
  return total;
}

double WeightedLosses::ofMicroBatch(uint32_t variant, int64_t microBatch,
                                    const ReadInput &input) const {
  const size_t index = variant * plan.numStepInputs() + ofStep;
  return sum(index, input(index), "micro-batch", microBatch);
}

double WeightedLosses::ofEvaluation(int64_t batch,
                                    const ReadInput &input) const {
  const size_t index =
      plan.inputs.size() - plan.evaluationInputs().size() + ofBatch;
  return sum(index, input(index), "batch", batch);
}

float WeightedLosses::factorOf(double weight, double total) const {
  return float(lossFactor(weight, total, plan.mesh.size() * plan.microBatches));
}

std::optional<SessionError>
WeightedLosses::problemOf(double total, const std::string &what) const {
  if (total > 0)
    return std::nullopt;
  return SessionError(
      SessionErrorCode::InputMismatch,
      what +
          ": expected a loss with a weight above 0, but all elements of the "
          "input '" +
          plan.lossWeight +
          "', by which losses are weighted, are 0 on all ranks");
}

StepNeeds agreeOnNeeds(const StepPlan &plan, const StepNeeds &own,
                       const GatherOverRanks &gather) {
  if (!plan.hasNeeds())
    return {};
  const double numbers[] = {double(own.variant), own.weight};
  const std::vector<double> all =
      gather(numbers, "agreement on the shape and weight of a step");
  StepNeeds needs;
  for (size_t i = 0; i < all.size(); i += std::size(numbers)) {
    needs.variant = std::max(needs.variant, uint32_t(all[i]));
    needs.weight += all[i + 1];
  }
  return needs;
}

} // namespace fcdp
