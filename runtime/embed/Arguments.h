// SPDX-License-Identifier: Apache-2.0
//
// Converts the arguments of the interfaces for other languages to those of a
// session.
#pragma once

#include "job/Launch.h"
#include "policy/LossScale.h"
#include "policy/Schedule.h"

#include <string>
#include <vector>

namespace fcdp {

/// Returns the rank that a launcher gave this process, or the only rank of a
/// job if none has started it. Throws SessionError(BadLaunch).
Launch findLaunch();

/// Parse an option. Throw SessionError(Misuse).
Schedule scheduleOf(const std::string &text);
LossScaling lossScalingOf(const std::string &text);

/// Returns the folders of "DIR[,DIR]".
std::vector<std::string> stateFoldersOf(const std::string &text);

} // namespace fcdp
