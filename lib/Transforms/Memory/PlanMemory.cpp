// SPDX-License-Identifier: Apache-2.0

#include "Verify/VerifyPhase.h"
#include "fcdp/Analysis/FunctionBoundaries.h"
#include "fcdp/Planning/Memory/BufferPlans.h"

#include "mlir/IR/Builders.h"

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

/// Numbers events for the whole module, because a function may wait for an
/// event that another one records.
static void numberEvents(ModuleOp module) {
  int64_t next = 0;
  llvm::DenseMap<BoundaryToken, int64_t> crossings;
  module.walk([&](RecordOp record) {
    std::optional<BoundaryToken> crossing = findLiveOut(record);
    if (!crossing)
      return record.setEvent(next++);
    auto [event, isNew] = crossings.try_emplace(*crossing, next);
    next += isNew;
    record.setEvent(event->second);
  });
  Builder builder(module.getContext());
  for (auto function : module.getOps<func::FuncOp>())
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      function.setArgAttr(
          i, kEventAttr,
          builder.getI64IntegerAttr(crossings.lookup(getLiveIn(function, i))));
}

void PlanMemoryPass::runOnOperation() {
  ModuleOp module = getOperation();
  if (failed(requirePhase(module, Phase::scheduled)) ||
      failed(verifyOneLevel(module)))
    return signalPassFailure();
  BufferPlans &plans = getAnalysis<BufferPlans>();
  // All functions are planned first, because a function may have memory in use
  // when the next one begins.
  for (auto function : module.getOps<func::FuncOp>())
    if (failed(plans.lookup(function)))
      return signalPassFailure();
  for (auto state : module.getOps<StateOp>())
    state.setBufferAttr(
        plans.getStates().places.lookup(state.getSymNameAttr()));
  for (auto [op, buffer] : plans.getStates().stored)
    if (auto gradient = dyn_cast<StoreGradientOp>(op))
      gradient.setPlaceAttr(buffer);
    else
      cast<StoreValueOp>(op).setPlaceAttr(buffer);
  for (auto function : module.getOps<func::FuncOp>()) {
    const BufferPlan &plan = **plans.lookup(function);
    for (auto [op, buffer] : plan.places)
      cast<BufferedOpInterface>(op).setBufferAttr(buffer);
    for (auto [op, buffer] : plan.scratches)
      cast<BufferedOpInterface>(op).setScratchAttr(buffer);
  }
  numberEvents(module);
  setPhase(module, Phase::planned);
}
