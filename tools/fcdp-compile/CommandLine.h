// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fcdp/Driver/StepOptions.h"

namespace fcdp {

/// What the user asks fcdp-compile for.
struct CompileOptions {
  std::string input, output;
  StepOptions step;
  /// Where constants are read; the archive that the module names if empty.
  std::string archive;
  /// Print the plan as JSON instead of a summary.
  bool printPlan = false;
  /// Whether passes say what they decided.
  bool remarks = false;
};

/// Reads the command line. May end the program, after `--help`. Errors name
/// the option.
llvm::Expected<CompileOptions> parseCommandLine(int argc, char **argv);

} // namespace fcdp
