// SPDX-License-Identifier: Apache-2.0
//
// Makes the operands of products on a GPU.
#pragma once

#include "core/Backend.h"

#include <ATen/core/Tensor.h>

namespace fcdp::probe {

inline constexpr int64_t kLeastRowsOfGpu = 128, kMostRowsOfGpu = 8192;

/// Returns a matrix of normal values. Products of zeros or ones need less
/// power, and so are faster.
at::Tensor makeRandomMatrix(c10::Device device, DType type, int64_t rows,
                            int64_t columns);

} // namespace fcdp::probe
