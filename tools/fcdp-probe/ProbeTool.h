// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace fcdp::run {

/// Runs the command line of fcdp-probe, as one rank of a job or as the launcher
/// of all ranks, and returns its exit code. Prints errors.
int runProbeTool(int argc, char **argv);

} // namespace fcdp::run
