// SPDX-License-Identifier: Apache-2.0
#include "operators/LossLog.h"

#include <ATen/ops/zeros.h>
#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

namespace fcdp {

void LossLog::reserve(size_t steps, int64_t perStep, at::Device device) {
  numSteps = steps;
  microBatches = perStep;
  // Copies from a device to memory that is not pinned would be synchronous.
  memory =
      at::zeros({int64_t(steps) * perStep},
                at::TensorOptions(at::kDouble).pinned_memory(!device.is_cpu()));
  for (int64_t i = 0; i < memory.numel(); ++i)
    places.push_back(memory.select(0, i));
}

void LossLog::beginStep() {
  if (numUnread() == numSteps)
    throw std::runtime_error("the losses of " + std::to_string(numSteps) +
                             " steps are not read: read those of the oldest "
                             "before another step");
  ++begun;
  kept = 0;
}

at::Tensor &LossLog::next() {
  if (kept == microBatches)
    throw std::runtime_error("expected one loss per micro-batch, " +
                             std::to_string(microBatches) + ", got more");
  return places[newest() * microBatches + kept++];
}

void LossLog::keep(const at::Tensor &loss) {
  next().copy_(loss.view(at::IntArrayRef()), /*non_blocking=*/true);
}

void LossLog::keepZero() { next().zero_(); }

void LossLog::endStep() {
  if (kept != microBatches)
    throw std::runtime_error("expected one loss per micro-batch, " +
                             std::to_string(microBatches) + ", got " +
                             std::to_string(kept));
}

bool LossLog::isFinite() const {
  const double *first =
      memory.const_data_ptr<double>() + newest() * microBatches;
  return std::all_of(first, first + kept,
                     [](double loss) { return std::isfinite(loss); });
}

std::vector<double> LossLog::take() {
  const double *first =
      memory.const_data_ptr<double>() + oldest() * microBatches;
  ++read;
  return {first, first + microBatches};
}

} // namespace fcdp
