// SPDX-License-Identifier: Apache-2.0

#include "Recompute/RematDecision.h"
#include "Verify/VerifyPhase.h"
#include "fcdp/Planning/Recompute/Rematerialization.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

namespace fcdp {
#define GEN_PASS_DEF_REMATPASS
#include "fcdp/Transforms/Passes.h.inc"
} // namespace fcdp

using namespace mlir;
using namespace fcdp;

namespace {
class RematPass : public fcdp::impl::RematPassBase<RematPass> {
public:
  void runOnOperation() override;
};
} // namespace

static bool isChosen(aten::CallOp call) {
  return getRecompute(call).value_or(false);
}

/// Checks that the chosen calls may run again, since the user may have chosen
/// them.
static LogicalResult checkChoices(func::FuncOp step) {
  Operation *end = findForwardEnd(step);
  for (auto call : step.getOps<aten::CallOp>()) {
    if (!isChosen(call))
      continue;
    if (!end || end->isBeforeInBlock(call))
      return call.emitOpError("cannot run again: expected '")
             << FcdpDialect::RecomputeAttrHelper::getNameStr()
             << "' in the forward pass, before the operation that computes the "
                "loss";
    if (StringRef reason = findReasonToRunOnce(call); !reason.empty())
      return call.emitOpError("cannot run again: ") << reason;
  }
  return success();
}

/// Clones `places.ops` before `places.user`.
static void recompute(const Recomputed &place, IRMapping &mapping) {
  OpBuilder builder(place.user);
  for (Operation *op : place.ops)
    // Without the attribute the two calls differ, so that CSE keeps both.
    removeRecompute(builder.clone(*op, mapping));
}

LogicalResult fcdp::recomputeChosen(func::FuncOp step) {
  if (failed(checkChoices(step)))
    return failure();
  SmallVector<Recomputed> places = placeRecomputed(step, isChosen);
  if (places.empty())
    return success();
  IRMapping mapping;
  for (const Recomputed &place : places)
    recompute(place, mapping);
  // Every reader of a value after the end of the forward pass reads the new
  // one.
  for (Operation *op = findForwardEnd(step)->getNextNode(); op;
       op = op->getNextNode())
    for (OpOperand &operand : op->getOpOperands())
      operand.set(mapping.lookupOrDefault(operand.get()));
  // Calls that only the backward pass needs have moved there.
  for (const Recomputed &place : llvm::reverse(places))
    for (Operation *op : llvm::reverse(place.ops))
      if (op->use_empty())
        op->erase();
      else
        setRepeated(mapping.lookup(op));
  return success();
}

void RematPass::runOnOperation() {
  FailureOr<SmallVector<func::FuncOp>> steps = requireSteps(getOperation());
  if (failed(steps))
    return signalPassFailure();
  for (func::FuncOp step : *steps)
    if (failed(recomputeChosen(step)))
      return signalPassFailure();
}
