// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operators/StepState.h"

#include <set>

namespace fcdp {

/// Fills the states that begin as copies of this rank's parameters, before the
/// first step. Leaves states of the roles `kept` as they are.
void startStates(StepState &state, const std::set<plan::StateRole> &kept);

} // namespace fcdp
