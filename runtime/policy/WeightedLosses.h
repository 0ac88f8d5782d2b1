// SPDX-License-Identifier: Apache-2.0
//
// The weights of the losses of a session's steps and evaluations.
#pragma once

#include "core/SessionError.h"
#include "core/TensorView.h"
#include "policy/StepNeeds.h"
#include "policy/SumOverRanks.h"

#include <functional>
#include <optional>

namespace fcdp {

/// Returns the values of an input, by its index in the plan.
using ReadInput = std::function<std::span<const std::byte>(size_t index)>;

/// The losses of a step that weights them by one of its inputs, on one rank.
/// Functions that sum weights throw SessionError(InputMismatch). Immutable.
class WeightedLosses {
public:
  /// `rank` is for messages.
  WeightedLosses(const StepPlan &plan, uint32_t rank);

  /// Returns the sum of the weights of tensors that are the inputs of a step; 0
  /// if the step does not weight losses.
  double sumOwn(std::span<const TensorView> inputs) const;
  /// Returns the weight of batch `number`, whose inputs `inputs` of the plan
  /// were filled. `batch` is "micro-batch" or "batch", for messages.
  double ofBatch(StepPlan::Inputs inputs, const std::string &batch,
                 int64_t number, const ReadInput &input) const;
  /// Returns the factor of a loss of weight `weight`, if all losses of the step
  /// weigh `total`.
  float factorOf(double weight, double total) const;
  /// Returns InputMismatch if all losses of `what` together weigh 0. `what` is
  /// "step 3" or "the evaluation".
  std::optional<SessionError> problemOf(double total,
                                        const std::string &what) const;

private:
  double sum(size_t index, std::span<const std::byte> data,
             const std::string &batch, int64_t number) const;

  const StepPlan &plan;
  const uint32_t rank;
  /// The index of the input that weights losses, among the inputs of a step.
  size_t ofStep = 0;
};

/// Returns the needs of all ranks together. Collective, unless steps need
/// nothing that ranks have to agree on.
StepNeeds agreeOnNeeds(const StepPlan &plan, const StepNeeds &own,
                       const GatherOverRanks &gather);

} // namespace fcdp
