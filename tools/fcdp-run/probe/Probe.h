// SPDX-License-Identifier: Apache-2.0
//
// Measures what a job's ranks run on.
#pragma once

#include "probe/ProbeOptions.h"
#include "session/Launch.h"

namespace fcdp::run {

/// Joins the job, measures its links, copies and computing with all ranks at
/// once, and has rank 0 write the description. Ends the process on errors,
/// except for those before the other ranks are met: they throw
/// std::runtime_error.
void runProbe(const ProbeOptions &options, const Launch &launch);

} // namespace fcdp::run
