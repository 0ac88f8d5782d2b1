// SPDX-License-Identifier: Apache-2.0
//
// Finds the order of issue, and the waits between operations.

#include "ProgramOrder.h"

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
  return store && isa_and_present<ReduceScatterOp, AddOp>(
                      store.getValue().getDefiningOp());
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

ProgramOrder::Async *ProgramOrder::findFill(StringAttr state) {
  if (Operation *fill = fills.lookup(state))
    return &asyncs.find(fill)->second;
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

/// Returns the accumulator that `op` adds to or updates with, under the name
/// that identifies it.
static StringAttr findSum(Operation *op) {
  if (auto accumulate = dyn_cast<AccumulateOp>(op))
    return accumulate.getTargetAttr().getAttr();
  if (auto update = dyn_cast<ShardUpdateOp>(op))
    return update.getTargetAttr().getAttr();
  return {};
}

void ProgramOrder::waitForInputs(Operation *op, Stream stream) {
  for (Value operand : op->getOperands()) {
    Operation *producer = operand.getDefiningOp();
    if (auto it = asyncs.find(producer); it != asyncs.end())
      wait(stream, it->second);
    if (auto read = dyn_cast_if_present<ReadStateOp>(producer))
      if (Async *fill = findFill(read.getSourceAttr().getAttr()))
        wait(stream, *fill);
  }
  if (StateOp sum = boundary.sums.lookup(findSum(op)))
    if (Async *fill = findFill(sum.getSymNameAttr()))
      wait(stream, *fill);
  // The accumulates of the function before may use the memory of its packed
  // gradients.
  if (isa<PackOp, UnscaleGradientsOp, ClipGradientsOp>(op))
    waitForSums();
  if (auto load = dyn_cast<CacheLoadOp>(op))
    if (Operation *store = stores.lookup(load.getSourceAttr().getAttr()))
      wait(stream, asyncs.find(store)->second);
  if (auto gather = dyn_cast<AllGatherOp>(op); gather && gather.getDeltaAttr())
    if (Operation *store = stores.lookup(gather.getDeltaAttr().getAttr()))
      wait(stream, asyncs.find(store)->second);
  if (auto store = dyn_cast<CacheStoreOp>(op))
    if (Operation *load = loads.lookup(store.getTargetAttr().getAttr()))
      wait(stream, asyncs.find(load)->second);
}

void ProgramOrder::waitForLiveIn(Operation *op, Stream stream) {
  if (Operation *last = liveOutFor.lookup(op); last && getInto(last))
    if (Async *fill = findFill(getInto(last).getAttr()))
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

void ProgramOrder::issue(Operation *op, Stream stream) {
  builder.setInsertionPoint(op);
  if (storesSum(op)) {
    waitForInputs(op, Stream::compute); // its gradients' memory is free then
    waitForCompute(stream);
  }
  waitForInputs(op, stream);
  if (stream == Stream::compute) {
    waitForLiveIn(op, stream);
    if (!isView(op))
      ++clocks[0][0];
    if (!isa<AddOp>(op)) // an accumulator that is stored together with others
      olderStore = lastStore;
    return;
  }
  waitForCompute(stream);
  waitForLiveIn(op, stream);
  cast<StreamedOpInterface>(op).setStreamAttr(
      StreamAttr::get(op->getContext(), stream));
  Clock &clock = clocks[indexOf(stream)];
  ++clock[indexOf(stream)];
  asyncs[op] = {op, stream, clock, indexOf(stream), Value()};
  asyncOrder.push_back(op);
  if (auto store = dyn_cast<CacheStoreOp>(op))
    stores[store.getTargetAttr().getAttr()] = op;
  if (auto load = dyn_cast<CacheLoadOp>(op))
    loads[load.getSourceAttr().getAttr()] = op;
  if (FlatSymbolRefAttr into = getInto(op))
    fills[into.getAttr()] = op;
  if (StateOp sum = boundary.sums.lookup(findSum(op)))
    fills[sum.getSymNameAttr()] = op;
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

void ProgramOrder::giveResults() {
  SmallVector<Value> tokens;
  for (const Carried &carried : boundary.liveOuts)
    tokens.push_back(
        getToken(asyncs.find(fills.lookup(carried.state))->second));
  block.getTerminator()->setOperands(tokens);
  function.setType(builder.getFunctionType(block.getArgumentTypes(),
                                           TypeRange(ValueRange(tokens))));
}

void ProgramOrder::run() {
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
  giveResults();
}
