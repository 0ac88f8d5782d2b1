// SPDX-License-Identifier: Apache-2.0

#include "CommandLine.h"

#include "fcdp/Transforms/Strategy.h"

using namespace fcdp;
namespace cl = llvm::cl;

static constexpr char kOverview[] =
    R"(predicts how a training step runs on a described cluster

IN is an archive that fcdp.export wrote (.pt2), or a step as MLIR text at any
phase. It is planned as fcdp-compile plans it and run as discrete events:
streams that share links. Nothing is executed and no weights are read.
docs/simulator.md says what each number means.

Example:
  fcdp-sim step.pt2 --cluster=h100 --compare=zero3,fcdp
)";

namespace {
/// The options, made when the command line is parsed.
struct CommandLine {
  cl::OptionCategory category{"fcdp-sim options"};
  cl::list<std::string> inputs{cl::Positional, cl::desc("IN..."),
                               cl::cat(category)};
  StepCommandLine step{category};
  cl::list<std::string> compare{
      "compare", cl::CommaSeparated,
      cl::desc("plan the step with each of these strategies, in place of "
               "--strategy"),
      cl::value_desc("S,S..."), cl::cat(category)};
  cl::opt<bool> json{"json", cl::desc("print one JSON object in place of text"),
                     cl::cat(category)};
  cl::opt<std::string> trace{
      "trace",
      cl::desc("write one step as trace events, for Perfetto or "
               "chrome://tracing"),
      cl::value_desc("FILE"), cl::cat(category)};
};
} // namespace

static llvm::Error check(llvm::ArrayRef<std::string> strategies) {
  for (const std::string &name : strategies) {
    if (name == kAutoStrategy)
      continue;
    if (llvm::Expected<Strategy> strategy = parseStrategy(name); !strategy)
      return llvm::createStringError("--compare: " +
                                     toString(strategy.takeError()));
  }
  return llvm::Error::success();
}

llvm::Expected<SimulateOptions> fcdp::parseCommandLine(int argc, char **argv) {
  CommandLine line;
  cl::HideUnrelatedOptions(line.category);
  if (llvm::Error error = parseCommandLine(argc, argv, kOverview))
    return error;
  if (line.inputs.empty())
    return llvm::createStringError("expected an input file; see --help");
  llvm::Expected<StepOptions> step = line.step.take();
  if (!step)
    return step.takeError();
  if (step->pipeline.cluster.empty())
    return llvm::createStringError(
        "--cluster: expected what the step will run on, a file or the name of "
        "a preset");
  if (llvm::Error error = check(line.compare))
    return error;
  if (!line.compare.empty() && step->given.strategy)
    return llvm::createStringError(
        "expected --strategy or --compare, got both");
  SimulateOptions options{line.inputs, line.compare, std::move(*step),
                          line.json, line.trace};
  if (options.strategies.empty())
    options.strategies = {options.step.pipeline.strategy};
  if (!options.trace.empty() &&
      options.inputs.size() * options.strategies.size() != 1)
    return llvm::createStringError(
        "--trace: expected one input and one strategy");
  // A step that is planned already has to be of the strategy asked for.
  options.step.given.strategy |= !line.compare.empty();
  return options;
}
