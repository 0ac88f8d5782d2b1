// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Options.h"
#include "session/FileAgreement.h"

namespace fcdp::run {

/// What of the command line must be the same on all ranks: options that choose
/// what is computed or which operations ranks do together. Paths may differ.
std::vector<Fact> factsOf(const Options &options);

/// The input files, whose contents must be the same on all ranks. Throws
/// std::runtime_error if a file cannot be read.
std::vector<FileFact> filesOf(const Options &options);

} // namespace fcdp::run
