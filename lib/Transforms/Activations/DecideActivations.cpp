// SPDX-License-Identifier: Apache-2.0

#include "ActivationModel.h"
#include "PhasePasses.h"
#include "Verify/VerifyPhase.h"
#include "fcdp/Analysis/StepFunctions.h"
#include "fcdp/Planning/Activations/StoredActivations.h"
#include "fcdp/Planning/Memory/DeviceMemory.h"
#include "fcdp/Support/Units.h"
#include "fcdp/Transforms/Options/ActivationsSpec.h"

#include "mlir/IR/Remarks.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/FormatVariadic.h"

namespace fcdp {
#define GEN_PASS_DEF_DECIDEACTIVATIONSPASS
#include "fcdp/Transforms/Passes.h.inc"
} // namespace fcdp

using namespace mlir;
using namespace fcdp;

namespace {
/// The values of one function in the order in which they should leave the
/// device.
struct Candidates {
  Candidates(func::FuncOp function, const CostModel &model);

  /// Returns the first `count` candidates, and given values.
  SmallVector<bool> choose(size_t count) const;

  func::FuncOp function;
  StoredActivations activations;
  SmallVector<size_t> order;
  /// The number of candidates whose copies are hidden.
  size_t hidden = 0;
};

class DecideActivationsPass
    : public fcdp::impl::DecideActivationsPassBase<DecideActivationsPass> {
public:
  using DecideActivationsPassBase::DecideActivationsPassBase;
  DecideActivationsPass(DecideActivationsPassOptions options,
                        std::optional<Cluster> described)
      : DecideActivationsPassBase(std::move(options)),
        described(std::move(described)) {}
  void runOnOperation() override;

private:
  FailureOr<int64_t> measure(ArrayRef<Candidates> all, size_t count,
                             const Cluster &times);
  FailureOr<size_t> findLeast(ArrayRef<Candidates> all, const Cluster &times);
  void remarkOn(const Candidates &candidates, size_t count);

  std::optional<Cluster> described;
};
} // namespace

std::unique_ptr<Pass>
fcdp::createDecideActivationsPass(DecideActivationsPassOptions options,
                                  std::optional<Cluster> described) {
  return std::make_unique<DecideActivationsPass>(std::move(options),
                                                 std::move(described));
}

Candidates::Candidates(func::FuncOp function, const CostModel &model)
    : function(function), activations(function, model) {
  ActivationProblem problem = activations.getProblem();
  SmallVector<size_t> open;
  for (size_t i = 0; i < problem.values.size(); ++i)
    if (activations.isLarge(i) && !activations.isGiven(i))
      open.push_back(i);
  ActivationProblem ofOpen;
  ofOpen.seconds = problem.seconds;
  for (size_t i : open)
    ofOpen.values.push_back(problem.values[i]);
  hidden = llvm::count(chooseHidden(ofOpen), true);
  for (size_t i : orderByExposure(ofOpen))
    order.push_back(open[i]);
}

SmallVector<bool> Candidates::choose(size_t count) const {
  SmallVector<bool> chosen(activations.getValues().size(), false);
  for (size_t i : ArrayRef(order).take_front(count))
    chosen[i] = true;
  return chosen;
}

/// Returns the device memory that the step needs with the first `count`
/// candidates of each function in host memory.
FailureOr<int64_t> DecideActivationsPass::measure(ArrayRef<Candidates> all,
                                                  size_t count,
                                                  const Cluster &times) {
  for (const Candidates &one : all)
    one.activations.write(one.choose(count));
  OwningOpRef<ModuleOp> trial = cast<ModuleOp>(getOperation()->clone());
  for (const Candidates &one : all)
    one.activations.erase(one.choose(count));
  PassManager passes(&getContext());
  passes.enableVerifier(false); // the pipeline verifies what is chosen
  passes.addPass(createStoreActivationsPass({}, times));
  passes.addPass(createSchedulePass());
  if (failed(passes.run(*trial)))
    return failure();
  return peakDeviceBytes(*trial);
}

/// Returns the fewest candidates with which the step fits the device, or all of
/// them.
FailureOr<size_t> DecideActivationsPass::findLeast(ArrayRef<Candidates> all,
                                                   const Cluster &times) {
  int64_t budget =
      deviceMemory > 0 ? deviceMemory : times.getDeviceCapacity().usable;
  size_t most = 0;
  for (const Candidates &one : all)
    most = std::max(most, one.order.size());
  auto fits = [&](size_t count) -> FailureOr<bool> {
    FailureOr<int64_t> bytes = measure(all, count, times);
    if (failed(bytes))
      return failure();
    return *bytes <= budget;
  };
  FailureOr<bool> none = fits(0);
  if (failed(none))
    return failure();
  if (*none)
    return size_t(0);
  // More candidates never need much more memory, so the search is binary.
  size_t low = 0, high = most;
  while (low + 1 < high) {
    size_t middle = (low + high) / 2;
    FailureOr<bool> enough = fits(middle);
    if (failed(enough))
      return failure();
    (*enough ? high : low) = middle;
  }
  return high;
}

void DecideActivationsPass::remarkOn(const Candidates &candidates,
                                     size_t count) {
  if (!getContext().getRemarkEngine() || candidates.order.empty())
    return;
  func::FuncOp function = candidates.function;
  ActivationSolution solution =
      placeMoves(candidates.activations.getProblem(), candidates.choose(count));
  std::string text;
  if (solution.countStored() == 0)
    text = llvm::formatv("activations {0}: all values stay on the device",
                         activations)
               .str();
  else
    text = llvm::formatv(
               "activations {0}: {1} of {2} values, {3}, are in host memory "
               "between the forward and the backward pass; compute waits {4} "
               "for their copies",
               activations, solution.countStored(),
               candidates.activations.getValues().size(),
               formatBytes(solution.storedBytes),
               formatSeconds(solution.exposedSeconds))
               .str();
  remark::passed(function.getLoc(), remark::RemarkOpts::name("activations")
                                        .category("fcdp-decide-activations")
                                        .function(function.getSymName()))
      << text;
}

void DecideActivationsPass::runOnOperation() {
  ModuleOp module = getOperation();
  if (failed(requirePhase(module, Phase::sharded)))
    return signalPassFailure();
  llvm::Expected<ActivationsMode> mode = parseActivations(activations);
  if (!mode) {
    module.emitError("activations: ") << toString(mode.takeError());
    return signalPassFailure();
  }
  if (*mode == ActivationsMode::Device || getActivations(module))
    return;
  FailureOr<Cluster> times =
      getActivationCluster(module, described, cluster, profile);
  if (failed(times))
    return signalPassFailure();
  CostModel model(*times);
  std::vector<Candidates> all;
  for (auto function : module.getOps<func::FuncOp>())
    if (all.emplace_back(function, model).activations.getValues().empty())
      all.pop_back();
  size_t count = 0;
  if (*mode == ActivationsMode::Auto) {
    FailureOr<size_t> least = findLeast(all, *times);
    if (failed(least))
      return signalPassFailure();
    count = *least;
  }
  for (const Candidates &one : all) {
    size_t ofFunction = *mode == ActivationsMode::Host ? one.hidden : count;
    remarkOn(one, ofFunction);
    one.activations.write(one.choose(ofFunction));
  }
  setActivations(module, activations);
}
