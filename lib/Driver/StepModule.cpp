// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Driver/StepModule.h"

#include "fcdp/Import/Pt2.h"
#include "fcdp/Transforms/Decide/Strategy.h"
#include "fcdp/Transforms/Shard/LayoutSpec.h"
#include "fcdp/Transforms/Shard/OptimizerSpec.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;
using namespace fcdp;

static OwningOpRef<ModuleOp> readModule(StringRef input, MLIRContext &context) {
  auto file = llvm::MemoryBuffer::getFile(input);
  if (!file) {
    emitError(UnknownLoc::get(&context), "cannot read '")
        << input << "': " << file.getError().message();
    return nullptr;
  }
  // By content, for a name may say anything: an archive is a zip file.
  if ((*file)->getBuffer().starts_with("PK\x03\x04"))
    return importPt2((*file)->getMemBufferRef(), &context);
  return parseSourceString<ModuleOp>((*file)->getBuffer(), &context, input);
}

OwningOpRef<ModuleOp> fcdp::readStep(StringRef input, MLIRContext &context) {
  // An operation may be thousands of characters long; its place is enough.
  context.printOpOnDiagnostic(false);
  context.loadDialect<FcdpDialect, aten::AtenDialect, func::FuncDialect>();
  OwningOpRef<ModuleOp> module = readModule(input, context);
  if (!module || getPhase(*module))
    return module;
  module->emitError("expected a step: the attribute '")
      << kPhaseAttr << "' is missing";
  return nullptr;
}

namespace {
/// Compares a module with what is asked for.
class Checker {
public:
  Checker(ModuleOp module, StringRef input, const StepOptions &options)
      : module(module), input(input), options(options) {}

  LogicalResult check();

private:
  LogicalResult fail(const Twine &message) {
    return emitError(UnknownLoc::get(module.getContext()), message);
  }
  LogicalResult checkOptimizer();
  LogicalResult checkAccumulation();
  LogicalResult checkCollectives();
  LogicalResult checkLayout();
  LogicalResult checkClipNorm();

  ModuleOp module;
  StringRef input;
  const StepOptions &options;
};
} // namespace

LogicalResult Checker::checkOptimizer() {
  llvm::Expected<Attribute> wanted =
      parseOptimizer(options.pipeline.optimizer, module.getContext());
  if (!wanted)
    return fail("--optimizer: " + toString(wanted.takeError()));
  WalkResult result = module.walk([&](ShardUpdateOp update) {
    return update.getOptimizer() == *wanted ? WalkResult::advance()
                                            : WalkResult::interrupt();
  });
  if (result.wasInterrupted())
    return fail("--optimizer: the step in '" + input +
                "' was made for another one");
  return success();
}

LogicalResult Checker::checkLayout() {
  llvm::Expected<LayoutAttr> wanted =
      parseLayout(options.pipeline.layout, module.getContext());
  if (!wanted)
    return fail("--layout: " + toString(wanted.takeError()));
  for (auto bucket : module.getOps<BucketOp>())
    if (getLayout(bucket) != *wanted)
      return fail("--layout: the buckets in '" + input +
                  "' were laid out in another one");
  return success();
}

LogicalResult Checker::checkClipNorm() {
  double made = 0;
  module.walk([&](ClipGradientsOp clip) {
    made = clip.getMaxNorm().convertToDouble();
  });
  if (made == options.pipeline.clipNorm)
    return success();
  return fail("--clip-norm: the step in '" + input +
              "' was made for another one");
}

LogicalResult Checker::checkAccumulation() {
  llvm::Expected<Accumulation> wanted =
      parseAccumulation(options.pipeline.accumulate);
  if (!wanted)
    return fail("--accumulate: " + toString(wanted.takeError()));
  for (auto bucket : module.getOps<BucketOp>()) {
    Accumulation made =
        bucket.getAccumulation().value_or(Accumulation::sharded);
    if (bucket.getTrainable() && made != *wanted)
      return fail("--accumulate: expected '" + stringifyAccumulation(made) +
                  "', for which the step in '" + input + "' was made, got '" +
                  stringifyAccumulation(*wanted) + "'");
  }
  return success();
}

LogicalResult Checker::checkCollectives() {
  auto wanted = parseCollectives(options.pipeline.collectives);
  if (!wanted)
    return fail("--collectives: " + toString(wanted.takeError()));
  for (auto bucket : module.getOps<BucketOp>()) {
    Collectives made = bucket.getCollectives().value_or(Collectives::two_level);
    if (*wanted && made != **wanted)
      return fail("--collectives: the step in '" + input +
                  "' was made for other ones, " +
                  (made == Collectives::flat ? "'flat'" : "'two-level'"));
  }
  return success();
}

LogicalResult Checker::check() {
  const PipelineOptions &wanted = options.pipeline;
  bool agrees = true;
  auto check = [&](StringRef option, bool isGiven, auto asked, auto made) {
    if (!isGiven || asked == made)
      return;
    agrees = false;
    (void)fail("--" + option + ": expected '" + Twine(made) +
               "', for which the step in '" + input + "' was made, got '" +
               Twine(asked) + "'");
  };
  if (MeshOp mesh = getMesh(module)) {
    check("nodes", options.given.nodes, wanted.nodes,
          static_cast<int64_t>(mesh.getNode()));
    check("ranks-per-node", options.given.ranksPerNode, wanted.ranksPerNode,
          static_cast<int64_t>(mesh.getLocal()));
  }
  if (auto made = module->getAttrOfType<IntegerAttr>(kMicroBatchesAttr))
    check("micro-batches", options.given.microBatches, wanted.microBatches,
          made.getInt());
  if (!module.getOps<BucketOp>().empty()) {
    auto made = module->getAttrOfType<IntegerAttr>(kBucketBytesAttr);
    check("bucket-bytes", options.given.bucketBytes, wanted.bucketBytes,
          made ? made.getInt() : 0);
  }
  if (auto made = module->getAttrOfType<IntegerAttr>(kPrefetchAttr))
    check("prefetch", options.given.prefetch, wanted.prefetch, made.getInt());
  if (auto made = module->getAttrOfType<IntegerAttr>(kReductionsAttr))
    check("reductions", options.given.reductions, wanted.reductions,
          made.getInt());
  if (auto made = module->getAttrOfType<StringAttr>(kStrategyAttr))
    check("strategy", options.given.strategy, StringRef(wanted.strategy),
          made.getValue());
  auto target = module->getAttrOfType<StringAttr>(kTargetAttr);
  check("target", !wanted.target.empty(), StringRef(wanted.target),
        target ? target.getValue() : "cpu");
  auto remat = module->getAttrOfType<StringAttr>(kRematAttr);
  check("remat", options.given.remat, StringRef(wanted.remat),
        remat ? remat.getValue() : "none");
  if (options.given.optimizer && failed(checkOptimizer()))
    return failure();
  if (options.given.layout && failed(checkLayout()))
    return failure();
  if (options.given.clipNorm && failed(checkClipNorm()))
    return failure();
  if (options.given.accumulate && module->hasAttr(kStrategyAttr) &&
      failed(checkAccumulation()))
    return failure();
  if (options.given.collectives && module->hasAttr(kStrategyAttr) &&
      failed(checkCollectives()))
    return failure();
  return success(agrees);
}

LogicalResult fcdp::checkPastDecisions(ModuleOp module, StringRef input,
                                       const StepOptions &options) {
  if (getPhase(module) == Phase::imported)
    return success();
  return Checker(module, input, options).check();
}

bool fcdp::isPlannedForCluster(const PipelineOptions &options) {
  return options.strategy == kAutoStrategy || options.collectives == "auto";
}

PipelineOptions fcdp::withoutBudget(PipelineOptions options) {
  if (options.strategy != kAutoStrategy)
    options.deviceMemory = options.hostMemory = 0;
  return options;
}

OwningOpRef<ModuleOp> fcdp::planCopy(ModuleOp module,
                                     const PipelineOptions &options) {
  OwningOpRef<ModuleOp> copy(cast<ModuleOp>(module->clone()));
  PassManager pm(module.getContext());
  // The verifier passes of the phases are in the pipeline. MLIR's own after
  // each pass takes a third of the time, which a sweep pays at each point.
  pm.enableVerifier(false);
  buildFcdpPipeline(pm, options, *getPhase(module));
  if (failed(pm.run(*copy)))
    return nullptr;
  return copy;
}
