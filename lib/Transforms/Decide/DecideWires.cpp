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
  void remark();

  std::optional<Cluster> described;
  WireChoice choice;
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
  choice = getWireChoice(wire, reduceWire);
  const Target target = getTarget(module);
  if ((choice.gathers == GatherWireSpec::delta &&
       !canCode(Wire::delta, target)) ||
      !canCode(choice.reductions.value_or(Wire::raw), target))
    return module.emitError("messages are coded without loss on CPUs only: "
                            "expected --wire=raw or auto, and --reduce-wire="
                            "raw, int8, int4 or auto, for the target 'cuda'");
  for (auto bucket : module.getOps<BucketOp>())
    if (!bucket.getResidency())
      return bucket.emitError("expected a residency; run --fcdp-decide first");
  return success();
}

/// Returns the cost model for `auto`.
FailureOr<std::optional<CostModel>> DecideWiresPass::getModel() {
  if (!choice.needsModel())
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

/// Emits a remark on the wires that were chosen for each bucket that has a
/// choice.
void DecideWiresPass::remark() {
  if (!getContext().getRemarkEngine())
    return;
  auto emit = [&](BucketOp bucket, const Twine &text) {
    remark::passed(bucket.getLoc(),
                   remark::RemarkOpts::name("wire").category(getArgument()))
        << ("bucket " + bucket.getSymName() + ": " + text).str();
  };
  for (auto bucket : getOperation().getOps<BucketOp>()) {
    if (choice.gathers == GatherWireSpec::automatic && mayGatherDeltas(bucket))
      emit(bucket,
           bucket.getGatherWire() == Wire::delta
               ? "gathers send differences, which is predicted to be faster"
               : "gathers send values, as coding is predicted to take longer");
    if (!choice.reductions && bucket.getTrainable() &&
        bucket.getCollectives() != Collectives::flat)
      emit(bucket, bucket.getReduceWire() == Wire::coded
                       ? "reductions code exponents, which is predicted to be "
                         "faster"
                       : "reductions send values, as coding is predicted to "
                         "take longer");
  }
}

void DecideWiresPass::runOnOperation() {
  ModuleOp module = getOperation();
  if (failed(requirePhase(module, Phase::sharded)) || failed(checkGiven()))
    return signalPassFailure();
  if (getMesh(module).getNode() == 1)
    return; // nothing is sent between nodes
  FailureOr<std::optional<CostModel>> model = getModel();
  if (failed(model))
    return signalPassFailure();
  choice.apply(module, *model ? &**model : nullptr);
  if (*model)
    remark();
  bool isUsed = llvm::any_of(module.getOps<BucketOp>(), mayGatherDeltas);
  if (choice.gathers == GatherWireSpec::delta && !isUsed) {
    module.emitError(
        "wire 'delta' is for trained parameters that are gathered in "
        "bf16 or f16 and kept in host memory, and the step has none: "
        "expected a model in bf16 or f16 (or under autocast) and the "
        "strategy 'fcdp'");
    signalPassFailure();
  }
}

//===----------------------------------------------------------------------===//
// Comparison with past decisions
//===----------------------------------------------------------------------===//

/// Returns whether the forms of messages in `module` have been decided, and are
/// used.
static bool hasForms(ModuleOp module) {
  return getStrategy(module) && getMesh(module).getNode() > 1;
}

/// Returns a form that a bucket's gathers have instead of `asked`, or none.
static std::optional<Wire> findOtherGatherWire(ModuleOp module, Wire asked) {
  for (auto bucket : module.getOps<BucketOp>()) {
    Wire made = bucket.getGatherWire().value_or(Wire::raw);
    if (made != asked && mayGatherDeltas(bucket))
      return made;
  }
  return std::nullopt;
}

/// Returns a form that a bucket's reductions have instead of `asked`, or none.
static std::optional<Wire> findOtherReduceWire(ModuleOp module, Wire asked) {
  for (auto bucket : module.getOps<BucketOp>()) {
    Wire made = bucket.getReduceWire().value_or(Wire::raw);
    if (made != asked && bucket.getTrainable() &&
        bucket.getCollectives() != Collectives::flat)
      return made;
  }
  return std::nullopt;
}

void fcdp::compareMessages(
    ModuleOp module, const StepOptions &options,
    llvm::function_ref<void(option::OptionId, StringRef, StringRef)> report) {
  const PipelineOptions &asked = options.pipeline;
  auto gathers = llvm::cantFail(parseGatherWire(asked.wire));
  if (options.isGiven(option::Wire) && gathers != GatherWireSpec::automatic &&
      hasForms(module)) {
    Wire wire = gathers == GatherWireSpec::delta ? Wire::delta : Wire::raw;
    if (std::optional<Wire> made = findOtherGatherWire(module, wire))
      report(option::Wire, stringifyWire(*made), stringifyWire(wire));
  }
  ReduceWireSpec wire = llvm::cantFail(parseReduceWire(asked.reduceWire));
  if (wire && options.isGiven(option::ReduceWire) && hasForms(module))
    if (std::optional<Wire> made = findOtherReduceWire(module, *wire))
      report(option::ReduceWire, stringifyWire(*made), stringifyWire(*wire));
}
