// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Planning/Memory/HeldMemory.h"

#include "core/Packing.h"
#include "dialects/Aten/Aten.h"
#include "fcdp/Analysis/Aliases.h"
#include "fcdp/Analysis/Borders.h"
#include "fcdp/Analysis/InPlaceGradients.h"
#include "llvm/Support/MathExtras.h"

#include <map>

using namespace mlir;
using namespace fcdp;

namespace {
/// Walks a function and notes what its values hold.
class Finder {
public:
  Finder(func::FuncOp function, const MemoryLayouts &layouts);

  HeldMemory run();

private:
  void addStates();
  void addPrefetched(StateOp state);
  void addValues();
  void addInFlight(func::FuncOp before);
  void add(BufferAttr buffer, int64_t begin, int64_t end);
  int64_t findRelease(Operation *op) const;
  int64_t findFirstWrite(Operation *op, BufferAttr place) const;
  int64_t findLastUse(ReadStateOp read) const;

  func::FuncOp function;
  const MemoryLayouts &layouts;
  const MemoryLayout &layout;
  MeshOp mesh;
  llvm::DenseMap<Operation *, int64_t> position;
  /// How many operations there are.
  int64_t count = 0;
  HeldMemory held;
};

/// Rectangles of bytes and time, which may overlap, as ones that do not.
class Disjoint {
public:
  explicit Disjoint(ArrayRef<HeldRange> ranges);

  std::vector<HeldRange> take();
  /// Makes the bytes of [begin, end), which are not less, and positions up to
  /// `count` held where they were not, and the other way round.
  void invert(int64_t begin, int64_t end, int64_t count);

private:
  using Spans = SmallVector<std::pair<int64_t, int64_t>>;

  /// By first byte: when the bytes up to the next one are held.
  std::map<int64_t, Spans> segments;
};
} // namespace

bool fcdp::usesPool(Operation *op) {
  return isa<aten::CallOp, ClipGradientsOp, LossOp, PackOp, ShardUpdateOp,
             WriteBufferOp>(op);
}

std::pair<int64_t, int64_t> fcdp::getExtent(BufferAttr buffer, MeshOp mesh) {
  constexpr uint64_t kFar = uint64_t(1) << 60;
  uint64_t begin = buffer.getOffset(), end = begin + buffer.getBytes();
  end = llvm::SaturatingMultiplyAdd<uint64_t>(mesh.getNode() - 1,
                                              buffer.getNodeStride(), end);
  end = llvm::SaturatingMultiplyAdd<uint64_t>(mesh.getLocal() - 1,
                                              buffer.getLocalStride(), end);
  return {static_cast<int64_t>(std::min(begin, kFar)),
          static_cast<int64_t>(std::min(end, kFar))};
}

//===----------------------------------------------------------------------===//
// Rectangles
//===----------------------------------------------------------------------===//

Disjoint::Disjoint(ArrayRef<HeldRange> ranges) {
  for (const HeldRange &range : ranges) {
    segments[range.offset];
    segments[range.offset + range.bytes];
  }
  for (const HeldRange &range : ranges)
    for (auto it = segments.find(range.offset);
         it->first < range.offset + range.bytes; ++it)
      it->second.push_back({range.begin, range.end});
  for (auto &[offset, spans] : segments) {
    llvm::sort(spans);
    Spans merged;
    for (auto [begin, end] : spans)
      if (!merged.empty() && begin <= merged.back().second)
        merged.back().second = std::max(merged.back().second, end);
      else
        merged.push_back({begin, end});
    spans = std::move(merged);
  }
}

std::vector<HeldRange> Disjoint::take() {
  std::vector<HeldRange> ranges;
  for (auto it = segments.begin(); it != segments.end();) {
    auto end = std::next(it);
    while (end != segments.end() && end->second == it->second)
      ++end;
    if (end != segments.end())
      for (auto [from, to] : it->second)
        ranges.push_back({it->first, end->first - it->first, from, to});
    it = end;
  }
  return ranges;
}

std::vector<HeldRange> fcdp::makeDisjoint(ArrayRef<HeldRange> ranges) {
  return Disjoint(ranges).take();
}

void Disjoint::invert(int64_t begin, int64_t end, int64_t count) {
  segments[begin];
  segments[end];
  for (auto &[offset, spans] : segments) {
    Spans others;
    int64_t from = 0;
    for (auto [held, free] : spans) {
      if (from < held)
        others.push_back({from, held});
      from = free;
    }
    if (from < count)
      others.push_back({from, count});
    spans = offset < end ? others : Spans();
  }
}

std::vector<HeldRange> fcdp::findLentMemory(func::FuncOp function,
                                            const HeldMemory &held,
                                            int64_t end) {
  if (end <= held.stateBytes)
    return {};
  Disjoint ranges(held.ranges);
  ranges.invert(held.stateBytes, end, llvm::range_size(function.front()));
  return ranges.take();
}

std::vector<HeldRange> fcdp::alignToPool(func::FuncOp function,
                                         std::vector<HeldRange> ranges) {
  // Behind the last such operation before each position, and the next one.
  SmallVector<int64_t> begins, ends;
  int64_t last = 0, position = 0;
  for (Operation &op : function.front()) {
    bool uses = usesPool(&op);
    begins.push_back(uses ? position : last);
    ++position;
    if (uses)
      last = position;
  }
  ends.assign(position + 1, position);
  for (Operation &op : llvm::reverse(function.front())) {
    --position;
    ends[position] = usesPool(&op) ? position : ends[position + 1];
  }
  for (HeldRange &range : ranges) {
    int64_t end =
        llvm::alignTo(range.offset + range.bytes, packing::kPoolAlignment);
    range.offset = llvm::alignDown(range.offset, packing::kPoolAlignment);
    range.bytes = end - range.offset;
    range.begin = begins[range.begin];
    range.end = ends[range.end];
  }
  return Disjoint(ranges).take();
}

//===----------------------------------------------------------------------===//
// What is held
//===----------------------------------------------------------------------===//

Finder::Finder(func::FuncOp function, const MemoryLayouts &layouts)
    : function(function), layouts(layouts),
      layout(layouts.find(function)->second),
      mesh(getMesh(function->getParentOfType<ModuleOp>())) {
  for (Operation &op : function.front())
    position[&op] = count++;
}

void Finder::add(BufferAttr buffer, int64_t begin, int64_t end) {
  if (!buffer || buffer.getArena() != Arena::device || buffer.getBytes() == 0 ||
      begin >= end)
    return;
  auto [first, last] = getExtent(buffer, mesh);
  first = std::max(first, held.stateBytes);
  if (first < last)
    held.ranges.push_back({first, last - first, begin, end});
}

/// Where compute has waited for all who use the result of `op`.
int64_t Finder::findRelease(Operation *op) const {
  for (Operation *user : op->getUsers())
    if (auto release = dyn_cast<ReleaseOp>(user))
      return release.getStream() ? count : position.lookup(release);
  return count;
}

/// Where the memory at `place`, that `op` fills, is written first: parts of a
/// gather may stand inside its result.
int64_t Finder::findFirstWrite(Operation *op, BufferAttr place) const {
  int64_t first = position.lookup(op);
  auto [begin, end] = getExtent(place, mesh);
  for (Value operand : op->getOperands()) {
    Operation *input = operand.getDefiningOp();
    BufferAttr part = isBuffered(input) ? layout.lookup(input) : BufferAttr();
    if (part && begin <= part.getOffset() && part.getOffset() < end)
      first = std::min(first, findFirstWrite(input, place));
  }
  return first;
}

/// Behind what uses the copy, and behind what compute waits for where that runs
/// on another stream.
int64_t Finder::findLastUse(ReadStateOp read) const {
  int64_t last = 0;
  for (Operation *user : collectMemoryUsers(read)) {
    last = std::max(last, position.lookup(user) + 1);
    if (isBuffered(user))
      last = std::max(last, findRelease(user));
  }
  return last;
}

void Finder::addPrefetched(StateOp state) {
  BufferAttr place = layout.lookup(state);
  for (auto read : function.getOps<ReadStateOp>())
    if (read.getSource() == state.getSymName())
      add(place, 0, findLastUse(read));
  for (Operation &op : function.front())
    if (FlatSymbolRefAttr into = getInto(&op);
        into && into.getAttr() == state.getSymNameAttr())
      add(place, findFirstWrite(&op, place), count);
}

void Finder::addStates() {
  auto module = function->getParentOfType<ModuleOp>();
  for (auto state : module.getOps<StateOp>())
    if (BufferAttr place = layout.lookup(state);
        place && place.getArena() == Arena::device &&
        state.getRole() != StateRole::prefetched)
      held.stateBytes =
          std::max(held.stateBytes, getExtent(place, mesh).second);
  held.stateBytes = llvm::alignTo(held.stateBytes, kBufferAlignment);
  for (auto state : module.getOps<StateOp>())
    if (state.getRole() == StateRole::prefetched)
      addPrefetched(state);
}

void Finder::addValues() {
  for (Operation &op : function.front()) {
    if (!isBuffered(&op))
      continue;
    add(layout.lookup(&op), position[getFirstWriter(&op)], findRelease(&op));
    if (auto reduce = dyn_cast<ReduceScatterOp>(op))
      add(layout.lookupScratch(&op), position[&op],
          findRelease(getScratchOwner(reduce)));
  }
}

/// What `before` may have in use when this function begins.
void Finder::addInFlight(func::FuncOp before) {
  const MemoryLayout &other = layouts.find(before)->second;
  auto hold = [&](Operation *owner, BufferAttr buffer) {
    if (ReleaseOp release = findLateRelease(owner))
      add(buffer, 0, position.lookup(findArrival(release, function)) + 1);
  };
  for (Operation &op : before.front()) {
    if (!isBuffered(&op))
      continue;
    hold(&op, other.lookup(&op));
    if (auto reduce = dyn_cast<ReduceScatterOp>(op))
      hold(getScratchOwner(reduce), other.lookupScratch(&op));
  }
}

HeldMemory Finder::run() {
  addStates();
  addValues();
  for (func::FuncOp before : findPredecessors(function))
    addInFlight(before);
  held.ranges = alignToPool(function, std::move(held.ranges));
  return std::move(held);
}

HeldMemory fcdp::findHeldMemory(func::FuncOp function,
                                const MemoryLayouts &layouts) {
  return Finder(function, layouts).run();
}
