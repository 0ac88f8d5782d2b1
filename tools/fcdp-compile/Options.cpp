// SPDX-License-Identifier: Apache-2.0

#include "Options.h"

#include "fcdp/Transforms/OptimizerSpec.h"
#include "llvm/Support/CommandLine.h"

using namespace fcdp;
namespace cl = llvm::cl;

static constexpr char kOverview[] =
    R"(compiles a training step for a number of ranks

IN is an archive that fcdp.export wrote (.pt2), or a step as MLIR text at any
phase. OUT is a shared object for fcdp-run; a name that ends in .o or .ll asks
for a relocatable object or for LLVM IR.

Example:
  fcdp-compile step.pt2 --nodes=2 --ranks-per-node=2 --strategy=fcdp
    --micro-batches=4 --optimizer=adamw,lr=1e-3 -o step.so
)";

namespace {
/// The options, made when the command line is parsed.
struct CommandLine {
  cl::OptionCategory category{"fcdp-compile options"};
  cl::opt<std::string> input{cl::Positional, cl::desc("IN"), cl::init(""),
                             cl::cat(category)};
  cl::opt<std::string> output{"o", cl::desc("the file to write"),
                              cl::value_desc("OUT"), cl::cat(category)};
  cl::opt<int64_t> nodes{"nodes", cl::desc("nodes of the job (default 1)"),
                         cl::value_desc("N"), cl::init(1), cl::cat(category)};
  cl::opt<int64_t> ranksPerNode{
      "ranks-per-node", cl::desc("ranks of a node (default 1)"),
      cl::value_desc("g"), cl::init(1), cl::cat(category)};
  cl::opt<std::string> strategy{
      "strategy",
      cl::desc("where gathered parameters wait for their next use: 'fcdp' in "
               "host memory (default), 'zero3' nowhere"),
      cl::value_desc("S"), cl::init("fcdp"), cl::cat(category)};
  cl::opt<int64_t> microBatches{
      "micro-batches",
      cl::desc("micro-batches of an optimizer step (default 1)"),
      cl::value_desc("K"), cl::init(1), cl::cat(category)};
  cl::opt<std::string> optimizer{
      "optimizer",
      cl::desc("adamw or sgd, with PyTorch's names and defaults: "
               "adamw,lr=1e-3,weight_decay=0 or sgd,lr=0.1,momentum=0.9 "
               "(default adamw)"),
      cl::value_desc("NAME[,KEY=VALUE]..."), cl::init("adamw"),
      cl::cat(category)};
  cl::opt<std::string> archive{
      "archive",
      cl::desc("archive with the values of constants, if IN is MLIR and the "
               "archive that it names is elsewhere now"),
      cl::value_desc("FILE"), cl::cat(category)};
  cl::opt<std::string> dumpDir{
      "dump-dir",
      cl::desc("write the module after each phase into this folder"),
      cl::value_desc("DIR"), cl::cat(category)};
  cl::opt<bool> printManifest{
      "print-manifest",
      cl::desc("print the manifest (docs/manifest.md) and no summary; OUT may "
               "be left out"),
      cl::cat(category)};
};
} // namespace

/// The given value of an option, or none.
template <typename T>
static std::optional<T> getGiven(const cl::opt<T> &option) {
  if (option.getNumOccurrences() == 0)
    return std::nullopt;
  return option.getValue();
}

static llvm::Error checkPositive(const cl::opt<int64_t> &option) {
  if (option >= 1)
    return llvm::Error::success();
  return llvm::createStringError("--" + option.ArgStr +
                                 ": expected a positive number, got '" +
                                 llvm::Twine(option.getValue()) + "'");
}

static llvm::Error check(const CommandLine &line) {
  if (line.input.empty())
    return llvm::createStringError("expected an input file; see --help");
  if (line.output.empty() && !line.printManifest)
    return llvm::createStringError("-o: expected the name of the output file");
  for (const cl::opt<int64_t> *option :
       {&line.nodes, &line.ranksPerNode, &line.microBatches})
    if (llvm::Error error = checkPositive(*option))
      return error;
  if (line.strategy != "zero3" && line.strategy != "fcdp")
    return llvm::createStringError("--strategy: expected 'zero3' or 'fcdp', "
                                   "got '" +
                                   line.strategy + "'");
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<FcdpDialect>();
  if (auto optimizer = parseOptimizer(line.optimizer, &context); !optimizer)
    return llvm::createStringError("--optimizer: " +
                                   toString(optimizer.takeError()));
  return llvm::Error::success();
}

/// Parses as LLVM's tools do, but gives the first complaint as an error.
static llvm::Error parse(int argc, char **argv) {
  std::string message;
  llvm::raw_string_ostream stream(message);
  if (cl::ParseCommandLineOptions(argc, argv, kOverview, &stream))
    return llvm::Error::success();
  llvm::StringRef line = llvm::StringRef(message).trim().split('\n').first;
  line.consume_front(argv[0]);
  line.consume_front(":");
  return llvm::createStringError(line.trim());
}

llvm::Expected<CompileOptions> fcdp::parseCommandLine(int argc, char **argv) {
  CommandLine line;
  cl::HideUnrelatedOptions(line.category);
  if (llvm::Error error = parse(argc, argv))
    return error;
  if (llvm::Error error = check(line))
    return error;
  CompileOptions options;
  options.input = line.input;
  options.output = line.output;
  options.pipeline = {line.nodes,    line.ranksPerNode, line.microBatches,
                      line.strategy, line.optimizer,    line.dumpDir};
  options.archive = line.archive;
  options.printManifest = line.printManifest;
  options.nodes = getGiven(line.nodes);
  options.ranksPerNode = getGiven(line.ranksPerNode);
  options.microBatches = getGiven(line.microBatches);
  options.strategy = getGiven(line.strategy);
  options.optimizer = getGiven(line.optimizer);
  return options;
}
