// SPDX-License-Identifier: Apache-2.0
#include "operators/GradientCheck.h"

#include <ATen/ops/aminmax.h>
#include <ATen/ops/zeros.h>
#include <algorithm>
#include <cmath>

namespace fcdp {

GradientCheck::GradientCheck(StepState &state, size_t steps,
                             std::span<const std::optional<size_t>> early) {
  for (std::optional<size_t> bucket : early)
    if (bucket)
      earlyBuckets.insert(int64_t(*bucket));
  bool hasNorm = state.plan.uses(plan::OpBody::clip_gradients);
  for (size_t i = 0; i < state.plan.buckets.size() && !hasNorm; ++i) {
    const plan::BucketT &bucket = *state.plan.buckets[i];
    const auto *grad = findState(bucket, plan::StateRole::grad);
    if (!grad || bucket.shardElements == 0)
      continue;
    buckets.push_back(int64_t(i));
    gradients.push_back(
        state.flat(grad->buf(), int64_t(bucket.shardElements), DType::F32));
  }
  auto count = int64_t(hasNorm ? 1 : 2 * buckets.size());
  auto options = at::TensorOptions(hasNorm ? at::kDouble : at::kFloat);
  numbers = at::zeros({count}, options.device(state.device));
  for (int64_t i = 0; i < count; ++i)
    numberOf.push_back(numbers.select(0, i));
  // Copies from a device to memory that is not pinned would be synchronous.
  results = at::zeros({int64_t(steps), count},
                      options.pinned_memory(!state.device.is_cpu()));
}

void GradientCheck::check(size_t index) {
  // The least and the greatest value need no memory besides their results, and
  // are NaN if a gradient is. On a CPU, the greatest magnitude takes 17 times
  // as long, because PyTorch has no vectorized loop for it.
  at::aminmax_out(numberOf[2 * index], numberOf[2 * index + 1],
                  gradients[index]);
}

void GradientCheck::issueEarly(size_t bucket) {
  for (size_t i = 0; i < buckets.size(); ++i)
    if (buckets[i] == int64_t(bucket))
      check(i);
}

void GradientCheck::issue(const StepState &state, size_t place) {
  if (gradients.empty() && state.gradientNorm.defined())
    numberOf[0].copy_(state.gradientNorm);
  for (size_t i = 0; i < gradients.size(); ++i)
    if (!earlyBuckets.contains(buckets[i]))
      check(i);
  results.select(0, int64_t(place)).copy_(numbers, /*non_blocking=*/true);
}

std::optional<int64_t> GradientCheck::find(size_t place) const {
  at::Tensor row = results.select(0, int64_t(place)).to(at::kDouble);
  const double *first = row.const_data_ptr<double>();
  const double *end = first + row.numel();
  const double *found = std::find_if(
      first, end, [](double number) { return !std::isfinite(number); });
  if (found == end)
    return std::nullopt;
  return buckets.empty() ? -1 : buckets[size_t(found - first) / 2];
}

std::optional<double> GradientCheck::norm(size_t place) const {
  // A step that clips checks no buckets here, and neither does one that trains
  // nothing.
  if (!buckets.empty() || results.numel() == 0)
    return std::nullopt;
  return results.select(0, int64_t(place)).const_data_ptr<double>()[0];
}

} // namespace fcdp
