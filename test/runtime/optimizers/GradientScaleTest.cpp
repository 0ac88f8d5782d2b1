// SPDX-License-Identifier: Apache-2.0
//
// Compares updates whose gradients the fused kernel scales with updates that
// follow a multiplication, bit by bit.

#include "optimizers/GradientScale.h"

#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>
#include <limits>

using namespace fcdp;

namespace {

/// An odd number, so that some elements follow the last whole vector.
constexpr int64_t elements = 1001;

/// The tensors of an update, among whose gradients are denormals, an infinity
/// and a NaN.
struct Update {
  at::Tensor parameter = at::randn({elements}), grad = at::randn({elements}),
             first = at::randn({elements}), second = at::rand({elements}),
             step = at::full({}, 3.0f);

  Update() {
    grad.narrow(0, 10, 50).mul_(1e-39);
    grad.narrow(0, 70, 1).fill_(std::numeric_limits<float>::infinity());
    grad.narrow(0, 80, 1).fill_(std::numeric_limits<float>::quiet_NaN());
  }
  Update copy() const {
    Update other = *this;
    for (at::Tensor *tensor : {&other.parameter, &other.grad, &other.first,
                               &other.second, &other.step})
      *tensor = tensor->clone();
    return other;
  }
  void run(bool isAdamW, const std::optional<at::Tensor> &divisor) {
    if (isAdamW)
      at::_fused_adamw_({parameter}, {grad}, {first}, {second}, {}, {step},
                        0.01, 0.9, 0.999, 0.1, 1e-8, /*amsgrad=*/false,
                        /*maximize=*/false, divisor);
    else
      at::_fused_sgd_({parameter}, {grad}, {first}, 0.1, 0.9, 0.01, 0.1,
                      /*nesterov=*/true, /*maximize=*/false,
                      /*is_first_step=*/false, divisor);
  }
};

bool haveSameBits(const at::Tensor &one, const at::Tensor &other) {
  return one.view(at::kInt).equal(other.view(at::kInt));
}

} // namespace

TEST(GradientScale, TheKernelHasTheBitsOfAMultiplication) {
  at::manual_seed(1);
  for (double factor : {1.0, 0.5, 1 / 64.0, 1 / 3.0, 1 / 12.0})
    for (bool isAdamW : {false, true}) {
      Update given, got = given.copy(), want = given.copy();
      GradientScale scale(factor, given.grad, /*isFused=*/true);
      scale.apply(got.grad);
      got.run(isAdamW, scale.divisor());
      want.grad.mul_(factor);
      want.run(isAdamW, std::nullopt);
      EXPECT_TRUE(haveSameBits(got.parameter, want.parameter)) << factor;
      EXPECT_TRUE(haveSameBits(got.first, want.first)) << factor;
      EXPECT_TRUE(haveSameBits(got.second, want.second)) << factor;
      EXPECT_TRUE(haveSameBits(got.grad, want.grad)) << factor;
      EXPECT_FALSE(haveSameBits(got.parameter, given.parameter)) << factor;
    }
}

TEST(GradientScale, GradientsAreMultipliedOnlyIfTheKernelDoesNotDivide) {
  at::Tensor given = at::randn({elements});
  auto divides = [&](double factor, bool isFused) {
    at::Tensor grad = given.clone();
    GradientScale scale(factor, grad, isFused);
    scale.apply(grad);
    bool isLeft = haveSameBits(grad, given);
    EXPECT_EQ(isLeft, factor == 1 || scale.divisor()) << factor;
    return scale.divisor().has_value();
  };
  EXPECT_TRUE(divides(0.125, true));
  EXPECT_FALSE(divides(0.125, false));
  EXPECT_FALSE(divides(1 / 3.0, true));
  EXPECT_FALSE(divides(1, true));
}
