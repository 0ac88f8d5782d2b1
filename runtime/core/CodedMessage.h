// SPDX-License-Identifier: Apache-2.0
//
// The sizes of coded messages, which compiler and runtime agree on. The code of
// a message is in codec/MessageCodec.h.
#pragma once

#include <cstdint>

namespace fcdp {

/// Bytes in front of the values of a message.
inline constexpr uint64_t kMessageHeaderBytes = 64;
/// Values are coded in chunks of this many bytes, each with a header of its
/// own.
inline constexpr uint64_t kCodedChunkBytes = 128 * 1024;
inline constexpr uint64_t kChunkHeaderBytes = 16;
/// Messages begin at multiples of this many bytes.
inline constexpr uint64_t kMessageAlignment = 64;

/// Returns the most bytes of a coded message for `bytes` bytes of values, which
/// is less than 2^56: the values as they are, and all headers. Without values
/// there is no message.
constexpr uint64_t codedCapacity(uint64_t bytes) {
  if (bytes == 0)
    return 0;
  uint64_t chunks = (bytes + kCodedChunkBytes - 1) / kCodedChunkBytes;
  uint64_t most = kMessageHeaderBytes + bytes + chunks * kChunkHeaderBytes;
  return (most + kMessageAlignment - 1) / kMessageAlignment * kMessageAlignment;
}

/// Returns the bytes of memory for the messages of a coded gather over `ranks`
/// ranks: one of each rank.
constexpr uint64_t codedGatherBytes(uint64_t ranks, uint64_t partBytes) {
  return ranks * codedCapacity(partBytes);
}

/// Returns the bytes of memory for the messages of a coded reduction over
/// `ranks` ranks: one for each rank, and one of each.
constexpr uint64_t codedReductionBytes(uint64_t ranks, uint64_t partBytes) {
  return 2 * ranks * codedCapacity(partBytes);
}

} // namespace fcdp
