// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fcdp/Driver/StepOptions.h"
#include "fcdp/Report/Sweep.h"

#include <vector>

namespace fcdp {

/// The command line of fcdp-sim.
struct SimulateOptions {
  /// The steps, and the strategies to plan each of them with; neither is empty.
  std::vector<std::string> inputs, strategies;
  StepOptions step;
  bool json = false;
  /// The file for the trace of the only step; none if empty.
  std::string trace;
  /// A trace of fcdp-run to show beside the one step; none if empty.
  std::string measured;
  /// The file for the page about all steps; none if empty.
  std::string report;
  /// Sweeps, each over a different key. One simulation if empty.
  std::vector<SweepAxis> sweep;
  /// Whether to print which inputs fit, for each setting of options in `sweep`.
  bool fit = false;
};

/// Reads the command line. May end the program, after `--help`. Errors name
/// the option.
llvm::Expected<SimulateOptions> parseCommandLine(int argc, char **argv);

} // namespace fcdp
