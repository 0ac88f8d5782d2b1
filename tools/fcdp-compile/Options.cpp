// SPDX-License-Identifier: Apache-2.0

#include "Options.h"

#include "fcdp/Cluster/Cluster.h"
#include "fcdp/Transforms/LayoutSpec.h"
#include "fcdp/Transforms/OptimizerSpec.h"
#include "fcdp/Transforms/RematSpec.h"
#include "fcdp/Transforms/Strategy.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Path.h"

#include <cmath>

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
  // Numbers are texts here: the parser would print its complaints itself.
  cl::opt<std::string> nodes{"nodes", cl::desc("nodes of the job (default 1)"),
                             cl::value_desc("N"), cl::init("1"),
                             cl::cat(category)};
  cl::opt<std::string> ranksPerNode{
      "ranks-per-node", cl::desc("ranks of a node (default 1)"),
      cl::value_desc("g"), cl::init("1"), cl::cat(category)};
  cl::opt<std::string> strategy{
      "strategy",
      cl::desc("where gathered parameters wait for their next use: 'fcdp' in "
               "host memory (default), 'zero1' and 'zero2' on every device, "
               "'hpz' a slice on every device, 'zero3' nowhere; 'hsdp' and "
               "'mics' cut parameters over the ranks of a node only, 'ddp' not "
               "at all; 'auto': each bucket where it makes the step fastest on "
               "--cluster"),
      cl::value_desc("S"), cl::init("fcdp"), cl::cat(category)};
  cl::opt<std::string> cluster{
      "cluster",
      cl::desc("what the step will run on, for 'auto' and for predicted times: "
               "a file (docs/cluster.md) or the name of a preset; gives "
               "nodes and ranks where they are not given"),
      cl::value_desc("FILE"), cl::init(""), cl::cat(category)};
  cl::opt<std::string> deviceMemory{
      "device-memory",
      cl::desc("bytes of a rank's device that 'auto' may use (default: all "
               "that the cluster's devices have)"),
      cl::value_desc("BYTES"), cl::init(""), cl::cat(category)};
  cl::opt<std::string> hostMemory{
      "host-memory",
      cl::desc("bytes of a node's host memory that 'auto' may use (default: "
               "all that the cluster's hosts have)"),
      cl::value_desc("BYTES"), cl::init(""), cl::cat(category)};
  cl::opt<std::string> accumulate{
      "accumulate",
      cl::desc("where gradients are summed over micro-batches: 'sharded' "
               "(reduced each time), 'node' (reduced within the node each "
               "time), 'full' (not reduced before the last); default: sharded, "
               "but full with zero1 and node with mics"),
      cl::value_desc("MODE"), cl::init(""), cl::cat(category)};
  cl::opt<std::string> microBatches{
      "micro-batches",
      cl::desc("micro-batches of an optimizer step (default 1)"),
      cl::value_desc("K"), cl::init("1"), cl::cat(category)};
  cl::opt<std::string> layout{
      "layout",
      cl::desc("what of a parameter stays on one rank: 'flat' nothing "
               "(default), 'ragged<N>' blocks of N rows, 'owned' matrices"),
      cl::value_desc("LAYOUT"), cl::init("flat"), cl::cat(category)};
  cl::opt<std::string> bucketBytes{
      "bucket-bytes",
      cl::desc("merge the buckets of neighbouring units up to so many bytes: "
               "fewer and larger collectives, more device memory (default: "
               "one bucket per unit)"),
      cl::value_desc("BYTES"), cl::init("0"), cl::cat(category)};
  cl::opt<std::string> prefetch{
      "prefetch",
      cl::desc(
          "units that a gather is issued ahead of its own, also by the "
          "micro-batch before (default 1, 'auto' chooses): more hides more of "
          "it and takes more device memory; 0: none, and a micro-batch ends "
          "when all that it began is done"),
      cl::value_desc("D"), cl::init(""), cl::cat(category)};
  cl::opt<std::string> reductions{
      "reductions",
      cl::desc(
          "units whose gradients may be reduced at once (default 2, 'auto' "
          "chooses): more hides more of it and takes more device memory"),
      cl::value_desc("R"), cl::init(""), cl::cat(category)};
  cl::opt<std::string> remat{
      "remat",
      cl::desc("what the backward pass computes again instead of keeping it: "
               "'none' (default), 'unit' (all but what passes from one unit, "
               "such as a block, to the next), or as little as keeps at most "
               "BYTES from the forward pass"),
      cl::value_desc("none|unit|BYTES"), cl::init("none"), cl::cat(category)};
  cl::opt<std::string> optimizer{
      "optimizer",
      cl::desc("adamw or sgd, with PyTorch's names and defaults: "
               "adamw,lr=1e-3,weight_decay=0 or sgd,lr=0.1,momentum=0.9 "
               "(default adamw)"),
      cl::value_desc("NAME[,KEY=VALUE]..."), cl::init("adamw"),
      cl::cat(category)};
  cl::opt<std::string> clipNorm{
      "clip-norm",
      cl::desc("greatest norm of a step's gradients, as "
               "torch.nn.utils.clip_grad_norm_ has it (default: no bound)"),
      cl::value_desc("X"), cl::init(""), cl::cat(category)};
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

/// Reads a number that is at least `least`, 0 or 1.
static llvm::Error read(const cl::opt<std::string> &option, int64_t &value,
                        int64_t least = 1) {
  if (llvm::StringRef(option).getAsInteger(10, value) || value < least)
    return llvm::createStringError("--" + option.ArgStr + ": expected " +
                                   (least ? "a positive number" : "0 or more") +
                                   ", got '" + option.getValue() + "'");
  return llvm::Error::success();
}

/// Reads a positive number with a fraction; leaves `value` alone if the option
/// is not given.
static llvm::Error read(const cl::opt<std::string> &option, double &value) {
  if (option.getValue().empty())
    return llvm::Error::success();
  if (llvm::StringRef(option).getAsDouble(value) || !std::isfinite(value) ||
      value <= 0)
    return llvm::createStringError("--" + option.ArgStr +
                                   ": expected a positive number, got '" +
                                   option.getValue() + "'");
  return llvm::Error::success();
}

/// What is not given comes from the cluster.
static llvm::Error takeCounts(const CommandLine &line,
                              PipelineOptions &pipeline) {
  if (line.cluster.empty())
    return llvm::Error::success();
  llvm::Expected<Cluster> cluster = loadCluster(line.cluster);
  if (!cluster)
    return llvm::createStringError("--cluster: " +
                                   toString(cluster.takeError()));
  if (!line.nodes.getNumOccurrences())
    pipeline.nodes = cluster->nodes;
  if (!line.ranksPerNode.getNumOccurrences())
    pipeline.ranksPerNode = cluster->ranksPerNode;
  return llvm::Error::success();
}

static llvm::Error check(const CommandLine &line) {
  if (line.input.empty())
    return llvm::createStringError("expected an input file; see --help");
  if (line.output.empty() && !line.printManifest)
    return llvm::createStringError("-o: expected the name of the output file");
  if (line.strategy == kAutoStrategy) {
    if (line.cluster.empty())
      return llvm::createStringError(
          "--strategy=auto chooses for a cluster; give one with --cluster");
  } else if (auto strategy = parseStrategy(line.strategy); !strategy) {
    return llvm::createStringError("--strategy: " +
                                   toString(strategy.takeError()));
  }
  if (!line.accumulate.empty())
    if (auto mode = parseAccumulation(line.accumulate); !mode)
      return llvm::createStringError("--accumulate: " +
                                     toString(mode.takeError()));
  if (auto remat = parseRemat(line.remat); !remat)
    return llvm::createStringError("--remat: " + toString(remat.takeError()));
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<FcdpDialect>();
  if (auto layout = parseLayout(line.layout, &context); !layout)
    return llvm::createStringError("--layout: " + toString(layout.takeError()));
  if (auto optimizer = parseOptimizer(line.optimizer, &context); !optimizer)
    return llvm::createStringError("--optimizer: " +
                                   toString(optimizer.takeError()));
  return llvm::Error::success();
}

/// Parses as LLVM's tools do, but gives the first complaint as an error. Of
/// some complaints (a missing value) the parser hands out none.
static llvm::Error parse(int argc, char **argv) {
  std::string message;
  llvm::raw_string_ostream stream(message);
  if (cl::ParseCommandLineOptions(argc, argv, kOverview, &stream))
    return llvm::Error::success();
  llvm::StringRef line = llvm::StringRef(message).trim().split('\n').first;
  line.consume_front(llvm::sys::path::filename(argv[0]));
  line.consume_front(":");
  return llvm::createStringError(
      line.empty() ? "cannot read the command line; see --help" : line.trim());
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
  PipelineOptions &pipeline = options.pipeline;
  for (auto [option, value] :
       {std::pair(&line.nodes, &pipeline.nodes),
        std::pair(&line.ranksPerNode, &pipeline.ranksPerNode),
        std::pair(&line.microBatches, &pipeline.microBatches)})
    if (llvm::Error error = read(*option, *value))
      return std::move(error);
  for (auto [option, value] :
       {std::pair(&line.deviceMemory, &pipeline.deviceMemory),
        std::pair(&line.hostMemory, &pipeline.hostMemory),
        std::pair(&line.reductions, &pipeline.reductions)})
    if (!option->empty())
      if (llvm::Error error = read(*option, *value))
        return std::move(error);
  if (llvm::Error error = takeCounts(line, pipeline))
    return std::move(error);
  pipeline.cluster = line.cluster;
  if (llvm::Error error = read(line.clipNorm, pipeline.clipNorm))
    return std::move(error);
  if (llvm::Error error =
          read(line.bucketBytes, pipeline.bucketBytes, /*least=*/0))
    return std::move(error);
  if (!line.prefetch.empty())
    if (llvm::Error error = read(line.prefetch, pipeline.prefetch, /*least=*/0))
      return std::move(error);
  pipeline.strategy = line.strategy;
  pipeline.accumulate = line.accumulate;
  pipeline.remat = line.remat;
  pipeline.layout = line.layout;
  pipeline.optimizer = line.optimizer;
  pipeline.dumpDir = line.dumpDir;
  options.archive = line.archive;
  options.printManifest = line.printManifest;
  auto isGiven = [](const cl::Option &option) {
    return option.getNumOccurrences() != 0;
  };
  options.given = {isGiven(line.nodes),        isGiven(line.ranksPerNode),
                   isGiven(line.microBatches), isGiven(line.strategy),
                   isGiven(line.accumulate),   isGiven(line.layout),
                   isGiven(line.bucketBytes),  isGiven(line.prefetch),
                   isGiven(line.reductions),   isGiven(line.clipNorm),
                   isGiven(line.remat),        isGiven(line.optimizer)};
  return options;
}
