// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace fcdp::run {

/// Does what the command line of fcdp-run asks for, as one rank of a job or as
/// the launcher of all of them, and returns its exit code. Prints errors. Ranks
/// that it starts do not return.
int runTool(int argc, char **argv);

} // namespace fcdp::run
