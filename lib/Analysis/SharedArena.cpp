// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Analysis/SharedArena.h"

#include "core/Packing.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace fcdp;

/// Where the pool ends around `values`, or these if they end behind it.
static int64_t findEnd(func::FuncOp function, const PackingProblem &values,
                       const PackingSolution &places,
                       ArrayRef<Activation> activations, int64_t stateBytes) {
  std::vector<HeldRange> ranges;
  for (auto [value, offset] : llvm::zip_equal(values.buffers, places.offsets))
    if (value.bytes > 0)
      ranges.push_back(
          {stateBytes + offset, value.bytes, value.begin, value.end});
  HeldMemory held{stateBytes, alignToPool(function, std::move(ranges))};
  return packArena(makePoolProblem(activations, held)).peak;
}

/// Values in front, then activations as the pool takes memory for them.
static PackingProblem join(const PackingProblem &values,
                           ArrayRef<Activation> activations) {
  PackingProblem both = values;
  for (const Activation &activation : activations)
    both.buffers.push_back({activation.bytes + packing::kPoolTagBytes,
                            activation.begin, activation.end});
  return both;
}

PackingSolution fcdp::packBesidePool(func::FuncOp function,
                                     const PackingProblem &values,
                                     ArrayRef<Activation> activations,
                                     int64_t stateBytes) {
  PackingSolution alone = packArena(values);
  PackingProblem both = join(values, activations);
  int64_t end = findEnd(function, values, alone, activations, stateBytes);
  // Packing all takes long; what it could save is hardly worth that.
  constexpr int64_t kNear = 256;
  int64_t bound = stateBytes + lowerBound(both);
  if (end <= bound + bound / kNear)
    return alone;
  PackingSolution together = packArena(both);
  together.offsets.resize(values.buffers.size());
  together.peak = 0;
  for (auto [value, offset] : llvm::zip_equal(values.buffers, together.offsets))
    together.peak = std::max(together.peak, offset + value.bytes);
  together.peak = llvm::alignTo(together.peak, values.alignment);
  bool isBetter =
      findEnd(function, values, together, activations, stateBytes) < end;
  return isBetter ? together : alone;
}
