// SPDX-License-Identifier: Apache-2.0
#include "optimizers/GradientScale.h"

#include <ATen/ops/full.h>
#include <cmath>

namespace fcdp {

static bool isPowerOfTwo(double factor) {
  int exponent = 0;
  return std::frexp(factor, &exponent) == 0.5;
}

GradientScale::GradientScale(double factor, const at::Tensor &grad,
                             bool isFused)
    : factor(factor) {
  if (isFused && factor != 1 && isPowerOfTwo(factor))
    inverse = at::full({}, 1 / factor, grad.options().dtype(at::kFloat));
}

void GradientScale::apply(at::Tensor &grad) const {
  if (!inverse && factor != 1)
    grad.mul_(factor);
}

} // namespace fcdp
