// SPDX-License-Identifier: Apache-2.0
//
// What a checkpoint and a step do not have in common, as text.
#pragma once

#include "session/CheckpointOptions.h"

#include <string>
#include <vector>

namespace fcdp::run {

/// Returns a sentence for each difference. `hasOuterSteps` is true if the step
/// has them.
std::vector<std::string> describeChanges(const StateChanges &changes,
                                         bool hasOuterSteps);

} // namespace fcdp::run
