// SPDX-License-Identifier: Apache-2.0
//
// Describes coded messages, and gives their sizes, on which compiler and
// runtime agree. The code of a message is in codec/MessageCodec.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fcdp {

/// The code of values that are sent between nodes. `Delta` (gathers) codes
/// their differences from the values that were gathered last, and `Coded`
/// (reductions) codes their exponents. Both are lossless. `Int8` and `Int4`
/// (reductions) round values to codes of that many bits.
enum class WireCode : uint8_t { Raw, Delta, Coded, Int8, Int4 };

/// Elements that belong to no parameter.
struct PaddingRange {
  uint64_t first, elements;
};

/// The messages of a collective.
struct MessageSpec {
  WireCode code = WireCode::Raw;
  /// Memory for them: codedGatherBytes, codedReductionBytes or
  /// quantizedReductionBytes.
  std::byte *memory = nullptr;
  /// For Delta only: the result of the previous gather, as large as the
  /// collective's `out`, and the number of gathers before this one. If that is
  /// 0, the reference is not read.
  const std::byte *reference = nullptr;
  uint64_t generation = 0;
  /// For Int8 and Int4 only: for each value of the collective's `in`, the error
  /// that messages have left out so far, which is added to the next message.
  float *residual = nullptr;
  /// The padding of the bucket, which stays 0, because a checkpoint has only
  /// the values of parameters.
  const PaddingRange *padding = nullptr;
  size_t numPaddings = 0;

  bool isRaw() const { return code == WireCode::Raw; }
  bool isRounded() const {
    return code == WireCode::Int8 || code == WireCode::Int4;
  }
  /// Throws std::runtime_error unless the messages are the values themselves.
  /// The compiler plans messages without loss for CPUs only. `what` is the
  /// collective.
  void expectRaw(const char *what) const;
};

/// Bytes before the values of a message.
inline constexpr uint64_t kMessageHeaderBytes = 64;
/// Size of the chunks in which values are coded, in bytes of values. Each chunk
/// has a header of its own.
inline constexpr uint64_t kCodedChunkBytes = 128 * 1024;
inline constexpr uint64_t kChunkHeaderBytes = 16;
/// Messages begin at multiples of this many bytes.
inline constexpr uint64_t kMessageAlignment = 64;

/// Returns the greatest number of bytes of a coded message for `bytes` bytes of
/// values, which must be less than 2^56: the uncoded values and all headers.
/// Without values there is no message.
constexpr uint64_t codedCapacity(uint64_t bytes) {
  if (bytes == 0)
    return 0;
  uint64_t chunks = (bytes + kCodedChunkBytes - 1) / kCodedChunkBytes;
  uint64_t most = kMessageHeaderBytes + bytes + chunks * kChunkHeaderBytes;
  return (most + kMessageAlignment - 1) / kMessageAlignment * kMessageAlignment;
}

/// The format of quantised values: a scale in bf16 for each block, and a code
/// of `bits` bits for each value. The last block is padded to full length.
struct QuantizedFormat {
  uint64_t blockElements, bits;
};
inline constexpr QuantizedFormat kInt8Format{256, 8};
/// Blocks are shorter than those of int8, because each is rotated as a whole.
inline constexpr QuantizedFormat kInt4Format{128, 4};
inline constexpr uint64_t kScaleBytes = 2;

/// Returns the format for Int8 or Int4.
constexpr QuantizedFormat formatOf(WireCode code) {
  return code == WireCode::Int4 ? kInt4Format : kInt8Format;
}

/// Returns the bytes of a message for `elements` quantised values. Without
/// values there is no message.
constexpr uint64_t quantizedBytes(QuantizedFormat format, uint64_t elements) {
  if (elements == 0)
    return 0;
  uint64_t blocks =
      (elements + format.blockElements - 1) / format.blockElements;
  uint64_t bytes =
      kMessageHeaderBytes +
      blocks * (kScaleBytes + format.blockElements * format.bits / 8);
  return (bytes + kMessageAlignment - 1) / kMessageAlignment *
         kMessageAlignment;
}

/// Returns the bytes of memory for the messages of a quantised reduction over
/// `ranks` ranks: one message to each rank and one from each.
constexpr uint64_t quantizedReductionBytes(QuantizedFormat format,
                                           uint64_t ranks,
                                           uint64_t partElements) {
  return 2 * ranks * quantizedBytes(format, partElements);
}

/// Returns the bytes of memory for the messages of a coded gather over `ranks`
/// ranks: one message from each rank.
constexpr uint64_t codedGatherBytes(uint64_t ranks, uint64_t partBytes) {
  return ranks * codedCapacity(partBytes);
}

/// Returns the bytes of memory for the messages of a coded reduction over
/// `ranks` ranks: one message to each rank and one from each.
constexpr uint64_t codedReductionBytes(uint64_t ranks, uint64_t partBytes) {
  return 2 * ranks * codedCapacity(partBytes);
}

} // namespace fcdp
