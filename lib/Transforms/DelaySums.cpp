// SPDX-License-Identifier: Apache-2.0

#include "VerifyPhase.h"
#include "fcdp/Analysis/GradientSums.h"

#include "mlir/IR/Builders.h"

namespace fcdp {
#define GEN_PASS_DEF_DELAYSUMSPASS
#include "fcdp/Transforms/Passes.h.inc"
} // namespace fcdp

using namespace mlir;
using namespace fcdp;

namespace {
class DelaySumsPass : public fcdp::impl::DelaySumsPassBase<DelaySumsPass> {
public:
  using DelaySumsPassBase::DelaySumsPassBase;
  void runOnOperation() override;
};
} // namespace

static void delaySums(Block &block, size_t byDefault) {
  GradientSums sums(block);
  for (const GradientSum &sum : sums.get()) {
    if (sum.isRead)
      continue;
    auto given = sum.sum->getAttrOfType<IntegerAttr>(kReductionsAttr);
    Operation *place = sums.findPlace(sum, given ? given.getInt() : byDefault);
    if (!place || !sums.isBefore(sum.sum, place))
      continue;
    if (sum.add)
      AddOp(sum.add)->moveBefore(place);
    sum.sum->moveBefore(place);
  }
}

void DelaySumsPass::runOnOperation() {
  ModuleOp module = getOperation();
  if (failed(requirePhase(module, Phase::sharded)))
    return signalPassFailure();
  if (inFlight < 1) {
    module.emitError("in-flight: expected 1 or more, got ")
        << inFlight.getValue();
    return signalPassFailure();
  }
  if (auto decided = module->getAttrOfType<IntegerAttr>(kReductionsAttr))
    inFlight = decided.getInt();
  for (auto function : module.getOps<func::FuncOp>())
    delaySums(function.front(), inFlight);
  module->setAttr(kReductionsAttr,
                  Builder(&getContext()).getI64IntegerAttr(inFlight));
}
