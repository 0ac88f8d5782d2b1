// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Planning/Memory/ReservedMemory.h"

#include "fcdp/Planning/Memory/PoolProblem.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace fcdp;

namespace {
/// Combines the spans of a function's timeline with their places.
class Finder {
public:
  Finder(func::FuncOp function, const MemoryLayouts &layouts)
      : function(function), layouts(layouts), layout(layouts.lookup(function)),
        module(function->getParentOfType<ModuleOp>()), mesh(getMesh(module)) {}

  ReservedMemory run();

private:
  void addStates();
  void add(BufferAttr buffer, const MemorySpan &span);

  func::FuncOp function;
  const MemoryLayouts &layouts;
  const MemoryLayout &layout;
  ModuleOp module;
  MeshOp mesh;
  ReservedMemory reserved;
};
} // namespace

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

void Finder::add(BufferAttr buffer, const MemorySpan &span) {
  if (!buffer || buffer.getArena() != Arena::device || buffer.getBytes() == 0 ||
      span.firstWrite >= span.release)
    return;
  auto [first, last] = getExtent(buffer, mesh);
  first = std::max(first, reserved.stateBytes);
  if (first < last)
    reserved.ranges.push_back(
        {first, last - first, span.firstWrite, span.release});
}

void Finder::addStates() {
  for (auto state : module.getOps<StateOp>())
    if (BufferAttr place = layout.lookup(state);
        place && place.getArena() == Arena::device &&
        state.getRole() != StateRole::prefetched)
      reserved.stateBytes =
          std::max(reserved.stateBytes, getExtent(place, mesh).second);
  reserved.stateBytes = llvm::alignTo(reserved.stateBytes, kBufferAlignment);
}

ReservedMemory Finder::run() {
  addStates();
  const FunctionTimeline &timeline = layouts.timeline.lookup(function);
  for (const CopyUse &copy : timeline.copies)
    add(layout.lookup(copy.state), copy.span);
  for (const BufferUse &buffer : timeline.buffers)
    add(layouts.lookup(buffer), buffer.span);
  for (const BufferUse &buffer : timeline.liveIns)
    add(layouts.lookup(buffer), buffer.span);
  reserved.ranges = alignToPool(function, std::move(reserved.ranges));
  return std::move(reserved);
}

ReservedMemory fcdp::findReservedMemory(func::FuncOp function,
                                        const MemoryLayouts &layouts) {
  return Finder(function, layouts).run();
}
