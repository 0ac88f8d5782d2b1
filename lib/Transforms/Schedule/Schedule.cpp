// SPDX-License-Identifier: Apache-2.0

#include "ProgramOrder.h"
#include "Verify/VerifyPhase.h"
#include "fcdp/Analysis/FunctionBoundaries.h"

namespace fcdp {
#define GEN_PASS_DEF_SCHEDULEPASS
#include "fcdp/Transforms/Passes.h.inc"
} // namespace fcdp

using namespace mlir;
using namespace fcdp;

static SmallVector<Carried> findCarried(func::FuncOp function) {
  SmallVector<Carried> carried;
  for (auto [state, writer] : findInFlightStates(function))
    carried.push_back({state.getSymNameAttr(), chooseStream(writer),
                       isa<AccumulateOp>(writer)});
  return carried;
}

namespace {
class SchedulePass : public fcdp::impl::SchedulePassBase<SchedulePass> {
public:
  using SchedulePassBase::SchedulePassBase;
  void runOnOperation() override;
};
} // namespace

void SchedulePass::runOnOperation() {
  ModuleOp module = getOperation();
  if (failed(requirePhase(module, Phase::sharded)))
    return signalPassFailure();
  if (failed(verifyOneLevel(module)) || failed(verifyInFlightStates(module)) ||
      failed(verifyPrefetched(module)))
    return signalPassFailure();
  Accesses accesses(module);
  for (auto function : module.getOps<func::FuncOp>()) {
    Boundary boundary{{}, findCarried(function)};
    SmallVector<func::FuncOp> before = findPredecessors(function);
    if (!before.empty())
      boundary.liveIns = findCarried(before[0]);
    if (failed(ProgramOrder(function, boundary, accesses).run()))
      return signalPassFailure();
  }
  setPhase(module, Phase::scheduled);
}
