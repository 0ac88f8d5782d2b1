// SPDX-License-Identifier: Apache-2.0
//
// The factor of the gradients in front of the optimizer: 1 / (ranks and
// micro-batches that are summed).
#pragma once

#include <ATen/core/Tensor.h>
#include <optional>

namespace fcdp {

/// Multiplies gradients by a factor, or leaves that to libtorch's fused kernel,
/// which divides them as it reads them and stores them. The kernel is used if
/// both give the same bits: if the factor is a power of 2, and not 1.
/// Immutable.
class GradientScale {
public:
  /// Prepares for gradients of the type and device of `grad`. `isFused` says
  /// whether the optimizer's kernel reads them as they are.
  GradientScale(double factor, const at::Tensor &grad, bool isFused);

  /// Multiplies `grad` by the factor, unless the kernel does that.
  void apply(at::Tensor &grad) const;
  /// Returns the number by which the kernel must divide, on the gradients'
  /// device, or nothing.
  const std::optional<at::Tensor> &divisor() const { return inverse; }

private:
  double factor;
  std::optional<at::Tensor> inverse;
};

} // namespace fcdp
