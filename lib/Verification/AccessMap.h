// SPDX-License-Identifier: Apache-2.0
//
// Records the last accesses to the bytes of an arena. This code does not depend
// on the IR.
#pragma once

#include "StreamClocks.h"

namespace fcdp {

/// A block of nested values has up to three planes: the bytes of the innermost
/// value, those of the value around it, and the rest. Their position in the
/// block differs from rank to rank, so a plane is not an interval.
inline constexpr unsigned kNumPlanes = 3;
inline constexpr uint8_t kAllPlanes = (1 << kNumPlanes) - 1;

/// Bytes [begin, end) of an arena on all ranks together, restricted to `planes`
/// of blocks of that `shape`.
struct Extent {
  int64_t begin = 0, end = 0;
  uint8_t planes = kAllPlanes;
  /// Identifies the block and the values nested inside it; 0 means all planes.
  int32_t shape = 0;

  bool isEmpty() const { return begin >= end; }
  bool overlaps(const Extent &other) const {
    return std::max(begin, other.begin) < std::min(end, other.end) &&
           (shape != other.shape || (planes & other.planes));
  }
};

/// The access history of some bytes, as in FastTrack (Flanagan and Freund, PLDI
/// 2009). All accesses before the last write are ordered before it, so they are
/// not kept.
struct Marks {
  /// The last write, and the reads after it, by stream.
  Clock written{}, read{};
  /// The caller's number for the content of the bytes; 0 means none.
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

/// Segments of an arena by their first byte. The time of an access is linear in
/// the number of segments that it touches. A write merges them into one.
class AccessMap {
public:
  explicit AccessMap(int64_t bytes = 0);

  /// Returns the operation that an access on `stream` conflicts with, because
  /// it is not ordered after that operation, or 0.
  OpIndex findConflict(const Extent &extent, bool isWrite, size_t stream,
                       const StreamClocks &clocks);
  void read(const Extent &extent, size_t stream, OpIndex index);
  void write(const Extent &extent, size_t stream, OpIndex index,
             int32_t content);
  /// Changes the content of the bytes without an access.
  void relabel(const Extent &extent, int32_t content);

  /// Calls `visit(content)` for each content of the bytes until it returns
  /// false.
  template <typename Visit>
  void visitContents(const Extent &extent, Visit visit) {
    bool goesOn = true;
    visitMarks(extent,
               [&](Marks &marks) { goesOn = goesOn && visit(marks.content); });
  }

  const std::map<int64_t, Segment> &getSegments() const { return segments; }

private:
  using Iterator = std::map<int64_t, Segment>::iterator;

  /// Makes a segment begin at `at` and returns it.
  Iterator split(int64_t at);
  /// Merges equal neighbours in [begin, end).
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
    // Planes of another shape are different bytes.
    bool isWhole = extent.planes == kAllPlanes ||
                   (segment.shape != 0 && segment.shape != extent.shape);
    for (unsigned plane = 0; plane < kNumPlanes; ++plane)
      if (isWhole || (extent.planes & (1 << plane)))
        visit(segment.planes[plane]);
  }
}

} // namespace fcdp
