// SPDX-License-Identifier: Apache-2.0
//
// Checks the tokens and states that cross the boundaries between the functions
// of a step.

#include "VerifyPhase.h"
#include "fcdp/Analysis/Aliases.h"
#include "fcdp/Analysis/FunctionBoundaries.h"

#include "llvm/ADT/SmallPtrSet.h"

#include <array>

using namespace mlir;
using namespace fcdp;

//===----------------------------------------------------------------------===//
// Prefetched copies
//===----------------------------------------------------------------------===//

/// Returns whether another micro-batch of the step comes before `role`.
static bool isAgain(Role role) {
  return isMicrobatch(role) && !isFirstOfStep(role);
}

/// Checks the copy in `state` for one function; `reads` and `fills` are that
/// function's.
static LogicalResult verifyCopy(StateOp state, func::FuncOp function,
                                ArrayRef<ReadStateOp> reads,
                                ArrayRef<Operation *> fills) {
  Role role = getRole(function);
  // In other functions the copy has the weights before the update, or there is
  // none.
  if (!reads.empty() && !isAgain(role))
    return reads[0]->emitOpError("reads a copy that was prefetched, which only "
                                 "@next_microbatch and @last_microbatch may");
  bool isNeeded =
      llvm::is_contained(getSuccessors(role), Role::last_microbatch);
  if (fills.size() != (isNeeded ? 1 : 0)) {
    InFlightDiagnostic diag = function.emitError("expected ")
                              << (isNeeded ? "one gather or load" : "nothing")
                              << " into @" << state.getSymName() << ", got "
                              << fills.size();
    diag.attachNote(state.getLoc()) << "the state is here";
    return diag;
  }
  for (ReadStateOp read : reads)
    for (Operation *user : collectMemoryUsers(read.getResult()))
      for (Operation *fill : fills)
        if (fill->isBeforeInBlock(user)) {
          InFlightDiagnostic diag = user->emitOpError("uses the copy in @")
                                    << state.getSymName()
                                    << " after the next one is in flight";
          diag.attachNote(fill->getLoc()) << "by this operation";
          return diag;
        }
  return success();
}

LogicalResult fcdp::verifyPrefetched(ModuleOp module) {
  SmallVector<StateOp> states;
  for (auto state : module.getOps<StateOp>())
    if (state.getRole() == StateRole::prefetched)
      states.push_back(state);
  if (states.empty())
    return success();
  for (auto function : module.getOps<func::FuncOp>()) {
    llvm::DenseMap<StringAttr, SmallVector<ReadStateOp>> reads;
    llvm::DenseMap<StringAttr, SmallVector<Operation *>> fills;
    for (Operation &op : function.front()) {
      if (auto read = dyn_cast<ReadStateOp>(op))
        reads[read.getSourceAttr().getAttr()].push_back(read);
      else if (FlatSymbolRefAttr into = getInto(&op))
        fills[into.getAttr()].push_back(&op);
    }
    for (StateOp state : states)
      if (failed(verifyCopy(state, function,
                            reads.lookup(state.getSymNameAttr()),
                            fills.lookup(state.getSymNameAttr()))))
        return failure();
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Tokens
//===----------------------------------------------------------------------===//

LogicalResult fcdp::verifyInFlightStates(ModuleOp module) {
  auto getStates = [](func::FuncOp function) {
    return llvm::to_vector(
        llvm::make_first_range(findInFlightStates(function)));
  };
  llvm::DenseMap<FunctionBoundary, func::FuncOp> leaders;
  for (auto function : module.getOps<func::FuncOp>()) {
    FunctionBoundary after = getBoundaryBehind(getMember(function));
    func::FuncOp leader = leaders.try_emplace(after, function).first->second;
    if (getStates(function) == getStates(leader))
      continue;
    InFlightDiagnostic diag = function.emitError(
        "expected the same states to be in flight at its end as at that of @");
    diag << leader.getSymName();
    diag.attachNote(leader.getLoc()) << "the same functions come after it";
    return diag;
  }
  return success();
}

/// Checks that a function which waits for the live-out tokens of `function`
/// knows of all releases on other streams than compute.
static LogicalResult verifyLateReleases(func::FuncOp function) {
  std::array<RecordOp, kNumStreams> last;
  for (Value token : function.front().getTerminator()->getOperands()) {
    auto record = token.getDefiningOp<RecordOp>();
    RecordOp &other = last[static_cast<size_t>(record.getStream())];
    if (!other || other->isBeforeInBlock(record))
      other = record;
  }
  for (auto release : function.getOps<ReleaseOp>()) {
    std::optional<Stream> stream = release.getStream();
    if (!stream)
      continue;
    RecordOp record = last[static_cast<size_t>(*stream)];
    if (!record || record->isBeforeInBlock(release))
      return release.emitOpError("expected the function to return a token that "
                                 "is recorded on '")
             << stringifyStream(*stream) << "' after it";
  }
  return success();
}

static LogicalResult verifyResults(func::FuncOp function) {
  llvm::SmallPtrSet<Operation *, 4> seen;
  for (Value token : function.front().getTerminator()->getOperands()) {
    Operation *record = token.getDefiningOp();
    if (!record || !seen.insert(record).second)
      return function.front().getTerminator()->emitOpError(
          "expected tokens that the function has recorded, each once");
  }
  return verifyLateReleases(function);
}

/// Checks the live-in and live-out tokens of `function` itself.
static LogicalResult verifySignature(func::FuncOp function) {
  bool isScheduled =
      getPhase(function->getParentOfType<ModuleOp>()) >= Phase::scheduled;
  auto isToken = llvm::IsaPred<TokenType>;
  if (!llvm::all_of(function.getArgumentTypes(), isToken) ||
      !llvm::all_of(function.getResultTypes(), isToken) ||
      (!isScheduled &&
       function.getNumArguments() + function.getNumResults() != 0))
    return function.emitError("expected ")
           << (isScheduled ? "tokens only as" : "no")
           << " arguments and results";
  if (getRole(function) == Role::init && function.getNumArguments() != 0)
    return function.emitError("expected no arguments: nothing comes before it");
  return verifyResults(function);
}

LogicalResult fcdp::verifyTokens(ModuleOp module) {
  for (auto function : module.getOps<func::FuncOp>())
    if (failed(verifySignature(function)))
      return failure();
  for (auto before : module.getOps<func::FuncOp>())
    for (auto after : module.getOps<func::FuncOp>()) {
      if (!mayFollow(getMember(before), getMember(after)) ||
          before.getNumResults() == after.getNumArguments())
        continue;
      InFlightDiagnostic diag = after.emitError("expected ")
                                << before.getNumResults()
                                << " tokens as arguments, got "
                                << after.getNumArguments();
      diag.attachNote(before.getLoc()) << "this function may come before it";
      return diag;
    }
  return success();
}

//===----------------------------------------------------------------------===//
// Events
//===----------------------------------------------------------------------===//

/// The event of each token that crosses a function boundary.
using BoundaryEvents = llvm::DenseMap<BoundaryToken, uint64_t>;

static LogicalResult verifyRecords(ModuleOp module, BoundaryEvents &crossings) {
  llvm::DenseMap<uint64_t, std::optional<BoundaryToken>> owners;
  WalkResult result = module.walk([&](RecordOp record) {
    if (!record.getEvent()) {
      record.emitOpError("expected an event");
      return WalkResult::interrupt();
    }
    std::optional<BoundaryToken> crossing = findLiveOut(record);
    auto [owner, isNew] = owners.try_emplace(*record.getEvent(), crossing);
    if (!isNew && (!crossing || owner->second != crossing)) {
      record.emitOpError("expected an event of its own, got ")
          << *record.getEvent();
      return WalkResult::interrupt();
    }
    if (!crossing)
      return WalkResult::advance();
    auto [event, isFirst] =
        crossings.try_emplace(*crossing, *record.getEvent());
    if (isFirst || event->second == *record.getEvent())
      return WalkResult::advance();
    record.emitOpError("expected event ")
        << event->second << ", as other functions have it for result "
        << crossing->second << ", got " << *record.getEvent();
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

/// Checks that `function` waits for `argument` before it records the event
/// again.
static LogicalResult verifyWaits(BlockArgument argument, uint64_t event) {
  for (auto record : argument.getOwner()->getOps<RecordOp>()) {
    if (record.getEvent() != event)
      continue;
    for (Operation *user : argument.getUsers())
      if (record->isBeforeInBlock(user))
        return user->emitOpError("waits for event ")
               << event << " of the function before, which was recorded again";
  }
  return success();
}

LogicalResult fcdp::verifyEvents(ModuleOp module) {
  BoundaryEvents crossings;
  if (failed(verifyRecords(module, crossings)))
    return failure();
  for (auto function : module.getOps<func::FuncOp>())
    for (BlockArgument argument : function.getArguments()) {
      unsigned position = argument.getArgNumber();
      auto it = crossings.find(getLiveIn(function, position));
      auto event = function.getArgAttrOfType<IntegerAttr>(position, kEventAttr);
      if (it == crossings.end() || !event ||
          static_cast<uint64_t>(event.getInt()) != it->second) {
        InFlightDiagnostic diag = function.emitError("expected '")
                                  << kEventAttr << "' on argument " << position;
        if (it != crossings.end())
          diag << " to be " << it->second << ", as it was recorded";
        return diag;
      }
      if (failed(verifyWaits(argument, it->second)))
        return failure();
    }
  return success();
}
