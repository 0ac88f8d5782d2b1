// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Options.h"
#include "job/FileAgreement.h"

namespace fcdp::run {

/// Returns the facts of the command line that must be equal on all ranks:
/// options that choose what is computed, or which operations ranks do together.
/// Paths may differ.
std::vector<Fact> factsOf(const Options &options);

/// Returns the input files, whose contents must be equal on all ranks. Throws
/// std::runtime_error if a file cannot be read.
std::vector<FileFact> filesOf(const Options &options);

} // namespace fcdp::run
