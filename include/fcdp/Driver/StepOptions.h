// SPDX-License-Identifier: Apache-2.0
//
// The options of tools that plan a step.
#pragma once

#include "fcdp/Transforms/Passes.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Error.h"

#include <memory>

namespace fcdp {

/// How a step is to be planned.
struct StepOptions {
  PipelineOptions pipeline;

  /// Which options were given: a module that is past the phase that an option
  /// acts on must agree with it.
  struct Given {
    bool nodes = false, ranksPerNode = false, microBatches = false,
         strategy = false, accumulate = false, collectives = false,
         layout = false, bucketBytes = false, prefetch = false,
         reductions = false, clipNorm = false, remat = false, optimizer = false;
  } given;
};

/// The options on the command line; made before it is parsed, in `category`.
class StepCommandLine {
public:
  explicit StepCommandLine(llvm::cl::OptionCategory &category);
  ~StepCommandLine();

  /// What was asked for. Errors name the option.
  llvm::Expected<StepOptions> take() const;

  struct Values;

private:
  std::unique_ptr<Values> values;
};

/// Parses as LLVM's tools do, but gives the first complaint as an error. May
/// end the program, after `--help`.
llvm::Error parseCommandLine(int argc, char **argv, llvm::StringRef overview);

} // namespace fcdp
