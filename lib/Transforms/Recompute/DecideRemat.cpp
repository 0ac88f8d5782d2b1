// SPDX-License-Identifier: Apache-2.0

#include "Options/ClusterOption.h"
#include "Recompute/RematDecision.h"
#include "Verify/VerifyPhase.h"
#include "fcdp/Support/Units.h"
#include "fcdp/Transforms/Options/PrecisionSpec.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/Remarks.h"
#include "llvm/Support/FormatVariadic.h"

namespace fcdp {
#define GEN_PASS_DEF_DECIDEREMATPASS
#include "fcdp/Transforms/Passes.h.inc"
} // namespace fcdp

using namespace mlir;
using namespace fcdp;

namespace {
class DecideRematPass
    : public fcdp::impl::DecideRematPassBase<DecideRematPass> {
public:
  using DecideRematPassBase::DecideRematPassBase;
  DecideRematPass(DecideRematPassOptions options,
                  std::optional<Cluster> described)
      : DecideRematPassBase(std::move(options)),
        described(std::move(described)) {}
  void runOnOperation() override;

private:
  FailureOr<std::optional<CostModel>> getModel();
  LogicalResult decide(func::FuncOp step, const RematSpec &spec,
                       const RematDecision &decision);

  std::optional<Cluster> described;
};
} // namespace

std::unique_ptr<Pass>
fcdp::createDecideRematPass(DecideRematPassOptions options,
                            std::optional<Cluster> described) {
  return std::make_unique<DecideRematPass>(std::move(options),
                                           std::move(described));
}

/// Returns none if no cluster is given.
FailureOr<std::optional<CostModel>> DecideRematPass::getModel() {
  if (cluster.empty() && !described)
    return std::optional<CostModel>();
  llvm::Expected<Cluster> given =
      getClusterOf(/*mesh=*/{}, described, cluster, profile);
  if (!given)
    return getOperation().emitError("cluster: ") << toString(given.takeError());
  return std::optional(CostModel(*given));
}

FailureOr<RematDecision> RematDecision::create(func::FuncOp step,
                                               StringRef optimizer,
                                               StringRef group,
                                               StringRef reduceType) {
  RematDecision decision;
  llvm::Expected<Type> reduce = parseReduceType(reduceType, step.getContext());
  if (!reduce)
    return step->getParentOfType<ModuleOp>().emitError("reduce-dtype: ")
           << toString(reduce.takeError());
  decision.buckets.reduce = *reduce;
  FailureOr<UpdateByParameter> chosen =
      chooseOptimizers(step, optimizer, group);
  if (failed(chosen))
    return failure();
  decision.updates = std::move(*chosen);
  return decision;
}

llvm::Expected<Rematerialization>
RematDecision::decide(func::FuncOp step, const RematSpec &spec,
                      const CostModel *model) const {
  auto kindOf = [&](ParameterOp parameter, Type wire, Type gradient) {
    return makeBucketKind(parameter, wire, gradient,
                          updates.lookup(parameter.getSymNameAttr()).optimizer,
                          buckets);
  };
  return decideRematerialization(step, spec.budget, model, kindOf);
}

LogicalResult DecideRematPass::decide(func::FuncOp step, const RematSpec &spec,
                                      const RematDecision &decision) {
  FailureOr<std::optional<CostModel>> model = getModel();
  if (failed(model))
    return failure();
  llvm::Expected<Rematerialization> decided =
      decision.decide(step, spec, *model ? &**model : nullptr);
  if (!decided)
    return step.emitError() << toString(decided.takeError());
  if (spec.budget && decided->keptBytes > *spec.budget)
    return step.emitError("remat: expected at least ")
           << decided->keptBytes
           << " bytes, the least that the forward pass can keep for the "
              "backward pass, got "
           << *spec.budget;
  for (aten::CallOp call : decided->calls)
    setRecompute(call, true);
  if (getContext().getRemarkEngine())
    remark::passed(step.getLoc(), remark::RemarkOpts::name("recompute")
                                      .category("fcdp-decide-remat")
                                      .function(step.getSymName()))
        << llvm::formatv("remat {0}: {1} calls run again in the backward pass, "
                         "which finds {2} kept instead of {3}",
                         remat, decided->calls.size(),
                         formatBytes(decided->keptBytes),
                         formatBytes(decided->allBytes))
               .str();
  return success();
}

void fcdp::chooseCheckpointed(func::FuncOp step) {
  for (aten::CallOp call : findCheckpointed(step))
    if (!getRecompute(call))
      setRecompute(call, true);
  for (auto call : step.getOps<aten::CallOp>())
    removeCheckpointRegion(call);
}

void DecideRematPass::runOnOperation() {
  ModuleOp module = getOperation();
  FailureOr<SmallVector<func::FuncOp>> steps = requireSteps(module);
  if (failed(steps))
    return signalPassFailure();
  llvm::Expected<RematSpec> spec = parseRemat(remat);
  if (!spec) {
    module.emitError("remat: ") << toString(spec.takeError());
    return signalPassFailure();
  }
  if (spec->mode == RematSpec::Mode::Auto) {
    module.emitError("remat 'auto' compares whole plans; expected a choice, or "
                     "--fcdp-pipeline");
    return signalPassFailure();
  }
  llvm::for_each(*steps, chooseCheckpointed);
  if (func::FuncOp evaluation = findEvaluation(module))
    for (auto call : evaluation.getOps<aten::CallOp>())
      removeCheckpointRegion(call);
  if (spec->mode == RematSpec::Mode::None || getRemat(module))
    return;
  FailureOr<RematDecision> decision =
      RematDecision::create(steps->front(), optimizer, group, reduceType);
  if (failed(decision))
    return signalPassFailure();
  for (func::FuncOp step : *steps)
    if (failed(decide(step, *spec, *decision)))
      return signalPassFailure();
  setRemat(module, remat);
}
