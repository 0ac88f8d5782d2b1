// SPDX-License-Identifier: Apache-2.0

#include "Driver.h"

#include "Diagnostics.h"
#include "Progress.h"
#include "Summary.h"
#include "fcdp/Conversion/Passes.h"
#include "fcdp/Import/Pt2.h"
#include "fcdp/Target/ObjectEmission.h"
#include "fcdp/Transforms/LayoutSpec.h"
#include "fcdp/Transforms/OptimizerSpec.h"
#include "fcdp/Transforms/Strategy.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Process.h"

using namespace mlir;
using namespace fcdp;

namespace {
/// One compilation. Stages follow each other; errors go to the context's
/// diagnostics.
class Driver {
public:
  Driver(const CompileOptions &options, llvm::raw_ostream &output,
         llvm::raw_ostream &errors)
      : options(options), output(output), errors(errors),
        printer(&context, errors),
        progress(errors, llvm::sys::Process::StandardErrIsDisplayed()) {
    // An operation may be thousands of characters long; its place is enough.
    context.printOpOnDiagnostic(false);
    context.loadDialect<FcdpDialect, aten::AtenDialect, func::FuncDialect,
                        LLVM::LLVMDialect>();
  }

  LogicalResult run();

private:
  LogicalResult fail(const Twine &message) {
    errors << "error: " << message << '\n';
    return failure();
  }
  LogicalResult read();
  /// Whether the module agrees with the options that acted on it before.
  LogicalResult checkPastDecisions();
  LogicalResult checkOptimizer();
  LogicalResult checkAccumulation();
  LogicalResult checkCollectives();
  LogicalResult checkLayout();
  LogicalResult checkClipNorm();
  LogicalResult runPasses(Phase phase);
  LogicalResult predict(llvm::raw_ostream &stream);
  LogicalResult convert();
  LogicalResult emit();
  void printManifest();

  const CompileOptions &options;
  llvm::raw_ostream &output, &errors;
  MLIRContext context;
  DiagnosticPrinter printer;
  Progress progress;
  OwningOpRef<ModuleOp> module;
};
} // namespace

LogicalResult Driver::read() {
  progress.start("reading " + options.input);
  auto file = llvm::MemoryBuffer::getFile(options.input);
  if (!file)
    return fail("cannot read '" + options.input +
                "': " + file.getError().message());
  // By content, for a name may say anything: an archive is a zip file.
  if ((*file)->getBuffer().starts_with("PK\x03\x04"))
    module = importPt2((*file)->getMemBufferRef(), &context);
  else
    module = parseSourceString<ModuleOp>((*file)->getBuffer(), &context,
                                         options.input);
  return success(static_cast<bool>(module));
}

LogicalResult Driver::checkOptimizer() {
  llvm::Expected<Attribute> wanted =
      parseOptimizer(options.pipeline.optimizer, &context);
  if (!wanted)
    return fail("--optimizer: " + toString(wanted.takeError()));
  WalkResult result = module->walk([&](ShardUpdateOp update) {
    return update.getOptimizer() == *wanted ? WalkResult::advance()
                                            : WalkResult::interrupt();
  });
  if (result.wasInterrupted())
    return fail("--optimizer: the step in '" + options.input +
                "' was made for another one");
  return success();
}

LogicalResult Driver::checkLayout() {
  llvm::Expected<LayoutAttr> wanted =
      parseLayout(options.pipeline.layout, &context);
  if (!wanted)
    return fail("--layout: " + toString(wanted.takeError()));
  for (auto bucket : module->getOps<BucketOp>())
    if (getLayout(bucket) != *wanted)
      return fail("--layout: the buckets in '" + options.input +
                  "' were laid out in another one");
  return success();
}

LogicalResult Driver::checkClipNorm() {
  double made = 0;
  module->walk([&](ClipGradientsOp clip) {
    made = clip.getMaxNorm().convertToDouble();
  });
  if (made == options.pipeline.clipNorm)
    return success();
  return fail("--clip-norm: the step in '" + options.input +
              "' was made for another one");
}

LogicalResult Driver::checkAccumulation() {
  llvm::Expected<Accumulation> wanted =
      parseAccumulation(options.pipeline.accumulate);
  if (!wanted)
    return fail("--accumulate: " + toString(wanted.takeError()));
  for (auto bucket : module->getOps<BucketOp>()) {
    Accumulation made =
        bucket.getAccumulation().value_or(Accumulation::sharded);
    if (bucket.getTrainable() && made != *wanted)
      return fail("--accumulate: expected '" + stringifyAccumulation(made) +
                  "', for which the step in '" + options.input +
                  "' was made, got '" + stringifyAccumulation(*wanted) + "'");
  }
  return success();
}

LogicalResult Driver::checkCollectives() {
  auto wanted = parseCollectives(options.pipeline.collectives);
  if (!wanted)
    return fail("--collectives: " + toString(wanted.takeError()));
  for (auto bucket : module->getOps<BucketOp>()) {
    Collectives made = bucket.getCollectives().value_or(Collectives::two_level);
    if (*wanted && made != **wanted)
      return fail("--collectives: the step in '" + options.input +
                  "' was made for other ones, " +
                  (made == Collectives::flat ? "'flat'" : "'two-level'"));
  }
  return success();
}

LogicalResult Driver::checkPastDecisions() {
  const PipelineOptions &wanted = options.pipeline;
  bool agrees = true;
  auto check = [&](StringRef option, bool isGiven, auto asked, auto made) {
    if (!isGiven || asked == made)
      return;
    agrees = false;
    (void)fail("--" + option + ": expected '" + Twine(made) +
               "', for which the step in '" + options.input +
               "' was made, got '" + Twine(asked) + "'");
  };
  if (MeshOp mesh = getMesh(*module)) {
    check("nodes", options.given.nodes, wanted.nodes,
          static_cast<int64_t>(mesh.getNode()));
    check("ranks-per-node", options.given.ranksPerNode, wanted.ranksPerNode,
          static_cast<int64_t>(mesh.getLocal()));
  }
  if (auto made = (*module)->getAttrOfType<IntegerAttr>(kMicroBatchesAttr))
    check("micro-batches", options.given.microBatches, wanted.microBatches,
          made.getInt());
  if (!module->getOps<BucketOp>().empty()) {
    auto made = (*module)->getAttrOfType<IntegerAttr>(kBucketBytesAttr);
    check("bucket-bytes", options.given.bucketBytes, wanted.bucketBytes,
          made ? made.getInt() : 0);
  }
  if (auto made = (*module)->getAttrOfType<IntegerAttr>(kPrefetchAttr))
    check("prefetch", options.given.prefetch, wanted.prefetch, made.getInt());
  if (auto made = (*module)->getAttrOfType<IntegerAttr>(kReductionsAttr))
    check("reductions", options.given.reductions, wanted.reductions,
          made.getInt());
  if (auto made = (*module)->getAttrOfType<StringAttr>(kStrategyAttr))
    check("strategy", options.given.strategy, StringRef(wanted.strategy),
          made.getValue());
  auto remat = (*module)->getAttrOfType<StringAttr>(kRematAttr);
  check("remat", options.given.remat, StringRef(wanted.remat),
        remat ? remat.getValue() : "none");
  if (options.given.optimizer && failed(checkOptimizer()))
    return failure();
  if (options.given.layout && failed(checkLayout()))
    return failure();
  if (options.given.clipNorm && failed(checkClipNorm()))
    return failure();
  if (options.given.accumulate && (*module)->hasAttr(kStrategyAttr) &&
      failed(checkAccumulation()))
    return failure();
  if (options.given.collectives && (*module)->hasAttr(kStrategyAttr) &&
      failed(checkCollectives()))
    return failure();
  return success(agrees);
}

LogicalResult Driver::runPasses(Phase phase) {
  progress.start("planning the step");
  PassManager pm(&context);
  buildFcdpPipeline(pm, options.pipeline, phase);
  return pm.run(*module);
}

void Driver::printManifest() {
  auto global = module->lookupSymbol<LLVM::GlobalOp>("fcdp_manifest");
  output << cast<StringAttr>(global.getValueAttr()).getValue() << '\n';
}

LogicalResult Driver::predict(llvm::raw_ostream &stream) {
  MeshOp mesh = getMesh(*module);
  llvm::Expected<Cluster> cluster =
      loadCluster(options.pipeline.cluster, mesh.getNode(), mesh.getLocal());
  if (!cluster)
    return fail("--cluster: " + toString(cluster.takeError()));
  printPrediction(*module, *cluster, stream);
  return success();
}

LogicalResult Driver::convert() {
  progress.start("describing the step");
  PassManager pm(&context);
  pm.addPass(createConvertFcdpToLLVMPass({options.archive}));
  return pm.run(*module);
}

LogicalResult Driver::emit() {
  progress.start("writing " + options.output);
  if (llvm::Error error =
          emitObject(*module, options.output, getOutputKind(options.output)))
    return fail(toString(std::move(error)));
  return success();
}

LogicalResult Driver::run() {
  if (failed(read()))
    return failure();
  std::optional<Phase> phase = getPhase(*module);
  if (!phase)
    return module->emitError("expected a step: the attribute '")
           << kPhaseAttr << "' is missing";
  if (*phase != Phase::imported && failed(checkPastDecisions()))
    return failure();
  if (failed(runPasses(*phase)))
    return failure();
  std::string summary;
  llvm::raw_string_ostream stream(summary);
  if (failed(printSummary(*module, stream)))
    return failure();
  if (!options.pipeline.cluster.empty() && failed(predict(stream)))
    return failure();
  if (failed(convert()))
    return failure();
  if (!options.output.empty() && failed(emit()))
    return failure();
  if (options.printManifest)
    printManifest();
  else
    output << summary;
  return success();
}

LogicalResult fcdp::compile(const CompileOptions &options,
                            llvm::raw_ostream &output,
                            llvm::raw_ostream &errors) {
  return Driver(options, output, errors).run();
}
