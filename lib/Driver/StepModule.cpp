// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Driver/StepModule.h"

#include "dialects/Aten/Aten.h"
#include "fcdp/Driver/MeasureStep.h"
#include "fcdp/Import/Pt2.h"
#include "fcdp/Planning/Layout/BucketOptions.h"
#include "fcdp/Support/InputFile.h"
#include "fcdp/Support/Nesting.h"
#include "fcdp/Transforms/Options/GroupSpec.h"
#include "fcdp/Transforms/Options/LayoutSpec.h"
#include "fcdp/Transforms/Options/OptimizerSpec.h"
#include "fcdp/Transforms/Options/PrecisionSpec.h"
#include "fcdp/Transforms/Options/StatesSpec.h"
#include "fcdp/Transforms/Options/Strategy.h"
#include "fcdp/Transforms/Pipeline.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;
using namespace fcdp;

static OwningOpRef<ModuleOp> readModule(StringRef input, MLIRContext &context) {
  llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> file =
      readInputFile(input);
  if (!file) {
    emitError(UnknownLoc::get(&context), "cannot read '")
        << input << "': " << toString(file.takeError());
    return nullptr;
  }
  // The content of the file decides, not its name: an archive is a zip file.
  if ((*file)->getBuffer().starts_with("PK\x03\x04"))
    return importPt2((*file)->getMemBufferRef(), &context);
  // Text has no zero bytes; files of weights and of tokens do.
  if ((*file)->getBuffer().contains('\0')) {
    emitError(UnknownLoc::get(&context), "'")
        << input << "': expected a .pt2 archive or MLIR text, got another file";
    return nullptr;
  }
  if (input.ends_with(".py")) {
    emitError(UnknownLoc::get(&context), "'")
        << input << "': expected a .pt2 archive, got a program of Python: run "
        << "it, and have it write the archive with fcdp.export";
    return nullptr;
  }
  if (auto problem = findTooDeep((*file)->getBuffer())) {
    emitError(FileLineColLoc::get(&context, input, unsigned(problem->line), 1))
        << problem->message;
    return nullptr;
  }
  return parseSourceString<ModuleOp>((*file)->getBuffer(), &context, input);
}

OwningOpRef<ModuleOp> fcdp::readStep(StringRef input, MLIRContext &context) {
  // An operation may be thousands of characters long; its location is enough.
  context.printOpOnDiagnostic(false);
  context.loadDialect<FcdpDialect, aten::AtenDialect, func::FuncDialect>();
  OwningOpRef<ModuleOp> module = readModule(input, context);
  if (!module || getPhase(*module))
    return module;
  module->emitError("expected a step: the attribute '")
      << FcdpDialect::PhaseAttrHelper::getNameStr()
      << "' is missing; fcdp.export writes an archive of one";
  return nullptr;
}

llvm::Error fcdp::checkArchives(ModuleOp module, ArrayRef<NamedFile> outputs) {
  std::vector<std::string> paths = getArchives(module);
  std::vector<NamedFile> archives;
  for (const std::string &path : paths)
    archives.push_back({"the step", path});
  return checkOutputs(outputs, archives);
}

namespace {
/// Compares a module with the options that were given.
class Checker {
public:
  Checker(ModuleOp module, StringRef input, const StepOptions &options)
      : module(module), input(input), options(options),
        wanted(options.pipeline) {}

  LogicalResult check();

private:
  LogicalResult fail(option::OptionId id, const Twine &message) {
    return emitError(UnknownLoc::get(module.getContext()),
                     "--" + getPipelineOption(id).name + ": " + message);
  }
  LogicalResult failAt(option::OptionId id, const Twine &made,
                       const Twine &asked) {
    return fail(id, "expected '" + made + "', for which the step in '" + input +
                        "' was made, got '" + asked + "'");
  }
  LogicalResult checkOptimizer();
  LogicalResult checkGroups();
  LogicalResult checkAccumulation();
  LogicalResult checkCollectives();
  LogicalResult checkStates();
  LogicalResult checkUpdate();
  LogicalResult checkLayout();
  LogicalResult checkMaster();
  LogicalResult checkReduceType();
  LogicalResult checkLossScale();
  LogicalResult checkLossWeight();
  LogicalResult checkClipNorm();

  ModuleOp module;
  StringRef input;
  const StepOptions &options;
  const PipelineOptions &wanted;
};
} // namespace

LogicalResult Checker::checkOptimizer() {
  OptimizerSpec spec =
      llvm::cantFail(parseOptimizers(wanted.optimizer, module.getContext()));
  bool isThere = false, isFirst = false, isOther = false;
  module.walk([&](UpdateOpInterface update) {
    isThere = true;
    isFirst |= update.getOptimizer() == spec.first;
    isOther |= update.getOptimizer() != spec.first &&
               update.getOptimizer() != spec.rest;
  });
  if (isThere && (!isFirst || isOther))
    return fail(option::Optimizer,
                "the step in '" + input + "' was made for another one");
  return success();
}

/// Returns the optimizer of each parameter.
static llvm::DenseMap<StringAttr, OptimizerAttrInterface>
findOptimizers(ModuleOp module) {
  llvm::DenseMap<StringAttr, OptimizerAttrInterface> optimizers;
  module.walk([&](UpdateOpInterface update) {
    auto bucket = SymbolTable::lookupNearestSymbolFrom<BucketOp>(
        update, update.getTargetAttr());
    optimizers[update.getTargetAttr().getAttr()] = update.getSettings();
    if (bucket)
      for (auto member : bucket.getMembers().getAsRange<MemberAttr>())
        optimizers[member.getParameter().getAttr()] = update.getSettings();
  });
  return optimizers;
}

LogicalResult Checker::checkGroups() {
  auto groups = llvm::cantFail(parseGroups(wanted.group));
  llvm::DenseMap<StringAttr, OptimizerAttrInterface> optimizers =
      findOptimizers(module);
  for (auto parameter : module.getOps<ParameterOp>()) {
    OptimizerAttrInterface made = optimizers.lookup(parameter.getSymNameAttr());
    if (!made)
      continue; // it is not trained
    const GroupSpec *group = findGroup(parameter, groups);
    bool isAsked = !group || group->optimizer.empty() ||
                   group->optimizer == made.getName();
    if (!isAsked || parameter.getGroupAttr() != makeGroup(group, made))
      return fail(option::Group, "'" + parameter.getSymName() +
                                     "' of the step in '" + input +
                                     "' was made for another one");
  }
  return success();
}

LogicalResult Checker::checkLayout() {
  LayoutAttr layout =
      llvm::cantFail(parseLayout(wanted.layout, module.getContext()));
  llvm::DenseMap<StringAttr, OptimizerAttrInterface> optimizers =
      findOptimizers(module);
  for (auto bucket : module.getOps<BucketOp>()) {
    OptimizerAttrInterface optimizer =
        optimizers.lookup(bucket.getSymNameAttr());
    Attribute needed = optimizer ? optimizer.getNeededLayout() : Attribute();
    if (getLayout(bucket) != (needed ? needed : layout))
      return fail(option::Layout, "the buckets in '" + input +
                                      "' were laid out in another one");
  }
  return success();
}

LogicalResult Checker::checkMaster() {
  Type master = llvm::cantFail(parseMaster(wanted.master, module.getContext()));
  for (auto bucket : module.getOps<BucketOp>()) {
    bool isWanted =
        bucket.getTrainable() && needsMaster(bucket.getStorage(), master);
    if (isWanted != bucket.getMaster().has_value())
      return failAt(option::Master, isWanted ? "model" : "f32", wanted.master);
  }
  return success();
}

LogicalResult Checker::checkReduceType() {
  Type wantedType =
      llvm::cantFail(parseReduceType(wanted.reduceType, module.getContext()));
  WalkResult result = module.walk([&](PackOp pack) {
    auto bucket = SymbolTable::lookupNearestSymbolFrom<BucketOp>(
        pack, pack.getBucketAttr());
    Type made = pack.getResult().getType().getElementType();
    if (wantedType ? made == wantedType : !bucket.getReduce())
      return WalkResult::advance();
    std::string name = "model";
    if (bucket.getReduce())
      llvm::raw_string_ostream(name = "") << made;
    (void)failAt(option::ReduceType, name, wanted.reduceType);
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

LogicalResult Checker::checkLossScale() {
  WalkResult result =
      module.walk([](UnscaleGradientsOp) { return WalkResult::interrupt(); });
  bool isMade = result.wasInterrupted();
  if (isMade == llvm::cantFail(parseLossScale(wanted.lossScale)))
    return success();
  return failAt(option::LossScale, isMade ? "on" : "off", wanted.lossScale);
}

LogicalResult Checker::checkLossWeight() {
  StringRef made = getLossWeight(module).value_or("");
  if (made == wanted.lossWeight)
    return success();
  return failAt(option::LossWeight, made.empty() ? "none" : made,
                wanted.lossWeight);
}

LogicalResult Checker::checkClipNorm() {
  double made = 0;
  module.walk([&](ClipGradientsOp clip) {
    made = clip.getMaxNorm().convertToDouble();
  });
  if (made == wanted.clipNorm)
    return success();
  return fail(option::ClipNorm,
              "the step in '" + input + "' was made for another one");
}

LogicalResult Checker::checkAccumulation() {
  if (!getStrategy(module))
    return success(); // not decided yet
  Accumulation asked = llvm::cantFail(parseAccumulation(wanted.accumulate));
  for (auto bucket : module.getOps<BucketOp>()) {
    Accumulation made =
        bucket.getAccumulation().value_or(Accumulation::sharded);
    if (bucket.getTrainable() && made != asked)
      return failAt(option::Accumulate, stringifyAccumulation(made),
                    stringifyAccumulation(asked));
  }
  return success();
}

LogicalResult Checker::checkStates() {
  if (!getStrategy(module))
    return success(); // not decided yet
  StatesSpec asked = llvm::cantFail(parseStates(wanted.states));
  if (asked.mode == StatesSpec::Mode::Auto)
    return success();
  StringRef name = StringRef(wanted.states).split(',').first;
  // Some buckets have no states that could leave the device.
  Arena made = Arena::device;
  for (auto bucket : module.getOps<BucketOp>())
    if (Arena own = bucket.getStates().value_or(Arena::device);
        own != Arena::device &&
        (made == Arena::device || stringifyArena(own) != name))
      made = own;
  if (stringifyArena(made) == name)
    return success();
  return failAt(option::States, stringifyArena(made), wanted.states);
}

LogicalResult Checker::checkUpdate() {
  if (!getStrategy(module))
    return success(); // not decided yet
  UpdateMode asked = llvm::cantFail(parseUpdate(wanted.update));
  bool isOnHost = llvm::any_of(module.getOps<BucketOp>(), [](BucketOp bucket) {
    return bucket.getUpdatedOnHost();
  });
  if (asked == UpdateMode::Auto || (asked == UpdateMode::Host) == isOnHost)
    return success();
  return failAt(option::Update, isOnHost ? "host" : "device", wanted.update);
}

LogicalResult Checker::checkCollectives() {
  if (!getStrategy(module))
    return success(); // not decided yet
  auto asked = llvm::cantFail(parseCollectives(wanted.collectives));
  for (auto bucket : module.getOps<BucketOp>()) {
    Collectives made = bucket.getCollectives().value_or(Collectives::two_level);
    if (asked && made != *asked)
      return fail(option::Collectives,
                  "the step in '" + input + "' was made for other ones, " +
                      (made == Collectives::flat ? "'flat'" : "'two-level'"));
  }
  return success();
}

LogicalResult Checker::check() {
  bool agrees = true;
  auto compare = [&](option::OptionId id, auto asked, auto made) {
    if (options.isGiven(id) && asked != made)
      agrees = succeeded(failAt(id, Twine(made), Twine(asked)));
  };
  auto compareIfMade = [&](option::OptionId id, int64_t asked,
                           std::optional<int64_t> made) {
    if (made)
      compare(id, asked, *made);
  };
  if (MeshOp mesh = getMesh(module)) {
    compare(option::Nodes, wanted.nodes, int64_t(mesh.getNode()));
    compare(option::RanksPerNode, wanted.ranksPerNode,
            int64_t(mesh.getLocal()));
  }
  compareIfMade(option::MicroBatches, wanted.microBatches,
                findMicroBatches(module));
  if (!module.getOps<BucketOp>().empty())
    compare(option::BucketBytes, wanted.bucketBytes,
            getBucketBytes(module).value_or(0));
  compareIfMade(option::Prefetch, wanted.prefetch, getPrefetch(module));
  compareIfMade(option::Reductions, wanted.reductions, getReductions(module));
  compare(option::Strategy, StringRef(wanted.strategy),
          getStrategy(module).value_or(wanted.strategy));
  compare(option::Target, StringRef(wanted.target),
          stringifyTarget(getTarget(module)));
  if (wanted.remat != kAutoStrategy)
    compare(option::Remat, StringRef(wanted.remat),
            getRemat(module).value_or("none"));
  compare(option::LossChunk, StringRef(wanted.lossChunk),
          getLossChunk(module).value_or("off"));
  compare(option::Frozen, StringRef(wanted.frozen),
          getFrozen(module).value_or("off"));
  compare(option::Fuse, StringRef(wanted.fuse),
          getFuse(module).value_or("off"));
  if (getPhase(module) != Phase::sharded)
    compare(option::Activations, StringRef(wanted.activations),
            getActivations(module).value_or("device"));
  compare(option::Wrap, StringRef(wanted.wrap), stringifyWrap(getWrap(module)));
  for (auto [id, check] :
       {std::pair(option::Optimizer, &Checker::checkOptimizer),
        std::pair(option::Group, &Checker::checkGroups),
        std::pair(option::Layout, &Checker::checkLayout),
        std::pair(option::Master, &Checker::checkMaster),
        std::pair(option::ReduceType, &Checker::checkReduceType),
        std::pair(option::LossScale, &Checker::checkLossScale),
        std::pair(option::LossWeight, &Checker::checkLossWeight),
        std::pair(option::ClipNorm, &Checker::checkClipNorm),
        std::pair(option::Accumulate, &Checker::checkAccumulation),
        std::pair(option::States, &Checker::checkStates),
        std::pair(option::Update, &Checker::checkUpdate),
        std::pair(option::Collectives, &Checker::checkCollectives)})
    if (options.isGiven(id) && failed((this->*check)()))
      agrees = false;
  compareMessages(module, options,
                  [&](option::OptionId id, StringRef made, StringRef asked) {
                    agrees = succeeded(failAt(id, made, asked));
                  });
  return success(agrees);
}

LogicalResult fcdp::checkPastDecisions(ModuleOp module, StringRef input,
                                       const StepOptions &options) {
  if (getPhase(module) == Phase::imported)
    return success();
  return Checker(module, input, options).check();
}

/// Returns whether a plan depends on the memory that devices have.
static bool dependsOnMemory(const PipelineOptions &options) {
  return llvm::any_of(
      llvm::ArrayRef<StringRef>{options.strategy, options.activations,
                                options.states, options.lossChunk,
                                options.remat},
      [](StringRef text) { return text.starts_with(kAutoStrategy); });
}

bool fcdp::isPlannedForCluster(const PipelineOptions &options) {
  return !findChoiceForCluster(options).empty() || dependsOnMemory(options);
}

PipelineOptions fcdp::withoutBudget(PipelineOptions options) {
  if (!dependsOnMemory(options))
    options.deviceMemory = options.hostMemory = 0;
  return options;
}

std::optional<PlannedStep>
fcdp::planCopy(ModuleOp module, const PipelineOptions &options,
               TimingScope &timing, const std::optional<Cluster> &described) {
  PlannedStep planned;
  planned.module = cast<ModuleOp>(module->clone());
  PassManager pm(module.getContext());
  pm.enableTiming(timing);
  // The pipeline has the verifier passes of the phases. MLIR's own verifier
  // after each pass takes a third of the time, which a sweep would spend at
  // each point.
  pm.enableVerifier(false);
  buildFcdpPipeline(pm, options, *getPhase(module), described);
  pm.addPass(createMeasureStepPass([&](StepFacts facts) {
    planned.facts = std::move(facts);
    return success();
  }));
  if (failed(pm.run(*planned.module)))
    return std::nullopt;
  return planned;
}
