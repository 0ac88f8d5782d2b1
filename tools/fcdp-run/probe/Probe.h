// SPDX-License-Identifier: Apache-2.0
//
// Measures the machines, devices and links of a job's ranks.
#pragma once

#include "job/Launch.h"
#include "probe/ProbeOptions.h"

namespace fcdp::run {

/// Joins the job, and measures links, copies and computing on all ranks at
/// once. Rank 0 writes the description. Throws std::runtime_error for errors
/// before the ranks have met. After that, an error ends the process.
void runProbe(const ProbeOptions &options, const Launch &launch);

} // namespace fcdp::run
