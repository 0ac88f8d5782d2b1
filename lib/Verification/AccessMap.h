// SPDX-License-Identifier: Apache-2.0
//
// Who accessed which bytes of an arena last. Knows no IR.
#pragma once

#include "StreamClocks.h"

namespace fcdp {

/// The bytes of a block fall into planes: those of the innermost value that
/// stands inside it, those of the value around that, and the rest. On each rank
/// they are elsewhere in the block, so a plane is not an interval.
inline constexpr unsigned kNumPlanes = 3;
inline constexpr uint8_t kAllPlanes = (1 << kNumPlanes) - 1;

/// Bytes [begin, end) of an arena on all ranks together, as far as they are in
/// `planes` of the blocks of that `shape`.
struct Extent {
  int64_t begin = 0, end = 0;
  uint8_t planes = kAllPlanes;
  /// Names the block and what stands inside it; 0 where all planes are meant.
  int32_t shape = 0;

  bool isEmpty() const { return begin >= end; }
  bool overlaps(const Extent &other) const {
    return std::max(begin, other.begin) < std::min(end, other.end) &&
           (shape != other.shape || (planes & other.planes));
  }
};

/// What is known of some bytes, as FastTrack (Flanagan and Freund, PLDI 2009)
/// has it: what came before the last write is ordered before it, so it need not
/// be kept.
struct Marks {
  /// Last write, and reads after it, by stream.
  Clock written{}, read{};
  /// What the bytes hold, in the terms of the caller; 0 is nothing.
  int32_t content = 0;

  bool operator==(const Marks &other) const {
    return written == other.written && read == other.read &&
           content == other.content;
  }
};

struct Segment {
  int64_t end;
  /// If 0, all planes are equal.
  int32_t shape = 0;
  std::array<Marks, kNumPlanes> planes;
};

/// Segments of an arena by their first byte. An access takes time in the number
/// of segments that it touches; a write makes them one.
class AccessMap {
public:
  explicit AccessMap(int64_t bytes = 0);

  /// The operation that an access on `stream` is not ordered after, or 0.
  OpIndex findConflict(const Extent &extent, bool isWrite, size_t stream,
                       const StreamClocks &clocks);
  void read(const Extent &extent, size_t stream, OpIndex index);
  void write(const Extent &extent, size_t stream, OpIndex index,
             int32_t content);
  /// The same accesses, but the bytes now count as `content`.
  void relabel(const Extent &extent, int32_t content);

  /// Calls `visit(content)` for what the bytes hold until it gives false.
  template <typename Visit>
  void visitContents(const Extent &extent, Visit visit) {
    bool goesOn = true;
    visitMarks(extent,
               [&](Marks &marks) { goesOn = goesOn && visit(marks.content); });
  }

  const std::map<int64_t, Segment> &getSegments() const { return segments; }

private:
  using Iterator = std::map<int64_t, Segment>::iterator;

  /// Makes a segment begin at `at` and gives it.
  Iterator split(int64_t at);
  /// Makes equal neighbours in [begin, end) one.
  void join(int64_t begin, int64_t end);
  template <typename Visit>
  void visitMarks(const Extent &extent, Visit visit);

  std::map<int64_t, Segment> segments;
};

template <typename Visit>
void AccessMap::visitMarks(const Extent &extent, Visit visit) {
  if (extent.isEmpty())
    return;
  split(extent.end);
  for (Iterator it = split(extent.begin);
       it != segments.end() && it->first < extent.end; ++it) {
    Segment &segment = it->second;
    // Planes of another shape mean other bytes.
    bool isWhole = extent.planes == kAllPlanes ||
                   (segment.shape != 0 && segment.shape != extent.shape);
    for (unsigned plane = 0; plane < kNumPlanes; ++plane)
      if (isWhole || (extent.planes & (1 << plane)))
        visit(segment.planes[plane]);
  }
}

} // namespace fcdp
