// SPDX-License-Identifier: Apache-2.0

#include "CommandLine.h"

#include "fcdp/Support/OutputFile.h"
#include "fcdp/Transforms/Options/Strategy.h"
#include "llvm/ADT/StringSwitch.h"

using namespace fcdp;
namespace cl = llvm::cl;

static constexpr char kOverview[] =
    R"(compiles a training step for a number of ranks

IN is an archive that fcdp.export wrote (.pt2), a step as MLIR text at any
phase, the plan of a compiled step as JSON, or a compiled step. Several archives
are one step of several shapes, from the smallest to the greatest; each step of
a job runs the smallest that all ranks' rows fit into (docs/batches.md). OUT is a shared
object for fcdp-run; a name that ends in .o or .ll asks for a relocatable object
or for LLVM IR.

Example:
  fcdp-compile step.pt2 --nodes=2 --ranks-per-node=2 --strategy=fcdp
    --micro-batches=4 --optimizer=adamw,lr=1e-3 --eval=eval.pt2 -o step.so
)";

namespace {
/// The options, made when the command line is parsed.
struct CommandLine {
  cl::OptionCategory category{"fcdp-compile options"};
  cl::list<std::string> inputs{cl::Positional, cl::desc("IN..."),
                               cl::ZeroOrMore, cl::cat(category)};
  cl::opt<std::string> output{"o", cl::desc("names the file to write"),
                              cl::value_desc("OUT"), cl::cat(category)};
  StepCommandLine step{category};
  cl::opt<std::string> evaluation{
      "eval",
      cl::desc(
          "adds an evaluation to the step: the loss of this archive, which "
          "is exported from the same model, usually in its evaluation mode "
          "(train=False); fcdp-run evaluates it between steps. Without IN "
          "nothing is trained"),
      cl::value_desc("FILE"), cl::cat(category)};
  cl::opt<std::string> archive{
      "archive",
      cl::desc("reads the values of constants from this archive, if IN is a "
               "plan, or MLIR and the archive that it names is elsewhere now"),
      cl::value_desc("FILE"), cl::cat(category)};
  cl::opt<std::string> emit{
      "emit",
      cl::desc("prints to the standard output, instead of a summary: "
               "'plan-json', the plan (docs/plan.md), or 'kernels', the "
               "kernels that "
               "the compiler wrote (docs/kernels.md); OUT may be left out"),
      cl::value_desc("FORM"), cl::cat(category)};
  cl::opt<bool> remarks{
      "remarks",
      cl::desc(
          "prints what was decided about each bucket, about recomputation, "
          "overlap and gradients in place, and what each saves and costs"),
      cl::cat(category)};
};
} // namespace

static llvm::Error checkOutputFile(const CompileOptions &options) {
  std::vector<NamedFile> read = {{"IN", options.input},
                                 {"--eval", options.evaluation},
                                 {"--archive", options.archive},
                                 {"--cluster", options.step.pipeline.cluster},
                                 {"--profile", options.step.pipeline.profile}};
  for (const std::string &variant : options.variants)
    read.push_back({"IN", variant});
  return checkOutputs({{"-o", options.output}}, read);
}

/// Plans by the costs of a cluster that is given.
static void chooseStrategy(StepOptions &options) {
  if (options.isGiven(option::ClusterFile) && options.leavesStrategyOpen())
    options.pipeline.strategy = kAutoStrategy;
}

llvm::Expected<CompileOptions> fcdp::parseCommandLine(int argc, char **argv) {
  CommandLine line;
  if (llvm::Error error =
          parseCommandLine(argc, argv, line.category, kOverview))
    return error;
  if (line.inputs.empty() && line.evaluation.empty())
    return llvm::createStringError("expected an input file; see --help");
  if (llvm::is_contained(line.inputs, ""))
    return llvm::createStringError("IN: expected the name of a file, got ''");
  std::optional<EmitKind> emit =
      llvm::StringSwitch<std::optional<EmitKind>>(line.emit)
          .Case("", EmitKind::summary)
          .Case("plan-json", EmitKind::planJson)
          .Case("kernels", EmitKind::kernels)
          .Default(std::nullopt);
  if (!emit)
    return llvm::createStringError(
        "--emit: expected 'plan-json' or 'kernels', got '" + line.emit + "'");
  if (line.output.empty() && line.emit.empty())
    return llvm::createStringError("-o: expected the name of the output file");
  llvm::Expected<StepOptions> step = line.step.take();
  if (!step)
    return step.takeError();
  chooseStrategy(*step);
  CompileOptions options;
  if (!line.inputs.empty()) {
    options.input = line.inputs.front();
    options.variants.assign(std::next(line.inputs.begin()), line.inputs.end());
  }
  options.output = line.output;
  options.step = std::move(*step);
  options.archive = line.archive;
  options.evaluation = line.evaluation;
  options.emit = *emit;
  options.remarks = line.remarks;
  if (llvm::Error error = checkOutputFile(options))
    return std::move(error);
  return options;
}
