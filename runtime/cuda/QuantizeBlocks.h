// SPDX-License-Identifier: Apache-2.0
//
// The rounding of messages on a GPU, and the sums of rounded messages. nvcc
// compiles them for the device as the body of the kernels, and the tests
// compile them for the host. Codes, residuals and sums are bit-identical to
// those of codec/Quantizer.h. A message has no header here: its first
// kMessageHeaderBytes are not used, because NCCL checks what it sends.
#pragma once

#include "core/MessageSpec.h"
#include "cuda/SumChunks.h"

namespace fcdp::cuda {

/// The arguments of the rounding of `ranks` parts of `elements` each, of which
/// part `rank` is left out. Messages are one after the other.
struct QuantizeArguments {
  const void *values;
  float *residual; ///< in memory of the device or pinned memory of the host
  uint8_t *messages;
  uint64_t messageBytes;
  uint64_t elements;
  uint32_t rank;
  uint32_t ranks;
};

/// The arguments of a sum in the order of ranks: of this rank's own values, and
/// of the values of the others' messages, rounded to the values' type.
struct SumMessagesArguments {
  const void *own;
  const uint8_t *messages;
  uint64_t messageBytes;
  void *out;
  uint64_t elements;
  uint32_t rank;
  uint32_t ranks;
};

/// A block is the work of one warp. On the host one call does the work of all
/// of its lanes, whose variables are then arrays.
constexpr uint32_t kLanes = 32;
#ifdef __CUDA_ARCH__
constexpr uint32_t kLanesHere = 1;
#else
constexpr uint32_t kLanesHere = kLanes;
#endif

/// Calls `body(here, lane)` for each lane that this thread has, where `here` is
/// the index in arrays of kLanesHere.
template <typename Body>
FCDP_HOST_DEVICE inline void forLanes(Body body) {
#ifdef __CUDA_ARCH__
  body(0u, threadIdx.x % kLanes);
#else
  for (uint32_t lane = 0; lane < kLanes; ++lane)
    body(lane, lane);
#endif
}

/// Gives each lane the value of lane ^ mask.
template <typename T>
FCDP_HOST_DEVICE inline void exchange(const T (&own)[kLanesHere], uint32_t mask,
                                      T (&others)[kLanesHere]) {
#ifdef __CUDA_ARCH__
  others[0] = __shfl_xor_sync(0xffffffffu, own[0], mask);
#else
  for (uint32_t lane = 0; lane < kLanes; ++lane)
    others[lane] = own[lane ^ mask];
#endif
}

/// The elements of a block: lane l has elements l, l + 32, l + 64, ..., so that
/// the lanes' loads and stores are of neighbours.
template <typename T, uint32_t size>
struct WarpBlock {
  static constexpr uint32_t perLane = size / kLanes;

  /// Calls `body(value, index in the block)` for each element.
  template <typename Body>
  FCDP_HOST_DEVICE void forEach(Body body) {
    forLanes([&](uint32_t here, uint32_t lane) {
      unrolled<perLane>(
          [&](uint32_t k) { body(of[k][here], lane + k * kLanes); });
    });
  }

  T of[perLane][kLanesHere];
};

/// The values of a block, with the functions of codec/Quantizer.cpp.
template <uint32_t size>
using Values = WarpBlock<float, size>;

constexpr uint32_t kInfinityBits = 0x7f800000;
constexpr uint16_t kNaNScale = 0x7fc0;
constexpr float kLeastBlockScale = 0x1p-100f;

FCDP_HOST_DEVICE inline float valueOfScale(uint16_t bits) {
  return bitCast<float>(uint32_t(bits) << 16);
}

/// Returns the bits of the greatest magnitude, on all lanes.
template <uint32_t size>
FCDP_HOST_DEVICE inline uint32_t greatestBits(Values<size> &values) {
  uint32_t greatest[kLanesHere] = {}, others[kLanesHere];
  forLanes([&](uint32_t here, uint32_t) {
    unrolled<Values<size>::perLane>([&](uint32_t k) {
      uint32_t bits = bitCast<uint32_t>(values.of[k][here]) & 0x7fffffff;
      greatest[here] = bits > greatest[here] ? bits : greatest[here];
    });
  });
  for (uint32_t mask = 1; mask < kLanes; mask *= 2) {
    exchange(greatest, mask, others);
    forLanes([&](uint32_t here, uint32_t) {
      if (others[here] > greatest[here])
        greatest[here] = others[here];
    });
  }
  return greatest[0];
}

FCDP_HOST_DEVICE inline uint16_t chooseBlockScale(uint32_t greatest,
                                                  float levels) {
  if (greatest >= kInfinityBits)
    return kNaNScale;
  float exact = bitCast<float>(greatest) / levels;
  if (exact < kLeastBlockScale)
    return 0;
  return uint16_t((bitCast<uint32_t>(exact) + 0xffff) >> 16);
}

/// Returns the code of a value: the nearest multiple of 1 / inverse.
FCDP_HOST_DEVICE inline int32_t roundToCode(float value, float inverse) {
  // Floats near this one have a last place of 1. The product is rounded before
  // the addition: the image is compiled without fused operations.
  constexpr float magic = 0x1.8p23f;
  return bitCast<int32_t>(value * inverse + magic) - bitCast<int32_t>(magic);
}

/// Computes the Hadamard transform without a factor, by sums and differences of
/// elements that are 1, 2, 4, ... apart.
template <uint32_t size>
FCDP_HOST_DEVICE inline void transform(Values<size> &values) {
  constexpr uint32_t perLane = Values<size>::perLane;
  for (uint32_t mask = 1; mask < kLanes; mask *= 2)
    unrolled<perLane>([&](uint32_t k) {
      float others[kLanesHere];
      exchange(values.of[k], mask, others);
      forLanes([&](uint32_t here, uint32_t lane) {
        float own = values.of[k][here];
        values.of[k][here] =
            lane & mask ? others[here] - own : own + others[here];
      });
    });
  for (uint32_t half = 1; half < perLane; half *= 2)
    unrolled<perLane>([&](uint32_t k) {
      if (k & half)
        return;
      forLanes([&](uint32_t here, uint32_t) {
        float a = values.of[k][here], b = values.of[k + half][here];
        values.of[k][here] = a + b;
        values.of[k + half][here] = a - b;
      });
    });
}

/// The signs that Quantizer.cpp gives the elements of a block: bit i of word w
/// is set if the sign of element 32 w + i is negative.
struct Signs {
  constexpr Signs() {
    uint32_t state = 0x9e3779b9;
    for (uint32_t i = 0; i < kInt4Format.blockElements; ++i) {
      state = state * 1664525 + 1013904223;
      words[i / 32] |= (state >> 31) << (i % 32);
    }
  }
  uint32_t words[kInt4Format.blockElements / 32] = {};
};

FCDP_HOST_DEVICE inline float signOf(uint32_t index) {
  constexpr Signs signs;
  constexpr uint32_t first = signs.words[0], second = signs.words[1],
                     third = signs.words[2], fourth = signs.words[3];
  const uint32_t word = index < 32   ? first
                        : index < 64 ? second
                        : index < 96 ? third
                                     : fourth;
  return word >> (index % 32) & 1 ? -1.0f : 1.0f;
}

struct Int8Block {
  static constexpr uint32_t size = kInt8Format.blockElements, bytes = size;
  static constexpr float levels = 127;

  FCDP_HOST_DEVICE static void rotate(Values<size> &) {}
  FCDP_HOST_DEVICE static void store(const WarpBlock<int32_t, size> &codes,
                                     uint8_t *out) {
    forLanes([&](uint32_t here, uint32_t lane) {
      unrolled<Values<size>::perLane>([&](uint32_t k) {
        out[lane + k * kLanes] = uint8_t(codes.of[k][here]);
      });
    });
  }
  FCDP_HOST_DEVICE static void load(uint16_t scale, const uint8_t *in,
                                    Values<size> &values) {
    values.forEach([&](float &value, uint32_t i) {
      value = float(int8_t(in[i])) * valueOfScale(scale);
    });
  }
};

struct Int4Block {
  static constexpr uint32_t size = kInt4Format.blockElements, bytes = size / 2;
  static constexpr float levels = 7;

  FCDP_HOST_DEVICE static void rotate(Values<size> &values) {
    values.forEach([](float &value, uint32_t i) { value *= signOf(i); });
    transform(values);
  }
  /// Byte i has elements i and i + 64, which one lane has.
  FCDP_HOST_DEVICE static void store(const WarpBlock<int32_t, size> &codes,
                                     uint8_t *out) {
    constexpr uint32_t half = Values<size>::perLane / 2;
    forLanes([&](uint32_t here, uint32_t lane) {
      unrolled<half>([&](uint32_t k) {
        out[lane + k * kLanes] =
            uint8_t((codes.of[k][here] & 15) | (codes.of[k + half][here] << 4));
      });
    });
  }
  FCDP_HOST_DEVICE static void load(uint16_t scale, const uint8_t *in,
                                    Values<size> &values) {
    constexpr uint32_t half = Values<size>::perLane / 2;
    forLanes([&](uint32_t here, uint32_t lane) {
      unrolled<half>([&](uint32_t k) {
        uint8_t both = in[lane + k * kLanes];
        values.of[k][here] = float(int8_t(both << 4) >> 4);
        values.of[k + half][here] = float(int8_t(both) >> 4);
      });
    });
    transform(values);
    const float factor = valueOfScale(scale) / float(size);
    values.forEach(
        [&](float &value, uint32_t i) { value *= signOf(i) * factor; });
  }
};

/// The parts of a message for `elements` values.
template <typename Block>
struct MessageParts {
  FCDP_HOST_DEVICE explicit MessageParts(uint64_t elements)
      : blocks((elements + Block::size - 1) / Block::size),
        codes(kMessageHeaderBytes + blocks * kScaleBytes) {}
  FCDP_HOST_DEVICE uint64_t scaleOf(uint64_t block) const {
    return kMessageHeaderBytes + block * kScaleBytes;
  }
  FCDP_HOST_DEVICE uint64_t codesOf(uint64_t block) const {
    return codes + block * Block::bytes;
  }

  uint64_t blocks, codes;
};

/// Rounds `count` values of a block and writes its scale and codes.
template <typename In, typename Block>
FCDP_HOST_DEVICE inline void
quantizeBlock(const typename In::Storage *values, float *residual,
              uint64_t count, uint8_t *scaleOut, uint8_t *codesOut) {
  Values<Block::size> sums, work;
  sums.forEach([&](float &sum, uint32_t i) {
    sum = i < count ? In::load(values[i]) + residual[i] : 0.0f;
  });
  work = sums;
  Block::rotate(work);
  const uint16_t scale = chooseBlockScale(greatestBits(work), Block::levels);
  const bool isCoded = scale != 0 && scale != kNaNScale;
  const float inverse = isCoded ? 1.0f / valueOfScale(scale) : 0.0f;
  WarpBlock<int32_t, Block::size> codes;
  forLanes([&](uint32_t here, uint32_t lane) {
    unrolled<Values<Block::size>::perLane>([&](uint32_t k) {
      codes.of[k][here] = isCoded ? roundToCode(work.of[k][here], inverse) : 0;
    });
    if (lane == 0) {
      scaleOut[0] = uint8_t(scale);
      scaleOut[1] = uint8_t(scale >> 8);
    }
  });
  Block::store(codes, codesOut);
  // Each lane reads the codes that it has stored.
  Block::load(scale, codesOut, work);
  forLanes([&](uint32_t here, uint32_t lane) {
    unrolled<Values<Block::size>::perLane>([&](uint32_t k) {
      const uint32_t i = lane + k * kLanes;
      if (i >= count)
        return;
      const float received = In::load(In::store(work.of[k][here]));
      const float left = sums.of[k][here] - received;
      const bool isFinite =
          (bitCast<uint32_t>(left) & 0x7fffffff) < kInfinityBits;
      residual[i] = isFinite ? left : 0.0f;
    });
  });
}

/// Rounds the share that warp `warp` of `warps` has.
template <typename In, typename Block>
FCDP_HOST_DEVICE inline void quantizeParts(const QuantizeArguments &arguments,
                                           uint64_t warp, uint64_t warps) {
  const MessageParts<Block> parts(arguments.elements);
  const auto *values =
      static_cast<const typename In::Storage *>(arguments.values);
  for (uint64_t at = warp; at < arguments.ranks * parts.blocks; at += warps) {
    const uint64_t part = at / parts.blocks, block = at % parts.blocks;
    if (part == arguments.rank)
      continue;
    const uint64_t begin = block * Block::size,
                   first = part * arguments.elements + begin;
    uint8_t *message = arguments.messages + part * arguments.messageBytes;
    quantizeBlock<In, Block>(
        values + first, arguments.residual + first, arguments.elements - begin,
        message + parts.scaleOf(block), message + parts.codesOf(block));
  }
}

/// Sums the blocks that warp `warp` of `warps` has.
template <typename In, typename Out, typename Block>
FCDP_HOST_DEVICE inline void sumMessages(const SumMessagesArguments &arguments,
                                         uint64_t warp, uint64_t warps) {
  const MessageParts<Block> parts(arguments.elements);
  const auto *own = static_cast<const typename In::Storage *>(arguments.own);
  auto *out = static_cast<typename Out::Storage *>(arguments.out);
  for (uint64_t block = warp; block < parts.blocks; block += warps) {
    const uint64_t begin = block * Block::size,
                   count = arguments.elements - begin;
    Values<Block::size> sum, part;
    for (uint32_t rank = 0; rank < arguments.ranks; ++rank) {
      if (rank == arguments.rank) {
        part.forEach([&](float &value, uint32_t i) {
          value = i < count ? In::load(own[begin + i]) : 0.0f;
        });
      } else {
        const uint8_t *message =
            arguments.messages + rank * arguments.messageBytes;
        const uint8_t *scale = message + parts.scaleOf(block);
        Block::load(uint16_t(scale[0] | scale[1] << 8),
                    message + parts.codesOf(block), part);
        part.forEach([&](float &value, uint32_t) {
          value = In::load(In::store(value));
        });
      }
      forLanes([&](uint32_t here, uint32_t) {
        unrolled<Values<Block::size>::perLane>([&](uint32_t k) {
          // Does not start from 0, because 0 + -0 is 0.
          sum.of[k][here] =
              rank == 0 ? part.of[k][here] : sum.of[k][here] + part.of[k][here];
        });
      });
    }
    sum.forEach([&](float &value, uint32_t i) {
      if (i < count)
        out[begin + i] = Out::store(value);
    });
  }
}

/// The names of kernels contain the code and the types, e.g.
/// fcdp_quantize_int8_bf16 and fcdp_sum_int8_bf16_f32.
#define FCDP_QUANTIZE_KERNELS_OF(X, code, Block)                               \
  X(fcdp_quantize_##code##_f16, F16, Block)                                    \
  X(fcdp_quantize_##code##_bf16, BF16, Block)                                  \
  X(fcdp_quantize_##code##_f32, F32, Block)
#define FCDP_QUANTIZE_KERNELS(X)                                               \
  FCDP_QUANTIZE_KERNELS_OF(X, int8, Int8Block)                                 \
  FCDP_QUANTIZE_KERNELS_OF(X, int4, Int4Block)

#define FCDP_SUM_MESSAGES_OF(X, code, Block, in, In)                           \
  X(fcdp_sum_##code##_##in##_f16, In, F16, Block)                              \
  X(fcdp_sum_##code##_##in##_bf16, In, BF16, Block)                            \
  X(fcdp_sum_##code##_##in##_f32, In, F32, Block)
#define FCDP_SUM_MESSAGES_KERNELS_OF(X, code, Block)                           \
  FCDP_SUM_MESSAGES_OF(X, code, Block, f16, F16)                               \
  FCDP_SUM_MESSAGES_OF(X, code, Block, bf16, BF16)                             \
  FCDP_SUM_MESSAGES_OF(X, code, Block, f32, F32)
#define FCDP_SUM_MESSAGES_KERNELS(X)                                           \
  FCDP_SUM_MESSAGES_KERNELS_OF(X, int8, Int8Block)                             \
  FCDP_SUM_MESSAGES_KERNELS_OF(X, int4, Int4Block)

} // namespace fcdp::cuda
