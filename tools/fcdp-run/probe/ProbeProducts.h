// SPDX-License-Identifier: Apache-2.0
//
// Measures matrix products on a GPU.
#pragma once

#include "core/Backend.h"
#include "probe/DeviceTimer.h"
#include "probe/ProbedCluster.h"

#include <ATen/core/Tensor.h>
#include <vector>

namespace fcdp::run {

inline constexpr int64_t kLeastRowsOfGpu = 128, kMostRowsOfGpu = 8192;

/// Returns a matrix of normal values. Products of zeros or ones take less
/// power, and so are faster.
at::Tensor makeRandomMatrix(c10::Device device, DType type, int64_t rows,
                            int64_t columns);

/// Returns products of growing sizes in operands of `type`.
std::vector<ProbedProduct> measureProducts(c10::Device device, DType type,
                                           const DeviceTimer &time,
                                           const Work &before);

} // namespace fcdp::run
