// SPDX-License-Identifier: Apache-2.0

#include "Verify/VerifyPhase.h"
#include "fcdp/Planning/Recompute/Rematerialization.h"
#include "fcdp/Transforms/Recompute/RematSpec.h"

#include "mlir/IR/Builders.h"

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
  void runOnOperation() override;

private:
  LogicalResult decide(func::FuncOp step, const RematSpec &spec);
};
} // namespace

LogicalResult DecideRematPass::decide(func::FuncOp step,
                                      const RematSpec &spec) {
  llvm::Expected<Rematerialization> decided =
      decideRematerialization(step, spec.budget);
  if (!decided)
    return step.emitError() << toString(decided.takeError());
  if (spec.budget && decided->keptBytes > *spec.budget)
    return step.emitError("remat: expected at least ")
           << decided->keptBytes
           << " bytes, the least that the forward pass can keep for the "
              "backward pass, got "
           << *spec.budget;
  for (aten::CallOp call : decided->calls)
    call->setAttr(kRecomputeAttr, BoolAttr::get(&getContext(), true));
  return success();
}

void DecideRematPass::runOnOperation() {
  ModuleOp module = getOperation();
  FailureOr<func::FuncOp> step = requireImported(module);
  if (failed(step))
    return signalPassFailure();
  llvm::Expected<RematSpec> spec = parseRemat(remat);
  if (!spec) {
    module.emitError("remat: ") << toString(spec.takeError());
    return signalPassFailure();
  }
  if (spec->mode == RematSpec::Mode::None || module->hasAttr(kRematAttr))
    return;
  if (failed(decide(*step, *spec)))
    return signalPassFailure();
  module->setAttr(kRematAttr, StringAttr::get(&getContext(), remat));
}
