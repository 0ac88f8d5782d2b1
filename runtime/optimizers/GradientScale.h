// SPDX-License-Identifier: Apache-2.0
//
// Scales gradients before the optimizer by 1 / (ranks and micro-batches that
// are summed).
#pragma once

#include <ATen/core/Tensor.h>
#include <optional>

namespace fcdp {

/// Multiplies gradients by a factor, or leaves that to libtorch's fused kernel,
/// which divides gradients when it reads them, and stores them. The kernel is
/// used if both give the same bits: if the factor is a power of 2 other than 1.
/// Immutable.
class GradientScale {
public:
  /// Prepares for gradients of the type and device of `grad`. `isFused` tells
  /// whether the optimizer's kernel reads them directly.
  GradientScale(double factor, const at::Tensor &grad, bool isFused);

  /// Multiplies `grad` by the factor, unless the kernel does that.
  void apply(at::Tensor &grad) const;
  /// Returns the divisor for the kernel, on the gradients' device, or none.
  const std::optional<at::Tensor> &divisor() const { return inverse; }

private:
  double factor;
  std::optional<at::Tensor> inverse;
};

} // namespace fcdp
