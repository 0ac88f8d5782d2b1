// SPDX-License-Identifier: Apache-2.0
//
// Checks the places that a plan gives: what is live at one time must not
// overlap.

#include "VerifyPhase.h"

#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace fcdp;

namespace {
/// Bytes of an arena, [begin, end), on all ranks together.
struct Extent {
  int64_t begin, end;
  bool overlaps(const Extent &other) const {
    return std::max(begin, other.begin) < std::min(end, other.end);
  }
};

struct LiveBuffer {
  Operation *op;
  /// The operation with whose result it is released; a state never is.
  Operation *owner;
  Extent extent;
};

/// Walks one function and keeps what is live.
class BufferVerifier {
public:
  BufferVerifier(MeshOp mesh, ArrayRef<LiveBuffer> states)
      : mesh(mesh), live(states) {}

  LogicalResult verify(func::FuncOp function);

private:
  LogicalResult verifyOp(Operation *op);
  LogicalResult verifyScratch(ReduceScatterOp reduce);
  /// Refuses live buffers that `extent`, the `what` of `op`, overlaps.
  LogicalResult verifyApart(Operation *op, Extent extent, StringRef what);

  MeshOp mesh;
  SmallVector<LiveBuffer> live;
};
} // namespace

static Extent getExtent(BufferAttr buffer, MeshOp mesh) {
  int64_t end = buffer.getOffset() + buffer.getBytes() +
                (mesh.getNode() - 1) * buffer.getNodeStride() +
                (mesh.getLocal() - 1) * buffer.getLocalStride();
  // What has no bytes overlaps nothing.
  return {buffer.getOffset(),
          buffer.getBytes() == 0 ? buffer.getOffset() : end};
}

static BufferAttr getBuffer(Operation *op) {
  return op->getAttrOfType<BufferAttr>("buffer");
}

/// Whether the input of `gather` stands at its own place inside the result.
static bool isInPlace(AllGatherOp gather) {
  Operation *input = gather.getInput().getDefiningOp();
  if (!isBuffered(input) || gather.getAxes().size() != 1)
    return false;
  BufferAttr whole = gather.getBufferAttr(), part = getBuffer(input);
  int64_t nodeStride = whole.getNodeStride();
  int64_t localStride = whole.getLocalStride();
  bool overNodes = cast<AxisAttr>(gather.getAxes()[0]).getValue() == Axis::node;
  (overNodes ? nodeStride : localStride) = part.getBytes();
  return part == BufferAttr::get(gather.getContext(), whole.getArena(),
                                 whole.getOffset(), part.getBytes(), nodeStride,
                                 localStride);
}

/// Whether `input` feeds the gather `op`, or the gather that feeds it, ..., and
/// all stand inside each other.
static bool isInPlaceInputOf(Operation *input, Operation *op) {
  while (auto gather = dyn_cast_if_present<AllGatherOp>(op)) {
    if (!isInPlace(gather))
      return false;
    op = gather.getInput().getDefiningOp();
    if (op == input)
      return true;
  }
  return false;
}

/// Whether `op` feeds, in place, a gather for which `holds`.
static bool feedsInPlace(Operation *op,
                         llvm::function_ref<bool(AllGatherOp)> holds) {
  return llvm::any_of(op->getUsers(), [&](Operation *user) {
    auto gather = dyn_cast<AllGatherOp>(user);
    return gather && isInPlace(gather) && holds(gather);
  });
}

/// Whether `op` starts the sum in `state`, in place, or feeds what does.
static bool startsSum(Operation *op, StateOp state) {
  if (feedsInPlace(
          op, [&](AllGatherOp gather) { return startsSum(gather, state); }))
    return true;
  if (getBuffer(op) != state.getBuffer())
    return false;
  StringRef target = state.getRole() == StateRole::grad ? state.getBucket()
                                                        : state.getSymName();
  return llvm::any_of(op->getUsers(), [&](Operation *user) {
    auto accumulate = dyn_cast<AccumulateOp>(user);
    return accumulate && accumulate.getMode() == Accumulate::overwrite &&
           accumulate.getTarget() == target;
  });
}

/// Whether `op` is the gather that fills `state`, or feeds it in place.
static bool fillsState(Operation *op, StateOp state) {
  if (auto gather = dyn_cast<AllGatherOp>(op); gather && gather.getInto())
    return gather.getInto() == state.getSymName() &&
           getBuffer(gather) == state.getBuffer();
  return feedsInPlace(
      op, [&](AllGatherOp gather) { return fillsState(gather, state); });
}

LogicalResult BufferVerifier::verifyApart(Operation *op, Extent extent,
                                          StringRef what) {
  for (const LiveBuffer &other : live) {
    if (!extent.overlaps(other.extent) || isInPlaceInputOf(other.op, op))
      continue;
    auto state = dyn_cast<StateOp>(other.op);
    if (state && what == "buffer" &&
        (startsSum(op, state) || fillsState(op, state)))
      continue;
    InFlightDiagnostic diag = op->emitOpError("its ")
                              << what << " at " << extent.begin
                              << " overlaps one that is live";
    diag.attachNote(other.op->getLoc())
        << "this one, at " << other.extent.begin;
    return diag;
  }
  return success();
}

/// The scratch memory of a reduction is in use until its input is released.
LogicalResult BufferVerifier::verifyScratch(ReduceScatterOp reduce) {
  if (!reduce.getScratch())
    return reduce.emitOpError("expected a scratch buffer");
  Extent extent = getExtent(*reduce.getScratch(), mesh);
  if (failed(verifyApart(reduce, extent, "scratch buffer")))
    return failure();
  Operation *input = reduce.getInput().getDefiningOp();
  live.push_back({reduce, isBuffered(input) ? input : reduce, extent});
  return success();
}

LogicalResult BufferVerifier::verifyOp(Operation *op) {
  BufferAttr buffer = getBuffer(op);
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  if (!buffer || buffer.getBytes() != byteSize(type))
    return op->emitOpError("expected a buffer of ")
           << byteSize(type) << " bytes";
  if (buffer.getOffset() % kMemberAlignment != 0)
    return op->emitOpError("expected a buffer at a multiple of ")
           << kMemberAlignment << " bytes, got " << buffer.getOffset();
  if (auto gather = dyn_cast<AllGatherOp>(op); gather && gather.getInto()) {
    auto state = SymbolTable::lookupNearestSymbolFrom<StateOp>(
        gather, gather.getIntoAttr());
    if (buffer != state.getBuffer())
      return op->emitOpError("expected the buffer of ")
             << gather.getIntoAttr() << ", got " << buffer;
  }
  if (auto reduce = dyn_cast<ReduceScatterOp>(op))
    if (failed(verifyScratch(reduce)))
      return failure();
  Extent extent = getExtent(buffer, mesh);
  if (failed(verifyApart(op, extent, "buffer")))
    return failure();
  live.push_back({op, op, extent});
  return success();
}

LogicalResult BufferVerifier::verify(func::FuncOp function) {
  llvm::DenseSet<uint64_t> events;
  for (Operation &op : function.front()) {
    if (auto record = dyn_cast<RecordOp>(op)) {
      if (!record.getEvent())
        return op.emitOpError("expected an event");
      if (!events.insert(*record.getEvent()).second)
        return op.emitOpError("expected an event of its own, got ")
               << *record.getEvent();
    } else if (auto release = dyn_cast<ReleaseOp>(op)) {
      Operation *released = release.getValue().getDefiningOp();
      llvm::erase_if(live, [&](const LiveBuffer &buffer) {
        return buffer.owner == released;
      });
    } else if (isBuffered(&op) && failed(verifyOp(&op))) {
      return failure();
    }
  }
  return success();
}

/// Gives the places of the states in `arena`, which must not overlap.
static FailureOr<SmallVector<LiveBuffer>> placeStates(ModuleOp module,
                                                      Arena arena) {
  SmallVector<LiveBuffer> states;
  for (auto state : module.getOps<StateOp>()) {
    if (!state.getBuffer())
      return state.emitOpError("expected a buffer");
    if (state.getArena() == arena)
      states.push_back(
          {state, state, getExtent(*state.getBuffer(), getMesh(module))});
  }
  llvm::sort(states, [](const LiveBuffer &a, const LiveBuffer &b) {
    return a.extent.begin < b.extent.begin;
  });
  for (size_t i = 1; i < states.size(); ++i) {
    if (!states[i].extent.overlaps(states[i - 1].extent))
      continue;
    InFlightDiagnostic diag = states[i].op->emitOpError("its buffer at ")
                              << states[i].extent.begin
                              << " overlaps another state";
    diag.attachNote(states[i - 1].op->getLoc())
        << "this one, at " << states[i - 1].extent.begin;
    return diag;
  }
  return states;
}

LogicalResult fcdp::verifyBuffers(ModuleOp module) {
  FailureOr<SmallVector<LiveBuffer>> states =
      placeStates(module, Arena::device);
  if (failed(states) || failed(placeStates(module, Arena::host)))
    return failure();
  for (auto function : module.getOps<func::FuncOp>())
    if (failed(BufferVerifier(getMesh(module), *states).verify(function)))
      return failure();
  return success();
}
