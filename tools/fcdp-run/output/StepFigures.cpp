// SPDX-License-Identifier: Apache-2.0
#include "output/StepFigures.h"

#include <algorithm>

namespace fcdp::run {

int64_t tokensOfStep(const StepPlan &plan, StepPlan::Inputs inputs) {
  auto found = std::find_if(inputs.begin(), inputs.end(), [](const auto &one) {
    DType type = toDType(one->dtype);
    return one->shape.size() >= 2 && (type == DType::I64 || type == DType::I32);
  });
  if (found == inputs.end())
    return 0;
  return int64_t(numElements((*found)->shape)) * plan.microBatches *
         int64_t(plan.mesh.size());
}

double TimeLeft::after(int64_t step, double secondsOfStep,
                       Clock::time_point now) {
  double each = secondsOfStep;
  if (firstStep == 0) {
    firstStep = step;
    firstEnd = now;
  } else {
    std::chrono::duration<double> passed = now - firstEnd;
    each = passed.count() / double(std::max<int64_t>(step - firstStep, 1));
  }
  return each * double(std::max<int64_t>(lastStep - step, 0));
}

} // namespace fcdp::run
