// SPDX-License-Identifier: Apache-2.0
//
// Prepares the options by which a launched process joins its job.
#pragma once

#include "job/Job.h"
#include "job/Launch.h"

#include <optional>
#include <string>

namespace fcdp {

/// Returns the options of the job that `launch` describes, without groups, plan
/// and failure handling. `timeoutSeconds` limits the wait for other ranks.
JobOptions makeJobOptions(const Launch &launch,
                          const std::optional<double> &timeoutSeconds,
                          const std::string &interface);

/// Returns `threads` or, if it is none, the cores of this machine divided by
/// `ranks`.
int threadsPerRank(const std::optional<int> &threads, uint32_t ranks);

/// Returns "the step was compiled for 2 nodes x 2 ranks, but torchrun starts 1
/// node x 4 ranks; ...", or an empty string if the meshes agree.
std::string meshMismatch(const Mesh &compiled, const Mesh &started,
                         const std::string &launcher);

} // namespace fcdp
