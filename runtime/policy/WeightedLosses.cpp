// SPDX-License-Identifier: Apache-2.0
#include "policy/WeightedLosses.h"

#include "policy/LossWeight.h"

namespace fcdp {

WeightedLosses::WeightedLosses(const StepPlan &plan, uint32_t rank)
    : plan(plan), rank(rank) {
  if (plan.weightsLoss())
    ofStep = plan.weightIn(plan.stepInputs(0));
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

double WeightedLosses::ofBatch(StepPlan::Inputs inputs,
                               const std::string &batch, int64_t number,
                               const ReadInput &input) const {
  const size_t index = plan.firstOf(inputs) + plan.weightIn(inputs);
  return sum(index, input(index), batch, number);
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
  const std::vector<double> all =
      gather(own.pack(), "agreement on the shape and weight of a step");
  StepNeeds needs;
  constexpr size_t count = StepNeeds::kNumNumbers;
  for (size_t i = 0; i < all.size(); i += count)
    needs.add(StepNeeds::unpack(std::span(all).subspan(i).first<count>()));
  return needs;
}

} // namespace fcdp
