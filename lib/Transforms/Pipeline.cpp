// SPDX-License-Identifier: Apache-2.0
//
// The compiler in one place: which pass follows which, and why.

#include "PhasePasses.h"
#include "fcdp/Cluster/Cluster.h"
#include "fcdp/Transforms/Decide/Strategy.h"
#include "fcdp/Transforms/Passes.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassOptions.h"
#include "mlir/Pass/PassRegistry.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/ToolOutputFile.h"

using namespace mlir;
using namespace fcdp;

namespace {
/// Writes the module to `DIR/N-PHASE.mlir`.
class DumpPass : public PassWrapper<DumpPass, OperationPass<ModuleOp>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(DumpPass)
  DumpPass(StringRef directory, Phase phase)
      : directory(directory), phase(phase) {}

  StringRef getArgument() const final { return "fcdp-dump"; }

  void runOnOperation() override {
    markAllAnalysesPreserved();
    SmallString<128> path(directory);
    llvm::sys::path::append(path, Twine(static_cast<unsigned>(phase)) + "-" +
                                      stringifyPhase(phase) + ".mlir");
    std::error_code error = llvm::sys::fs::create_directories(directory);
    if (!error) {
      llvm::ToolOutputFile file(path, error, llvm::sys::fs::OF_Text);
      if (!error) {
        getOperation().print(file.os(), OpPrintingFlags().enableDebugInfo());
        file.keep();
        return;
      }
    }
    getOperation().emitError("cannot write '")
        << path << "': " << error.message();
    signalPassFailure();
  }

private:
  std::string directory;
  Phase phase;
};

struct PipelineCLOptions : PassPipelineOptions<PipelineCLOptions> {
  Option<std::string> target{
      *this, "target", llvm::cl::init(""),
      llvm::cl::desc("cpu or cuda; what the step was exported on if not "
                     "given")};
  Option<std::string> strategy{
      *this, "strategy", llvm::cl::init("fcdp"),
      llvm::cl::desc("zero1, zero2, zero3, hpz, fcdp, ddp, hsdp, mics or "
                     "auto")};
  Option<std::string> cluster{
      *this, "cluster", llvm::cl::init(""),
      llvm::cl::desc("a file or the name of a preset; gives nodes and ranks "
                     "where they are not given, and what auto decides by")};
  Option<std::string> profile{
      *this, "profile", llvm::cl::init(""),
      llvm::cl::desc("times that fcdp-run --profile has measured, in place of "
                     "estimates for the cluster")};
  Option<int64_t> deviceMemory{
      *this, "device-memory", llvm::cl::init(0),
      llvm::cl::desc("bytes of a device that auto may use; 0: all")};
  Option<int64_t> hostMemory{
      *this, "host-memory", llvm::cl::init(0),
      llvm::cl::desc("bytes of a node's host memory that auto may use; 0: "
                     "all")};
  Option<std::string> accumulate{
      *this, "accumulate", llvm::cl::init(""),
      llvm::cl::desc("sharded, node, node_host or full; the strategy's choice "
                     "if not given")};
  Option<std::string> collectives{
      *this, "collectives", llvm::cl::init(""),
      llvm::cl::desc("two-level, flat or auto: what is faster on the cluster; "
                     "two-level if not given, but auto with strategy auto")};
  Option<int64_t> nodes{*this, "nodes", llvm::cl::init(1),
                        llvm::cl::desc("nodes of the mesh")};
  Option<int64_t> ranksPerNode{*this, "ranks-per-node", llvm::cl::init(1),
                               llvm::cl::desc("local ranks of a node")};
  Option<int64_t> microBatches{
      *this, "micro-batches", llvm::cl::init(1),
      llvm::cl::desc("micro-batches per optimizer step")};
  Option<std::string> layout{
      *this, "layout", llvm::cl::init("flat"),
      llvm::cl::desc("what is never split: flat, ragged<N> or owned")};
  Option<int64_t> bucketBytes{
      *this, "bucket-bytes", llvm::cl::init(-1),
      llvm::cl::desc("greatest bytes of merged buckets; 0: one per unit; the "
                     "strategy's choice if not given")};
  Option<int64_t> prefetch{
      *this, "prefetch", llvm::cl::init(-1),
      llvm::cl::desc("units that a gather is issued ahead, also by the "
                     "micro-batch before; 0: none; the strategy's choice if "
                     "not given")};
  Option<int64_t> reductions{
      *this, "reductions", llvm::cl::init(-1),
      llvm::cl::desc("units whose gradients may be reduced at once; the "
                     "strategy's choice if not given")};
  Option<std::string> remat{
      *this, "remat", llvm::cl::init("none"),
      llvm::cl::desc("what the backward pass computes again: none, unit, or as "
                     "little as keeps this many bytes for it")};
  Option<std::string> optimizer{
      *this, "optimizer", llvm::cl::init("adamw"),
      llvm::cl::desc("e.g. adamw,lr=1e-3 or sgd,lr=0.1,momentum=0.9")};
  Option<double> clipNorm{
      *this, "clip-norm", llvm::cl::init(0),
      llvm::cl::desc("greatest norm of the gradients; 0: no bound")};
  Option<std::string> dumpDir{
      *this, "dump-dir", llvm::cl::init(""),
      llvm::cl::desc("write the module after each phase into this folder")};
};
} // namespace

static void endPhase(OpPassManager &pm, std::unique_ptr<Pass> verifier,
                     Phase phase, const PipelineOptions &options) {
  pm.addPass(std::move(verifier));
  if (!options.dumpDir.empty())
    pm.addPass(std::make_unique<DumpPass>(options.dumpDir, phase));
}

//===----------------------------------------------------------------------===//
// imported -> sharded
//===----------------------------------------------------------------------===//

/// The layout that a strategy needs. --fcdp-decide refuses an unknown one.
static std::string getSharding(StringRef strategy) {
  if (strategy == kAutoStrategy)
    return strategy.str();
  llvm::Expected<Strategy> preset = parseStrategy(strategy);
  if (preset)
    return stringifySharding(preset->sharding).str();
  llvm::consumeError(preset.takeError());
  return stringifySharding(Sharding::world).str();
}

static BucketPassOptions getBucketOptions(const PipelineOptions &options) {
  BucketPassOptions bucket;
  bucket.sharding = getSharding(options.strategy);
  bucket.layout = options.layout;
  bucket.bucketBytes = std::max<int64_t>(options.bucketBytes, 0);
  bucket.openMerging =
      options.bucketBytes < 0 && options.strategy == kAutoStrategy;
  return bucket;
}

/// Passes that do nothing where they have run before, so that text which
/// stopped between any two of them can be carried on.
static void buildLayout(OpPassManager &pm, const PipelineOptions &options) {
  // Before bucketing, which fixes the type on the wire.
  pm.addPass(createNarrowGathersPass());
  pm.addPass(createBucketPass(getBucketOptions(options)));
  pm.addPass(createDecidePass(
      {options.strategy, options.accumulate, options.cluster, options.profile,
       options.deviceMemory, options.hostMemory, options.prefetch,
       options.reductions, options.collectives},
      options.describedCluster));
  buildDecided(pm);
  endPhase(pm, createVerifyShardedPass(), Phase::sharded, options);
}

//===----------------------------------------------------------------------===//
// sharded -> scheduled -> planned
//===----------------------------------------------------------------------===//

static void buildScheduling(OpPassManager &pm, const PipelineOptions &options) {
  pm.addPass(createDecideOverlapPass(
      {options.cluster, options.profile, options.deviceMemory},
      options.describedCluster));
  buildScheduled(pm);
  endPhase(pm, createVerifyScheduledPass(), Phase::scheduled, options);
}

static void endPlanning(OpPassManager &pm, const PipelineOptions &options) {
  endPhase(pm, createVerifyPlannedPass(), Phase::planned, options);
  // A dump of what it refuses is worth having.
  pm.addPass(createVerifyPlanPass(
      {/*peer=*/"", options.deviceMemory, options.hostMemory}));
}

static void buildPlanning(OpPassManager &pm, const PipelineOptions &options) {
  // Before lifetimes are known, which depend on it.
  pm.addPass(createMakeGradientsInPlacePass());
  pm.addPass(createPlanMemoryPass());
  endPlanning(pm, options);
}

void fcdp::buildFcdpPipeline(OpPassManager &pm, const PipelineOptions &options,
                             Phase from) {
  switch (from) {
  case Phase::imported:
    // Before all that looks at operators and their memory.
    pm.addPass(createRetargetPass({options.target}));
    endPhase(pm, createVerifyImportedPass(), Phase::imported, options);
    // Before gathers, which what runs again shares with the backward pass.
    pm.addPass(
        createDecideRematPass({options.remat, options.cluster, options.profile},
                              options.describedCluster));
    pm.addPass(createRematPass());
    pm.addPass(createShardPass({options.nodes, options.ranksPerNode,
                                options.microBatches, options.optimizer,
                                options.clipNorm}));
    [[fallthrough]];
  case Phase::sharded:
    buildLayout(pm, options);
    buildScheduling(pm, options);
    [[fallthrough]];
  case Phase::scheduled:
    buildPlanning(pm, options);
    break;
  case Phase::planned:
    endPlanning(pm, options);
  }
}

/// What is not given comes from the cluster. If that cannot be read, the pass
/// that needs it says so.
static void takeCounts(const PipelineCLOptions &cl, PipelineOptions &options) {
  options.nodes = cl.nodes;
  options.ranksPerNode = cl.ranksPerNode;
  if (cl.cluster.empty())
    return;
  llvm::Expected<Cluster> cluster = loadCluster(cl.cluster);
  if (!cluster)
    return llvm::consumeError(cluster.takeError());
  if (!cl.nodes.getNumOccurrences())
    options.nodes = cluster->nodes;
  if (!cl.ranksPerNode.getNumOccurrences())
    options.ranksPerNode = cluster->ranksPerNode;
}

void fcdp::registerFcdpPipeline() {
  PassPipelineRegistration<PipelineCLOptions>(
      "fcdp-pipeline", "take an imported step to a planned one",
      [](OpPassManager &pm, const PipelineCLOptions &cl) {
        PipelineOptions options;
        takeCounts(cl, options);
        options.target = cl.target;
        options.cluster = cl.cluster;
        options.profile = cl.profile;
        options.deviceMemory = cl.deviceMemory;
        options.hostMemory = cl.hostMemory;
        options.microBatches = cl.microBatches;
        options.strategy = cl.strategy;
        options.accumulate = cl.accumulate;
        options.collectives = cl.collectives;
        options.layout = cl.layout;
        options.bucketBytes = cl.bucketBytes;
        options.prefetch = cl.prefetch;
        options.reductions = cl.reductions;
        options.remat = cl.remat;
        options.optimizer = cl.optimizer;
        options.clipNorm = cl.clipNorm;
        options.dumpDir = cl.dumpDir;
        buildFcdpPipeline(pm, options);
      });
}
