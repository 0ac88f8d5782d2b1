// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Planning/Memory/BufferPlan.h"

#include "dialects/Fcdp/StatePieces.h"
#include "dialects/Fcdp/Tiers.h"
#include "fcdp/Analysis/EarlyUpdates.h"
#include "fcdp/Analysis/FunctionBoundaries.h"
#include "fcdp/Analysis/Traffic.h"
#include "fcdp/Planning/Memory/HostValues.h"
#include "fcdp/Planning/Memory/MemoryRanges.h"
#include "fcdp/Planning/Memory/SharedArena.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace fcdp;

namespace {
/// The places of a function's buffers that are in flight at its end, counted
/// from the beginning of values.
struct LatePlaces {
  llvm::DenseMap<Operation *, int64_t> values, scratches;
};

/// A value's place within a block of memory that several values may share.
struct Place {
  /// The operation whose memory contains the place: the one that defines the
  /// value, or the outermost gather that contains it.
  Operation *block;
  int64_t nodeStride = 0, localStride = 0;
};

/// Plans one function.
class Planner {
public:
  Planner(func::FuncOp function, const MemoryTimeline &timeline,
          const StatePlan &states)
      : function(function), timelines(timeline),
        timeline(timeline.lookup(function)), states(states),
        accumulators(
            collectAccumulators(function->getParentOfType<ModuleOp>())),
        late(placeLate(function)) {
    problem.alignment = kBufferAlignment;
    // Their memory may have another gradient until the accumulate.
    for (StateOp shared :
         findSharedGradients(function->getParentOfType<ModuleOp>()))
      accumulators.erase(shared.getBucketAttr().getAttr());
  }

  FailureOr<BufferPlan> run();
  FailureOr<PackingProblem> describe();

private:
  LogicalResult addAll();
  void addLiveIns();
  void addPrefetched();
  BufferAttr findGiven(Operation *op) const;
  LatePlaces placeLate(func::FuncOp function) const;
  LogicalResult addValue(const BufferUse &value);
  void addScratch(const BufferUse &scratch);
  void addToBlock(const BufferUse &value, Operation *block);
  LogicalResult pack();
  void fillPlan();
  BufferAttr makeBuffer(int64_t offset, int64_t bytes, int64_t nodeStride = 0,
                        int64_t localStride = 0) {
    return BufferAttr::get(function.getContext(), Arena::device, offset, bytes,
                           nodeStride, localStride);
  }
  /// Returns an offset in the arena; offsets of the problem count from the
  /// beginning of values.
  int64_t offsetOf(size_t index) const {
    return states.deviceBytes + solution.offsets[index];
  }

  func::FuncOp function;
  const MemoryTimeline &timelines;
  const FunctionTimeline &timeline;
  const StatePlan &states;
  llvm::MapVector<StringAttr, StateOp> accumulators;
  llvm::DenseMap<Operation *, Place> places;
  /// The places that the planner must not choose.
  llvm::DenseMap<Operation *, BufferAttr> given;
  /// The first write to each given place, by the place.
  llvm::DenseMap<BufferAttr, int64_t> fills;
  /// Indices in `problem`, by operation.
  llvm::MapVector<Operation *, size_t> blocks, scratches;
  LatePlaces late;
  PackingProblem problem;
  PackingSolution solution;
  BufferPlan plan;
};
} // namespace

static int64_t bytesOf(Value value) {
  return byteSize(cast<RankedTensorType>(value.getType()));
}

/// Returns the size of the scratch memory that `op` needs.
static int64_t bytesOfScratch(Operation *op) {
  return *cast<BufferedOpInterface>(op).getScratchBytes();
}

StatePlan fcdp::planStates(ModuleOp module) {
  StatePlan plan;
  auto sizeOf = [](StateOp state) {
    int64_t alignment =
        state.getArena() == Arena::file ? kFileBlock : kBufferAlignment;
    return llvm::alignTo(byteSize(state.getTensorType()), alignment);
  };
  // Each rank of a node has one part of the arena that the node owns, so that
  // its pages can be near its device.
  ArenaArray<int64_t> ends, parts;
  for (auto state : module.getOps<StateOp>())
    if (getOwner(state.getArena()) == CopyOwner::node)
      parts[state.getArena()] += sizeOf(state);
  HostValues values = planHostValues(module);
  auto bytesOf = [](Operation *op) {
    auto gradient = dyn_cast<StoreGradientOp>(op);
    return gradient ? gradient.getStoredBytes()
                    : byteSize(cast<StoreValueOp>(op).getValue().getType());
  };
  const int64_t hostStates = parts[kStoredArena];
  parts[kStoredArena] += values.bytes;
  if (int64_t window = countFileWindow(module))
    parts[kStoredArena] =
        llvm::alignTo(parts[kStoredArena], kFileBlock) + window;
  for (auto [op, offset] : values.offsets)
    plan.stored[op] = BufferAttr::get(module.getContext(), kStoredArena,
                                      hostStates + offset, bytesOf(op),
                                      /*node_stride=*/0,
                                      /*local_stride=*/parts[kStoredArena]);
  auto place = [&](StateOp state, int64_t &end) {
    plan.places[state.getSymNameAttr()] =
        BufferAttr::get(module.getContext(), state.getArena(), end,
                        byteSize(state.getTensorType()), /*node_stride=*/0,
                        /*local_stride=*/parts[state.getArena()]);
    end += sizeOf(state);
  };
  auto isPrefetched = [](StateOp state) {
    return state.getRole() == StateRole::prefetched;
  };
  SmallVector<StateOp> shared = findSharedGradients(module);
  int64_t sharedBytes = 0;
  for (StateOp state : shared) {
    int64_t begin = ends[Arena::device];
    place(state, begin);
    sharedBytes = std::max<int64_t>(sharedBytes, sizeOf(state));
  }
  ends[Arena::device] += sharedBytes;
  for (auto state : module.getOps<StateOp>())
    if (!isPrefetched(state) && !plan.places.contains(state.getSymNameAttr()))
      place(state, ends[state.getArena()]);
  plan.lateBegin = plan.deviceBytes = ends[Arena::device];
  for (auto state : module.getOps<StateOp>())
    if (isPrefetched(state))
      place(state, plan.lateBegin);
  return plan;
}

//===----------------------------------------------------------------------===//
// Uses of memory
//===----------------------------------------------------------------------===//

/// Returns whether the input of `gather` needs no memory except its place in
/// the result.
static bool fitsInside(CollectiveOpInterface gather) {
  Value input = gather.getInput();
  Operation *part = input.getDefiningOp();
  if (!isa_and_present<FetchOpInterface>(part) || !isBuffered(part))
    return false; // a shard is a state of its own
  if (getInto(part))
    return false; // so is what stays on the device
  return llvm::all_of(input.getUsers(), [&](Operation *user) {
    return user == gather || isa<CacheStoreOp, ReleaseOp>(user);
  });
}

/// Returns the place that `op` already has. A result that starts an accumulator
/// is written into it, and a copy that stays on the device is written into its
/// state.
BufferAttr Planner::findGiven(Operation *op) const {
  BufferAttr own = getBuffer(op);
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

/// Returns the operation whose memory contains the result of `op`: the
/// outermost gather around it, or `op`.
static Operation *findBlock(Operation *op) {
  for (Operation *user : op->getUsers())
    if (CollectiveOpInterface gather = asGather(user);
        gather && fitsInside(gather))
      return findBlock(gather);
  return op;
}

/// Places the buffers that are in flight at the end of `function` one after the
/// other, because all of them are in use there.
LatePlaces Planner::placeLate(func::FuncOp function) const {
  LatePlaces places;
  int64_t end = states.lateBegin - states.deviceBytes;
  auto place = [&](llvm::DenseMap<Operation *, int64_t> &of, Operation *op,
                   int64_t bytes) {
    of[op] = end;
    end += llvm::alignTo(bytes, kBufferAlignment);
  };
  for (const BufferUse &buffer : timelines.lookup(function).buffers) {
    if (!buffer.isInFlight())
      continue;
    if (buffer.isScratch)
      place(places.scratches, buffer.op, bytesOfScratch(buffer.op));
    else if (!findGiven(buffer.op) && findBlock(buffer.op) == buffer.op)
      place(places.values, buffer.op, bytesOf(buffer.op->getResult(0)));
  }
  return places;
}

/// Reserves the places of prefetched copies. Such a copy is in use until its
/// release, and the next one from the first operation that writes to it.
void Planner::addPrefetched() {
  llvm::DenseMap<Operation *, int64_t> releases;
  for (const CopyUse &copy : timeline.copies)
    releases[copy.state] = copy.span.release;
  for (auto state : function->getParentOfType<ModuleOp>().getOps<StateOp>()) {
    if (state.getRole() != StateRole::prefetched)
      continue;
    BufferAttr place = states.places.lookup(state.getSymNameAttr());
    auto add = [&](int64_t begin, int64_t end) {
      if (begin < end)
        problem.buffers.push_back({place.getBytes(), begin, end,
                                   place.getOffset() - states.deviceBytes});
    };
    auto fill = fills.find(place);
    int64_t next = fill == fills.end() ? timeline.length : fill->second;
    // Both uses are one if there is no time between them.
    int64_t release = releases.lookup(state);
    if (release > next)
      release = next;
    add(0, release);
    add(next, timeline.length);
  }
}

/// Reserves the memory that the functions before may have in flight. The places
/// may differ from function to function.
void Planner::addLiveIns() {
  std::vector<MemoryRange> reserved;
  for (func::FuncOp before : findPredecessors(function)) {
    LatePlaces places = placeLate(before);
    for (const BufferUse &buffer : timeline.liveIns) {
      auto &of = buffer.isScratch ? places.scratches : places.values;
      Operation *block = buffer.isScratch ? buffer.op : findBlock(buffer.op);
      auto place = of.find(block);
      if (place == of.end())
        continue; // in another function, or in the memory of a state
      int64_t bytes =
          llvm::alignTo(buffer.isScratch ? bytesOfScratch(block)
                                         : bytesOf(block->getResult(0)),
                        kBufferAlignment);
      if (bytes > 0)
        reserved.push_back({place->second, bytes, 0, buffer.span.release});
    }
  }
  for (const MemoryRange &range : makeDisjoint(reserved))
    problem.buffers.push_back(
        {range.bytes, range.begin, range.end, range.offset});
}

void Planner::addScratch(const BufferUse &scratch) {
  auto fixed = late.scratches.find(scratch.op);
  scratches[scratch.op] = problem.buffers.size();
  problem.buffers.push_back(
      {bytesOfScratch(scratch.op), scratch.span.firstWrite,
       scratch.span.release,
       fixed == late.scratches.end() ? -1 : fixed->second});
}

/// Extends the lifetime of `block` to that of `value`, which is inside it.
void Planner::addToBlock(const BufferUse &value, Operation *block) {
  int64_t begin = value.span.firstWrite;
  auto [it, inserted] = blocks.try_emplace(block, problem.buffers.size());
  if (inserted) {
    auto fixed = late.values.find(block);
    problem.buffers.push_back(
        {bytesOf(block->getResult(0)), begin, 0,
         fixed == late.values.end() ? -1 : fixed->second});
  }
  PackingProblem::Buffer &buffer = problem.buffers[it->second];
  buffer.begin = std::min(buffer.begin, begin);
  buffer.end = std::max(buffer.end, value.span.release);
}

/// Expects that all users have been added.
LogicalResult Planner::addValue(const BufferUse &value) {
  Operation *op = value.op;
  if (!value.releasedBy)
    return op->emitOpError("expected a release of its result");
  Place place{op};
  BufferAttr own = findGiven(op);
  if (own)
    given[op] = own;
  else
    for (Operation *user : op->getUsers())
      if (CollectiveOpInterface gather = asGather(user);
          gather && fitsInside(gather)) {
        place = places.lookup(gather);
        addStrides(gather, place.nodeStride, place.localStride);
      }
  places[op] = place;
  auto block = given.find(place.block);
  if (block == given.end()) {
    addToBlock(value, place.block);
    return success();
  }
  auto [fill, isNew] = fills.try_emplace(block->second, value.span.firstWrite);
  fill->second = std::min(fill->second, value.span.firstWrite);
  return success();
}

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

LogicalResult Planner::pack() {
  llvm::Error error = problem.check();
  if (!error) {
    SharedPacking packed =
        packBesidePool(function, problem, timeline.results, states.deviceBytes);
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
  // The order is from the last value to the first, so that a gather is placed
  // before its input. The scratch of a reduction follows its result.
  for (const BufferUse &buffer : llvm::reverse(timeline.buffers)) {
    if (buffer.isScratch)
      addScratch(buffer);
    else if (failed(addValue(buffer)))
      return failure();
  }
  addLiveIns();
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
                                        const MemoryTimeline &timeline,
                                        const StatePlan &states) {
  return Planner(function, timeline, states).run();
}

FailureOr<PackingProblem> fcdp::describeBuffers(func::FuncOp function,
                                                const MemoryTimeline &timeline,
                                                const StatePlan &states) {
  return Planner(function, timeline, states).describe();
}
