// SPDX-License-Identifier: Apache-2.0
//
// Defines the order of all passes of the compiler, with its reasons.

#include "fcdp/Transforms/Pipeline.h"

#include "ChooseRemat.h"
#include "PhasePasses.h"
#include "fcdp/Support/OutputFile.h"
#include "fcdp/Transforms/Options/Strategy.h"
#include "fcdp/Transforms/Passes.h"

#include "mlir/Pass/PassOptions.h"
#include "mlir/Pass/PassRegistry.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <deque>
#include <type_traits>

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
    if (error)
      return fail("cannot write '" + path + "': " + error.message());
    if (llvm::Error written = printToFile(path, [&](llvm::raw_ostream &stream) {
          getOperation().print(stream, OpPrintingFlags().enableDebugInfo());
        }))
      fail(toString(std::move(written)));
  }

private:
  void fail(const Twine &message) {
    getOperation().emitError(message);
    signalPassFailure();
  }

  std::string directory;
  Phase phase;
};

/// The table's options as text, which readStepOptions parses.
struct OptionTexts : PassPipelineOptions<OptionTexts> {
  OptionTexts() {
    for (const PipelineOption &option : getPipelineOptions())
      texts.emplace_back(*this, option.name, llvm::cl::desc(option.help),
                         llvm::cl::value_desc(option.placeholder));
  }

  /// One option for each row of the table. Options cannot be moved.
  std::deque<Option<std::string>> texts;
};
} // namespace

/// Copies `field` if the pass has it.
template <typename PassOptions, typename Field>
static void takeOption(const PipelineOptions &from, PassOptions &to,
                       Field field) {
  if constexpr (std::is_invocable_v<Field, PassOptions &>)
    field(to) = field(from);
}

/// Returns the options of a pass from the pipeline's options of the same names.
template <typename PassOptions>
static PassOptions selectOptions(const PipelineOptions &options) {
  using TakeOption = void (*)(const PipelineOptions &, PassOptions &);
#define GET_TakenOptionTable_IMPL
#include "fcdp/Transforms/PipelineOptionTable.inc"
  PassOptions selected;
  for (TakeOption take : TakenOptionTable)
    take(options, selected);
  return selected;
}

static void endPhase(OpPassManager &pm, std::unique_ptr<Pass> verifier,
                     Phase phase, const PipelineOptions &options) {
  pm.addPass(std::move(verifier));
  if (!options.dumpDir.empty())
    pm.addPass(std::make_unique<DumpPass>(options.dumpDir, phase));
}

//===----------------------------------------------------------------------===//
// imported -> sharded
//===----------------------------------------------------------------------===//

/// Returns the layout that a strategy needs. --fcdp-decide refuses an unknown
/// strategy.
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
  auto bucket = selectOptions<BucketPassOptions>(options);
  bucket.sharding = getSharding(options.strategy);
  bucket.openMerging =
      options.bucketBytes < 0 && options.strategy == kAutoStrategy;
  return bucket;
}

/// Adds passes that do nothing if they have run before, so that a module which
/// was printed between any two of them can be compiled further.
static void buildLayout(OpPassManager &pm, const PipelineOptions &options,
                        const std::optional<Cluster> &described) {
  // This runs before bucketing, which fixes the type on the wire.
  pm.addPass(createNarrowGathersPass());
  pm.addPass(createBucketPass(getBucketOptions(options)));
  // `host` is decided before residencies, which have the memory that is left,
  // and `auto` after them, when the memory that a plan needs is known.
  bool isStatesAuto = StringRef(options.states).starts_with(kAutoStrategy);
  auto decideStates = [&] {
    pm.addPass(createDecideStatesPass(
        selectOptions<DecideStatesPassOptions>(options), described));
  };
  if (!isStatesAuto)
    decideStates();
  pm.addPass(
      createDecidePass(selectOptions<DecidePassOptions>(options), described));
  // This runs before wires are decided, which depend on what is reduced, and
  // where.
  pm.addPass(
      createOuterStepsPass(selectOptions<OuterStepsPassOptions>(options)));
  pm.addPass(createDecideWiresPass(
      selectOptions<DecideWiresPassOptions>(options), described));
  if (isStatesAuto)
    decideStates();
  buildDecided(pm);
  endPhase(pm, createVerifyShardedPass(), Phase::sharded, options);
}

//===----------------------------------------------------------------------===//
// sharded -> scheduled -> planned
//===----------------------------------------------------------------------===//

static void buildScheduling(OpPassManager &pm, const PipelineOptions &options,
                            const std::optional<Cluster> &described) {
  pm.addPass(createDecideOverlapPass(
      selectOptions<DecideOverlapPassOptions>(options), described));
  buildOrdered(pm);
  // These run when gathers and reductions are in their final order, which
  // decides what hides the copies.
  pm.addPass(createDecideActivationsPass(
      selectOptions<DecideActivationsPassOptions>(options), described));
  pm.addPass(createStoreActivationsPass(
      selectOptions<StoreActivationsPassOptions>(options), described));
  pm.addPass(createSchedulePass());
  endPhase(pm, createVerifyScheduledPass(), Phase::scheduled, options);
}

static void endPlanning(OpPassManager &pm, const PipelineOptions &options) {
  endPhase(pm, createVerifyPlannedPass(), Phase::planned, options);
  // A dump of a plan that this refuses is useful.
  pm.addPass(
      createVerifyPlanPass(selectOptions<VerifyPlanPassOptions>(options)));
}

static void buildPlanning(OpPassManager &pm, const PipelineOptions &options) {
  // This runs before lifetimes are computed, because they depend on it.
  pm.addPass(createMakeGradientsInPlacePass());
  pm.addPass(createPlanMemoryPass());
  endPlanning(pm, options);
}

/// Adds the passes from the choice of what to recompute to buckets.
static void buildSharding(OpPassManager &pm, const PipelineOptions &options) {
  pm.addPass(createRematPass());
  // This runs after recomputation, which copies operators, and before gathers
  // are inserted.
  pm.addPass(createFusePass(selectOptions<FusePassOptions>(options)));
  // This runs after recomputation, whose copies of products unpack for
  // themselves, and before gathers are inserted, which gather packed bytes.
  pm.addPass(
      createPackFrozenPass(selectOptions<PackFrozenPassOptions>(options)));
  pm.addPass(createShardPass(selectOptions<ShardPassOptions>(options)));
}

/// Adds the passes that choose the values to recompute. Each choice of `auto`
/// passes through the rest of the pipeline.
static void buildRecomputation(OpPassManager &pm,
                               const PipelineOptions &options,
                               const std::optional<Cluster> &described) {
  auto decide = [described](OpPassManager &passes,
                            const PipelineOptions &chosen) {
    passes.addPass(createDecideRematPass(
        selectOptions<DecideRematPassOptions>(chosen), described));
  };
  if (options.remat != kAutoStrategy)
    return decide(pm, options);
  pm.addPass(createChooseRematPass(
      options, described,
      [=](OpPassManager &passes, const PipelineOptions &chosen) {
        decide(passes, chosen);
        buildSharding(passes, chosen);
        buildLayout(passes, chosen, described);
        buildScheduling(passes, chosen, described);
        passes.addPass(createMakeGradientsInPlacePass());
      }));
}

void fcdp::buildFcdpPipeline(OpPassManager &pm, const PipelineOptions &options,
                             Phase from,
                             const std::optional<Cluster> &described) {
  switch (from) {
  case Phase::imported:
    // This runs before all passes that look at operators and their memory.
    pm.addPass(createRetargetPass(selectOptions<RetargetPassOptions>(options)));
    pm.addPass(
        createScaleLossPass(selectOptions<ScaleLossPassOptions>(options)));
    // This runs when the backward pass begins with its final factors, and
    // before values to recompute are chosen, because gradients are computed
    // with the loss.
    pm.addPass(createChunkLossPass(selectOptions<ChunkLossPassOptions>(options),
                                   described));
    endPhase(pm, createVerifyImportedPass(), Phase::imported, options);
    // This runs before gathers are inserted, because recomputed calls share
    // those of the backward pass.
    buildRecomputation(pm, options, described);
    buildSharding(pm, options);
    [[fallthrough]];
  case Phase::sharded:
    buildLayout(pm, options, described);
    buildScheduling(pm, options, described);
    [[fallthrough]];
  case Phase::scheduled:
    buildPlanning(pm, options);
    break;
  case Phase::planned:
    endPlanning(pm, options);
  }
}

static llvm::Expected<StepOptions> readOptions(const OptionTexts &given) {
  return readStepOptions(
      [&](const PipelineOption &option) -> std::optional<StringRef> {
        const auto &text = given.texts[option.id];
        if (text.getNumOccurrences())
          return StringRef(text.getValue());
        return std::nullopt;
      });
}

void fcdp::registerFcdpPipeline() {
  registerPassPipeline(
      "fcdp-pipeline", "take an imported step to a planned one",
      [](OpPassManager &pm, StringRef text,
         function_ref<LogicalResult(const Twine &)> fail) -> LogicalResult {
        OptionTexts given;
        if (failed(given.parseFromString(text)))
          return failure();
        llvm::Expected<StepOptions> options = readOptions(given);
        if (!options)
          return fail(toString(options.takeError()));
        buildFcdpPipeline(pm, options->pipeline);
        return success();
      },
      [](function_ref<void(const mlir::detail::PassOptions &)> show) {
        show(OptionTexts());
      });
}
