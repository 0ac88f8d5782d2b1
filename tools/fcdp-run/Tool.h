// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace fcdp::run {

/// Runs the command line of fcdp-run, as one rank of a job or as the launcher
/// of all ranks, and returns its exit code. Prints errors. Ranks that it starts
/// do not return.
int runTool(int argc, char **argv);

} // namespace fcdp::run
