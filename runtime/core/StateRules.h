// SPDX-License-Identifier: Apache-2.0
//
// The rules of a state, which its record has
// (dialects/Fcdp/FcdpStateRoles.td). They say how many numbers of which type a
// rank has.
#pragma once

#include <cstdint>

namespace fcdp {

/// The type of a state's elements.
enum class StateType {
  storage,
  wire,
  optimizer, ///< the master's type, or `storage` without a master
  f32,
  u8,
};

/// The part of a bucket that a rank's state is for.
enum class StateScope { shard, slice, whole };

/// The numbers that a state has for a parameter: one for each element or for
/// each block of `kStateBlock` elements; for a parameter of two or more
/// dimensions the means over the last one (`rowMean`) or over the one before it
/// (`columnMean`); one for each element of any other parameter
/// (`withoutMeans`); for a matrix of r x c elements r x r (`rowSquare`) or
/// c x c (`columnSquare`), unless the side is longer than `max_side` of the
/// bucket.
enum class StateShape {
  element,
  block,
  rowMean,
  columnMean,
  withoutMeans,
  rowSquare,
  columnSquare
};

/// The number of elements of a moment in 8 bits that share a scale.
inline constexpr int64_t kStateBlock = 256;

/// The bytes of a block of a file. Each state in a file and each piece of one
/// begins at a block, so that transfers can pass by the page cache.
inline constexpr int64_t kFileBlock = 4096;
/// The parts of the host memory through which a GPU's copies from files and to
/// files pass, two for each direction: while one is read or written, the other
/// one is copied.
inline constexpr int64_t kFileWindowParts = 4;
/// The most bytes of such a part. Beside a part at the begin and the end of a
/// piece, disks and the link work at the same time.
inline constexpr int64_t kMostFilePart = int64_t(1) << 22;
/// Each square of a state begins at a multiple of so many elements, 64 bytes.
inline constexpr int64_t kSquareAlignment = 16;

/// Returns whether a state has a square of a side.
constexpr bool isSquare(StateShape shape) {
  return shape == StateShape::rowSquare || shape == StateShape::columnSquare;
}

} // namespace fcdp
