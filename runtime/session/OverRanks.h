// SPDX-License-Identifier: Apache-2.0
//
// Combines the measurements of all ranks in one number.
#pragma once

#include "core/Backend.h"
#include "core/Mesh.h"

#include <optional>
#include <vector>

namespace fcdp {

/// Returns the duration of an operation in seconds, from the durations that
/// ranks have measured, in the order of world ranks. `axis` is the axis of a
/// collective. A rank that is early at a collective waits for the others, so
/// the shortest time of a group is the transfer; among groups that share a
/// node's links, the longest counts. For other operations the result is the
/// mean.
double secondsOverRanks(const Mesh &mesh, std::optional<AxisId> axis,
                        const std::vector<double> &ofRanks);

/// Returns the median. Pre: `values` is not empty.
double medianOf(std::vector<double> values);

} // namespace fcdp
