// SPDX-License-Identifier: Apache-2.0
//
// Measures how far a GPU's clocks fall under load, and how much devices differ.
#pragma once

#include "probe/DeviceTimer.h"
#include "probe/ProbedCluster.h"

#include <functional>
#include <optional>
#include <vector>

namespace fcdp::probe {

/// Returns the seconds of the work on the device of each rank. All ranks get
/// the same numbers.
using RankTimer = std::function<std::vector<double>(const Work &)>;

/// Repeats `product` on all ranks for some seconds, and compares its rate at
/// the end with its measured rate. `gap` is the gap between two kernels. Works
/// on libtorch's current stream.
SustainedFigures measureSustained(c10::Device device,
                                  const ProbedProduct &product, double gap,
                                  const RankTimer &time);

/// Returns the sample standard deviation of `seconds` over their mean, or none
/// if they are too few.
std::optional<double> findVariation(const std::vector<double> &seconds);

} // namespace fcdp::probe
