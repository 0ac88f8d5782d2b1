// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Planning/Memory/SharedArena.h"

#include "core/Packing.h"
#include "fcdp/Planning/Memory/PoolProblem.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;
using namespace fcdp;

/// Returns the pool's problem around `values` at `places`.
static PackingProblem makePool(func::FuncOp function,
                               const PackingProblem &values,
                               const PackingSolution &places,
                               ArrayRef<Activation> activations,
                               int64_t stateBytes) {
  std::vector<MemoryRange> ranges;
  for (auto [value, offset] : llvm::zip_equal(values.buffers, places.offsets))
    if (value.bytes > 0)
      ranges.push_back(
          {stateBytes + offset, value.bytes, value.begin, value.end});
  ReservedMemory reserved{stateBytes, alignToPool(function, std::move(ranges))};
  return makePoolProblem(activations, reserved);
}

/// Returns the values, followed by activations with the memory that the pool
/// uses for them.
static PackingProblem join(const PackingProblem &values,
                           ArrayRef<Activation> activations) {
  PackingProblem both = values;
  for (const Activation &activation : activations)
    both.buffers.push_back({activation.bytes + packing::kPoolTagBytes,
                            activation.begin, activation.end});
  return both;
}

SharedPacking fcdp::packBesidePool(func::FuncOp function,
                                   const PackingProblem &values,
                                   ArrayRef<Activation> activations,
                                   int64_t stateBytes) {
  PackingSolution alone = packArena(values);
  PackingProblem both = join(values, activations);
  int64_t bound = stateBytes + lowerBound(both);
  // With many buffers, more effort takes long and hardly saves memory.
  constexpr int64_t kNear = 256;
  constexpr size_t kMany = 1000;
  auto isNear = [&](int64_t end) { return end <= bound + bound / kNear; };
  PackingProblem pool =
      makePool(function, values, alone, activations, stateBytes);
  bool isLarge = pool.buffers.size() > kMany;
  int64_t end = (isLarge ? packArenaQuickly(pool) : packArena(pool)).peak;
  if (isNear(end))
    return {std::move(alone), end};
  PackingSolution together = packArena(both);
  together.offsets.resize(values.buffers.size());
  together.peak = 0;
  for (auto [value, offset] : llvm::zip_equal(values.buffers, together.offsets))
    together.peak = std::max(together.peak, offset + value.bytes);
  together.peak = llvm::alignTo(together.peak, values.alignment);
  int64_t other =
      packArena(makePool(function, values, together, activations, stateBytes))
          .peak;
  if (isLarge && !isNear(other))
    end = packArena(pool).peak;
  if (other < end)
    return {std::move(together), other};
  return {std::move(alone), end};
}

std::vector<int64_t> fcdp::measureUse(func::FuncOp function,
                                      const PackingProblem &values,
                                      ArrayRef<Activation> activations,
                                      int64_t stateBytes) {
  // The increase of the bytes in use at each position, and at the end.
  std::vector<int64_t> inUse(llvm::range_size(function.front()) + 1);
  inUse[0] = stateBytes;
  auto add = [&](const auto &value, int64_t bytes) {
    inUse[value.begin] += bytes;
    inUse[value.end] -= bytes;
  };
  for (const PackingProblem::Buffer &value : values.buffers)
    add(value, llvm::alignTo(value.bytes, packing::kPoolAlignment));
  for (const Activation &activation : activations)
    add(activation, getPoolBytes(activation.bytes));
  std::partial_sum(inUse.begin(), inUse.end(), inUse.begin());
  inUse.pop_back();
  return inUse;
}
