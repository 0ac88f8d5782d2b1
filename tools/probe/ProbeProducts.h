// SPDX-License-Identifier: Apache-2.0
//
// Measures matrix products.
#pragma once

#include "core/Backend.h"
#include "probe/DeviceTimer.h"
#include "probe/ProbedCluster.h"
#include "probe/RandomMatrix.h"

#include <string>
#include <vector>

namespace fcdp::probe {

/// Returns the reason why the device cannot multiply matrices of `type`, in
/// libtorch's words, or an empty string if it can.
std::string whyNoProducts(c10::Device device, DType type);

/// The sides of the least and of the largest square, and the ratio of a side to
/// the one before it.
struct ProductSides {
  int64_t least, most, growth;
};
inline constexpr ProductSides kSidesOfGpu{kLeastRowsOfGpu, kMostRowsOfGpu, 2},
    kSidesOfCpu{256, 4096, 4};

/// Returns products of growing sizes in operands of `type`: square ones, ones
/// with few rows, columns or summands, and batches. Their times do not include
/// the gap to the next kernel.
std::vector<ProbedProduct> measureProducts(c10::Device device, DType type,
                                           const ProductSides &sides,
                                           const DeviceTimer &time,
                                           const Work &before, double gap);

} // namespace fcdp::probe
