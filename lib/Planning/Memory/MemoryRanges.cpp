// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Planning/Memory/MemoryRanges.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <map>

using namespace fcdp;

namespace {
/// Converts rectangles of bytes and time to disjoint ones.
class Disjoint {
public:
  explicit Disjoint(llvm::ArrayRef<MemoryRange> ranges);

  std::vector<MemoryRange> take();
  /// Replaces the covered parts by the uncovered ones, within the bytes [begin,
  /// end) and the positions [0, length). Expects that no bytes before `begin`
  /// are covered.
  void invert(int64_t begin, int64_t end, int64_t length);

private:
  using Spans = llvm::SmallVector<std::pair<int64_t, int64_t>>;

  /// The times at which bytes are covered, by the first byte of each segment.
  std::map<int64_t, Spans> segments;
};
} // namespace

Disjoint::Disjoint(llvm::ArrayRef<MemoryRange> ranges) {
  for (const MemoryRange &range : ranges) {
    segments[range.offset];
    segments[range.offset + range.bytes];
  }
  for (const MemoryRange &range : ranges)
    for (auto it = segments.find(range.offset);
         it->first < range.offset + range.bytes; ++it)
      it->second.push_back({range.begin, range.end});
  for (auto &[offset, spans] : segments) {
    llvm::sort(spans);
    Spans merged;
    for (auto [begin, end] : spans)
      if (!merged.empty() && begin <= merged.back().second)
        merged.back().second = std::max(merged.back().second, end);
      else
        merged.push_back({begin, end});
    spans = std::move(merged);
  }
}

std::vector<MemoryRange> Disjoint::take() {
  std::vector<MemoryRange> ranges;
  for (auto it = segments.begin(); it != segments.end();) {
    auto end = std::next(it);
    while (end != segments.end() && end->second == it->second)
      ++end;
    if (end != segments.end())
      for (auto [from, to] : it->second)
        ranges.push_back({it->first, end->first - it->first, from, to});
    it = end;
  }
  return ranges;
}

void Disjoint::invert(int64_t begin, int64_t end, int64_t length) {
  segments[begin];
  segments[end];
  for (auto &[offset, spans] : segments) {
    Spans others;
    int64_t from = 0;
    for (auto [covered, free] : spans) {
      if (from < covered)
        others.push_back({from, covered});
      from = free;
    }
    if (from < length)
      others.push_back({from, length});
    spans = offset < end ? others : Spans();
  }
}

std::vector<MemoryRange>
fcdp::makeDisjoint(llvm::ArrayRef<MemoryRange> ranges) {
  return Disjoint(ranges).take();
}

std::vector<MemoryRange> fcdp::findFreeMemory(const ReservedMemory &reserved,
                                              int64_t end, int64_t length) {
  if (end <= reserved.stateBytes)
    return {};
  Disjoint ranges(reserved.ranges);
  ranges.invert(reserved.stateBytes, end, length);
  return ranges.take();
}
