// SPDX-License-Identifier: Apache-2.0
//
// Repeats a measurement until its samples agree, as other programs may use the
// machine meanwhile.
#pragma once

#include <functional>

namespace fcdp::run {

struct SteadyTime {
  double seconds = 0; ///< the median of the samples
  /// The standard deviation of the samples relative to the median, by the
  /// median of their distances from it.
  double scatter = 0;
};

/// Returns the time of which `sample` takes samples, in seconds. Long samples
/// are taken three times, others at least five times, and more often while they
/// scatter. All ranks stop together if `sample` returns the same on all.
SteadyTime takeSteady(const std::function<double()> &sample);

} // namespace fcdp::run
