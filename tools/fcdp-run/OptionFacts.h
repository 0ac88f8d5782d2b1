// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Options.h"
#include "session/Agreement.h"

namespace fcdp::run {

/// What of the command line must be the same on all ranks: options that choose
/// what is computed or which operations ranks do together, and the contents of
/// input files. Paths may differ. Throws std::runtime_error if a file cannot be
/// read.
std::vector<Fact> factsOf(const Options &options);

} // namespace fcdp::run
