// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fcdp/Transforms/Passes.h"
#include "llvm/Support/Error.h"

namespace fcdp {

/// What the user asks fcdp-compile for.
struct CompileOptions {
  std::string input, output;
  PipelineOptions pipeline;
  /// Where constants are read; the archive that the module names if empty.
  std::string archive;
  bool printManifest = false;

  /// Which options were given: a module that is past the phase that an option
  /// acts on must agree with it.
  struct Given {
    bool nodes = false, ranksPerNode = false, microBatches = false,
         strategy = false, accumulate = false, collectives = false,
         layout = false, bucketBytes = false, prefetch = false,
         reductions = false, clipNorm = false, remat = false, optimizer = false;
  } given;
};

/// Reads the command line. May end the program, after `--help`. Errors name
/// the option.
llvm::Expected<CompileOptions> parseCommandLine(int argc, char **argv);

} // namespace fcdp
