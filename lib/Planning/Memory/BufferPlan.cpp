// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Planning/Memory/BufferPlan.h"

#include "fcdp/Analysis/Aliases.h"
#include "fcdp/Analysis/Borders.h"
#include "fcdp/Analysis/InPlaceGradients.h"
#include "fcdp/Planning/Memory/SharedArena.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace fcdp;

namespace {
/// Where what is in use at a function's end stands, by operation; counted from
/// where values begin.
struct LatePlaces {
  llvm::DenseMap<Operation *, int64_t> values, scratches;
  int64_t end = 0;
};

/// A value's place within a block of memory that several values may share.
struct Place {
  /// The operation whose memory this is: the value's own, or the gather that it
  /// is inside.
  Operation *block;
  int64_t nodeStride = 0, localStride = 0;
};

/// Plans one function.
class Planner {
public:
  Planner(func::FuncOp function, const StatePlan &states)
      : function(function), states(states),
        accumulators(
            collectAccumulators(function->getParentOfType<ModuleOp>())) {
    problem.alignment = kBufferAlignment;
    late = placeLate(function);
  }

  FailureOr<BufferPlan> run();
  FailureOr<PackingProblem> describe();

private:
  LogicalResult addAll();
  void findPositions();
  void addLate();
  void addPrefetched();
  void addPrefetched(StateOp state, ArrayRef<ReadStateOp> reads);
  BufferAttr findGiven(Operation *op) const;
  LatePlaces placeLate(func::FuncOp function) const;
  LogicalResult addValue(Operation *op);
  void addScratch(ReduceScatterOp reduce);
  void addToBlock(Operation *op, Operation *block);
  LogicalResult pack();
  void fillPlan();
  BufferAttr makeBuffer(int64_t offset, int64_t bytes, int64_t nodeStride = 0,
                        int64_t localStride = 0) {
    return BufferAttr::get(function.getContext(), Arena::device, offset, bytes,
                           nodeStride, localStride);
  }
  /// Counted from where values begin, as the problem has it.
  int64_t offsetOf(size_t index) const {
    return states.deviceBytes + solution.offsets[index];
  }

  func::FuncOp function;
  const StatePlan &states;
  llvm::DenseMap<StringAttr, StateOp> accumulators;
  llvm::DenseMap<Operation *, int64_t> position;
  /// Where each buffered operation's result is released.
  llvm::DenseMap<Operation *, int64_t> end;
  llvm::DenseMap<Operation *, Place> places;
  /// What has a place already.
  llvm::DenseMap<Operation *, BufferAttr> given;
  /// Indices in `problem`, by operation.
  llvm::MapVector<Operation *, size_t> blocks, scratches;
  /// Of what is in use at the function's end.
  LatePlaces late;
  PackingProblem problem;
  PackingSolution solution;
  BufferPlan plan;
};
} // namespace

static int64_t bytesOf(Value value) {
  return byteSize(cast<RankedTensorType>(value.getType()));
}

StatePlan fcdp::planStates(ModuleOp module) {
  StatePlan plan;
  int64_t host = 0;
  auto place = [&](StateOp state, int64_t &end) {
    int64_t bytes = byteSize(state.getTensorType());
    int64_t aligned = llvm::alignTo(bytes, kBufferAlignment);
    bool onDevice = state.getArena() == Arena::device;
    plan.places[state.getSymNameAttr()] =
        BufferAttr::get(module.getContext(), state.getArena(), end, bytes,
                        /*node_stride=*/0, onDevice ? 0 : aligned);
    end += onDevice ? aligned : aligned * getMesh(module).getLocal();
  };
  auto isPrefetched = [](StateOp state) {
    return state.getRole() == StateRole::prefetched;
  };
  for (auto state : module.getOps<StateOp>())
    if (!isPrefetched(state))
      place(state, state.getArena() == Arena::device ? plan.deviceBytes : host);
  plan.lateBegin = plan.deviceBytes;
  for (auto state : module.getOps<StateOp>())
    if (isPrefetched(state))
      place(state, plan.lateBegin);
  return plan;
}

//===----------------------------------------------------------------------===//
// Lifetimes
//===----------------------------------------------------------------------===//

/// Whether the input of `gather` needs no memory but its place in the result.
static bool fitsInside(AllGatherOp gather) {
  Value input = gather.getInput();
  if (!isa_and_present<AllGatherOp, CacheLoadOp, CastShardOp>(
          input.getDefiningOp()))
    return false; // a shard is a state of its own
  if (auto part = input.getDefiningOp<AllGatherOp>(); part && part.getInto())
    return false; // so is what stays on the device
  return llvm::all_of(input.getUsers(), [&](Operation *user) {
    return user == gather || isa<CacheStoreOp, ReleaseOp>(user);
  });
}

/// What starts a sum is written straight into the accumulator, and what stays
/// on the device into its state.
BufferAttr Planner::findGiven(Operation *op) const {
  auto own = op->getAttrOfType<BufferAttr>("buffer");
  if (FlatSymbolRefAttr into = getInto(op))
    return states.places.lookup(into.getAttr());
  if (isa<CacheLoadOp>(op))
    return own;
  AccumulateOp accumulate;
  for (Operation *user : op->getUsers()) {
    if (isa<ReleaseOp>(user))
      continue;
    accumulate = dyn_cast<AccumulateOp>(user);
    if (!accumulate || accumulate.getMode() != Accumulate::overwrite)
      return own;
  }
  if (!accumulate)
    return own;
  StateOp sum = accumulators.lookup(accumulate.getTargetAttr().getAttr());
  return sum ? states.places.lookup(sum.getSymNameAttr()) : own;
}

static bool isInside(Operation *op) {
  return llvm::any_of(op->getUsers(), [](Operation *user) {
    auto gather = dyn_cast<AllGatherOp>(user);
    return gather && fitsInside(gather);
  });
}

/// One behind the other: at the end they are all there.
LatePlaces Planner::placeLate(func::FuncOp function) const {
  LatePlaces places;
  places.end = states.lateBegin - states.deviceBytes;
  auto place = [&](llvm::DenseMap<Operation *, int64_t> &of, Operation *op,
                   int64_t bytes) {
    of[op] = places.end;
    places.end += llvm::alignTo(bytes, kBufferAlignment);
  };
  for (Operation &op : function.front()) {
    if (!isBuffered(&op))
      continue;
    if (findLateRelease(&op) && !findGiven(&op) && !isInside(&op))
      place(places.values, &op, bytesOf(op.getResult(0)));
    if (auto reduce = dyn_cast<ReduceScatterOp>(op);
        reduce && findLateRelease(getScratchOwner(reduce)))
      place(places.scratches, &op, bytesOf(reduce.getInput()));
  }
  return places;
}

void Planner::findPositions() {
  int64_t count = 0;
  for (Operation &op : function.front()) {
    position[&op] = count++;
    if (auto release = dyn_cast<ReleaseOp>(op))
      end[release.getValue().getDefiningOp()] = position[&op];
    else if (isBuffered(&op))
      if (BufferAttr buffer = findGiven(&op))
        given[&op] = buffer;
  }
  for (auto &[op, last] : end)
    if (findLateRelease(op))
      last = count;
}

/// A prefetched copy is there until its last use, and the next one is on its
/// way from the first operation that writes to it on.
void Planner::addPrefetched(StateOp state, ArrayRef<ReadStateOp> reads) {
  BufferAttr place = states.places.lookup(state.getSymNameAttr());
  auto add = [&](int64_t begin, int64_t end) {
    problem.buffers.push_back(
        {place.getBytes(), begin, end, place.getOffset() - states.deviceBytes});
  };
  int64_t count = position.size(), lastUse = -1, fill = count;
  for (ReadStateOp read : reads)
    if (read.getSource() == state.getSymName())
      for (Operation *user : collectMemoryUsers(read))
        lastUse = std::max(lastUse, position.lookup(user));
  for (auto &[op, inside] : places)
    if (given.lookup(inside.block) == place)
      fill = std::min(fill, position.lookup(op));
  if (lastUse >= 0)
    add(0, lastUse + 1);
  if (fill < count)
    add(fill, count);
}

/// What the functions before may have in use stays theirs until compute has
/// waited for it.
void Planner::addLate() {
  std::vector<HeldRange> held;
  auto hold = [&](Operation *op, Value value, int64_t offset) {
    Operation *arrival = findArrival(findLateRelease(op), function);
    int64_t bytes = llvm::alignTo(bytesOf(value), kBufferAlignment);
    if (bytes > 0)
      held.push_back({offset, bytes, 0, position.lookup(arrival) + 1});
  };
  for (func::FuncOp before : findPredecessors(function)) {
    LatePlaces places = placeLate(before);
    for (auto &[op, offset] : places.values)
      hold(op, op->getResult(0), offset);
    for (auto &[op, offset] : places.scratches) {
      auto reduce = cast<ReduceScatterOp>(op);
      hold(getScratchOwner(reduce), reduce.getInput(), offset);
    }
  }
  // They may be elsewhere in each of the functions.
  for (const HeldRange &range : makeDisjoint(held))
    problem.buffers.push_back(
        {range.bytes, range.begin, range.end, range.offset});
}

void Planner::addPrefetched() {
  auto reads = llvm::to_vector(function.getOps<ReadStateOp>());
  for (auto state : function->getParentOfType<ModuleOp>().getOps<StateOp>())
    if (state.getRole() == StateRole::prefetched)
      addPrefetched(state, reads);
}

/// Scratch memory is in use as long as the reduction's input is.
void Planner::addScratch(ReduceScatterOp reduce) {
  int64_t last = end.lookup(getScratchOwner(reduce));
  auto fixed = late.scratches.find(reduce);
  scratches[reduce] = problem.buffers.size();
  problem.buffers.push_back(
      {bytesOf(reduce.getInput()), position[reduce], last,
       fixed == late.scratches.end() ? -1 : fixed->second});
}

/// The memory of `block` is in use while that of `op`, inside it, is.
void Planner::addToBlock(Operation *op, Operation *block) {
  int64_t begin = position[getFirstWriter(op)];
  auto [it, inserted] = blocks.try_emplace(block, problem.buffers.size());
  if (inserted) {
    auto fixed = late.values.find(block);
    problem.buffers.push_back(
        {bytesOf(block->getResult(0)), begin, 0,
         fixed == late.values.end() ? -1 : fixed->second});
  }
  PackingProblem::Buffer &buffer = problem.buffers[it->second];
  buffer.begin = std::min(buffer.begin, begin);
  buffer.end = std::max(buffer.end, end[op]);
}

/// Expects that all users have been added.
LogicalResult Planner::addValue(Operation *op) {
  if (!end.count(op))
    return op->emitOpError("expected a release of its result");
  if (auto reduce = dyn_cast<ReduceScatterOp>(op))
    addScratch(reduce);
  Place place{op};
  if (given.count(op)) {
    places[op] = place; // for what is inside it
    return success();
  }
  for (Operation *user : op->getUsers())
    if (auto gather = dyn_cast<AllGatherOp>(user);
        gather && fitsInside(gather)) {
      place = places.lookup(gather);
      addStrides(gather, place.nodeStride, place.localStride);
    }
  places[op] = place;
  if (!given.count(place.block)) // else inside a state
    addToBlock(op, place.block);
  return success();
}

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

LogicalResult Planner::pack() {
  llvm::Error error = problem.check();
  if (!error) {
    SharedPacking packed = packBesidePool(
        function, problem, findActivations(function), states.deviceBytes);
    solution = std::move(packed.values);
    plan.arenaBytes = packed.end;
    error = solution.verify(problem);
  }
  if (error)
    return function.emitError("memory plan: ")
           << llvm::toString(std::move(error));
  return success();
}

void Planner::fillPlan() {
  for (Operation &op : function.front()) {
    auto found = places.find(&op);
    if (found == places.end())
      continue;
    if (BufferAttr buffer = given.lookup(&op)) {
      plan.places[&op] = buffer;
      continue;
    }
    Place place = found->second;
    auto block = blocks.find(place.block);
    int64_t offset = block != blocks.end()
                         ? offsetOf(block->second)
                         : given.lookup(place.block).getOffset();
    plan.places[&op] = makeBuffer(offset, bytesOf(op.getResult(0)),
                                  place.nodeStride, place.localStride);
  }
  for (auto &[op, index] : scratches)
    plan.scratches[op] =
        makeBuffer(offsetOf(index), problem.buffers[index].bytes);
}

LogicalResult Planner::addAll() {
  findPositions();
  // From the last value to the first, so that a gather is placed before its
  // input.
  for (Operation &op : llvm::reverse(function.front()))
    if (isBuffered(&op) && failed(addValue(&op)))
      return failure();
  addLate();
  addPrefetched();
  return success();
}

FailureOr<BufferPlan> Planner::run() {
  if (failed(addAll()) || failed(pack()))
    return failure();
  fillPlan();
  return std::move(plan);
}

FailureOr<PackingProblem> Planner::describe() {
  if (failed(addAll()))
    return failure();
  return std::move(problem);
}

FailureOr<BufferPlan> fcdp::planBuffers(func::FuncOp function,
                                        const StatePlan &states) {
  return Planner(function, states).run();
}

FailureOr<PackingProblem> fcdp::describeBuffers(func::FuncOp function,
                                                const StatePlan &states) {
  return Planner(function, states).describe();
}
