// SPDX-License-Identifier: Apache-2.0
#include "probe/ProbeCompute.h"

#include "core/StepRecorder.h"
#include "operators/TorchTypes.h"
#include "profile/OverRanks.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>

namespace fcdp::run {

namespace {

constexpr int kTimedProducts = 5;
/// Long enough for clocks, short enough for types that have no fast kernel.
constexpr double kEnoughSeconds = 0.02;
constexpr int64_t kLeastRows = 128, kMostRows = 1024;
/// More than caches hold.
constexpr int64_t kCopiedBytes = 64 << 20;
constexpr int kLaunches = 1000;

/// The median of some runs, after one that is not counted.
template <typename Work>
double timeOf(Work work) {
  work();
  std::vector<double> seconds;
  for (int i = 0; i < kTimedProducts; ++i) {
    double begin = readClock();
    work();
    seconds.push_back(readClock() - begin);
  }
  return medianOf(seconds);
}

} // namespace

double secondsPerFlop(DType type) {
  at::NoGradGuard noGrad;
  for (int64_t rows = kLeastRows;; rows *= 2) {
    at::Tensor left = at::ones({rows, rows}, toScalarType(type));
    at::Tensor right = left.clone(), product = left.clone();
    double seconds = timeOf([&] { at::mm_out(product, left, right); });
    if (seconds >= kEnoughSeconds || rows >= kMostRows)
      return seconds / (2 * double(rows) * double(rows) * double(rows));
  }
}

double secondsPerByte() {
  at::NoGradGuard noGrad;
  at::Tensor from = at::ones({kCopiedBytes}, at::kByte), to = from.clone();
  return timeOf([&] { to.copy_(from); }) / (2 * double(kCopiedBytes));
}

double secondsPerLaunch() {
  at::NoGradGuard noGrad;
  at::Tensor one = at::ones({4}, at::kFloat), sum = one.clone();
  return timeOf([&] {
           for (int i = 0; i < kLaunches; ++i)
             at::add_out(sum, one, one);
         }) /
         kLaunches;
}

} // namespace fcdp::run
