// SPDX-License-Identifier: Apache-2.0
//
// The unpacking of matrices on a GPU. nvcc compiles it for the device as the
// body of the kernels, and the tests compile it for the host. Results are
// bit-identical to those of core/PackedBlocks.h.
#pragma once

#include "core/PackedLayout.h"
#include "cuda/SumChunks.h"

namespace fcdp::cuda {

/// The arguments of the unpacking of one matrix with the fields of its
/// PackedLayout. `out` is aligned to two values.
struct UnpackArguments {
  const void *packed;
  void *out;
  uint64_t values;
  uint64_t blockValues;
  uint64_t blockBytes;
};

/// Returns the value of a code of NF4. Selections keep the table in
/// instructions: an array that is indexed would be in local memory.
FCDP_HOST_DEVICE inline float nf4Value(uint32_t code) {
  const bool bit0 = code & 1, bit1 = code & 2, bit2 = code & 4;
  const float low = bit2 ? (bit1 ? (bit0 ? 0.0f : -0x1.74f0e2p-4f)
                                 : (bit0 ? -0x1.7a6a7ep-3f : -0x1.23449ap-2f))
                         : (bit1 ? (bit0 ? -0x1.946540p-2f : -0x1.0cd66p-1f)
                                 : (bit0 ? -0x1.647362p-1f : -1.0f));
  const float high = bit2 ? (bit1 ? (bit0 ? 1.0f : 0x1.722766p-1f)
                                  : (bit0 ? 0x1.200f56p-1f : 0x1.c34970p-2f))
                          : (bit1 ? (bit0 ? 0x1.5a0674p-2f : 0x1.f809bap-3f)
                                  : (bit0 ? 0x1.4995c6p-3f : 0x1.45f5fep-4f));
  return code & 8 ? high : low;
}

/// Codes of 4 bits; the first of two is in the high half of its byte.
struct Nf4Codes {
  FCDP_HOST_DEVICE static uint64_t blockOf(const UnpackArguments &,
                                           uint64_t i) {
    return i / PackedLayout::ofNf4(0).blockValues;
  }
  FCDP_HOST_DEVICE static float value(const uint8_t *codes, uint64_t i,
                                      float scale) {
    const uint32_t both = codes[i / 2];
    return nf4Value(i % 2 == 0 ? both >> 4 : both & 15) * scale;
  }
};

/// Signed bytes, of which 127 is the scale.
struct Int8Codes {
  FCDP_HOST_DEVICE static uint64_t blockOf(const UnpackArguments &arguments,
                                           uint64_t i) {
    // GPUs divide numbers of 64 bits in many instructions.
    return arguments.values >> 32
               ? i / arguments.blockValues
               : uint32_t(i) / uint32_t(arguments.blockValues);
  }
  FCDP_HOST_DEVICE static float value(const uint8_t *codes, uint64_t i,
                                      float scale) {
    const float step = scale * (1.0f / 127);
    return float(int8_t(codes[i])) * step;
  }
};

/// Returns value `i` of the matrix.
template <typename Codes>
FCDP_HOST_DEVICE inline float unpackValue(const UnpackArguments &arguments,
                                          uint64_t i) {
  const uint64_t block = Codes::blockOf(arguments, i);
  const auto *bytes = static_cast<const uint8_t *>(arguments.packed) +
                      block * arguments.blockBytes;
  // Blocks begin at multiples of 4 bytes.
  const float scale = *reinterpret_cast<const float *>(bytes);
  return Codes::value(bytes + PackedLayout::kScaleBytes,
                      i - block * arguments.blockValues, scale);
}

/// Unpacks the pairs of values that thread `thread` of `threads` has.
template <typename Codes, typename Out>
FCDP_HOST_DEVICE inline void unpackValues(const UnpackArguments &arguments,
                                          uint64_t thread, uint64_t threads) {
  using Storage = typename Out::Storage;
  using Pair = Vector<Storage, 2>;
  auto *out = static_cast<Storage *>(arguments.out);
  for (uint64_t pair = thread; pair < arguments.values / 2; pair += threads) {
    Pair both;
    unrolled<2>([&](uint32_t k) {
      both.elements[k] =
          Out::store(unpackValue<Codes>(arguments, 2 * pair + k));
    });
    reinterpret_cast<Pair *>(out)[pair] = both;
  }
  if (thread == 0 && arguments.values % 2 == 1)
    out[arguments.values - 1] =
        Out::store(unpackValue<Codes>(arguments, arguments.values - 1));
}

/// The names of kernels contain the codes and the type, e.g.
/// fcdp_unpack_nf4_bf16.
#define FCDP_UNPACK_KERNELS(X)                                                 \
  X(fcdp_unpack_nf4_f16, Nf4Codes, F16)                                        \
  X(fcdp_unpack_nf4_bf16, Nf4Codes, BF16)                                      \
  X(fcdp_unpack_nf4_f32, Nf4Codes, F32)                                        \
  X(fcdp_unpack_int8_f16, Int8Codes, F16)                                      \
  X(fcdp_unpack_int8_bf16, Int8Codes, BF16)                                    \
  X(fcdp_unpack_int8_f32, Int8Codes, F32)

} // namespace fcdp::cuda
