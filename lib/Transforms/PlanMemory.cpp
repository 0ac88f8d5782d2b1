// SPDX-License-Identifier: Apache-2.0

#include "VerifyPhase.h"
#include "fcdp/Analysis/ArenaPacking.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/MathExtras.h"

namespace fcdp {
#define GEN_PASS_DEF_PLANMEMORYPASS
#include "fcdp/Transforms/Passes.h.inc"
} // namespace fcdp

using namespace mlir;
using namespace fcdp;

namespace {
/// Buckets start at multiples of this many bytes.
constexpr int64_t kBufferAlignment = 256;

/// A value's place within a block of memory that several values may share.
struct Place {
  /// The value whose memory this is: itself, or the gather that it is inside.
  Value block;
  int64_t nodeStride = 0, localStride = 0;
};

class PlanMemoryPass : public fcdp::impl::PlanMemoryPassBase<PlanMemoryPass> {
public:
  void runOnOperation() override;

private:
  void placeStates();
  LogicalResult placeValues(func::FuncOp function);
  void numberEvents(func::FuncOp function);
  void placeInState(Operation *op);
  BufferAttr makeBuffer(Arena arena, int64_t offset, int64_t bytes,
                        int64_t nodeStride = 0, int64_t localStride = 0) {
    return BufferAttr::get(&getContext(), arena, offset, bytes, nodeStride,
                           localStride);
  }

  MeshOp mesh;
  /// Bytes of the device arena that states take.
  int64_t stateBytes = 0;
  llvm::DenseMap<StringAttr, StateOp> accumulators;
  /// By name.
  llvm::DenseMap<StringAttr, StateOp> states;
};
} // namespace

static int64_t bytesOf(Value value) {
  return byteSize(cast<RankedTensorType>(value.getType()));
}

void PlanMemoryPass::placeStates() {
  int64_t device = 0, host = 0;
  for (auto state : getOperation().getOps<StateOp>()) {
    int64_t bytes = byteSize(state.getTensorType());
    states[state.getSymNameAttr()] = state;
    if (state.getArena() == Arena::device) {
      state.setBufferAttr(makeBuffer(Arena::device, device, bytes));
      device += llvm::alignTo(bytes, kBufferAlignment);
    } else {
      int64_t stride = llvm::alignTo(bytes, kBufferAlignment);
      state.setBufferAttr(makeBuffer(Arena::host, host, bytes, 0, stride));
      host += stride * mesh.getLocal();
    }
  }
  stateBytes = device;
}

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
void PlanMemoryPass::placeInState(Operation *op) {
  if (auto gather = dyn_cast<AllGatherOp>(op); gather && gather.getInto()) {
    gather.setBufferAttr(
        states.lookup(gather.getIntoAttr().getAttr()).getBufferAttr());
    return;
  }
  AccumulateOp accumulate;
  for (Operation *user : op->getUsers()) {
    if (isa<ReleaseOp>(user))
      continue;
    accumulate = dyn_cast<AccumulateOp>(user);
    if (!accumulate || accumulate.getMode() != Accumulate::overwrite)
      return;
  }
  if (accumulate)
    op->setAttr("buffer",
                accumulators.lookup(accumulate.getTargetAttr().getAttr())
                    .getBufferAttr());
}

LogicalResult PlanMemoryPass::placeValues(func::FuncOp function) {
  llvm::DenseMap<Operation *, int64_t> position;
  llvm::DenseMap<Value, int64_t> end;
  int64_t count = 0;
  for (Operation &op : function.front()) {
    position[&op] = count++;
    if (auto release = dyn_cast<ReleaseOp>(op))
      end[release.getValue()] = position[&op];
    else if (isa<AllGatherOp, CastShardOp, PackOp, ReduceScatterOp>(op))
      placeInState(&op);
  }

  // From the last value to the first, so that a gather is placed before its
  // input.
  llvm::DenseMap<Value, Place> places;
  PackingProblem problem;
  problem.alignment = kBufferAlignment;
  llvm::MapVector<Value, size_t> blocks;
  SmallVector<std::pair<ReduceScatterOp, size_t>> scratches;
  for (Operation &op : llvm::reverse(function.front())) {
    if (!isBuffered(&op))
      continue;
    if (failed(verifyOneLevel(&op)))
      return failure();
    Value value = op.getResult(0);
    if (!end.count(value))
      return op.emitOpError("expected a release of its result");
    auto reduce = dyn_cast<ReduceScatterOp>(op);
    if (reduce) {
      // In use as long as the reduction's input is.
      Value last = isBuffered(reduce.getInput().getDefiningOp())
                       ? reduce.getInput()
                       : value;
      scratches.push_back({reduce, problem.buffers.size()});
      problem.buffers.push_back(
          {bytesOf(reduce.getInput()), position[&op], end.lookup(last)});
    }
    if (op.hasAttr("buffer")) {
      places[value] = {value}; // for what is inside it
      continue;
    }
    Place place{value};
    for (Operation *user : value.getUsers())
      if (auto gather = dyn_cast<AllGatherOp>(user);
          gather && fitsInside(gather)) {
        place = places.lookup(gather.getResult());
        bool overNodes =
            cast<AxisAttr>(gather.getAxes()[0]).getValue() == Axis::node;
        (overNodes ? place.nodeStride : place.localStride) = bytesOf(value);
      }
    places[value] = place;
    if (place.block.getDefiningOp()->hasAttr("buffer"))
      continue; // inside a state
    auto [it, inserted] =
        blocks.try_emplace(place.block, problem.buffers.size());
    if (inserted)
      problem.buffers.push_back({bytesOf(place.block), position[&op], 0});
    PackingProblem::Buffer &buffer = problem.buffers[it->second];
    buffer.begin = std::min(buffer.begin, position[&op]);
    buffer.end = std::max(buffer.end, end[value]);
  }

  PackingSolution solution;
  llvm::Error error = problem.check();
  if (!error) {
    solution = packArena(problem);
    error = solution.verify(problem);
  }
  if (error)
    return function.emitError("memory plan: ")
           << llvm::toString(std::move(error));
  auto offsetOf = [&](size_t index) {
    return stateBytes + solution.offsets[index];
  };
  auto offsetOfBlock = [&](Value block) {
    if (auto it = blocks.find(block); it != blocks.end())
      return offsetOf(it->second);
    return block.getDefiningOp()
        ->getAttrOfType<BufferAttr>("buffer")
        .getOffset();
  };
  for (auto &[value, place] : places)
    if (!value.getDefiningOp()->hasAttr("buffer"))
      value.getDefiningOp()->setAttr(
          "buffer",
          makeBuffer(Arena::device, offsetOfBlock(place.block), bytesOf(value),
                     place.nodeStride, place.localStride));
  for (auto &[reduce, index] : scratches)
    reduce.setScratchAttr(
        makeBuffer(Arena::device, offsetOf(index), bytesOf(reduce.getInput())));
  return success();
}

void PlanMemoryPass::numberEvents(func::FuncOp function) {
  int64_t next = 0;
  for (auto record : function.getOps<RecordOp>())
    record.setEvent(next++);
}

void PlanMemoryPass::runOnOperation() {
  ModuleOp module = getOperation();
  if (failed(requirePhase(module, Phase::scheduled)))
    return signalPassFailure();
  mesh = getMesh(module);
  accumulators = collectAccumulators(module);
  states.clear();
  placeStates();
  for (auto function : module.getOps<func::FuncOp>()) {
    if (failed(placeValues(function)))
      return signalPassFailure();
    numberEvents(function);
  }
  setPhase(module, Phase::planned);
}
