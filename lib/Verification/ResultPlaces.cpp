// SPDX-License-Identifier: Apache-2.0

#include "ResultPlaces.h"

#include "dialects/Aten/Aten.h"
#include "dialects/Aten/OpTable.h"
#include "dialects/Fcdp/Fcdp.h"
#include "fcdp/Analysis/InPlaceGradients.h"

#include <map>
#include <set>

using namespace mlir;
using namespace fcdp;

namespace {
/// Memory that an operator allocates.
struct Allocation {
  Operation *op;
  int64_t bytes;
  /// In use from `begin` to `last`, both included, in positions.
  int64_t begin, last;
  /// Bytes [offset, end) of the device arena.
  int64_t offset = 0, end = 0;
};

/// Proves the places of one function's results.
class FunctionProof {
public:
  FunctionProof(func::FuncOp function, ArrayRef<FreeRange> free,
                int64_t arenaEnd)
      : function(function), arenaEnd(arenaEnd) {
    for (const FreeRange &range : free)
      if (range.function == function)
        this->free.push_back(range);
  }

  LogicalResult run(ArrayRef<PlacedResult> results);
  /// Returns the end of the results.
  int64_t getEnd() const { return end; }

private:
  void findAllocations();
  void addAllocation(Operation *op, int64_t bytes, Value result);
  void addCall(aten::CallOp call);
  LogicalResult place(ArrayRef<PlacedResult> results);
  LogicalResult verifyFree();
  LogicalResult verifyApart();

  func::FuncOp function;
  int64_t arenaEnd;
  SmallVector<FreeRange> free;
  std::vector<Allocation> allocations;
  /// The allocations whose memory a value may show, by index.
  llvm::DenseMap<Value, SmallVector<size_t, 1>> shown;
  int64_t position = 0, end = 0;
};
} // namespace

/// Returns the bytes of the gradient that the optimizer casts, or 0.
static int64_t getCastBytes(ShardUpdateOp update) {
  auto bucket = SymbolTable::lookupNearestSymbolFrom<BucketOp>(
      update, update.getTargetAttr());
  if (!bucket || getOptimizerType(bucket).isF32())
    return 0;
  if (update.isOfPiece())
    return static_cast<int64_t>(*update.getEnd() - *update.getBegin()) *
           elementBytes(bucket.getStorage());
  MeshOp mesh = getMesh(update->getParentOfType<ModuleOp>());
  return static_cast<int64_t>(bucket.getElements()) *
         elementBytes(bucket.getStorage()) / mesh.getWorldSize();
}

void FunctionProof::addAllocation(Operation *op, int64_t bytes, Value result) {
  if (bytes == 0)
    return;
  if (result)
    shown[result].push_back(allocations.size());
  allocations.push_back({op, bytes, position, position});
}

/// Adds the allocations and views of a call. A view shows its first operand. A
/// call that is not in the table of operators may show any operand, and may
/// allocate.
void FunctionProof::addCall(aten::CallOp call) {
  aten::Aliasing aliasing = aten::lookupOp(call.getCallee()).aliasing;
  SmallVector<size_t, 4> all;
  if (aliasing == aten::Aliasing::View && call->getNumOperands() > 0)
    all = shown.lookup(call->getOperand(0));
  else if (aliasing == aten::Aliasing::Unknown)
    for (Value operand : call->getOperands())
      llvm::append_range(all, shown.lookup(operand));
  llvm::sort(all);
  all.erase(llvm::unique(all), all.end());
  for (Value result : call->getResults()) {
    if (!all.empty())
      llvm::append_range(shown[result], all);
    auto type = dyn_cast<RankedTensorType>(result.getType());
    if (aliasing != aten::Aliasing::View && type && hasByteSize(type))
      addAllocation(call, byteSize(type), result);
  }
}

/// Goes through the function in order: an operation uses all memory that its
/// operands show.
void FunctionProof::findAllocations() {
  llvm::DenseMap<Operation *, PackOp> inPlace =
      collectInPlaceProducers(function);
  for (Operation &op : function.front()) {
    for (Value operand : op.getOperands())
      if (auto used = shown.find(operand); used != shown.end())
        for (size_t index : used->second)
          allocations[index].last = position;
    if (auto update = dyn_cast<ShardUpdateOp>(op)) {
      addAllocation(&op, getCastBytes(update), {});
      addAllocation(&op, update.getScratchBytes(), {});
    } else if (auto call = dyn_cast<aten::CallOp>(op);
               call && !inPlace.contains(call)) {
      addCall(call);
    }
    ++position;
  }
}

/// Gives each allocation its place. The places of one operation are in the
/// order of its results.
LogicalResult FunctionProof::place(ArrayRef<PlacedResult> results) {
  llvm::DenseMap<Operation *, SmallVector<const PlacedResult *, 1>> places;
  for (const PlacedResult &result : results)
    places[result.op].push_back(&result);
  llvm::DenseMap<Operation *, size_t> taken;
  for (Allocation &allocation : allocations) {
    auto found = places.find(allocation.op);
    size_t index = taken[allocation.op]++;
    if (found == places.end() || index >= found->second.size())
      return allocation.op->emitOpError("in @")
             << function.getSymName()
             << ": expected a place in the device arena for each of its "
                "results";
    const PlacedResult &place = *found->second[index];
    if (place.offset < 0 || place.bytes < allocation.bytes)
      return allocation.op->emitOpError("in @")
             << function.getSymName() << ": expected a place of "
             << allocation.bytes << " bytes in the device arena, got "
             << place.bytes << " at " << place.offset;
    allocation.offset = place.offset;
    allocation.end = place.offset + place.bytes;
    end = std::max(end, allocation.end);
  }
  return success();
}

/// Checks that places are free. The free ranges are disjoint, so a place is
/// free if the ranges cover all of its bytes at all of its positions.
LogicalResult FunctionProof::verifyFree() {
  for (const Allocation &allocation : allocations) {
    int64_t inside = std::min(allocation.end, arenaEnd) - allocation.offset;
    int64_t missing =
        std::max<int64_t>(inside, 0) * (allocation.last + 1 - allocation.begin);
    for (const FreeRange &range : free) {
      int64_t bytes = std::min(std::min(allocation.end, arenaEnd),
                               range.offset + range.bytes) -
                      std::max(allocation.offset, range.offset);
      int64_t time = std::min(allocation.last + 1, range.end) -
                     std::max(allocation.begin, range.begin);
      if (bytes > 0 && time > 0)
        missing -= bytes * time;
    }
    if (missing != 0)
      return allocation.op->emitOpError("in @")
             << function.getSymName() << ": its result at ["
             << allocation.offset << ", " << allocation.end
             << ") of the device arena overlaps a state or a buffer";
  }
  return success();
}

/// Goes through time with the live results sorted by offset, where comparing
/// neighbours is enough.
LogicalResult FunctionProof::verifyApart() {
  std::multimap<int64_t, size_t> begins, ends;
  for (auto [index, allocation] : llvm::enumerate(allocations)) {
    begins.emplace(allocation.begin, index);
    ends.emplace(allocation.last + 1, index);
  }
  std::map<int64_t, size_t> live;
  auto overlap = [&](size_t one, size_t other) {
    InFlightDiagnostic diag = allocations[one].op->emitOpError("in @")
                              << function.getSymName() << ": its result at ["
                              << allocations[one].offset << ", "
                              << allocations[one].end
                              << ") of the device arena overlaps another one";
    diag.attachNote(allocations[other].op->getLoc())
        << "at [" << allocations[other].offset << ", " << allocations[other].end
        << "), in use at the same time";
    return diag;
  };
  auto ended = ends.begin();
  for (auto [begin, index] : begins) {
    for (; ended != ends.end() && ended->first <= begin; ++ended)
      live.erase(allocations[ended->second].offset);
    auto next = live.lower_bound(allocations[index].offset);
    if (next != live.end() && next->first < allocations[index].end)
      return overlap(index, next->second);
    if (next != live.begin())
      if (size_t before = std::prev(next)->second;
          allocations[before].end > allocations[index].offset)
        return overlap(index, before);
    live.emplace_hint(next, allocations[index].offset, index);
  }
  return success();
}

LogicalResult FunctionProof::run(ArrayRef<PlacedResult> results) {
  findAllocations();
  return success(succeeded(place(results)) && succeeded(verifyFree()) &&
                 succeeded(verifyApart()));
}

FailureOr<int64_t> fcdp::verifyResultPlaces(ModuleOp module,
                                            ArrayRef<FreeRange> free,
                                            ArrayRef<PlacedResult> results,
                                            int64_t arenaEnd) {
  int64_t end = 0;
  for (auto function : module.getOps<func::FuncOp>()) {
    FunctionProof proof(function, free, arenaEnd);
    if (failed(proof.run(results)))
      return failure();
    end = std::max(end, proof.getEnd());
  }
  return end;
}
