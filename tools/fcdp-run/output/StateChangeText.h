// SPDX-License-Identifier: Apache-2.0
//
// Describes the differences between the states of a checkpoint and of a step.
#pragma once

#include "state/CheckpointOptions.h"

#include <string>
#include <vector>

namespace fcdp::run {

/// Returns a sentence for each difference. `hasOuterSteps` is true if the step
/// has outer steps.
std::vector<std::string> describeChanges(const StateChanges &changes,
                                         bool hasOuterSteps);

} // namespace fcdp::run
