// SPDX-License-Identifier: Apache-2.0
//
// How a rank joins its job, and leaves it when something is wrong.
#pragma once

#include "Options.h"
#include "collectives/Job.h"
#include "launch/Failure.h"
#include "session/Launch.h"

namespace fcdp::run {

/// What does not depend on what is run. `failureExit` must outlive the job.
JobOptions makeJobOptions(const Options &options, const Launch &launch,
                          FailureExit &failureExit);

/// Threads of a rank, where so many are on its machine.
int threadsPerRank(const Options &options, uint32_t ranks);

/// The temporary files that `rank` may have made.
std::vector<std::string> temporaryFiles(const Options &options, uint32_t rank);

/// Ends this rank for an error that another one may have caused.
[[noreturn]] void failTransfer(Job &job, FailureExit &failureExit,
                               const std::string &message);

} // namespace fcdp::run
