// SPDX-License-Identifier: Apache-2.0
//
// What the interfaces for other languages have in common: arguments of theirs
// become those of a session.
#pragma once

#include "session/Launch.h"
#include "session/LossScale.h"
#include "session/Schedule.h"

#include <string>

namespace fcdp {

/// Returns the rank that a launcher gave this process, or the only rank of a
/// job if none has started it. Throws SessionError(BadLaunch).
Launch findLaunch();

/// Throws SessionError(Misuse).
Schedule scheduleOf(const std::string &text);
LossScaling lossScalingOf(const std::string &text);

} // namespace fcdp
