// SPDX-License-Identifier: Apache-2.0
//
// Measures by how much a GPU's clocks fall under load, and how devices differ.
#pragma once

#include "probe/DeviceTimer.h"
#include "probe/ProbedCluster.h"

#include <functional>
#include <optional>
#include <vector>

namespace fcdp::run {

/// Returns the seconds that the device of each rank takes for the work. All
/// ranks get the same numbers.
using RankTimer = std::function<std::vector<double>(const Work &)>;

/// Repeats `product` on all ranks for some seconds, and compares its rate at
/// the end with the one that it was measured with. `gap` is the one between two
/// kernels. Works on libtorch's current
/// stream.
SustainedFigures measureSustained(c10::Device device,
                                  const ProbedProduct &product, double gap,
                                  const RankTimer &time);

/// Returns the standard deviation of `seconds` over their mean, as that of a
/// sample, or nothing if they are too few.
std::optional<double> findVariation(const std::vector<double> &seconds);

} // namespace fcdp::run
