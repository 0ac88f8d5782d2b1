// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fcdp/Driver/StepOptions.h"
#include "fcdp/Report/Sweep.h"

#include <vector>

namespace fcdp {

/// What the user asks fcdp-sim for.
struct SimulateOptions {
  /// Steps, and the strategies to plan each with; neither is empty.
  std::vector<std::string> inputs, strategies;
  StepOptions step;
  bool json = false;
  /// Where the one step's trace is written; nowhere if empty.
  std::string trace;
  /// A trace of fcdp-run's, to show beside the one step; none if empty.
  std::string measured;
  /// Where the page about all of them is written; nowhere if empty.
  std::string report;
  /// Of other keys each; one simulation if empty.
  std::vector<SweepAxis> sweep;
};

/// Reads the command line. May end the program, after `--help`. Errors name
/// the option.
llvm::Expected<SimulateOptions> parseCommandLine(int argc, char **argv);

} // namespace fcdp
