// SPDX-License-Identifier: Apache-2.0
//
// Finds the order of issue, and the waits between operations.

#include "ProgramOrder.h"

#include "dialects/Fcdp/StatePieces.h"
#include "fcdp/Analysis/Aliases.h"
#include "fcdp/Analysis/FunctionBoundaries.h"

using namespace mlir;
using namespace fcdp;

static size_t indexOf(Stream stream) { return static_cast<size_t>(stream); }

void ProgramOrder::merge(Clock &clock, const Clock &other) {
  for (size_t i = 0; i < clock.size(); ++i)
    clock[i] = std::max(clock[i], other[i]);
}

/// Returns whether `op` stores an accumulator in host memory.
static bool storesSum(Operation *op) {
  auto store = dyn_cast<CacheStoreOp>(op);
  Operation *sum = store ? store.getValue().getDefiningOp() : nullptr;
  return isa_and_present<AddOp>(sum) || asReduction(sum);
}

Value ProgramOrder::getToken(Async &async) {
  if (!async.token) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointAfter(async.op);
    async.token = RecordOp::create(builder, async.op->getLoc(),
                                   TokenType::get(builder.getContext()),
                                   async.stream, IntegerAttr());
  }
  return async.token;
}

ProgramOrder::Async *ProgramOrder::findWriter(StringAttr state) {
  if (Operation *writer = writers.lookup(state))
    return &asyncs.find(writer)->second;
  auto liveIn = liveIns.find(state);
  return liveIn == liveIns.end() ? nullptr : &liveIn->second;
}

void ProgramOrder::wait(Stream stream, Async &async) {
  Clock &clock = clocks[indexOf(stream)];
  if (stream == async.stream || clock[async.entry] >= async.done[async.entry])
    return;
  Value token = getToken(async);
  WaitOp::create(builder, token.getLoc(), token, stream);
  merge(clock, async.done);
  // A wait counts as work, because the values that compute releases after it
  // depend on it.
  if (stream == Stream::compute)
    ++clock[0];
}

void ProgramOrder::waitForCompute(Stream stream) {
  Clock &clock = clocks[indexOf(stream)];
  if (clock[0] >= clocks[0][0])
    return;
  auto token = RecordOp::create(builder, builder.getInsertionPoint()->getLoc(),
                                TokenType::get(builder.getContext()),
                                Stream::compute, IntegerAttr());
  WaitOp::create(builder, token.getLoc(), token, stream);
  merge(clock, clocks[0]);
}

void ProgramOrder::waitForInputs(Operation *op, Stream stream) {
  for (Value operand : op->getOperands())
    if (auto it = asyncs.find(operand.getDefiningOp()); it != asyncs.end())
      wait(stream, it->second);
  // The accumulates of the function before may use the memory of the packed
  // gradients. Waits for them come first, because they cover what the accesses
  // of an operation on all sums would wait for.
  if (isa<PackOp>(op) || Accesses::isOnAllSums(op))
    waitForSums();
  for (const Access &access : accesses.get(op))
    if (Async *writer = findWriter(access.state); writer && !access.isWrite)
      wait(stream, *writer);
}

void ProgramOrder::waitForWritten(Operation *op, Stream stream) {
  for (const Access &access : accesses.get(op)) {
    if (!access.isWrite)
      continue;
    if (Async *writer = findWriter(access.state))
      wait(stream, *writer);
    SmallVector<Operation *> since = readers.lookup(access.state);
    for (Operation *reader : llvm::reverse(since))
      wait(stream, asyncs.find(reader)->second);
  }
}

void ProgramOrder::noteAccesses(Operation *op) {
  SmallVector<Access> all = accesses.get(op);
  for (const Access &access : all)
    if (!access.isWrite)
      readers[access.state].push_back(op);
  for (const Access &access : all)
    if (access.isWrite) {
      writers[access.state] = op;
      readers.erase(access.state);
    }
}

void ProgramOrder::waitForLiveIn(Operation *op, Stream stream) {
  if (Operation *last = liveOutFor.lookup(op); last && getInto(last))
    if (Async *fill = findWriter(getInto(last).getAttr()))
      wait(stream, *fill);
}

/// Makes compute wait for each live-in accumulate. The wait is emitted even if
/// another wait covers it, because it tells the planner from where on the
/// memory of the accumulate is free.
void ProgramOrder::waitForSums() {
  for (const Carried &carried : boundary.liveIns) {
    Async &before = liveIns[carried.state];
    if (!carried.isSum || !awaited.insert(carried.state).second)
      continue;
    WaitOp::create(builder, before.token.getLoc(), before.token,
                   Stream::compute);
    merge(clocks[0], before.done);
    ++clocks[0][0];
  }
}

/// The gradients for updates on the host use a number of windows in turn. A
/// window is free when the shard that was updated there has been loaded.
void ProgramOrder::waitForHostWindow(Operation *op, Stream stream) {
  if (isa<LoadShardOp>(op))
    hostLoads.push_back(op);
  if (!isa<StoreGradientOp>(op))
    return;
  size_t before = numHostStores++;
  if (before < kHostWindows || before - kHostWindows >= hostLoads.size())
    return; // the proof refuses a window that is not free
  wait(stream, asyncs.find(hostLoads[before - kHostWindows])->second);
}

void ProgramOrder::issue(Operation *op, Stream stream) {
  builder.setInsertionPoint(op);
  if (storesSum(op)) {
    waitForInputs(op, Stream::compute); // its gradients' memory is free then
    waitForCompute(stream);
  }
  waitForInputs(op, stream);
  waitForHostWindow(op, stream);
  if (stream == Stream::compute) {
    waitForWritten(op, stream);
    waitForLiveIn(op, stream);
    if (!isView(op))
      ++clocks[0][0];
    if (!isa<AddOp>(op)) // an accumulator that is stored together with others
      olderStore = lastStore;
    return;
  }
  waitForCompute(stream);
  waitForWritten(op, stream);
  waitForLiveIn(op, stream);
  cast<StreamedOpInterface>(op).setStreamAttr(
      StreamAttr::get(op->getContext(), stream));
  Clock &clock = clocks[indexOf(stream)];
  ++clock[indexOf(stream)];
  asyncs[op] = {op, stream, clock, indexOf(stream), Value()};
  asyncOrder.push_back(op);
  noteAccesses(op);
}

void ProgramOrder::takeArguments() {
  for (const Carried &carried : boundary.liveIns) {
    Value token = block.addArgument(TokenType::get(builder.getContext()),
                                    function.getLoc());
    // The stream of the accumulate continues from there. A token does not imply
    // that another one is done, because functions may issue them in different
    // orders.
    size_t entry = kNumStreams + liveIns.size();
    Clock done(clocks[0].size());
    done[entry] = clocks[indexOf(carried.stream)][entry] = 1;
    liveIns[carried.state] = {nullptr, carried.stream, done, entry, token};
  }
}

LogicalResult ProgramOrder::giveResults() {
  SmallVector<Value> tokens;
  for (const Carried &carried : boundary.liveOuts) {
    auto writer = asyncs.find(writers.lookup(carried.state));
    if (writer == asyncs.end())
      return function.emitOpError("expected an operation that writes to '@")
             << carried.state.getValue() << "', which is in flight at its end";
    tokens.push_back(getToken(writer->second));
  }
  block.getTerminator()->setOperands(tokens);
  function.setType(builder.getFunctionType(block.getArgumentTypes(),
                                           TypeRange(ValueRange(tokens))));
  return success();
}

LogicalResult ProgramOrder::run() {
  takeArguments();
  SmallVector<Operation *> program;
  for (Operation &op : block) {
    program.push_back(&op);
    if (isBuffered(&op))
      collectBuffer(op.getResult(0));
    if (mayBeInFlight(&op))
      collectLiveOut(&op);
  }
  for (Operation *op : ArrayRef(program).drop_back()) {
    issue(op, chooseStream(op));
    finishUses(op);
    releaseLate(op);
  }
  builder.setInsertionPoint(block.getTerminator());
  for (Operation *op : llvm::reverse(asyncOrder))
    if (Async &async = asyncs.find(op)->second;
        !isCovered(async) && !liveOutFor.contains(op))
      wait(Stream::compute, async);
  for (auto &[state, liveIn] : liveIns)
    if (!isCovered(liveIn))
      wait(Stream::compute, liveIn);
  while (!pending.empty())
    release(pending.pop_back_val());
  return giveResults();
}
