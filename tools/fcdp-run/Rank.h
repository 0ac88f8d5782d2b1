// SPDX-License-Identifier: Apache-2.0
//
// One rank's run, from joining the job to its last step.
#pragma once

#include "Options.h"
#include "session/Launch.h"

#include <memory>

namespace fcdp {
class StepObject;
}

namespace fcdp::run {

/// Runs to the end and returns the exit code, which is not 0 if a signal has
/// ended the run early; or ends the process with a message. Throws
/// std::runtime_error for errors that occur before the ranks have met.
int runRank(const Options &options,
            const std::shared_ptr<const StepObject> &object,
            const Launch &launch);

} // namespace fcdp::run
