// SPDX-License-Identifier: Apache-2.0

#include "AccessMap.h"

#include <algorithm>
#include <iterator>

using namespace fcdp;

AccessMap::AccessMap(int64_t bytes) {
  if (bytes > 0)
    segments[0] = {bytes, 0, {}};
}

AccessMap::Iterator AccessMap::split(int64_t at) {
  Iterator it = segments.lower_bound(at);
  if (it == segments.begin() || (it != segments.end() && it->first == at))
    return it;
  Iterator before = std::prev(it);
  if (before->second.end <= at)
    return it;
  Segment rest = before->second;
  before->second.end = at;
  return segments.emplace_hint(it, at, rest);
}

void AccessMap::join(int64_t begin, int64_t end) {
  Iterator it = segments.find(begin);
  while (it != segments.end()) {
    Iterator next = std::next(it);
    if (next == segments.end() || next->first >= end)
      return;
    if (it->second.shape == next->second.shape &&
        it->second.planes == next->second.planes) {
      it->second.end = next->second.end;
      segments.erase(next);
    } else {
      it = next;
    }
  }
}

static void mergeInto(Clock &clock, const Clock &other) {
  for (size_t i = 0; i < kNumStreams; ++i)
    clock[i] = std::max(clock[i], other[i]);
}

/// Merges the planes of `segment`, because from now on each byte may be in any
/// of them.
static void forgetShape(Segment &segment) {
  Marks all = segment.planes[0];
  for (const Marks &marks : segment.planes) {
    mergeInto(all.written, marks.written);
    mergeInto(all.read, marks.read);
    if (marks.content != all.content)
      all.content = 0;
  }
  segment.planes.fill(all);
  segment.shape = 0;
}

OpIndex AccessMap::findConflict(const Extent &extent, bool isWrite,
                                size_t stream, const StreamClocks &clocks) {
  OpIndex conflict = 0;
  visitMarks(extent, [&](Marks &marks) {
    for (size_t other = 0; other < kNumStreams && !conflict; ++other) {
      if (!clocks.isOrdered(stream, other, marks.written[other]))
        conflict = marks.written[other];
      else if (isWrite && !clocks.isOrdered(stream, other, marks.read[other]))
        conflict = marks.read[other];
    }
  });
  return conflict;
}

void AccessMap::read(const Extent &extent, size_t stream, OpIndex index) {
  if (extent.isEmpty())
    return;
  split(extent.end);
  for (Iterator it = split(extent.begin);
       it != segments.end() && it->first < extent.end; ++it)
    if (it->second.shape == 0)
      it->second.shape = extent.shape;
  visitMarks(extent, [&](Marks &marks) { marks.read[stream] = index; });
}

void AccessMap::write(const Extent &extent, size_t stream, OpIndex index,
                      int32_t content) {
  if (extent.isEmpty())
    return;
  split(extent.end);
  for (Iterator it = split(extent.begin);
       it != segments.end() && it->first < extent.end; ++it) {
    Segment &segment = it->second;
    if (segment.shape != 0 && segment.shape != extent.shape)
      forgetShape(segment);
    segment.shape = extent.planes == kAllPlanes ? 0 : extent.shape;
  }
  visitMarks(extent, [&](Marks &marks) {
    marks = Marks();
    marks.written[stream] = index;
    marks.content = content;
  });
  join(extent.begin, extent.end);
}

void AccessMap::relabel(const Extent &extent, int32_t content) {
  visitMarks(extent, [&](Marks &marks) { marks.content = content; });
}
