// SPDX-License-Identifier: Apache-2.0

#include "Options/ClusterOption.h"
#include "Verify/VerifyPhase.h"
#include "fcdp/Planning/Overlap/OverlapAnalysis.h"
#include "fcdp/Planning/Overlap/OverlapPlanning.h"
#include "fcdp/Support/Units.h"
#include "fcdp/Transforms/Options/ActivationsSpec.h"

#include "mlir/IR/Remarks.h"
#include "llvm/Support/FormatVariadic.h"

#include <limits>

namespace fcdp {
#define GEN_PASS_DEF_DECIDEOVERLAPPASS
#include "fcdp/Transforms/Passes.h.inc"
} // namespace fcdp

using namespace mlir;
using namespace fcdp;

namespace {
class DecideOverlapPass
    : public fcdp::impl::DecideOverlapPassBase<DecideOverlapPass> {
public:
  using DecideOverlapPassBase::DecideOverlapPassBase;
  DecideOverlapPass(DecideOverlapPassOptions options,
                    std::optional<Cluster> described)
      : DecideOverlapPassBase(std::move(options)),
        described(std::move(described)) {}
  void runOnOperation() override;

private:
  std::optional<Cluster> described;
};
} // namespace

std::unique_ptr<Pass>
fcdp::createDecideOverlapPass(DecideOverlapPassOptions options,
                              std::optional<Cluster> described) {
  return std::make_unique<DecideOverlapPass>(std::move(options),
                                             std::move(described));
}

/// Returns a text on whether memory limits `solution`, which it finds out by
/// planning again without a limit.
static std::string describeLimit(const OverlapProblem &problem,
                                 const OverlapSolution &solution) {
  OverlapProblem open = problem;
  open.deviceBudget = std::numeric_limits<int64_t>::max();
  llvm::Expected<OverlapSolution> other = planOverlap(open);
  if (!other)
    return toString(other.takeError());
  if (other->estimate.seconds >=
      solution.estimate.seconds * (1 - kSearch.sameTime))
    return "more memory would not make it faster";
  return "memory limits it: it would take " +
         formatSeconds(other->estimate.seconds) + " with " +
         formatBytes(other->estimate.deviceBytes);
}

/// Emits a remark on how far ahead transfers of `function` are issued, and on
/// the limit.
static void remarkOn(func::FuncOp function, const OverlapProblem &problem,
                     const OverlapSolution &solution) {
  if (!function.getContext()->getRemarkEngine())
    return;
  size_t ahead = 0, inFlight = 0;
  for (auto [issued, fetch] :
       llvm::zip_equal(solution.fetched, problem.fetches))
    ahead = std::max(ahead, problem.countAhead(issued, fetch.needed));
  for (auto [place, reduction] :
       llvm::zip_equal(solution.accumulated, problem.reductions))
    inFlight = std::max(inFlight,
                        1 + problem.countInFlight(reduction.earliest, place));
  remark::passed(function.getLoc(), remark::RemarkOpts::name("overlap")
                                        .category("fcdp-decide-overlap")
                                        .function(function.getSymName()))
      << llvm::formatv(
             "@{0}: {1} copies are fetched up to {2} units ahead, {3} "
             "reductions run over up to {4} units; takes {5} and {6} "
             "of a device's {7}; {8}",
             function.getSymName(), problem.fetches.size(), ahead,
             problem.reductions.size(), inFlight,
             formatSeconds(solution.estimate.seconds),
             formatBytes(solution.estimate.deviceBytes),
             formatBytes(problem.deviceBudget),
             describeLimit(problem, solution))
             .str();
}

void DecideOverlapPass::runOnOperation() {
  ModuleOp module = getOperation();
  if (failed(requirePhase(module, Phase::sharded)))
    return signalPassFailure();
  if ((cluster.empty() && !described) || isPrefetched(module))
    return;
  if (failed(verifyOneLevel(module)))
    return signalPassFailure();
  llvm::Expected<Cluster> ofMesh =
      getClusterOf(getMesh(module), described, cluster, profile);
  if (!ofMesh) {
    module.emitError("cluster: ") << toString(ofMesh.takeError());
    return signalPassFailure();
  }
  llvm::Expected<ActivationsMode> mode = parseActivations(activations);
  if (!mode) {
    module.emitError("activations: ") << toString(mode.takeError());
    return signalPassFailure();
  }
  int64_t budget =
      deviceMemory > 0 ? deviceMemory : ofMesh->getDeviceCapacity().usable;
  if (llvm::Error error =
          decideOverlap(module, CostModel(*ofMesh), budget, remarkOn,
                        /*mayMove=*/*mode == ActivationsMode::Auto)) {
    module.emitError(toString(std::move(error)));
    signalPassFailure();
  }
}
