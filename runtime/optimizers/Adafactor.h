// SPDX-License-Identifier: Apache-2.0
//
// Implements Adafactor (arXiv 1804.04235) for one parameter, as
// torch.optim.Adafactor does.
#pragma once

#include "plan/StepPlan.h"

#include <ATen/core/Tensor.h>

namespace fcdp {

/// A parameter and its states, each contiguous and of one dimension.
struct AdafactorPart {
  at::Tensor parameter;
  /// In the parameter's type.
  at::Tensor grad;
  /// Scratch memory of as many f32 elements. The update of a parameter in f16
  /// or bf16 overwrites it.
  at::Tensor memory;
  /// The last two dimensions; 0 if the parameter has fewer, and is not
  /// factored.
  int64_t rows = 0, columns = 0;
  /// Means of the squared gradient over the last dimension and over the one
  /// before it; only if the parameter is factored.
  at::Tensor rowVar, colVar;
  /// The mean of each element's squared gradient; only if the parameter is not
  /// factored.
  at::Tensor variance;
  double weightDecay = 0;
};

/// Returns the bytes of scratch memory for a parameter.
int64_t adafactorBytes(const plan::ParameterT &parameter);

/// Makes update number `step`, counted from 1, at the learning rate `rate`.
/// Computes in f32, or f64 for a parameter in f64, and rounds each result once.
/// Does not copy values to the host.
void updateAdafactor(const AdafactorPart &part,
                     const plan::AdafactorT &settings, double rate,
                     int64_t step, const at::Tensor &scratch);

} // namespace fcdp
