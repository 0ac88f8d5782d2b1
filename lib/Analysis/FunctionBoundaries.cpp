// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Analysis/FunctionBoundaries.h"

#include "fcdp/Analysis/Buffers.h"

using namespace mlir;
using namespace fcdp;

bool fcdp::mayBeInFlight(Operation *op) {
  if (auto accumulate = dyn_cast<AccumulateOp>(op))
    return accumulate.getLate();
  FlatSymbolRefAttr into = getInto(op);
  if (!into)
    return false;
  auto state = SymbolTable::lookupNearestSymbolFrom<StateOp>(op, into);
  return state && state.getRole() == StateRole::prefetched;
}

StateOp fcdp::findInFlightState(Operation *op) {
  if (auto accumulate = dyn_cast<AccumulateOp>(op))
    return collectAccumulators(op->getParentOfType<ModuleOp>())
        .lookup(accumulate.getTargetAttr().getAttr());
  return SymbolTable::lookupNearestSymbolFrom<StateOp>(op, getInto(op));
}

SmallVector<std::pair<StateOp, Operation *>>
fcdp::findInFlightStates(func::FuncOp function) {
  llvm::DenseMap<Operation *, Operation *> writers;
  for (Operation &op : function.front())
    if (mayBeInFlight(&op))
      if (StateOp state = findInFlightState(&op))
        writers[state] = &op;
  SmallVector<std::pair<StateOp, Operation *>> liveOuts;
  if (writers.empty())
    return liveOuts;
  for (auto state : function->getParentOfType<ModuleOp>().getOps<StateOp>())
    if (Operation *writer = writers.lookup(state))
      liveOuts.push_back({state, writer});
  return liveOuts;
}

ReleaseOp fcdp::findInFlightRelease(Operation *op) {
  for (Operation *user : op->getUsers())
    if (auto release = dyn_cast<ReleaseOp>(user);
        release && release.getStream())
      return release;
  return {};
}

std::optional<int64_t> fcdp::findEvent(Value token) {
  if (auto record = token.getDefiningOp<RecordOp>())
    return record.getEvent();
  auto argument = cast<BlockArgument>(token);
  auto function = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp());
  if (!function)
    return std::nullopt;
  auto event = function.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(),
                                                      kEventAttr);
  return event ? std::optional(event.getInt()) : std::nullopt;
}

std::optional<BoundaryToken> fcdp::findLiveOut(RecordOp record) {
  auto function = record->getParentOfType<func::FuncOp>();
  for (OpOperand &use : record.getToken().getUses())
    if (isa<func::ReturnOp>(use.getOwner()))
      return BoundaryToken(getBoundaryBehind(getMember(function)),
                           use.getOperandNumber());
  return std::nullopt;
}

BoundaryToken fcdp::getLiveIn(func::FuncOp function, unsigned position) {
  return {getBoundaryBefore(getMember(function)), position};
}

/// Returns the record of the first live-out token after `release`; null if
/// there is none.
static RecordOp findToken(ReleaseOp release) {
  RecordOp first;
  for (Value token : release->getBlock()->getTerminator()->getOperands())
    if (auto record = token.getDefiningOp<RecordOp>();
        record && record.getStream() == release.getStream() &&
        release->isBeforeInBlock(record) &&
        (!first || record->isBeforeInBlock(first)))
      first = record;
  return first;
}

Operation *fcdp::findLiveInWait(ReleaseOp release, func::FuncOp after) {
  Operation *first = after.front().getTerminator();
  RecordOp record = findToken(release);
  std::optional<BoundaryToken> crossing =
      record ? findLiveOut(record) : std::nullopt;
  if (!crossing || crossing->second >= after.getNumArguments())
    return first;
  for (Operation *user : after.getArgument(crossing->second).getUsers())
    if (auto wait = dyn_cast<WaitOp>(user);
        wait && wait.getStream() == Stream::compute &&
        wait->isBeforeInBlock(first))
      first = wait;
  return first;
}
