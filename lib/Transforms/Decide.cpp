// SPDX-License-Identifier: Apache-2.0

#include "VerifyPhase.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringSwitch.h"

namespace fcdp {
#define GEN_PASS_DEF_DECIDEPASS
#include "fcdp/Transforms/Passes.h.inc"
} // namespace fcdp

using namespace mlir;
using namespace fcdp;

namespace {
class DecidePass : public fcdp::impl::DecidePassBase<DecidePass> {
public:
  using DecidePassBase::DecidePassBase;
  void runOnOperation() override;
};
} // namespace

void DecidePass::runOnOperation() {
  ModuleOp module = getOperation();
  if (failed(requirePhase(module, Phase::sharded)))
    return signalPassFailure();
  auto residency = llvm::StringSwitch<std::optional<Residency>>(strategy)
                       .Case("zero3", Residency::drop)
                       .Case("fcdp", Residency::host)
                       .Default(std::nullopt);
  if (!residency) {
    module.emitError("unknown strategy '")
        << strategy << "'; expected 'zero3' or 'fcdp'";
    return signalPassFailure();
  }
  bool decided = !module->hasAttr(kStrategyAttr);
  for (auto bucket : module.getOps<BucketOp>()) {
    decided |= !bucket.getResidency();
    if (!bucket.getResidency())
      bucket.setResidency(*residency);
  }
  if (decided)
    module->setAttr(kStrategyAttr, StringAttr::get(&getContext(), strategy));
}
