// SPDX-License-Identifier: Apache-2.0

#include "Retarget/CallBuilder.h"
#include "Verify/VerifyPhase.h"
#include "fcdp/Transforms/Options/PrecisionSpec.h"
#include "fcdp/Transforms/PipelineOptions.h"

#include "mlir/IR/Builders.h"

namespace fcdp {
#define GEN_PASS_DEF_SCALELOSSPASS
#include "fcdp/Transforms/Passes.h.inc"
} // namespace fcdp

using namespace mlir;
using namespace fcdp;

namespace {
class ScaleLossPass : public fcdp::impl::ScaleLossPassBase<ScaleLossPass> {
public:
  using ScaleLossPassBase::ScaleLossPassBase;
  void runOnOperation() override;
};
} // namespace

/// Returns the operation with which the backward pass of `loss` begins.
static FailureOr<aten::CallOp> findBackward(LossOp loss) {
  SmallVector<aten::CallOp> found;
  for (Operation *user : loss.getValue().getUsers())
    if (auto call = dyn_cast<aten::CallOp>(user);
        call && call.getCallee() == "aten.ones_like.default")
      found.push_back(call);
  if (found.size() == 1)
    return found.front();
  InFlightDiagnostic diag =
      loss.emitOpError("expected one 'aten.ones_like.default' of its "
                       "value, with which the backward pass begins, "
                       "got ")
      << found.size();
  if (found.empty())
    diag << "; a step that trains nothing has no loss to scale";
  for (aten::CallOp call : found)
    diag.attachNote(call.getLoc()) << "here";
  return diag;
}

/// Puts the loss scale in place of the ones of `seed`.
static void readScale(aten::CallOp seed) {
  OpBuilder builder(seed);
  Location loc = seed.getLoc();
  auto type = cast<RankedTensorType>(seed.getResult(0).getType());
  Type element = type.getElementType();
  Value scale = ReadLossScaleOp::create(
      builder, loc, RankedTensorType::get({}, builder.getF32Type()));
  if (!element.isF32())
    scale = CallBuilder(builder, loc, "aten._to_copy.default")
                .tensor("self", scale)
                .literal("dtype", TypeAttr::get(element))
                .create(RankedTensorType::get({}, element))
                .getResult(0);
  if (type.getRank() != 0)
    scale = CallBuilder(builder, loc, "aten.view.default")
                .tensor("self", scale)
                .integers("size", type.getShape())
                .create(type)
                .getResult(0);
  seed.getResult(0).replaceAllUsesWith(scale);
  seed.erase();
}

static LogicalResult scaleLoss(func::FuncOp step) {
  if (!step.getOps<ReadLossScaleOp>().empty())
    return success();
  auto losses = step.getOps<LossOp>();
  if (losses.empty())
    return step->emitError("expected one loss, got 0");
  FailureOr<aten::CallOp> seed = findBackward(*losses.begin());
  if (failed(seed))
    return failure();
  readScale(*seed);
  return success();
}

void ScaleLossPass::runOnOperation() {
  ModuleOp module = getOperation();
  FailureOr<SmallVector<func::FuncOp>> steps = requireSteps(module);
  if (failed(steps) || failed(checkOptions(module, lossScale)))
    return signalPassFailure();
  if (!llvm::cantFail(parseLossScale(lossScale)))
    return;
  for (func::FuncOp step : *steps)
    if (failed(scaleLoss(step)))
      return signalPassFailure();
}
