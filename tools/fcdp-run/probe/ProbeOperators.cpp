// SPDX-License-Identifier: Apache-2.0
#include "probe/ProbeOperators.h"

#include "core/StepRecorder.h"
#include "operators/TorchTypes.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <algorithm>
#include <cmath>

namespace fcdp::run {

namespace {

constexpr int64_t kLeastRowsOfGpu = 128, kMostRowsOfGpu = 8192;
/// No larger product is tried of one that takes longer.
constexpr double kLongProduct = 5e-3;
/// A product of few rows, as a small micro-batch has.
constexpr int64_t kThinness = 16;
constexpr size_t kLeastBytesOfGpu = 1 << 16, kGrowthOfBytes = 4;
/// Kernels between two marks, so that a mark's own time does not count.
constexpr int kInRow = 20;
constexpr int kLaunchesOfGpu = 100, kIssues = 200;
/// The device has so much work in front of what is measured that the host is
/// ahead of it all the time.
constexpr double kBacklogSeconds = 4e-3;
/// The least time of a kernel that counts, as a share of one with the gap.
constexpr double kLeastShare = 0.05;

at::Tensor makeRandom(int64_t rows, int64_t columns,
                      at::TensorOptions options) {
  // Products of zeros or ones take less power, and so are faster.
  return at::empty({rows, columns}, options).normal_();
}

/// Returns the seconds of one of `count` runs of `work`.
double timeEach(const DeviceTimer &time, const Work &before, int count,
                const Work &work) {
  work();
  return time(before,
              [&] {
                for (int i = 0; i < count; ++i)
                  work();
              }) /
         count;
}

} // namespace

static ProbedProduct measureProduct(c10::Device device, DType type, int64_t m,
                                    int64_t side, const DeviceTimer &time,
                                    const Work &before) {
  auto options = at::TensorOptions(toScalarType(type)).device(device);
  at::Tensor left = makeRandom(m, side, options),
             right = makeRandom(side, side, options),
             out = at::empty({m, side}, options);
  double seconds =
      timeEach(time, before, 2, [&] { at::mm_out(out, left, right); });
  return {type, m, side, side,
          2.0 * double(m) * double(side) * double(side) / seconds};
}

/// Returns work of `kBacklogSeconds`.
static Work makeBacklog(c10::Device device, const DeviceTimer &time) {
  for (int64_t rows = kLeastRowsOfGpu;; rows *= 2) {
    auto options = at::TensorOptions(at::kFloat).device(device);
    at::Tensor left = makeRandom(rows, rows, options),
               out = at::empty_like(left);
    Work work = [=]() mutable { at::mm_out(out, left, left); };
    double seconds = timeEach(time, [] {}, 2, work);
    if (seconds < kBacklogSeconds / 4 && rows < kMostRowsOfGpu)
      continue;
    auto count = int(std::ceil(kBacklogSeconds / std::max(seconds, 1e-6)));
    return [=] {
      for (int i = 0; i < count; ++i)
        work();
    };
  }
}

static std::vector<ProbedProduct> measureProducts(c10::Device device,
                                                  DType type,
                                                  const DeviceTimer &time,
                                                  const Work &before) {
  std::vector<ProbedProduct> products;
  for (int64_t rows = kLeastRowsOfGpu; rows <= kMostRowsOfGpu; rows *= 2) {
    products.push_back(
        measureProduct(device, type, rows / kThinness, rows, time, before));
    products.push_back(measureProduct(device, type, rows, rows, time, before));
    if (products.back().seconds() > kLongProduct)
      break;
  }
  return products;
}

/// Returns the rate of copies by the bytes that they access, less the gap.
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
    curve.push_back(
        {double(bytes),
         double(bytes) / std::max(seconds - gap, kLeastShare * seconds)});
  }
  return curve;
}

OperatorRates measureOperators(c10::Device device, const DeviceTimer &time,
                               size_t mostBytes) {
  at::NoGradGuard noGrad;
  OperatorRates rates;
  Work before = makeBacklog(device, time);
  auto options = at::TensorOptions(at::kFloat).device(device);
  at::Tensor one = at::ones({4}, options), sum = at::empty_like(one);
  rates.launchLatency = timeEach(time, before, kLaunchesOfGpu,
                                 [&] { at::add_out(sum, one, one); });
  for (DType type : {DType::F64, DType::F32, DType::BF16, DType::F16}) {
    auto products = measureProducts(device, type, time, before);
    rates.products.insert(rates.products.end(), products.begin(),
                          products.end());
  }
  rates.curve = measureCurve(device, time, before, rates.launchLatency,
                             std::max(mostBytes, kLeastBytesOfGpu));
  return rates;
}

double secondsToIssue(int count, const Work &call, const Work &finish) {
  call();
  finish();
  double begin = readClock();
  for (int i = 0; i < count; ++i)
    call();
  double seconds = (readClock() - begin) / count;
  finish();
  return seconds;
}

IssueRates measureIssue(c10::Device device, const Work &finish) {
  at::NoGradGuard noGrad;
  auto options = at::TensorOptions(at::kFloat).device(device);
  at::Tensor one = at::ones({4}, options), sum = at::empty_like(one);
  IssueRates rates;
  rates.op =
      secondsToIssue(kIssues, [&] { at::add_out(sum, one, one); }, finish);
  rates.view = secondsToIssue(kIssues, [&] { one.view({2, 2}); }, finish);
  return rates;
}

} // namespace fcdp::run
