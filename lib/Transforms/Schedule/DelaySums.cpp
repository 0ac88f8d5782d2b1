// SPDX-License-Identifier: Apache-2.0

#include "Decide/StepPlanning.h"
#include "Verify/VerifyPhase.h"
#include "fcdp/Analysis/EarlyUpdates.h"
#include "fcdp/Analysis/FunctionBoundaries.h"
#include "fcdp/Analysis/GradientSums.h"
#include "fcdp/Analysis/StepFunctions.h"
#include "fcdp/Analysis/SumDelay.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/MapVector.h"

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

private:
  void cross();
  void cross(ArrayRef<func::FuncOp> functions);
};
} // namespace

static void delaySums(Block &block, size_t byDefault) {
  GradientSums sums(block);
  for (const GradientSum &sum : sums.get()) {
    if (sum.isRead)
      continue;
    Operation *place =
        sums.findPlace(sum, getReductions(sum.sum).value_or(byDefault));
    if (!place || !sums.isBefore(sum.sum, place))
      continue;
    if (sum.add)
      AddOp(sum.add)->moveBefore(place);
    sum.sum->moveBefore(place);
  }
}

//===----------------------------------------------------------------------===//
// Over the end of a function
//===----------------------------------------------------------------------===//

/// Returns the accumulates that only the end of `function` waits for, in order.
/// The store of an accumulator in host memory is the end of the list.
static SmallVector<AccumulateOp> findLastSums(func::FuncOp function) {
  SmallVector<AccumulateOp> sums;
  for (Operation &op : llvm::reverse(function.front().without_terminator())) {
    if (updatesInSomeSteps(&op))
      continue; // works on other states
    auto sum = dyn_cast<AccumulateOp>(op);
    if (!sum)
      break;
    Operation *reduction = sum.getValue().getDefiningOp();
    if (isa_and_present<CollectiveOpInterface>(reduction) &&
        isa<RankedTensorType>(sum.getValue().getType()) &&
        reduction->hasOneUse())
      sums.push_back(sum);
  }
  std::reverse(sums.begin(), sums.end());
  return sums;
}

/// Returns whether `op` updates the bucket, or loads or stores one of its
/// states for that.
static bool updatesBucket(Operation *op, StringRef bucket) {
  if (isa<UpdateOpInterface, StoreGradientOp, LoadShardOp>(op))
    return cast<StorageOpInterface>(op).getStorageAttr().getValue() == bucket;
  if (!isa<StateLoadOp, StateStoreOp>(op))
    return false;
  auto state = SymbolTable::lookupNearestSymbolFrom<StateOp>(
      op, cast<StorageOpInterface>(op).getStorageAttr());
  return state && state.getBucket() == bucket;
}

/// Lets the last accumulates that all of `functions` have in common run on into
/// the functions after them, in the order of the first.
void DelaySumsPass::cross(ArrayRef<func::FuncOp> functions) {
  llvm::MapVector<StringRef, SmallVector<AccumulateOp, 2>> sums;
  for (func::FuncOp function : functions)
    for (AccumulateOp sum : findLastSums(function))
      sums[sum.getTarget()].push_back(sum);
  auto update =
      getOperation().lookupSymbol<func::FuncOp>(stringifyRole(Role::update));
  bool isEnd =
      llvm::is_contained(getSuccessors(getRole(functions[0])), Role::update);
  // An update in the micro-batch waits for its accumulate there.
  llvm::DenseSet<StringAttr> early;
  if (isEnd)
    early = findEarlyCandidates(getOperation());
  for (auto &[target, ofAll] : sums) {
    if (ofAll.size() != functions.size() ||
        early.contains(ofAll[0].getTargetAttr().getAttr()))
      continue;
    for (AccumulateOp sum : ofAll)
      sum.setLate(true);
    // The update that waits for the accumulate moves to the end, with the
    // copies of its states.
    SmallVector<Operation *> moved;
    for (Operation &op : update.front())
      if (isEnd && updatesBucket(&op, target))
        moved.push_back(&op);
    for (Operation *op : moved)
      op->moveBefore(update.front().getTerminator());
  }
  // A stream accumulates in the order in which it reduces.
  for (func::FuncOp function : functions)
    for (AccumulateOp sum : llvm::to_vector(function.getOps<AccumulateOp>()))
      if (sum.getLate())
        sum->moveAfter(sum.getValue().getDefiningOp());
}

void DelaySumsPass::cross() {
  std::map<FunctionBoundary, SmallVector<func::FuncOp>> before;
  for (auto function : getOperation().getOps<func::FuncOp>())
    if (FamilyMember which = getMember(function); isMicrobatch(which.role))
      before[getBoundaryBehind(which)].push_back(function);
  for (auto &[after, functions] : before)
    cross(functions);
}

void DelaySumsPass::runOnOperation() {
  ModuleOp module = getOperation();
  if (failed(requirePhase(module, Phase::sharded)))
    return signalPassFailure();
  int64_t inFlight = getReductions(module).value_or(kDefaultReductions);
  for (auto function : module.getOps<func::FuncOp>())
    delaySums(function.front(), inFlight);
  if (mayCrossBoundary(getPrefetch(module).value_or(0)))
    cross();
  setReductions(module, inFlight);
}
