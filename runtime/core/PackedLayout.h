// SPDX-License-Identifier: Apache-2.0
//
// Lays out the bytes of a packed matrix. The compiler plans their number, and
// the runtime uses the same layout.
#pragma once

#include <cstdint>

namespace fcdp {

/// Blocks of values in row-major order. Each has a scale in f32 and then the
/// codes of its values, and is padded with zeros to a multiple of 4 bytes. So
/// the bytes of a range of values are a range, too, and a rank needs no values
/// beyond the blocks of its shard. Sizes of matrices of at most 2^48 bytes do
/// not overflow.
struct PackedLayout {
  /// The values of a block, except for the last one if there are fewer.
  int64_t blockValues = 1;
  int64_t values = 0;
  int64_t codeBits = 8;

  /// Blocks of 64 values, which cross the ends of rows. The first of two codes
  /// is in the high half of its byte.
  static constexpr PackedLayout ofNf4(int64_t values) {
    return {64, values, 4};
  }
  /// A block for each row.
  static constexpr PackedLayout ofInt8(int64_t rows, int64_t columns) {
    return {columns > 0 ? columns : 1, rows * columns, 8};
  }

  constexpr int64_t countBlocks() const {
    return (values + blockValues - 1) / blockValues;
  }
  /// Returns the bytes of each block, except for the last one.
  constexpr int64_t blockBytes() const { return bytesOf(blockValues); }
  constexpr int64_t countBytes() const {
    const int64_t rest = values % blockValues;
    return values / blockValues * blockBytes() + (rest > 0 ? bytesOf(rest) : 0);
  }
  /// Returns the values of a block.
  constexpr int64_t valuesOf(int64_t block) const {
    const int64_t rest = values - block * blockValues;
    return rest < blockValues ? rest : blockValues;
  }

  static constexpr int64_t kScaleBytes = 4;

private:
  constexpr int64_t bytesOf(int64_t count) const {
    const int64_t codes = (count * codeBits + 7) / 8;
    return kScaleBytes + (codes + 3) / 4 * 4;
  }
};

} // namespace fcdp
