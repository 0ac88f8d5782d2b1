// SPDX-License-Identifier: Apache-2.0
//
// The options of tools that plan a step.
#pragma once

#include "fcdp/Transforms/PipelineOptions.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Error.h"

#include <deque>

namespace fcdp {

/// The table's options on the command line. To be made before that is parsed.
class StepCommandLine {
public:
  explicit StepCommandLine(llvm::cl::OptionCategory &category);

  /// Reads the options that were given. Errors name the option.
  llvm::Expected<StepOptions> take() const;

private:
  /// One for each row of the table. All are text, as LLVM's parser of numbers
  /// prints its complaints itself.
  std::deque<llvm::cl::list<std::string>> texts;
};

/// Parses as LLVM's tools do, but returns the first complaint as an error. Help
/// shows the options in `category` and `--mlir-timing`. May end the program,
/// after `--help`.
llvm::Error parseCommandLine(int argc, char **argv,
                             llvm::cl::OptionCategory &category,
                             llvm::StringRef overview);

} // namespace fcdp
