// SPDX-License-Identifier: Apache-2.0

#include "ClusterOption.h"
#include "Verify/VerifyPhase.h"
#include "fcdp/Planning/Overlap/OverlapAnalysis.h"

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

void DecideOverlapPass::runOnOperation() {
  ModuleOp module = getOperation();
  if (failed(requirePhase(module, Phase::sharded)))
    return signalPassFailure();
  if ((cluster.empty() && !described) || module->hasAttr(kPrefetchedAttr))
    return;
  if (failed(verifyOneLevel(module)))
    return signalPassFailure();
  llvm::Expected<Cluster> ofMesh =
      getClusterOf(getMesh(module), described, cluster, profile);
  if (!ofMesh) {
    module.emitError("cluster: ") << toString(ofMesh.takeError());
    return signalPassFailure();
  }
  int64_t budget = deviceMemory > 0 ? deviceMemory : ofMesh->device.memory;
  if (llvm::Error error = decideOverlap(module, CostModel(*ofMesh), budget)) {
    module.emitError(toString(std::move(error)));
    signalPassFailure();
  }
}
