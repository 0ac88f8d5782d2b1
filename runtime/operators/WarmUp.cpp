// SPDX-License-Identifier: Apache-2.0
#include "operators/WarmUp.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>

namespace fcdp {

/// A size that cuBLASLt accepts for all types.
constexpr int64_t kSide = 16;

void warmUpProducts(c10::Device device) {
  at::TensorOptions options = at::TensorOptions(at::kFloat).device(device);
  at::Tensor matrix = at::zeros({kSide, kSide}, options);
  at::mm(matrix, matrix);
  // A product with a one-dimensional bias uses cuBLASLt.
  at::addmm(at::zeros({kSide}, options), matrix, matrix);
}

} // namespace fcdp
