// SPDX-License-Identifier: Apache-2.0
//
// The element-wise sums of the CUDA backend. nvcc compiles them for the device
// as the body of the kernels, and the tests compile them for the host. Results
// are bit-identical to those of core/SumKernels.h.
#pragma once

#include "cuda/ElementTypes.h"

namespace fcdp::cuda {

/// The arguments of one sum over the chunks of `ranks` ranks, each of
/// `elements`. This rank's chunk is `own`; chunk r of another rank is at
/// scratch + r * (bytes of a chunk). The P = nodes * locals chunks are those of
/// an axis in its order (then `locals` is 1), or of the world, where rank l *
/// nodes + n is local rank l of node n.
struct SumChunksArguments {
  const void *own;
  const void *scratch;
  void *out;
  uint64_t elements;
  uint32_t rank;
  uint32_t nodes;
  uint32_t locals;
};

/// The size of the greatest load that a thread can issue.
constexpr uint64_t kVectorBytes = 16;

/// The number of chunks whose loads a thread issues before it adds the first of
/// them, so that it waits for memory once for all of them.
constexpr uint32_t kLoadsInFlight = 4;

/// Elements that are loaded together, and stored in as few stores as possible.
template <typename Storage, uint32_t count>
struct alignas(sizeof(Storage) * count < kVectorBytes ? sizeof(Storage) * count
                                                      : kVectorBytes) Vector {
  Storage elements[count];
};

FCDP_HOST_DEVICE inline bool isAligned(const void *address) {
  return reinterpret_cast<uintptr_t>(address) % kVectorBytes == 0;
}

/// Returns the number of vectors of each chunk that vector loads can read: all
/// whole ones if every chunk begins at a multiple of a vector's size, and
/// otherwise none.
FCDP_HOST_DEVICE inline uint64_t
countVectors(const SumChunksArguments &arguments, uint64_t elementBytes) {
  const uint64_t bytes = arguments.elements * elementBytes;
  const bool areChunksAligned =
      arguments.nodes * arguments.locals == 1 ||
      (isAligned(arguments.scratch) && bytes % kVectorBytes == 0);
  return areChunksAligned && isAligned(arguments.own) &&
                 isAligned(arguments.out)
             ? bytes / kVectorBytes
             : 0;
}

/// Calls `body` with 0 up to count - 1. nvcc unrolls the loop, because arrays
/// that the loop indexes are in registers only then.
template <uint32_t count, typename Body>
FCDP_HOST_DEVICE inline void unrolled(Body body) {
#ifdef __CUDACC__
#pragma unroll
#endif
  for (uint32_t i = 0; i < count; ++i)
    body(i);
}

/// The position of a chunk in the order of addition: node by node, and within a
/// node rank by rank.
struct ChunkOrder {
  uint32_t node = 0, local = 0;

  FCDP_HOST_DEVICE void advance(uint32_t locals) {
    if (++local < locals)
      return;
    local = 0;
    ++node;
  }
};

/// Computes elements [i * count, (i + 1) * count) of the sum: over the local
/// ranks, rounded to the chunks' type if there are also several nodes, then
/// over the nodes. The sum is rounded to `Out` once.
template <typename In, typename Out, uint32_t count>
FCDP_HOST_DEVICE inline void sumElements(const SumChunksArguments &arguments,
                                         uint64_t i) {
  using Loaded = Vector<typename In::Storage, count>;
  using Stored = Vector<typename Out::Storage, count>;
  using Sum = typename In::Sum;
  const auto *own = static_cast<const Loaded *>(arguments.own);
  const auto *others = static_cast<const Loaded *>(arguments.scratch);
  const uint64_t chunkVectors = arguments.elements / count;
  const uint32_t ranks = arguments.nodes * arguments.locals;
  const bool roundsPartials = arguments.locals > 1 && arguments.nodes > 1;
  Sum sum[count], partial[count];
  ChunkOrder loaded, added;
  for (uint32_t first = 0; first < ranks; first += kLoadsInFlight) {
    Loaded parts[kLoadsInFlight];
    unrolled<kLoadsInFlight>([&](uint32_t at) {
      if (first + at >= ranks)
        return;
      uint32_t rank = loaded.local * arguments.nodes + loaded.node;
      const Loaded *chunk =
          rank == arguments.rank ? own : others + rank * chunkVectors;
      parts[at] = chunk[i];
      loaded.advance(arguments.locals);
    });
    unrolled<kLoadsInFlight>([&](uint32_t at) {
      if (first + at >= ranks)
        return;
      const ChunkOrder here = added;
      added.advance(arguments.locals);
      // Does not start from 0, because 0 + -0 is 0.
      unrolled<count>([&](uint32_t k) {
        Sum value = In::load(parts[at].elements[k]);
        partial[k] = here.local == 0 ? value : partial[k] + value;
      });
      if (here.local + 1 < arguments.locals)
        return;
      if (roundsPartials)
        unrolled<count>(
            [&](uint32_t k) { partial[k] = In::load(In::store(partial[k])); });
      unrolled<count>([&](uint32_t k) {
        sum[k] = here.node == 0 ? partial[k] : sum[k] + partial[k];
      });
    });
  }
  Stored result;
  unrolled<count>([&](uint32_t k) {
    result.elements[k] = Out::store(typename Out::Sum(sum[k]));
  });
  static_cast<Stored *>(arguments.out)[i] = result;
}

/// Computes the share of the sum that thread `thread` of `threads` has:
/// vectors, then the elements outside of vectors.
template <typename In, typename Out>
FCDP_HOST_DEVICE inline void sumChunks(const SumChunksArguments &arguments,
                                       uint64_t thread, uint64_t threads) {
  constexpr uint32_t perVector = kVectorBytes / sizeof(typename In::Storage);
  const uint64_t vectors =
      countVectors(arguments, sizeof(typename In::Storage));
  for (uint64_t i = thread; i < vectors; i += threads)
    sumElements<In, Out, perVector>(arguments, i);
  for (uint64_t i = vectors * perVector + thread; i < arguments.elements;
       i += threads)
    sumElements<In, Out, 1>(arguments, i);
}

/// Returns the number of vectors of two f32 arrays that vector loads can read.
FCDP_HOST_DEVICE inline uint64_t
countVectors(const float *sum, const float *part, uint64_t elements) {
  return isAligned(sum) && isAligned(part)
             ? elements * sizeof(float) / kVectorBytes
             : 0;
}

/// Adds the share of `part` that thread `thread` of `threads` has to `sum`.
FCDP_HOST_DEVICE inline void addInPlace(float *sum, const float *part,
                                        uint64_t elements, uint64_t thread,
                                        uint64_t threads) {
  constexpr uint32_t perVector = kVectorBytes / sizeof(float);
  const uint64_t vectors = countVectors(sum, part, elements);
  auto *sums = reinterpret_cast<Vector<float, perVector> *>(sum);
  const auto *parts = reinterpret_cast<const Vector<float, perVector> *>(part);
  for (uint64_t i = thread; i < vectors; i += threads) {
    Vector<float, perVector> value = sums[i], other = parts[i];
    unrolled<perVector>(
        [&](uint32_t k) { value.elements[k] += other.elements[k]; });
    sums[i] = value;
  }
  for (uint64_t i = vectors * perVector + thread; i < elements; i += threads)
    sum[i] += part[i];
}

/// The names of kernels contain the types, e.g. fcdp_sum_bf16_f32.
#define FCDP_SUM_KERNELS_OF(X, in, In)                                         \
  X(fcdp_sum_##in##_f16, In, F16)                                              \
  X(fcdp_sum_##in##_bf16, In, BF16)                                            \
  X(fcdp_sum_##in##_f32, In, F32)                                              \
  X(fcdp_sum_##in##_f64, In, F64)
#define FCDP_SUM_KERNELS(X)                                                    \
  FCDP_SUM_KERNELS_OF(X, f16, F16)                                             \
  FCDP_SUM_KERNELS_OF(X, bf16, BF16)                                           \
  FCDP_SUM_KERNELS_OF(X, f32, F32)                                             \
  FCDP_SUM_KERNELS_OF(X, f64, F64)

} // namespace fcdp::cuda
