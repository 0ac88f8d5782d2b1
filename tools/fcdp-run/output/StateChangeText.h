// SPDX-License-Identifier: Apache-2.0
//
// Describes the differences between the states of a checkpoint and of a step.
#pragma once

#include "state/CheckpointOptions.h"

#include <string>
#include <vector>

namespace fcdp::run {

/// Returns a sentence for each difference. `reducesWithinNodes` is true if
/// nodes train by themselves.
std::vector<std::string> describeChanges(const StateChanges &changes,
                                         bool reducesWithinNodes);

} // namespace fcdp::run
