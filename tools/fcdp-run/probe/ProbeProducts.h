// SPDX-License-Identifier: Apache-2.0
//
// Measures matrix products on a GPU.
#pragma once

#include "core/Backend.h"
#include "probe/DeviceTimer.h"
#include "probe/ProbedCluster.h"

#include <string>
#include <vector>

namespace fcdp::run {

/// Returns the reason why the device cannot multiply matrices of `type`, in
/// libtorch's words, or an empty string if it can.
std::string whyNoProducts(c10::Device device, DType type);

/// Returns products of growing sizes in operands of `type`: square ones, ones
/// with few rows, columns or summands, and batches. Their times do not include
/// the gap to the next kernel.
std::vector<ProbedProduct> measureProducts(c10::Device device, DType type,
                                           const DeviceTimer &time,
                                           const Work &before, double gap);

} // namespace fcdp::run
