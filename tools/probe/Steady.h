// SPDX-License-Identifier: Apache-2.0
//
// Repeats a measurement until its samples agree, since other programs may use
// the machine at the same time.
#pragma once

#include <cstddef>
#include <functional>

namespace fcdp::probe {

struct SteadyTime {
  double seconds = 0; ///< the median of the samples
  /// The standard deviation of the samples relative to the median, by the
  /// median of their distances from it.
  double scatter = 0;
};

/// The first transfers over a link may be slow. The median of five samples
/// leaves out two of them.
constexpr size_t kLeastSamples = 5, kMostSamples = 15;

/// Returns the time that `sample` measures, in seconds. It is taken `least`
/// times, and up to `most` times while the samples are short and scatter.
/// If `sample` returns the same on all ranks, all ranks stop together.
SteadyTime takeSteady(const std::function<double()> &sample,
                      size_t least = kLeastSamples, size_t most = kMostSamples);

} // namespace fcdp::probe
