// SPDX-License-Identifier: Apache-2.0

#include "VerifyPhase.h"

namespace fcdp {
#define GEN_PASS_DEF_PLANMEMORYPASS
#include "fcdp/Transforms/Passes.h.inc"
} // namespace fcdp

using namespace mlir;
using namespace fcdp;

namespace {
class PlanMemoryPass : public fcdp::impl::PlanMemoryPassBase<PlanMemoryPass> {
public:
  void runOnOperation() override;
};
} // namespace

static void numberEvents(func::FuncOp function) {
  int64_t next = 0;
  for (auto record : function.getOps<RecordOp>())
    record.setEvent(next++);
}

void PlanMemoryPass::runOnOperation() {
  ModuleOp module = getOperation();
  if (failed(requirePhase(module, Phase::scheduled)) ||
      failed(verifyOneLevel(module)))
    return signalPassFailure();
  StatePlan states = planStates(module);
  for (auto state : module.getOps<StateOp>())
    state.setBufferAttr(states.places.lookup(state.getSymNameAttr()));
  for (auto function : module.getOps<func::FuncOp>()) {
    FailureOr<BufferPlan> plan = planBuffers(function, states);
    if (failed(plan))
      return signalPassFailure();
    for (auto [op, buffer] : plan->places)
      op->setAttr("buffer", buffer);
    for (auto [op, buffer] : plan->scratches)
      cast<ReduceScatterOp>(op).setScratchAttr(buffer);
    numberEvents(function);
  }
  setPhase(module, Phase::planned);
}
