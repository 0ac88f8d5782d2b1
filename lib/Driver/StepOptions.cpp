// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Driver/StepOptions.h"

#include "fcdp/Cluster/Cluster.h"
#include "fcdp/Transforms/Decide/Strategy.h"
#include "fcdp/Transforms/Recompute/RematSpec.h"
#include "fcdp/Transforms/Shard/LayoutSpec.h"
#include "fcdp/Transforms/Shard/OptimizerSpec.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Path.h"

#include <cmath>

using namespace fcdp;
namespace cl = llvm::cl;

struct StepCommandLine::Values {
  explicit Values(cl::OptionCategory &category) : category(category) {}

  cl::OptionCategory &category;
  // Numbers are texts here: the parser would print its complaints itself.
  cl::opt<std::string> nodes{"nodes", cl::desc("nodes of the job (default 1)"),
                             cl::value_desc("N"), cl::init("1"),
                             cl::cat(category)};
  cl::opt<std::string> ranksPerNode{
      "ranks-per-node", cl::desc("ranks of a node (default 1)"),
      cl::value_desc("g"), cl::init("1"), cl::cat(category)};
  cl::opt<std::string> target{
      "target",
      cl::desc("what the step runs on: 'cpu', or 'cuda', to which a step that "
               "was exported on a CPU is retargeted (default: what it was "
               "exported on)"),
      cl::value_desc("cpu|cuda"), cl::init(""), cl::cat(category)};
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
  cl::opt<std::string> profile{
      "profile",
      cl::desc("times that fcdp-run --profile has measured, in place of "
               "estimates for --cluster (docs/profile.md)"),
      cl::value_desc("FILE"), cl::init(""), cl::cat(category)};
  cl::opt<std::string> deviceMemory{
      "device-memory",
      cl::desc("bytes of a rank's device that the plan may take, by which "
               "'auto' chooses (default: no bound, for 'auto' all that the "
               "cluster's devices have)"),
      cl::value_desc("BYTES"), cl::init(""), cl::cat(category)};
  cl::opt<std::string> hostMemory{
      "host-memory",
      cl::desc("bytes of a node's host memory that the plan may take, by which "
               "'auto' chooses (default: no bound, for 'auto' all that the "
               "cluster's hosts have)"),
      cl::value_desc("BYTES"), cl::init(""), cl::cat(category)};
  cl::opt<std::string> accumulate{
      "accumulate",
      cl::desc("where gradients are summed over micro-batches: 'sharded' "
               "(reduced each time), 'node' (reduced within the node each "
               "time), 'node_host' (the same, with the sum in host memory), "
               "'full' (not reduced before the last); default: sharded, but "
               "full with zero1 and node with mics"),
      cl::value_desc("MODE"), cl::init(""), cl::cat(category)};
  cl::opt<std::string> collectives{
      "collectives",
      cl::desc("how a bucket is gathered and reduced over several nodes of "
               "several ranks: 'two-level' between nodes and within them "
               "(default), each byte crossing the network once; 'flat' in one "
               "step; 'auto' what is faster on --cluster, bucket by bucket "
               "(default with --strategy=auto)"),
      cl::value_desc("C"), cl::init(""), cl::cat(category)};
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
      cl::desc(
          "merge the buckets of neighbouring units up to so many bytes: "
          "fewer and larger collectives, more device memory; 0: one bucket "
          "per unit (default, 'auto' chooses)"),
      cl::value_desc("BYTES"), cl::init(""), cl::cat(category)};
  cl::opt<std::string> prefetch{
      "prefetch",
      cl::desc(
          "units that a gather is issued ahead of its own, also by the "
          "micro-batch before (default 1, 'auto' chooses for each): more hides "
          "more of it and takes more device memory; 0: none, and a micro-batch "
          "ends when all that it began is done"),
      cl::value_desc("D"), cl::init(""), cl::cat(category)};
  cl::opt<std::string> reductions{
      "reductions",
      cl::desc(
          "units whose gradients may be reduced at once (default 2, 'auto' "
          "chooses for each sum): more hides more of it and takes more device "
          "memory"),
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
  cl::opt<std::string> dumpDir{
      "dump-dir",
      cl::desc("write the module after each phase into this folder"),
      cl::value_desc("DIR"), cl::cat(category)};
};

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
static llvm::Error takeCounts(const StepCommandLine::Values &line,
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

static llvm::Error checkProfile(const StepCommandLine::Values &line) {
  if (line.profile.empty())
    return llvm::Error::success();
  if (line.cluster.empty())
    return llvm::createStringError(
        "--profile: expected a cluster, which says what was not measured; give "
        "one with --cluster");
  if (auto profile = loadProfile(line.profile); !profile)
    return llvm::createStringError("--profile: " +
                                   toString(profile.takeError()));
  return llvm::Error::success();
}

static llvm::Error check(const StepCommandLine::Values &line) {
  if (!line.target.empty() && !isTarget(line.target))
    return llvm::createStringError("--target: expected 'cpu' or 'cuda', got '" +
                                   line.target + "'");
  if (line.strategy == kAutoStrategy) {
    if (line.cluster.empty())
      return llvm::createStringError(
          "--strategy=auto chooses for a cluster; give one with --cluster");
  } else if (auto strategy = parseStrategy(line.strategy); !strategy) {
    return llvm::createStringError("--strategy: " +
                                   toString(strategy.takeError()));
  }
  if (llvm::Error error = checkProfile(line))
    return error;
  if (!line.accumulate.empty())
    if (auto mode = parseAccumulation(line.accumulate); !mode)
      return llvm::createStringError("--accumulate: " +
                                     toString(mode.takeError()));
  if (!line.collectives.empty()) {
    auto collectives = parseCollectives(line.collectives);
    if (!collectives)
      return llvm::createStringError("--collectives: " +
                                     toString(collectives.takeError()));
    if (!*collectives && line.cluster.empty())
      return llvm::createStringError("--collectives=auto chooses for a "
                                     "cluster; give one with --cluster");
  }
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

llvm::Error fcdp::parseCommandLine(int argc, char **argv,
                                   llvm::StringRef overview) {
  std::string message;
  llvm::raw_string_ostream stream(message);
  if (cl::ParseCommandLineOptions(argc, argv, overview, &stream))
    return llvm::Error::success();
  // Of some complaints (a missing value) the parser hands out none.
  llvm::StringRef line = llvm::StringRef(message).trim().split('\n').first;
  line.consume_front(llvm::sys::path::filename(argv[0]));
  line.consume_front(":");
  return llvm::createStringError(
      line.empty() ? "cannot read the command line; see --help" : line.trim());
}

StepCommandLine::StepCommandLine(cl::OptionCategory &category)
    : values(std::make_unique<Values>(category)) {}

StepCommandLine::~StepCommandLine() = default;

llvm::Expected<StepOptions> StepCommandLine::take() const {
  const Values &line = *values;
  if (llvm::Error error = check(line))
    return error;
  StepOptions options;
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
  pipeline.profile = line.profile;
  if (llvm::Error error = read(line.clipNorm, pipeline.clipNorm))
    return std::move(error);
  if (!line.bucketBytes.empty())
    if (llvm::Error error =
            read(line.bucketBytes, pipeline.bucketBytes, /*least=*/0))
      return std::move(error);
  if (!line.prefetch.empty())
    if (llvm::Error error = read(line.prefetch, pipeline.prefetch, /*least=*/0))
      return std::move(error);
  pipeline.target = line.target;
  pipeline.strategy = line.strategy;
  pipeline.accumulate = line.accumulate;
  pipeline.collectives = line.collectives;
  pipeline.remat = line.remat;
  pipeline.layout = line.layout;
  pipeline.optimizer = line.optimizer;
  pipeline.dumpDir = line.dumpDir;
  auto isGiven = [](const cl::Option &option) {
    return option.getNumOccurrences() != 0;
  };
  options.given = {isGiven(line.nodes),        isGiven(line.ranksPerNode),
                   isGiven(line.microBatches), isGiven(line.strategy),
                   isGiven(line.accumulate),   isGiven(line.collectives),
                   isGiven(line.layout),       isGiven(line.bucketBytes),
                   isGiven(line.prefetch),     isGiven(line.reductions),
                   isGiven(line.clipNorm),     isGiven(line.remat),
                   isGiven(line.optimizer)};
  return options;
}
