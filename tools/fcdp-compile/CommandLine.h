// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fcdp/Driver/StepOptions.h"

namespace fcdp {

/// The text that is printed to the standard output.
enum class EmitKind { summary, planJson, kernels };

/// The command line of fcdp-compile.
struct CompileOptions {
  std::string input, output;
  /// The archives of further shapes of the step, from smaller to greater ones,
  /// or steps as text.
  std::vector<std::string> variants;
  StepOptions step;
  /// The archive to read constants from; if empty, the one that the module
  /// names.
  std::string archive;
  /// The archive of the evaluation, or a step as text; empty if there is none.
  std::string evaluation;
  EmitKind emit = EmitKind::summary;
  /// Whether remarks are printed.
  bool remarks = false;
};

/// Reads the command line. May end the program, after `--help`. Errors name
/// the option.
llvm::Expected<CompileOptions> parseCommandLine(int argc, char **argv);

} // namespace fcdp
