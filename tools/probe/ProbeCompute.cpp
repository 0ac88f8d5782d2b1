// SPDX-License-Identifier: Apache-2.0
#include "probe/ProbeCompute.h"

#include "plan/TorchTypes.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_softmax.h>
#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/add.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/softmax.h>
#include <cmath>

namespace fcdp::probe {

namespace {

/// The seconds of a measurement: long enough for clocks, short enough for types
/// without a fast kernel.
constexpr double kEnoughSeconds = 3e-3;
constexpr int64_t kLeastRows = 128, kMostRows = 1024;
/// The bytes of a copy, more than caches hold.
constexpr int64_t kCopiedBytes = 64 << 20;
constexpr int kLaunches = 1000;

SteadyTime over(SteadyTime time, double count) {
  return {time.seconds / count, time.scatter};
}

} // namespace

SteadyTime timeOfFlop(DType type, const SteadyTimer &time) {
  at::NoGradGuard noGrad;
  for (int64_t rows = kLeastRows;;) {
    at::Tensor left = at::ones({rows, rows}, toScalarType(type));
    at::Tensor right = left.clone(), product = left.clone();
    SteadyTime found = time([&] { at::mm_out(product, left, right); });
    if (found.seconds >= kEnoughSeconds || rows >= kMostRows)
      return over(found, 2 * double(rows) * double(rows) * double(rows));
    // Sizes that will not take long enough are left out.
    double expected = found.seconds;
    do {
      rows *= 2;
      expected *= 8;
    } while (expected < kEnoughSeconds && rows < kMostRows);
  }
}

SteadyTime timeOfByte(const SteadyTimer &time) {
  at::NoGradGuard noGrad;
  at::Tensor from = at::ones({kCopiedBytes}, at::kByte), to = from.clone();
  return over(time([&] { to.copy_(from); }), 2 * double(kCopiedBytes));
}

SteadyTime timeOfPointwiseByte(const SteadyTimer &time) {
  at::NoGradGuard noGrad;
  constexpr int64_t rows = 512, columns = 1024;
  at::Tensor x = at::randn({rows, columns}, at::kFloat), weight = x[0].clone();
  auto [normed, mean, deviation] =
      at::native_layer_norm(x, {columns}, weight, weight, 1e-5);
  at::Tensor shares = at::softmax(x, -1);
  // The matrices that each operator below reads and writes.
  constexpr int matrices = 3 + 2 + 3 + 2 + 3 + 2 + 3;
  return over(time([&] {
                at::add(x, normed);
                at::gelu(x);
                at::gelu_backward(x, normed);
                at::_softmax(x, -1, false);
                at::_softmax_backward_data(x, shares, -1, at::kFloat);
                at::native_layer_norm(x, {columns}, weight, weight, 1e-5);
                at::native_layer_norm_backward(x, normed, {columns}, mean,
                                               deviation, weight, weight,
                                               {true, true, true});
              }),
              double(matrices) * double(x.nbytes()));
}

SteadyTime timeOfLaunch(const SteadyTimer &time) {
  at::NoGradGuard noGrad;
  at::Tensor one = at::ones({4}, at::kFloat), sum = one.clone();
  return over(time([&] {
                for (int i = 0; i < kLaunches; ++i)
                  at::add_out(sum, one, one);
              }),
              kLaunches);
}

} // namespace fcdp::probe
