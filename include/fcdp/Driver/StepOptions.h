// SPDX-License-Identifier: Apache-2.0
//
// The options of tools that plan a step.
#pragma once

#include "fcdp/Transforms/PipelineOptions.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Error.h"

#include <deque>

namespace fcdp {

/// The table's options on the command line. It must be constructed before the
/// command line is parsed.
class StepCommandLine {
public:
  explicit StepCommandLine(llvm::cl::OptionCategory &category);

  /// Reads the options that were given. Errors name the option.
  llvm::Expected<StepOptions> take() const;

private:
  /// One list for each row of the table. All are text, because LLVM's number
  /// parsers print errors themselves.
  std::deque<llvm::cl::list<std::string>> texts;
};

/// Parses the command line as LLVM's tools do, but returns the first problem as
/// an error. Help shows the options in `category` and `--mlir-timing`. After
/// `--help` it may end the program.
llvm::Error parseCommandLine(int argc, char **argv,
                             llvm::cl::OptionCategory &category,
                             llvm::StringRef overview);

} // namespace fcdp
