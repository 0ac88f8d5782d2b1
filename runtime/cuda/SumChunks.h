// SPDX-License-Identifier: Apache-2.0
//
// The element-wise sums of the CUDA backend. nvcc compiles them for the device
// as the body of the kernels, and the tests compile them for the host. Results
// are bit-identical to those of cpu/SumKernels.h.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define FCDP_HOST_DEVICE __host__ __device__
#else
#define FCDP_HOST_DEVICE
#endif

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

template <typename To, typename From>
FCDP_HOST_DEVICE inline To bitCast(From value) {
  static_assert(sizeof(To) == sizeof(From));
  To result;
  __builtin_memcpy(&result, &value, sizeof(result));
  return result;
}

/// Element types: the storage type, the type of sums, and conversions between
/// them that round to nearest even.
struct F32 {
  using Storage = float;
  using Sum = float;
  FCDP_HOST_DEVICE static float load(float value) { return value; }
  FCDP_HOST_DEVICE static float store(float value) { return value; }
};

struct F64 {
  using Storage = double;
  using Sum = double;
  FCDP_HOST_DEVICE static double load(double value) { return value; }
  FCDP_HOST_DEVICE static double store(double value) { return value; }
};

struct BF16 {
  using Storage = uint16_t;
  using Sum = float;
  FCDP_HOST_DEVICE static float load(uint16_t value) {
    return bitCast<float>(uint32_t(value) << 16);
  }
  FCDP_HOST_DEVICE static uint16_t store(float value) {
    uint32_t bits = bitCast<uint32_t>(value);
    // Rounding could carry a NaN's payload into infinity, so a NaN is made
    // quiet.
    if ((bits & 0x7fffffff) > 0x7f800000)
      return uint16_t((bits >> 16) | 0x40);
    // Add half of the last place, less one if the last place is even.
    return uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
  }
};

struct F16 {
  using Storage = uint16_t;
  using Sum = float;
  FCDP_HOST_DEVICE static float load(uint16_t value) {
    uint32_t sign = uint32_t(value & 0x8000) << 16;
    uint32_t magnitude = uint32_t(value & 0x7fff) << 13;
    // Exponents are off by 112 after the shift. Multiplying by 2^112 corrects
    // them and, unlike adding 112 to them, is right for denormals too.
    uint32_t bits = bitCast<uint32_t>(bitCast<float>(magnitude) * 0x1p112f);
    if (magnitude >= (0x7c00u << 13))
      bits |= 0x7f800000u;
    return bitCast<float>(bits | sign);
  }
  FCDP_HOST_DEVICE static uint16_t store(float value) {
    uint32_t bits = bitCast<uint32_t>(value);
    uint32_t sign = (bits >> 16) & 0x8000;
    uint32_t magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000)
      return uint16_t(0x7e00 | sign);
    // From 65520 on, halfway above the greatest f16, the result is infinite.
    if (magnitude >= 0x477ff000)
      return uint16_t(0x7c00 | sign);
    // Below 2^-14, adding 0.5, whose last place is f16's smallest denormal,
    // makes the addition round to it.
    if (magnitude < (113u << 23))
      return uint16_t(
          (bitCast<uint32_t>(bitCast<float>(magnitude) + 0.5f) - 0x3f000000) |
          sign);
    // For normal results, rebias the exponent by -112 and round to nearest
    // even.
    uint32_t rounded =
        (magnitude + 0xfff + ((magnitude >> 13) & 1) - (112u << 23)) >> 13;
    return uint16_t(rounded | sign);
  }
};

/// Computes element `i` of the sum: over the local ranks, rounded to the
/// chunks' type if there are also several nodes, then over the nodes. The sum
/// is rounded to `Out` once.
template <typename In, typename Out>
FCDP_HOST_DEVICE inline void sumElement(const SumChunksArguments &arguments,
                                        uint64_t i) {
  using Storage = typename In::Storage;
  using Sum = typename In::Sum;
  const auto *own = static_cast<const Storage *>(arguments.own);
  const auto *others = static_cast<const Storage *>(arguments.scratch);
  auto load = [&](uint32_t rank) -> Sum {
    return In::load(rank == arguments.rank
                        ? own[i]
                        : others[rank * arguments.elements + i]);
  };
  const bool roundsPartials = arguments.locals > 1 && arguments.nodes > 1;
  Sum sum = 0;
  for (uint32_t node = 0; node < arguments.nodes; ++node) {
    Sum partial = load(node);
    for (uint32_t local = 1; local < arguments.locals; ++local)
      partial += load(local * arguments.nodes + node);
    if (roundsPartials)
      partial = In::load(In::store(partial));
    // Do not start from 0, because 0 + -0 is 0.
    sum = node == 0 ? partial : sum + partial;
  }
  static_cast<typename Out::Storage *>(arguments.out)[i] =
      Out::store(typename Out::Sum(sum));
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
