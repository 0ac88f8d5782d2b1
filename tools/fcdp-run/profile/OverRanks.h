// SPDX-License-Identifier: Apache-2.0
//
// One number of what all ranks have measured.
#pragma once

#include "core/Backend.h"
#include "core/Mesh.h"

#include <optional>
#include <vector>

namespace fcdp::run {

/// Seconds that an operation takes, of those that each rank has measured, in
/// the order of world ranks. `axis`: along which it is a collective, if it is
/// one. A rank that comes early to a collective waits for the others, so that
/// what the last of a group takes is the transfer; groups that share a node's
/// links are done when the last of them is. What a rank does alone takes as
/// long as it does in the mean.
double secondsOverRanks(const Mesh &mesh, std::optional<Axis> axis,
                        const std::vector<double> &ofRanks);

/// Pre: `values` is not empty.
double medianOf(std::vector<double> values);

} // namespace fcdp::run
