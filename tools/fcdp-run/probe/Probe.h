// SPDX-License-Identifier: Apache-2.0
//
// Measures what a job's ranks run on.
#pragma once

#include "Options.h"
#include "session/Launch.h"

namespace fcdp::run {

/// Joins the job, measures its links, copies and computing with all ranks at
/// once, and has rank 0 write the description for which --probe-cluster was
/// given. Ends the process on errors, except for those before the other ranks
/// are met: they throw std::runtime_error.
void runProbe(const Options &options, const Launch &launch);

} // namespace fcdp::run
