// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Driver/StepOptions.h"

#include "fcdp/Transforms/Options/Strategy.h"
#include "mlir/Support/Timing.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Path.h"

using namespace fcdp;
namespace cl = llvm::cl;

/// Returns a line of LLVM's parser without the program's name in front of it.
static llvm::StringRef withoutProgram(llvm::StringRef line,
                                      llvm::StringRef program) {
  line.consume_front(llvm::sys::path::filename(program));
  line.consume_front(":");
  return line.trim();
}

llvm::Error fcdp::parseCommandLine(int argc, char **argv,
                                   cl::OptionCategory &category,
                                   llvm::StringRef overview) {
  mlir::registerDefaultTimingManagerCLOptions();
  cl::getRegisteredOptions().lookup("mlir-timing")->addCategory(category);
  cl::HideUnrelatedOptions(category);
  std::string message;
  llvm::raw_string_ostream stream(message);
  if (cl::ParseCommandLineOptions(argc, argv, overview, &stream))
    return llvm::Error::success();
  // For some errors (a missing value) the parser returns no message.
  auto [line, rest] = llvm::StringRef(message).trim().split('\n');
  std::string text = withoutProgram(line, argv[0]).str();
  llvm::StringRef suggestion = withoutProgram(rest.split('\n').first, argv[0]);
  if (suggestion.consume_front("Did you mean"))
    text = llvm::StringRef(text).split(".  Try:").first.str() +
           "; did you mean" + suggestion.str() + " See --help";
  return llvm::createStringError(
      text.empty() ? "cannot read the command line; see --help" : text);
}

StepCommandLine::StepCommandLine(cl::OptionCategory &category) {
  for (const PipelineOption &option : getPipelineOptions())
    texts.emplace_back(option.name, cl::desc(option.help),
                       cl::value_desc(option.placeholder), cl::cat(category));
}

/// Checks that a cluster is given if another option needs one.
static llvm::Error checkCluster(const StepOptions &options) {
  if (options.isGiven(option::ClusterFile))
    return llvm::Error::success();
  if (options.isGiven(option::ProfileFile))
    return llvm::createStringError(
        "--profile: expected a cluster, which describes what was not measured; "
        "give one with --cluster");
  llvm::StringRef choice = findChoiceForCluster(options.pipeline);
  if (!choice.empty())
    return llvm::createStringError(
        "--" + choice + "=auto chooses for a cluster; give one with --cluster");
  return llvm::Error::success();
}

llvm::Expected<StepOptions> StepCommandLine::take() const {
  std::string joined;
  llvm::Expected<StepOptions> options = readStepOptions(
      [&](const PipelineOption &option) -> std::optional<llvm::StringRef> {
        const cl::list<std::string> &given = texts[option.id];
        if (given.empty())
          return std::nullopt;
        if (!option.isRepeatable)
          return llvm::StringRef(given[given.size() - 1]);
        joined = llvm::join(given, ";");
        return joined;
      });
  if (!options)
    return llvm::createStringError("--" + toString(options.takeError()));
  if (llvm::Error error = checkCluster(*options))
    return std::move(error);
  return options;
}
