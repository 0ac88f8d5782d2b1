// SPDX-License-Identifier: Apache-2.0
//
// Adafactor (arXiv 1804.04235) of one parameter, as torch.optim.Adafactor.
#pragma once

#include "plan/StepPlan.h"

#include <ATen/core/Tensor.h>

namespace fcdp {

/// A parameter and its states, each contiguous and of one dimension.
struct AdafactorPart {
  at::Tensor parameter;
  /// In the parameter's type.
  at::Tensor grad;
  /// As many elements in f32, which the update of a parameter in f16 or bf16
  /// overwrites.
  at::Tensor memory;
  /// The last two dimensions; 0 if it has fewer, and is not factored.
  int64_t rows = 0, columns = 0;
  /// Means of the squared gradient over the last dimension and the one before,
  /// if it is factored.
  at::Tensor rowVar, colVar;
  /// Otherwise the mean of each element's.
  at::Tensor variance;
  double weightDecay = 0;
};

/// The bytes of scratch memory for a parameter.
int64_t adafactorBytes(const plan::ParameterT &parameter);

/// Makes update `step`, from 1 on, at the learning rate `rate`. Computes in
/// f32, or f64 for a parameter in f64, and rounds each result once. Reads
/// nothing on the host.
void updateAdafactor(const AdafactorPart &part,
                     const plan::AdafactorT &settings, double rate,
                     int64_t step, const at::Tensor &scratch);

} // namespace fcdp
