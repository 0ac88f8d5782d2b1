// SPDX-License-Identifier: Apache-2.0
//
// Finds the already placed buffers of a packing by their lifetimes and in the
// order of their offsets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace fcdp::packing {

/// The gap that is chosen for a buffer among those that are large enough.
enum class Fit { Lowest, Smallest };

/// Moments [begin, end), counted from 0 without gaps.
struct Lifetime {
  int32_t begin, end;
};

struct PlacedBuffer {
  int64_t offset, end;
  Lifetime life;
};

/// Finds gaps between placed buffers that are in use at the same time.
///
/// Time is divided into windows of several lengths that overlap by half, so
/// that a lifetime no longer than half a window's length lies within one
/// window. Each window lists the buffers in use within it by ascending offset.
/// A search reads the shortest window that contains the lifetime, which takes
/// time proportional to the buffers that are in use around it, not to all
/// buffers.
class PlacedBuffers {
public:
  PlacedBuffers() = default;
  /// Prepares for `buffers` buffers with lifetimes within [0, moments).
  PlacedBuffers(int32_t moments, size_t buffers);

  void clear();
  /// Inserts a buffer. The time is linear in the windows in which it is in use.
  void insert(const PlacedBuffer &buffer);
  /// Returns the offset of a gap of `bytes` between the buffers that are in use
  /// during `life`, or the greatest end of these if no gap is large enough.
  int64_t findGap(Lifetime life, int64_t bytes, Fit fit) const;

private:
  /// Indices in `placed`, by ascending offset.
  using Window = std::vector<uint32_t>;
  /// Windows of length 2 * stride that begin at multiples of `stride`.
  struct Level {
    int32_t stride;
    std::vector<Window> windows;
  };

  void insert(Window &window, uint32_t index);
  const Window &getWindow(Lifetime life) const;

  std::vector<PlacedBuffer> placed;
  /// Shortest windows first.
  std::vector<Level> levels;
  /// All buffers, for lifetimes that are not within any window.
  Window all;
};

} // namespace fcdp::packing
