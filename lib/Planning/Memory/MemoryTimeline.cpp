// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Planning/Memory/MemoryTimeline.h"

#include "fcdp/Analysis/Aliases.h"
#include "fcdp/Analysis/Buffers.h"
#include "fcdp/Analysis/FunctionBoundaries.h"
#include "fcdp/Analysis/InPlaceGradients.h"

using namespace mlir;
using namespace fcdp;

namespace {
/// Builds the timeline of one function.
class TimelineBuilder {
public:
  TimelineBuilder(func::FuncOp function, FunctionTimeline &timeline);

  /// Finds the spans that do not depend on other functions.
  void addOwn();
  /// Finds the buffers and copies in flight at the ends of the functions
  /// `before`.
  void addLiveIns(ArrayRef<const FunctionTimeline *> before);

private:
  int64_t findRelease(ReleaseOp release) const;
  int64_t findCompletion(Operation *user) const;
  void addBuffer(Operation &op);
  /// The times of the live-in copies, by the state's name.
  using Copies = llvm::DenseMap<StringAttr, MemorySpan>;
  void addLiveIns(const FunctionTimeline &before, Copies &copies);
  void extend(MemorySpan &copy, ReadStateOp read) const;

  func::FuncOp function;
  FunctionTimeline &timeline;
  llvm::DenseMap<Operation *, int64_t> position;
};
} // namespace

static ReleaseOp getRelease(Operation *op) {
  for (Operation *user : op->getUsers())
    if (auto release = dyn_cast<ReleaseOp>(user))
      return release;
  return {};
}

TimelineBuilder::TimelineBuilder(func::FuncOp function,
                                 FunctionTimeline &timeline)
    : function(function), timeline(timeline) {
  timeline.length = 0;
  for (Operation &op : function.front())
    position[&op] = timeline.length++;
}

/// Returns the position from which on memory is free. A release on another
/// stream than compute takes effect only in the next function.
int64_t TimelineBuilder::findRelease(ReleaseOp release) const {
  return release && !release.getStream() ? position.lookup(release)
                                         : timeline.length;
}

void TimelineBuilder::addBuffer(Operation &op) {
  ReleaseOp release = getRelease(&op);
  timeline.buffers.push_back(
      {&op,
       /*isScratch=*/false,
       {position.lookup(getFirstWriter(&op)), findRelease(release)},
       release});
  auto buffered = cast<BufferedOpInterface>(op);
  if (!buffered.getScratchBytes())
    return;
  // Its owner is released when the operation is done.
  release = getRelease(getScratchOwner(buffered));
  timeline.buffers.push_back({&op,
                              /*isScratch=*/true,
                              {position.lookup(&op), findRelease(release)},
                              release});
}

void TimelineBuilder::addOwn() {
  timeline.buffers.clear();
  for (Operation &op : function.front())
    if (isBuffered(&op))
      addBuffer(op);
  timeline.results = findActivations(function);
}

/// Returns the position from which on `user` no longer reads its operands, in
/// the order of compute. For another stream, this is where compute has waited
/// for it.
int64_t TimelineBuilder::findCompletion(Operation *user) const {
  Stream stream = getStream(user);
  if (stream == Stream::compute)
    return position.lookup(user) + 1;
  if (isBuffered(user))
    return findRelease(getRelease(user));
  for (Operation *op = user; (op = op->getNextNode());)
    if (auto wait = dyn_cast<WaitOp>(op);
        wait && wait.getStream() == Stream::compute)
      if (auto record = wait.getToken().getDefiningOp<RecordOp>();
          record && record.getStream() == stream &&
          user->isBeforeInBlock(record))
        return position.lookup(wait) + 1;
  return timeline.length;
}

/// Extends the use of a copy, which has no release of its own, to its last
/// reader.
void TimelineBuilder::extend(MemorySpan &copy, ReadStateOp read) const {
  for (Operation *user : collectMemoryUsers(read))
    copy.release = std::max(copy.release, findCompletion(user));
}

void TimelineBuilder::addLiveIns(const FunctionTimeline &before,
                                 Copies &copies) {
  for (const BufferUse &buffer : before.buffers) {
    if (!buffer.isInFlight())
      continue;
    int64_t awaited =
        position.lookup(findLiveInWait(buffer.releasedBy, function)) + 1;
    timeline.liveIns.push_back({buffer.op, buffer.isScratch,
                                MemorySpan{0, awaited}, buffer.releasedBy});
    // The copy that fills a state is the one that this function finds there.
    FlatSymbolRefAttr into = getInto(buffer.op);
    if (!into)
      continue;
    MemorySpan &copy = copies[into.getAttr()];
    copy.release = std::max(copy.release, awaited);
  }
}

void TimelineBuilder::addLiveIns(ArrayRef<const FunctionTimeline *> before) {
  Copies copies;
  for (auto read : function.getOps<ReadStateOp>())
    extend(copies[read.getSourceAttr().getAttr()], read);
  timeline.liveIns.clear();
  for (const FunctionTimeline *other : before)
    addLiveIns(*other, copies);
  timeline.copies.clear();
  for (auto state : function->getParentOfType<ModuleOp>().getOps<StateOp>())
    if (MemorySpan copy = copies.lookup(state.getSymNameAttr());
        copy.release > 0 && state.getRole() == StateRole::prefetched)
      timeline.copies.push_back({state, copy});
}

MemoryTimeline::MemoryTimeline(ModuleOp module) {
  for (auto function : module.getOps<func::FuncOp>())
    TimelineBuilder(function, functions[function]).addOwn();
  for (auto function : module.getOps<func::FuncOp>()) {
    SmallVector<const FunctionTimeline *> before;
    for (func::FuncOp other : findPredecessors(function))
      before.push_back(&functions.find(other)->second);
    TimelineBuilder(function, functions.find(function)->second)
        .addLiveIns(before);
  }
}

void MemoryTimeline::update(func::FuncOp function) {
  TimelineBuilder(function, functions.find(function)->second).addOwn();
}
