// SPDX-License-Identifier: Apache-2.0
//
// One rank's run, from joining the job to its last step.
#pragma once

#include "Options.h"
#include "session/Launch.h"

namespace fcdp {
class StepObject;
}

namespace fcdp::run {

/// Runs to the end and returns, or ends the process with a message. Throws
/// std::runtime_error for what goes wrong before the other ranks are met.
void runRank(const Options &options, const StepObject &object,
             const Launch &launch);

/// "the step was compiled for 2 nodes x 2 ranks, torchrun started 1 x 4", or
/// empty if they agree.
std::string meshMismatch(const Mesh &compiled, const Mesh &started,
                         const std::string &launcher);

} // namespace fcdp::run
