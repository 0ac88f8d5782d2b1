// SPDX-License-Identifier: Apache-2.0

#include "VerifyPhase.h"
#include "fcdp/Verification/PlanProofs.h"

#include "mlir/Parser/Parser.h"

namespace fcdp {
#define GEN_PASS_DEF_VERIFYPLANPASS
#include "fcdp/Transforms/Passes.h.inc"
} // namespace fcdp

using namespace mlir;
using namespace fcdp;

namespace {
class VerifyPlanPass : public fcdp::impl::VerifyPlanPassBase<VerifyPlanPass> {
public:
  using VerifyPlanPassBase::VerifyPlanPassBase;
  void runOnOperation() override;

private:
  LogicalResult verifyOptions();
  LogicalResult verifyPeer();
};
} // namespace

LogicalResult VerifyPlanPass::verifyOptions() {
  for (auto [name, bytes] :
       {std::pair<StringRef, int64_t>{"device-bytes", deviceBytes},
        {"host-bytes", hostBytes}})
    if (bytes < 0)
      return getOperation().emitError(name)
             << ": expected 0 or more, got " << bytes;
  return success();
}

LogicalResult VerifyPlanPass::verifyPeer() {
  if (peer.empty())
    return success();
  ParserConfig config(&getContext());
  OwningOpRef<ModuleOp> other = parseSourceFile<ModuleOp>(peer, config);
  if (!other)
    return getOperation().emitError("peer: expected a planned module in '")
           << peer << "'";
  if (failed(requirePhase(*other, Phase::planned)))
    return failure();
  return verifySameCollectives(getOperation(), *other, peer);
}

void VerifyPlanPass::runOnOperation() {
  markAllAnalysesPreserved();
  ModuleOp module = getOperation();
  if (failed(requirePhase(module, Phase::planned)) ||
      failed(verifyOneLevel(module)) || failed(verifyOptions()) ||
      failed(verifyRuns(module)) || failed(verifyClosedForms(module)) ||
      failed(verifyBudget(module, deviceBytes, hostBytes)) ||
      failed(verifyPeer()))
    signalPassFailure();
}
