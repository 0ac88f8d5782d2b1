// SPDX-License-Identifier: Apache-2.0

#include "ChooseRemat.h"

#include "Options/ClusterOption.h"
#include "PrivateCopy.h"
#include "Verify/VerifyPhase.h"
#include "dialects/Aten/Aten.h"
#include "fcdp/Analysis/Aliases.h"
#include "fcdp/Planning/Memory/DeviceMemory.h"
#include "fcdp/Planning/Recompute/Rematerialization.h"
#include "fcdp/Simulation/Simulator.h"
#include "fcdp/Simulation/StepProgram.h"
#include "fcdp/Support/Units.h"
#include "fcdp/Transforms/Passes.h"

#include "mlir/IR/Remarks.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace fcdp;

namespace {
/// A plan with one amount of recomputation.
struct RematTrial {
  /// The value of the option.
  std::string remat;
  double seconds = 0;
  int64_t deviceBytes = 0;
  /// Bytes of values of the forward pass that are in host memory.
  int64_t storedBytes = 0;
};

class ChooseRematPass
    : public PassWrapper<ChooseRematPass, OperationPass<ModuleOp>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ChooseRematPass)
  ChooseRematPass(const PipelineOptions &options,
                  const std::optional<Cluster> &described, BuildRest build)
      : options(options), described(described), build(std::move(build)) {}

  StringRef getArgument() const final { return "fcdp-choose-remat"; }
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<FcdpDialect, aten::AtenDialect>();
  }
  void runOnOperation() override;

private:
  LogicalResult findLimit();
  std::optional<RematTrial> attempt(ModuleOp step, const std::string &remat);
  SmallVector<std::string> findChoices(ModuleOp step);
  void remark(ArrayRef<RematTrial> trials, const RematTrial &chosen);
  bool fits(const RematTrial &trial) const {
    return trial.deviceBytes <= limit;
  }
  DecideRematPassOptions withChoice(StringRef remat) const;

  PipelineOptions options;
  std::optional<Cluster> described;
  BuildRest build;
  /// The bytes of a device that a plan may use.
  int64_t limit = 0;
};
} // namespace

std::unique_ptr<Pass>
fcdp::createChooseRematPass(const PipelineOptions &options,
                            const std::optional<Cluster> &described,
                            BuildRest build) {
  return std::make_unique<ChooseRematPass>(options, described,
                                           std::move(build));
}

DecideRematPassOptions ChooseRematPass::withChoice(StringRef remat) const {
  DecideRematPassOptions chosen;
  chosen.remat = remat.str();
  chosen.optimizer = options.optimizer;
  chosen.group = options.group;
  chosen.reduceType = options.reduceType;
  chosen.cluster = options.cluster;
  chosen.profile = options.profile;
  return chosen;
}

/// Finds the cluster of times, and the device memory.
LogicalResult ChooseRematPass::findLimit() {
  if (options.cluster.empty() && !described)
    return getOperation().emitError(
        "remat 'auto' chooses for a cluster; give one as 'cluster', a file or "
        "the name of a preset");
  llvm::Expected<Cluster> found = getClusterOf(
      /*mesh=*/{}, described, options.cluster, options.profile);
  if (!found)
    return getOperation().emitError("cluster: ") << toString(found.takeError());
  described = std::move(*found);
  limit = options.deviceMemory > 0 ? options.deviceMemory
                                   : described->getDeviceCapacity().usable;
  return success();
}

/// Returns the bytes of results of the forward pass that the rest of the step
/// reads, without those that run again.
static int64_t countSaved(func::FuncOp step) {
  Operation *end = findForwardEnd(step);
  int64_t bytes = 0;
  for (auto call : step.front().getOps<aten::CallOp>()) {
    if (!end || end->isBeforeInBlock(call))
      break;
    if (isView(call) || getRecompute(call).value_or(false))
      continue;
    for (Value result : call.getResults()) {
      SmallVector<Value> worklist{result};
      bool isRead = false;
      while (!worklist.empty() && !isRead)
        for (Operation *user : worklist.pop_back_val().getUsers()) {
          isRead |=
              end->isBeforeInBlock(user) || getRecompute(user).value_or(false);
          if (isView(user))
            llvm::append_range(worklist, user->getResults());
        }
      auto type = dyn_cast<RankedTensorType>(result.getType());
      if (isRead && type && hasByteSize(type))
        bytes += byteSize(type);
    }
  }
  return bytes;
}

static int64_t countMostSaved(ModuleOp module) {
  int64_t bytes = 0;
  for (auto function : module.getOps<func::FuncOp>())
    bytes = std::max(bytes, countSaved(function));
  return bytes;
}

/// Returns nothing, as little, and all that can be recomputed.
SmallVector<std::string> ChooseRematPass::findChoices(ModuleOp step) {
  SmallVector<std::string> choices{"none", "unit"};
  OwningOpRef<ModuleOp> least(cast<ModuleOp>(step->clone()));
  PassManager passes(least->getContext());
  passes.enableVerifier(false);
  passes.addPass(createDecideRematPass(withChoice("unit"), described));
  if (failed(passes.run(*least)))
    return choices;
  int64_t few = countMostSaved(*least), all = countMostSaved(step);
  constexpr int64_t parts = 4;
  for (int64_t i = 1; i < parts; ++i)
    if (few + (all - few) / parts * i > few)
      choices.push_back(std::to_string(few + (all - few) / parts * i));
  return choices;
}

/// Returns none if there is no such plan.
std::optional<RematTrial> ChooseRematPass::attempt(ModuleOp step,
                                                   const std::string &remat) {
  OwningOpRef<ModuleOp> copy(cast<ModuleOp>(step->clone()));
  PipelineOptions asked = options;
  asked.remat = remat;
  asked.dumpDir.clear();
  PassManager passes(copy->getContext());
  passes.enableVerifier(false);
  build(passes, asked);
  if (failed(passes.run(*copy)) || failed(checkSimulable(*copy)))
    return std::nullopt;
  Cluster times = *described;
  MeshOp mesh = getMesh(*copy);
  times.nodes = mesh.getNode();
  times.ranksPerNode = mesh.getLocal();
  RematTrial trial;
  trial.remat = remat;
  trial.seconds = simulateStep(makeStepProgram(*copy, times)).seconds;
  copy->walk([&](StoreValueOp store) {
    trial.storedBytes +=
        byteSize(cast<RankedTensorType>(store.getValue().getType()));
  });
  FailureOr<int64_t> bytes = peakDeviceBytes(*copy);
  if (failed(bytes))
    return std::nullopt;
  trial.deviceBytes = *bytes;
  return trial;
}

void ChooseRematPass::remark(ArrayRef<RematTrial> trials,
                             const RematTrial &chosen) {
  if (!getContext().getRemarkEngine())
    return;
  std::string text = "remat auto:";
  for (const RematTrial &trial : trials)
    text += llvm::formatv(" {0} takes {1} and needs {2}, with {3} in host "
                          "memory;",
                          trial.remat, formatSeconds(trial.seconds),
                          formatBytes(trial.deviceBytes),
                          formatBytes(trial.storedBytes))
                .str();
  mlir::remark::passed(
      getOperation().getLoc(),
      mlir::remark::RemarkOpts::name("recompute").category(getArgument()))
      << text + " chosen: " + chosen.remat;
}

void ChooseRematPass::runOnOperation() {
  ModuleOp module = getOperation();
  if (failed(requireSteps(module)))
    return signalPassFailure();
  if (getRemat(module))
    return;
  if (failed(findLimit()))
    return signalPassFailure();
  PrivateCopy copy(module);
  SmallVector<RematTrial> trials;
  for (const std::string &remat : findChoices(copy.get()))
    if (std::optional<RematTrial> trial = attempt(copy.get(), remat))
      trials.push_back(std::move(*trial));
  // If there is no plan, the one that keeps the least says why.
  RematTrial chosen;
  chosen.remat = "unit";
  if (!trials.empty()) {
    chosen = *llvm::min_element(trials, [&](const RematTrial &a,
                                            const RematTrial &b) {
      if (fits(a) != fits(b))
        return fits(a);
      return fits(a) ? a.seconds < b.seconds : a.deviceBytes < b.deviceBytes;
    });
    remark(trials, chosen);
  }
  OpPassManager passes(ModuleOp::getOperationName());
  passes.addPass(createDecideRematPass(withChoice(chosen.remat), described));
  if (failed(runPipeline(passes, module)))
    signalPassFailure();
}
