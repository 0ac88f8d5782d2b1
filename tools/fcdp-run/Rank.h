// SPDX-License-Identifier: Apache-2.0
//
// Runs one rank, from joining the job to its last step.
#pragma once

#include "Options.h"
#include "job/Launch.h"

#include <memory>

namespace fcdp {
class StepObject;
}

namespace fcdp::run {

/// Runs to the end and returns the exit code, which is not 0 if a signal has
/// ended the run early. After an error it prints a message and ends the
/// process. Throws std::runtime_error for errors before the ranks have met.
int runRank(const Options &options,
            const std::shared_ptr<const StepObject> &object,
            const Launch &launch);

} // namespace fcdp::run
