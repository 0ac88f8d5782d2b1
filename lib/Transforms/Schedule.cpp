// SPDX-License-Identifier: Apache-2.0

#include "VerifyPhase.h"
#include "fcdp/Analysis/Aliases.h"
#include "fcdp/Analysis/Borders.h"
#include "fcdp/Analysis/Streams.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/MapVector.h"

#include <array>

namespace fcdp {
#define GEN_PASS_DEF_SCHEDULEPASS
#include "fcdp/Transforms/Passes.h.inc"
} // namespace fcdp

using namespace mlir;
using namespace fcdp;

namespace {
constexpr size_t kNumStreams = getMaxEnumValForStream() + 1;
/// For each stream, how many of its operations are known to be done; behind
/// these, for each token that arrives, whether that is known of its work.
using Clock = SmallVector<int64_t, 2 * kNumStreams>;

size_t indexOf(Stream stream) { return static_cast<size_t>(stream); }

void merge(Clock &clock, const Clock &other) {
  for (size_t i = 0; i < clock.size(); ++i)
    clock[i] = std::max(clock[i], other[i]);
}

/// A state that is in flight when a function ends.
struct Carried {
  StringAttr state;
  /// Of the operation that is the last to write it.
  Stream stream;
  /// Whether it is a sum, for which memory of the function before is in use.
  bool isSum;
};

/// What is in flight at both ends of a function, and the module's sums.
struct Borders {
  SmallVector<Carried> arriving, leaving;
  /// As collectAccumulators gives them.
  const llvm::DenseMap<StringAttr, StateOp> &sums;
};

/// Walks one function in program order and inserts records, waits and
/// releases.
class ProgramOrder {
public:
  ProgramOrder(func::FuncOp function, const Borders &borders)
      : function(function), block(function.front()),
        builder(function.getContext()), borders(borders) {
    clocks.fill(Clock(kNumStreams + borders.arriving.size()));
    // But for what arrives, the functions before this one were joined into
    // compute, so their work counts as compute's.
    clocks[0][0] = 1;
  }

  void run();

private:
  /// An operation on another stream than compute.
  struct Async {
    /// Null if it is of the function before.
    Operation *op;
    Stream stream;
    /// What is done once it is done.
    Clock done;
    /// Which entry of a clock it counts in.
    size_t entry;
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

  void takeArguments();
  void giveResults();
  void collectBuffer(Value value);
  void collectLeaving(Operation *op);
  void issue(Operation *op, Stream stream);
  /// Makes `stream`, before `op`, wait for the asynchronous producers that
  /// `op` reads.
  void waitForInputs(Operation *op, Stream stream);
  void wait(Stream stream, Async &async);
  /// Gives the token of `async`, recorded behind it.
  Value getToken(Async &async);
  /// What brings in what `state` holds, so far; null if that is long done.
  Async *findFill(StringAttr state);
  void waitForCompute(Stream stream);
  /// Makes compute wait for the sums that arrive.
  void waitForSums();
  /// Makes `stream` wait for what is on its way to where `op`'s goes.
  void waitForArrival(Operation *op, Stream stream);
  /// Notes that `op` is done with the buffers that it uses.
  void finishUses(Operation *op);
  /// Joins compute with the asynchronous accesses to `value` and releases it.
  void release(Value value);
  /// Releases what `op`, which may leave, uses, once its own stream is done.
  void releaseLate(Operation *op);
  /// Makes compute wait for the stores before `store` that it has computed
  /// behind: nothing else does, where a store is the last access to its value.
  void waitForStoresBefore(Operation *store);
  /// Whether compute has waited for all accesses to `value`.
  bool isDone(Value value);
  bool isCovered(const Async &async) const {
    return clocks[0][async.entry] >= async.done[async.entry];
  }

  func::FuncOp function;
  Block &block;
  OpBuilder builder;
  const Borders &borders;
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
  /// What fills each state: here, and in the function before.
  llvm::DenseMap<StringAttr, Operation *> fills;
  llvm::MapVector<StringAttr, Async> arrivals;
  /// Sums that arrive and that compute has waited for.
  llvm::DenseSet<StringAttr> arrived;
  /// By what may be in flight at the end, its result and what only feeds it.
  llvm::DenseMap<Operation *, SmallVector<Value>> leaving;
  /// Who makes these, with the operation that they are for.
  llvm::DenseMap<Operation *, Operation *> leavingFor;
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

/// Notes that `op` may leave, with what makes its input.
void ProgramOrder::collectLeaving(Operation *op) {
  SmallVector<Operation *> worklist{op};
  while (!worklist.empty()) {
    Operation *producer = worklist.pop_back_val();
    bool isFirst = leavingFor.try_emplace(producer, op).second;
    if (isBuffered(producer) && isFirst)
      leaving[op].push_back(producer->getResult(0));
    for (Value operand : producer->getOperands())
      if (Operation *input = operand.getDefiningOp();
          isBuffered(input) && input->hasOneUse())
        worklist.push_back(input);
  }
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
  auto arrival = arrivals.find(state);
  return arrival == arrivals.end() ? nullptr : &arrival->second;
}

void ProgramOrder::wait(Stream stream, Async &async) {
  Clock &clock = clocks[indexOf(stream)];
  if (stream == async.stream || clock[async.entry] >= async.done[async.entry])
    return;
  Value token = getToken(async);
  WaitOp::create(builder, token.getLoc(), token, stream);
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

/// The gradients that `op` sums or updates with, as sums are named.
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
  if (StateOp sum = borders.sums.lookup(findSum(op)))
    if (Async *fill = findFill(sum.getSymNameAttr()))
      wait(stream, *fill);
  // The memory of its packed gradients may be in use by those before.
  if (isa<PackOp, ClipGradientsOp>(op))
    waitForSums();
  if (auto load = dyn_cast<CacheLoadOp>(op))
    if (Operation *store = stores.lookup(load.getSourceAttr().getAttr()))
      wait(stream, asyncs.find(store)->second);
  if (auto store = dyn_cast<CacheStoreOp>(op))
    if (Operation *load = loads.lookup(store.getTargetAttr().getAttr()))
      wait(stream, asyncs.find(load)->second);
}

void ProgramOrder::waitForArrival(Operation *op, Stream stream) {
  if (Operation *last = leavingFor.lookup(op); last && getInto(last))
    if (Async *fill = findFill(getInto(last).getAttr()))
      wait(stream, *fill);
}

/// Said even where another wait covers it, so that the plan knows from where on
/// the memory is free that they use.
void ProgramOrder::waitForSums() {
  for (const Carried &carried : borders.arriving) {
    Async &before = arrivals[carried.state];
    if (!carried.isSum || !arrived.insert(carried.state).second)
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
    waitForArrival(op, stream);
    if (!isView(op))
      ++clocks[0][0];
    if (!isa<AddOp>(op)) // of a sum that is stored together with others
      olderStore = lastStore;
    return;
  }
  waitForCompute(stream);
  waitForArrival(op, stream);
  op->setAttr("stream", StreamAttr::get(op->getContext(), stream));
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
  if (StateOp sum = borders.sums.lookup(findSum(op)))
    fills[sum.getSymNameAttr()] = op;
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
  ReleaseOp::create(builder, value.getLoc(), value, StreamAttr());
}

void ProgramOrder::releaseLate(Operation *op) {
  auto values = leaving.find(op);
  if (values == leaving.end())
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
    if (buffer.open.empty() && !leavingFor.contains(value.getDefiningOp()))
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
    ReleaseOp::create(builder, value.getLoc(), value, StreamAttr());
    return true;
  });
}

void ProgramOrder::takeArguments() {
  for (const Carried &carried : borders.arriving) {
    Value token = block.addArgument(TokenType::get(builder.getContext()),
                                    function.getLoc());
    // Its stream goes on from there. None says that another is done: functions
    // may leave them in different orders.
    size_t entry = kNumStreams + arrivals.size();
    Clock done(clocks[0].size());
    done[entry] = clocks[indexOf(carried.stream)][entry] = 1;
    arrivals[carried.state] = {nullptr, carried.stream, done, entry, token};
  }
}

void ProgramOrder::giveResults() {
  SmallVector<Value> tokens;
  for (const Carried &carried : borders.leaving)
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
    if (mayLeave(&op))
      collectLeaving(&op);
  }
  for (Operation *op : ArrayRef(program).drop_back()) {
    issue(op, chooseStream(op));
    finishUses(op);
    releaseLate(op);
  }
  builder.setInsertionPoint(block.getTerminator());
  for (Operation *op : llvm::reverse(asyncOrder))
    if (Async &async = asyncs.find(op)->second;
        !isCovered(async) && !leavingFor.contains(op))
      wait(Stream::compute, async);
  for (auto &[state, arrival] : arrivals)
    if (!isCovered(arrival))
      wait(Stream::compute, arrival);
  while (!pending.empty())
    release(pending.pop_back_val());
  giveResults();
}

static SmallVector<Carried> findCarried(func::FuncOp function) {
  SmallVector<Carried> carried;
  for (auto [state, writer] : findLeaving(function))
    carried.push_back({state.getSymNameAttr(), chooseStream(writer),
                       isa<AccumulateOp>(writer)});
  return carried;
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
  if (failed(verifyOneLevel(module)) || failed(verifyLeaving(module)) ||
      failed(verifyPrefetched(module)))
    return signalPassFailure();
  llvm::DenseMap<StringAttr, StateOp> sums = collectAccumulators(module);
  for (auto function : module.getOps<func::FuncOp>()) {
    Borders borders{{}, findCarried(function), sums};
    SmallVector<func::FuncOp> before = findPredecessors(function);
    if (!before.empty())
      borders.arriving = findCarried(before[0]);
    ProgramOrder(function, borders).run();
  }
  setPhase(module, Phase::scheduled);
}
