// SPDX-License-Identifier: Apache-2.0

#include "Options/ClusterOption.h"
#include "Verify/VerifyPhase.h"
#include "fcdp/Transforms/Options/WireSpec.h"
#include "fcdp/Transforms/PipelineOptions.h"

#include "fcdp/Cluster/CostModel.h"
#include "mlir/IR/Remarks.h"

namespace fcdp {
#define GEN_PASS_DEF_DECIDEWIRESPASS
#include "fcdp/Transforms/Passes.h.inc"
} // namespace fcdp

using namespace mlir;
using namespace fcdp;

namespace {
class DecideWiresPass
    : public fcdp::impl::DecideWiresPassBase<DecideWiresPass> {
public:
  using DecideWiresPassBase::DecideWiresPassBase;
  DecideWiresPass(DecideWiresPassOptions options,
                  std::optional<Cluster> described)
      : DecideWiresPassBase(std::move(options)),
        described(std::move(described)) {}
  void runOnOperation() override;

private:
  LogicalResult checkGiven();
  FailureOr<std::optional<CostModel>> getModel();
  void decideGathers(const std::optional<CostModel> &model);
  void decideReductions();

  std::optional<Cluster> described;
  GatherWireSpec gathers = GatherWireSpec::raw;
  Wire reductions = Wire::raw;
};
} // namespace

std::unique_ptr<Pass>
fcdp::createDecideWiresPass(DecideWiresPassOptions options,
                            std::optional<Cluster> described) {
  return std::make_unique<DecideWiresPass>(std::move(options),
                                           std::move(described));
}

LogicalResult DecideWiresPass::checkGiven() {
  ModuleOp module = getOperation();
  if (failed(checkOption(module, "wire", wire)) ||
      failed(checkOption(module, "reduce-wire", reduceWire)))
    return failure();
  gathers = llvm::cantFail(parseGatherWire(wire));
  reductions = llvm::cantFail(parseReduceWire(reduceWire));
  bool isCoded = gathers != GatherWireSpec::raw || reductions != Wire::raw;
  if (isCoded && getTarget(module) == "cuda")
    return module.emitError("messages are coded on CPUs only: give neither "
                            "--wire nor --reduce-wire "
                            "for the target 'cuda'");
  for (auto bucket : module.getOps<BucketOp>())
    if (!bucket.getResidency())
      return bucket.emitError("expected a residency; run --fcdp-decide first");
  return success();
}

/// Returns the costs that `auto` compares.
FailureOr<std::optional<CostModel>> DecideWiresPass::getModel() {
  if (gathers != GatherWireSpec::automatic)
    return std::optional<CostModel>();
  ModuleOp module = getOperation();
  if (cluster.empty() && !described)
    return module.emitError("wire 'auto' chooses for a cluster; give one as "
                            "'cluster', a file or the name of a preset");
  llvm::Expected<Cluster> found =
      getClusterOf(getMesh(module), described, cluster, profile);
  if (!found)
    return module.emitError("cluster: ") << toString(found.takeError());
  return std::optional<CostModel>(std::in_place, *found);
}

/// Returns whether a gather of differences takes less time than one of values.
static bool isFaster(BucketOp bucket, MeshOp mesh, const CostModel &model) {
  double part = static_cast<double>(bucket.getElements()) *
                elementBytes(bucket.getWire()) / mesh.getWorldSize();
  return model.costOfDeltaGather(mesh.getNode(), part).getTotal() <
         model.costOfGather(Axis::node, mesh.getNode(), part).getTotal();
}

void DecideWiresPass::decideGathers(const std::optional<CostModel> &model) {
  ModuleOp module = getOperation();
  MeshOp mesh = getMesh(module);
  for (auto bucket : module.getOps<BucketOp>()) {
    if (bucket.getGatherWire() || !mayGatherDeltas(bucket))
      continue;
    bool isDelta = !model || isFaster(bucket, mesh, *model);
    if (isDelta)
      bucket.setGatherWire(Wire::delta);
    if (model && module.getContext()->getRemarkEngine())
      remark::passed(bucket.getLoc(),
                     remark::RemarkOpts::name("wire").category(getArgument()))
          << ("bucket " + bucket.getSymName() + ": gathers send " +
              (isDelta ? "differences, which is predicted to be faster"
                       : "values, as coding is predicted to take longer"))
                 .str();
  }
}

void DecideWiresPass::decideReductions() {
  for (auto bucket : getOperation().getOps<BucketOp>())
    if (bucket.getTrainable() && !bucket.getReduceWire() &&
        bucket.getCollectives() != Collectives::flat)
      bucket.setReduceWire(reductions);
}

void DecideWiresPass::runOnOperation() {
  ModuleOp module = getOperation();
  if (failed(requirePhase(module, Phase::sharded)) || failed(checkGiven()))
    return signalPassFailure();
  if (getMesh(module).getNode() == 1)
    return; // nothing is sent between nodes
  if (reductions != Wire::raw)
    decideReductions();
  if (gathers == GatherWireSpec::raw)
    return;
  FailureOr<std::optional<CostModel>> model = getModel();
  if (failed(model))
    return signalPassFailure();
  decideGathers(*model);
  bool isUsed = llvm::any_of(module.getOps<BucketOp>(), mayGatherDeltas);
  if (gathers == GatherWireSpec::delta && !isUsed) {
    module.emitError(
        "wire 'delta' is for trained parameters that are gathered in "
        "bf16 or f16 and kept in host memory, and the step has none: "
        "expected a model in bf16 or f16 (or under autocast) and the "
        "strategy 'fcdp'");
    signalPassFailure();
  }
}
