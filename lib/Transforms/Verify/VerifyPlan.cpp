// SPDX-License-Identifier: Apache-2.0

#include "VerifyPhase.h"
#include "fcdp/Analysis/Traffic.h"
#include "fcdp/Planning/Memory/DeviceMemory.h"
#include "fcdp/Transforms/PipelineOptions.h"
#include "fcdp/Verification/PlanProofs.h"

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
  LogicalResult verifyMemory();
};
} // namespace

/// Returns the free ranges of the object, in which results of operators may be.
static std::vector<FreeRange> findFreeRanges(ModuleOp module,
                                             const DeviceMemory &memory) {
  auto end = static_cast<int64_t>(measureArenas(module)[Arena::device]);
  std::vector<FreeRange> free;
  for (auto [function, measured] :
       llvm::zip_equal(module.getOps<func::FuncOp>(), memory.functions))
    for (const MemoryRange &range : findFreeMemory(
             measured.reserved, end, llvm::range_size(function.front())))
      free.push_back(
          {function, range.offset, range.bytes, range.begin, range.end});
  return free;
}

LogicalResult VerifyPlanPass::verifyMemory() {
  ModuleOp module = getOperation();
  FailureOr<const DeviceMemory *> memory =
      getAnalysis<DeviceMemoryAnalysis>().get();
  if (failed(memory))
    return failure();
  PlannedMemory planned{
      (*memory)->arena.bytes, findFreeRanges(module, **memory), {}};
  if (failed(verifyIdentities(module)) ||
      failed(verifyRuns(module, planned.free)) ||
      failed(verifyClosedForms(module)))
    return failure();
  for (const FunctionMemory &function : (*memory)->functions)
    for (const ResultPlace &result : function.results)
      planned.results.push_back({result.op, result.offset, result.bytes});
  return verifyBudget(module, planned, deviceMemory, hostMemory);
}

void VerifyPlanPass::runOnOperation() {
  markAllAnalysesPreserved();
  ModuleOp module = getOperation();
  if (failed(requirePhase(module, Phase::planned)) ||
      failed(verifyUpdate(module)) || failed(verifyOneLevel(module)) ||
      failed(checkOptions(module, deviceMemory, hostMemory)) ||
      failed(verifyMemory()))
    signalPassFailure();
}
