// SPDX-License-Identifier: Apache-2.0
#include "inputs/Needs.h"

#include "policy/LossWeight.h"

namespace fcdp::run {

StepNeeds findNeeds(const StepPlan &plan, const Shapes &shapes, uint32_t rank,
                    const ReadAhead::Buffers &rows) {
  StepNeeds needs;
  if (shapes.areSeveral())
    needs.variant = shapes.find(rows);
  if (!plan.weightsLoss())
    return needs;
  const StepPlan::Inputs inputs = plan.greatestInputs();
  const size_t which = plan.weightIn(inputs);
  for (size_t i = which; i < rows.size(); i += inputs.size())
    needs.weight += sumWeights(*inputs[which], rows[i], "micro-batch",
                               int64_t(i / inputs.size()), rank);
  return needs;
}

} // namespace fcdp::run
