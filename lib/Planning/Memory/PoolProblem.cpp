// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Planning/Memory/PoolProblem.h"

#include "core/Packing.h"
#include "dialects/Aten/Aten.h"
#include "dialects/Fcdp/Fcdp.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace fcdp;

int64_t fcdp::getPoolBytes(int64_t bytes) {
  return llvm::alignTo(bytes + packing::kPoolTagBytes, packing::kPoolAlignment);
}

std::vector<MemoryRange> fcdp::alignToPool(func::FuncOp function,
                                           std::vector<MemoryRange> ranges) {
  // For each position, the position after the last earlier operation that uses
  // the pool, and the position of the next such operation.
  SmallVector<int64_t> begins, ends;
  int64_t last = 0, position = 0;
  for (Operation &op : function.front()) {
    bool uses = runsOperators(&op);
    begins.push_back(uses ? position : last);
    ++position;
    if (uses)
      last = position;
  }
  ends.assign(position + 1, position);
  for (Operation &op : llvm::reverse(function.front())) {
    --position;
    ends[position] = runsOperators(&op) ? position : ends[position + 1];
  }
  for (MemoryRange &range : ranges) {
    int64_t end =
        llvm::alignTo(range.offset + range.bytes, packing::kPoolAlignment);
    range.offset = llvm::alignDown(range.offset, packing::kPoolAlignment);
    range.bytes = end - range.offset;
    range.begin = begins[range.begin];
    range.end = ends[range.end];
  }
  return makeDisjoint(ranges);
}

namespace {
/// Converts positions to the runtime's time, which counts allocations of its
/// pool.
class PoolTime {
public:
  PoolTime(ArrayRef<Activation> activations, const ReservedMemory &reserved)
      : activations(activations) {
    for (const MemoryRange &range : reserved.ranges) {
      moments.push_back(range.begin);
      moments.push_back(range.end);
    }
    llvm::sort(moments);
    moments.erase(llvm::unique(moments), moments.end());
  }

  /// Returns the time before the operation at `position`, at which reservations
  /// begin or end and the results that the operation before used last are
  /// dropped.
  int64_t atMoment(int64_t position) const {
    const Activation *next =
        llvm::partition_point(activations, [=](const Activation &other) {
          return other.begin < position; // they are in order
        });
    return llvm::lower_bound(moments, position) - moments.begin() +
           (next - activations.begin());
  }
  int64_t atAllocation(size_t index) const {
    return llvm::upper_bound(moments, activations[index].begin) -
           moments.begin() + static_cast<int64_t>(index);
  }
  int64_t atEnd() const {
    return static_cast<int64_t>(moments.size() + activations.size());
  }

private:
  ArrayRef<Activation> activations;
  std::vector<int64_t> moments;
};
} // namespace

PackingProblem fcdp::makePoolProblem(ArrayRef<Activation> activations,
                                     const ReservedMemory &reserved) {
  PackingProblem problem;
  problem.alignment = packing::kPoolAlignment;
  PoolTime time(activations, reserved);
  if (reserved.stateBytes > 0)
    problem.buffers.push_back({reserved.stateBytes, 0, time.atEnd() + 1, 0});
  for (const MemoryRange &range : reserved.ranges)
    problem.buffers.push_back({range.bytes, time.atMoment(range.begin),
                               time.atMoment(range.end), range.offset});
  for (auto [i, activation] : llvm::enumerate(activations))
    problem.buffers.push_back({activation.bytes + packing::kPoolTagBytes,
                               time.atAllocation(i),
                               time.atMoment(activation.end)});
  return problem;
}
