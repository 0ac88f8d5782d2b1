// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fcdp/Transforms/Passes.h"
#include "llvm/Support/Error.h"

#include <optional>

namespace fcdp {

/// What the user asks fcdp-compile for.
struct CompileOptions {
  std::string input, output;
  PipelineOptions pipeline;
  /// Where constants are read; the archive that the module names if empty.
  std::string archive;
  bool printManifest = false;

  /// What was given on the command line: a module that is past the phase that
  /// an option acts on must agree with it.
  std::optional<int64_t> nodes, ranksPerNode, microBatches;
  std::optional<std::string> strategy, optimizer;
};

/// Reads the command line. May end the program, after `--help`. Errors name
/// the option.
llvm::Expected<CompileOptions> parseCommandLine(int argc, char **argv);

} // namespace fcdp
