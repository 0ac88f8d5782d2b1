// SPDX-License-Identifier: Apache-2.0
#include "probe/ProbeOperators.h"

#include "probe/ProbeProducts.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones.h>
#include <algorithm>

namespace fcdp::probe {

namespace {

constexpr size_t kLeastBytesOfGpu = 1 << 16, kGrowthOfBytes = 4;
/// The number of kernels between two marks, so that a mark's own time does not
/// count.
constexpr int kInRow = 20;
constexpr int kLaunchesOfGpu = 100;

} // namespace

/// Returns the rate of copies by the bytes that they access, without the gap.
static std::vector<RateOfSize> measureCurve(c10::Device device,
                                            const DeviceTimer &time,
                                            const Work &before, double gap,
                                            size_t mostBytes) {
  std::vector<RateOfSize> curve;
  for (size_t bytes = kLeastBytesOfGpu; bytes <= mostBytes;
       bytes *= kGrowthOfBytes) {
    at::Tensor from = at::ones({int64_t(bytes / 2)},
                               at::TensorOptions(at::kByte).device(device)),
               to = at::empty_like(from);
    double seconds = timeEach(time, before, kInRow, [&] { to.copy_(from); });
    curve.push_back({double(bytes), double(bytes) / withoutGap(seconds, gap)});
  }
  return curve;
}

OperatorRates measureOperators(c10::Device device,
                               const std::vector<DType> &types,
                               const DeviceTimer &time, size_t mostBytes) {
  at::NoGradGuard noGrad;
  OperatorRates rates;
  Work before = makeBacklog(device, time);
  auto options = at::TensorOptions(at::kFloat).device(device);
  at::Tensor one = at::ones({4}, options), sum = at::empty_like(one);
  rates.launchLatency = timeEach(time, before, kLaunchesOfGpu,
                                 [&] { at::add_out(sum, one, one); });
  for (DType type : types) {
    auto products = measureProducts(device, type, kSidesOfGpu, time, before,
                                    rates.launchLatency);
    rates.products.insert(rates.products.end(), products.begin(),
                          products.end());
  }
  rates.curve = measureCurve(device, time, before, rates.launchLatency,
                             std::max(mostBytes, kLeastBytesOfGpu));
  return rates;
}

} // namespace fcdp::probe
