// SPDX-License-Identifier: Apache-2.0

#include "VerifyPhase.h"
#include "fcdp/Analysis/Aliases.h"
#include "fcdp/Analysis/Streams.h"

#include "mlir/IR/Builders.h"

#include <array>

namespace fcdp {
#define GEN_PASS_DEF_SCHEDULEPASS
#include "fcdp/Transforms/Passes.h.inc"
} // namespace fcdp

using namespace mlir;
using namespace fcdp;

namespace {
constexpr size_t kNumStreams = getMaxEnumValForStream() + 1;
/// For each stream, how many of its operations are known to be done.
using Clock = std::array<int64_t, kNumStreams>;

size_t indexOf(Stream stream) { return static_cast<size_t>(stream); }

void merge(Clock &clock, const Clock &other) {
  for (size_t i = 0; i < kNumStreams; ++i)
    clock[i] = std::max(clock[i], other[i]);
}

/// Walks one function in program order and inserts records, waits and
/// releases.
class ProgramOrder {
public:
  explicit ProgramOrder(func::FuncOp function)
      : block(function.front()), builder(function.getContext()) {
    // The functions before this one were joined into compute, so their work
    // counts as compute's.
    clocks[0][0] = 1;
  }

  void run();

private:
  /// An operation on another stream than compute.
  struct Async {
    Operation *op;
    Stream stream;
    /// What is done once it is done.
    Clock done;
    /// Null until someone waits for it.
    Value token;
  };

  /// The memory of a value.
  struct Buffer {
    /// Operations that access it and have not been issued yet.
    llvm::SmallPtrSet<Operation *, 4> open;
    /// Those of all that run on another stream than compute.
    SmallVector<Operation *, 2> asyncs;
  };

  void collectBuffer(Value value);
  void issue(Operation *op, Stream stream);
  /// Makes `stream`, before `op`, wait for the asynchronous producers that
  /// `op` reads.
  void waitForInputs(Operation *op, Stream stream);
  void wait(Stream stream, Async &async);
  void waitForCompute(Stream stream);
  /// Notes that `op` is done with the buffers that it uses.
  void finishUses(Operation *op);
  /// Joins compute with the asynchronous accesses to `value` and releases it.
  void release(Value value);
  /// Makes compute wait for the stores before `store` that it has computed
  /// behind: nothing else does, where a store is the last access to its value.
  void waitForStoresBefore(Operation *store);
  /// Whether compute has waited for all accesses to `value`.
  bool isDone(Value value);
  bool isCovered(const Async &async) const {
    size_t stream = indexOf(async.stream);
    return clocks[0][stream] >= async.done[stream];
  }

  Block &block;
  OpBuilder builder;
  /// What each stream has waited for, compute first.
  std::array<Clock, kNumStreams> clocks{};
  llvm::DenseMap<Operation *, Async> asyncs;
  /// In order of issue.
  SmallVector<Operation *> asyncOrder;
  llvm::DenseMap<Value, Buffer> buffers;
  llvm::DenseMap<Operation *, SmallVector<Value>> buffersOf;
  /// Issued for the last time, with asynchronous accesses not known to be done.
  SmallVector<Value> pending;
  /// The last store that was the last access to its value, and the last of
  /// those that compute has computed behind.
  Operation *lastStore = nullptr, *olderStore = nullptr;
  /// The last store to, and the last load from, each cache.
  llvm::DenseMap<StringAttr, Operation *> stores, loads;
};
} // namespace

/// Whether `op` stores a sum of gradients in host memory.
static bool storesSum(Operation *op) {
  auto store = dyn_cast<CacheStoreOp>(op);
  return store && isa_and_present<ReduceScatterOp, AddOp>(
                      store.getValue().getDefiningOp());
}

/// Notes who accesses the memory of `value`: its producer and its users.
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

void ProgramOrder::wait(Stream stream, Async &async) {
  Clock &clock = clocks[indexOf(stream)];
  if (stream == async.stream ||
      clock[indexOf(async.stream)] >= async.done[indexOf(async.stream)])
    return;
  if (!async.token) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointAfter(async.op);
    async.token = RecordOp::create(builder, async.op->getLoc(),
                                   TokenType::get(builder.getContext()),
                                   async.stream, IntegerAttr());
  }
  WaitOp::create(builder, async.op->getLoc(), async.token, stream);
  merge(clock, async.done);
  // A wait counts as work: what compute releases after it depends on it.
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
  if (auto load = dyn_cast<CacheLoadOp>(op))
    if (Operation *store = stores.lookup(load.getSourceAttr().getAttr()))
      wait(stream, asyncs.find(store)->second);
  if (auto store = dyn_cast<CacheStoreOp>(op))
    if (Operation *load = loads.lookup(store.getTargetAttr().getAttr()))
      wait(stream, asyncs.find(load)->second);
}

void ProgramOrder::issue(Operation *op, Stream stream) {
  builder.setInsertionPoint(op);
  if (storesSum(op)) {
    waitForInputs(op, Stream::compute); // its gradients' memory is free then
    waitForCompute(stream);
  }
  waitForInputs(op, stream);
  if (stream == Stream::compute) {
    if (!isView(op))
      ++clocks[0][0];
    if (!isa<AddOp>(op)) // of a sum that is stored together with others
      olderStore = lastStore;
    return;
  }
  waitForCompute(stream);
  op->setAttr("stream", StreamAttr::get(op->getContext(), stream));
  Clock &clock = clocks[indexOf(stream)];
  ++clock[indexOf(stream)];
  asyncs[op] = {op, stream, clock, Value()};
  asyncOrder.push_back(op);
  if (auto store = dyn_cast<CacheStoreOp>(op))
    stores[store.getTargetAttr().getAttr()] = op;
  if (auto load = dyn_cast<CacheLoadOp>(op))
    loads[load.getSourceAttr().getAttr()] = op;
}

void ProgramOrder::release(Value value) {
  // A gather's input may be placed inside its result, so it must be free too.
  if (auto gather = value.getDefiningOp<AllGatherOp>())
    if (auto *input = llvm::find(pending, gather.getInput());
        input != pending.end()) {
      pending.erase(input);
      release(gather.getInput());
    }
  for (Operation *op : buffers.find(value)->second.asyncs)
    wait(Stream::compute, asyncs.find(op)->second);
  ReleaseOp::create(builder, value.getLoc(), value);
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
    if (buffer.open.empty())
      finished.push_back(value);
  }
  bool isCompute = !asyncs.count(op);
  for (Value value : finished) {
    if (isCompute) {
      release(value);
      continue;
    }
    // The last access is a stream's: do not make compute wait for it here.
    pending.push_back(value);
    if (isa<CacheStoreOp>(op))
      waitForStoresBefore(op);
  }
  // Waits that compute has made by now may cover more.
  llvm::erase_if(pending, [&](Value value) {
    if (!isDone(value))
      return false;
    ReleaseOp::create(builder, value.getLoc(), value);
    return true;
  });
}

void ProgramOrder::run() {
  SmallVector<Operation *> program;
  for (Operation &op : block) {
    program.push_back(&op);
    if (isBuffered(&op))
      collectBuffer(op.getResult(0));
  }
  for (Operation *op : ArrayRef(program).drop_back()) {
    issue(op, chooseStream(op));
    finishUses(op);
  }
  builder.setInsertionPoint(block.getTerminator());
  for (Operation *op : llvm::reverse(asyncOrder))
    if (Async &async = asyncs.find(op)->second; !isCovered(async))
      wait(Stream::compute, async);
  for (Value value : pending)
    ReleaseOp::create(builder, value.getLoc(), value);
}

namespace {
class SchedulePass : public fcdp::impl::SchedulePassBase<SchedulePass> {
public:
  using SchedulePassBase::SchedulePassBase;
  void runOnOperation() override;
};
} // namespace

void SchedulePass::runOnOperation() {
  ModuleOp module = getOperation();
  if (failed(requirePhase(module, Phase::sharded)))
    return signalPassFailure();
  if (order != "program") {
    module.emitError("unknown order '") << order << "'; expected 'program'";
    return signalPassFailure();
  }
  if (failed(verifyOneLevel(module)))
    return signalPassFailure();
  for (auto function : module.getOps<func::FuncOp>())
    ProgramOrder(function).run();
  setPhase(module, Phase::scheduled);
}
