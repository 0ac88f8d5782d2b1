// SPDX-License-Identifier: Apache-2.0
//
// Finds the operations that access the memory of a value, and the place of its
// release.

#include "ProgramOrder.h"

#include "fcdp/Analysis/Aliases.h"
#include "fcdp/Analysis/FunctionBoundaries.h"

using namespace mlir;
using namespace fcdp;

/// Records the operations that access the memory of `value`: its producer and
/// its users.
void ProgramOrder::collectBuffer(Value value) {
  Buffer &buffer = buffers[value];
  SmallVector<Operation *> accesses = collectMemoryUsers(value);
  accesses.push_back(value.getDefiningOp());
  for (Operation *op : accesses) {
    buffer.open.insert(op);
    buffersOf[op].push_back(value);
    if (chooseStream(op) != Stream::compute)
      buffer.asyncs.push_back(op);
  }
}

/// Records that `op` may be in flight at the function's end, with the
/// operations that only feed it.
void ProgramOrder::collectLiveOut(Operation *op) {
  SmallVector<Operation *> worklist{op};
  while (!worklist.empty()) {
    Operation *producer = worklist.pop_back_val();
    bool isFirst = liveOutFor.try_emplace(producer, op).second;
    if (isBuffered(producer) && isFirst)
      liveOuts[op].push_back(producer->getResult(0));
    for (Value operand : producer->getOperands())
      if (Operation *input = operand.getDefiningOp();
          isBuffered(input) && input->hasOneUse())
        worklist.push_back(input);
  }
}

void ProgramOrder::release(Value value) {
  // A gather's input may be placed inside its result, so it must be free, too.
  if (CollectiveOpInterface gather = asGather(value.getDefiningOp()))
    if (auto *input = llvm::find(pending, gather.getInput());
        input != pending.end()) {
      pending.erase(input);
      release(gather.getInput());
    }
  for (Operation *op : buffers.find(value)->second.asyncs)
    wait(Stream::compute, asyncs.find(op)->second);
  ReleaseOp::create(builder, value.getLoc(), value, StreamAttr());
}

void ProgramOrder::releaseLate(Operation *op) {
  auto values = liveOuts.find(op);
  if (values == liveOuts.end())
    return;
  Async &async = asyncs.find(op)->second;
  builder.setInsertionPointAfter(op);
  for (Value value : values->second)
    ReleaseOp::create(builder, value.getLoc(), value,
                      StreamAttr::get(builder.getContext(), async.stream));
  async.token = RecordOp::create(builder, op->getLoc(),
                                 TokenType::get(builder.getContext()),
                                 async.stream, IntegerAttr());
}

bool ProgramOrder::isDone(Value value) {
  return llvm::all_of(buffers.find(value)->second.asyncs, [&](Operation *op) {
    return isCovered(asyncs.find(op)->second);
  });
}

void ProgramOrder::waitForStoresBefore(Operation *store) {
  if (olderStore)
    wait(Stream::compute, asyncs.find(olderStore)->second);
  lastStore = store;
}

void ProgramOrder::finishUses(Operation *op) {
  builder.setInsertionPointAfter(op);
  SmallVector<Value> finished;
  for (Value value : buffersOf.lookup(op)) {
    Buffer &buffer = buffers.find(value)->second;
    buffer.open.erase(op);
    if (buffer.open.empty() && !liveOutFor.contains(value.getDefiningOp()))
      finished.push_back(value);
  }
  bool isCompute = !asyncs.count(op);
  for (Value value : finished) {
    if (isCompute) {
      release(value);
      continue;
    }
    // The last access is on another stream. Compute does not wait for it here.
    pending.push_back(value);
    if (isa<CacheStoreOp, StateStoreOp>(op))
      waitForStoresBefore(op);
  }
  // Compute has waited for more work since, which may cover these values.
  llvm::erase_if(pending, [&](Value value) {
    if (!isDone(value))
      return false;
    ReleaseOp::create(builder, value.getLoc(), value, StreamAttr());
    return true;
  });
}
