// SPDX-License-Identifier: Apache-2.0
#include "core/Packing.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>
#include <utility>

namespace fcdp::packing {

namespace {

/// Which of the gaps that hold a buffer it is put in.
enum class Fit { Lowest, Smallest };

/// Indices of buffers.
using Order = std::vector<size_t>;

struct Placed {
  int64_t offset, end;
  int64_t bornAt, freedAt;
};

int64_t alignTo(int64_t bytes, int64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

/// Buffers that no other buffer of the problem lives together with, but for
/// those that have to be somewhere.
class Group {
public:
  /// `fixed` are those, by offset.
  Group(const std::vector<Buffer> &buffers, int64_t alignment, Order members,
        Order fixed)
      : buffers(buffers), alignment(alignment), members(std::move(members)),
        fixed(std::move(fixed)), best(std::numeric_limits<int64_t>::max()) {}

  int64_t bound() const;
  /// Tries orders until the group needs `target` bytes at most.
  void place(int64_t target);
  /// What the group needs, and where its buffers are then.
  int64_t peak() const { return best; }
  void store(Packing &packing) const {
    for (size_t i = 0; i < members.size(); ++i)
      packing.offsets[bestOrder[i]] = bestOffsets[i];
  }

private:
  /// Bytes times lifetime, which may not fit in an integer.
  double area(size_t index) const {
    const Buffer &buffer = buffers[index];
    return static_cast<double>(buffer.bytes) *
           static_cast<double>(buffer.end - buffer.begin);
  }
  int64_t life(size_t index) const {
    return buffers[index].end - buffers[index].begin;
  }
  template <typename Key>
  Order sorted(Key key) const;
  size_t attempt(const Order &order, Fit fit);
  void repair(Order order, Fit fit, int64_t target);
  int64_t findGap(const Buffer &buffer, int64_t bytes, Fit fit) const;

  const std::vector<Buffer> &buffers;
  int64_t alignment;
  /// In the order of their begins.
  Order members;
  Order fixed;
  /// By ascending offset, while an order is tried.
  std::vector<Placed> placed;
  int64_t best;
  Order bestOrder;
  /// In that order.
  std::vector<int64_t> bestOffsets;
};

/// Buffers by ascending key, then by index.
template <typename Key>
Order Group::sorted(Key key) const {
  Order order = members;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    auto left = key(a), right = key(b);
    return left != right ? left < right : a < b;
  });
  return order;
}

int64_t Group::bound() const {
  std::vector<std::pair<int64_t, int64_t>> changes;
  int64_t live = 0, peak = 0;
  auto add = [&](size_t index) {
    int64_t bytes = alignTo(buffers[index].bytes, alignment);
    changes.push_back({buffers[index].begin, bytes});
    changes.push_back({buffers[index].end, -bytes});
    return bytes;
  };
  for (size_t index : members)
    add(index);
  for (size_t index : fixed)
    peak = std::max(peak, buffers[index].offset + add(index));
  // At one moment, ends come before begins.
  std::sort(changes.begin(), changes.end());
  for (auto [moment, bytes] : changes)
    peak = std::max(peak, live += bytes);
  return peak;
}

/// The offset of a gap of `bytes` between the placed buffers that live together
/// with `buffer`, or of the end of the last of them.
int64_t Group::findGap(const Buffer &buffer, int64_t bytes, Fit fit) const {
  int64_t best = -1, bestSize = std::numeric_limits<int64_t>::max(), end = 0;
  for (const Placed &other : placed) {
    if (other.freedAt <= buffer.begin || buffer.end <= other.bornAt)
      continue;
    int64_t size = other.offset - end;
    if (size >= bytes && size < bestSize) {
      if (fit == Fit::Lowest)
        return end;
      best = end;
      bestSize = size;
    }
    end = std::max(end, other.end);
  }
  return best < 0 ? end : best;
}

/// Places all buffers in `order`, and keeps that if nothing better is known.
/// Returns the position in `order` of the buffer that makes the peak.
size_t Group::attempt(const Order &order, Fit fit) {
  std::vector<int64_t> offsets;
  int64_t peak = 0;
  size_t atPeak = 0;
  placed.clear();
  for (size_t index : fixed) {
    const Buffer &buffer = buffers[index];
    int64_t end = buffer.offset + alignTo(buffer.bytes, alignment);
    placed.push_back({buffer.offset, end, buffer.begin, buffer.end});
    peak = std::max(peak, end);
  }
  for (size_t i = 0; i < order.size(); ++i) {
    const Buffer &buffer = buffers[order[i]];
    int64_t bytes = alignTo(buffer.bytes, alignment);
    int64_t offset = bytes == 0 ? 0 : findGap(buffer, bytes, fit);
    offsets.push_back(offset);
    if (bytes == 0)
      continue;
    if (offset + bytes > peak) {
      peak = offset + bytes;
      atPeak = i;
    }
    auto position = std::upper_bound(placed.begin(), placed.end(), offset,
                                     [](int64_t value, const Placed &other) {
                                       return value < other.offset;
                                     });
    placed.insert(position, {offset, offset + bytes, buffer.begin, buffer.end});
  }
  if (peak < best) {
    best = peak;
    bestOrder = order;
    bestOffsets = std::move(offsets);
  }
  return atPeak;
}

/// Starts over with the buffer that made the peak in front, as often as a
/// tenth of a second allows, until nothing changes.
void Group::repair(Order order, Fit fit, int64_t target) {
  constexpr double kMostChecks = 1e8;
  constexpr int kMostRounds = 64;
  double checks =
      static_cast<double>(order.size()) * static_cast<double>(order.size());
  for (int round = 0; round < kMostRounds; ++round) {
    if (best <= target || checks * (round + 1) > kMostChecks)
      return;
    auto worst = order.begin() + static_cast<int64_t>(attempt(order, fit));
    if (worst == order.begin())
      return;
    std::rotate(order.begin(), worst, worst + 1);
  }
}

void Group::place(int64_t target) {
  Order bySize = sorted([&](size_t i) { return -buffers[i].bytes; });
  Order byArea = sorted([&](size_t i) { return -area(i); });
  Order byLife = sorted([&](size_t i) { return -life(i); });
  Order byBegin = sorted(
      [&](size_t i) { return std::pair(buffers[i].begin, -buffers[i].bytes); });
  // Of many buffers, the last bytes are not worth the time.
  constexpr size_t kMany = 1000;
  constexpr int64_t kNear = 256;
  if (members.size() > kMany)
    target += target / kNear;
  attempt(bySize, Fit::Lowest);
  const std::pair<const Order &, Fit> others[] = {
      {byArea, Fit::Lowest}, {byLife, Fit::Lowest}, {byBegin, Fit::Smallest}};
  for (auto &[order, fit] : others)
    if (best > target)
      attempt(order, fit);
  repair(byBegin, Fit::Smallest, target);
  repair(byLife, Fit::Lowest, target);
  repair(bySize, Fit::Lowest, target);
  repair(byArea, Fit::Lowest, target);
}

/// What has to be somewhere, by offset, and the others.
struct Sorted {
  Order fixed, free;
};

Sorted sortBuffers(const std::vector<Buffer> &buffers) {
  Sorted sorted;
  for (size_t i = 0; i < buffers.size(); ++i)
    (buffers[i].offset >= 0 ? sorted.fixed : sorted.free).push_back(i);
  auto sortBy = [&](Order &order, auto key) {
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return std::pair(key(a), a) < std::pair(key(b), b);
    });
  };
  sortBy(sorted.fixed, [&](size_t i) { return buffers[i].offset; });
  sortBy(sorted.free, [&](size_t i) { return buffers[i].begin; });
  return sorted;
}

/// Cuts the problem where nothing lives that may be anywhere.
std::vector<Group> findGroups(const std::vector<Buffer> &buffers,
                              int64_t alignment, const Sorted &sorted) {
  const Order &order = sorted.free;
  std::vector<Group> groups;
  for (size_t first = 0; first < order.size();) {
    int64_t begin = buffers[order[first]].begin;
    int64_t end = buffers[order[first]].end;
    size_t last = first + 1;
    for (; last < order.size() && buffers[order[last]].begin < end; ++last)
      end = std::max(end, buffers[order[last]].end);
    Order around;
    std::copy_if(sorted.fixed.begin(), sorted.fixed.end(),
                 std::back_inserter(around), [&](size_t i) {
                   return buffers[i].begin < end && begin < buffers[i].end;
                 });
    groups.push_back(Group(buffers, alignment,
                           Order(order.begin() + static_cast<int64_t>(first),
                                 order.begin() + static_cast<int64_t>(last)),
                           std::move(around)));
    first = last;
  }
  return groups;
}

/// The greatest end of what has to be somewhere.
int64_t findEnd(const std::vector<Buffer> &buffers, int64_t alignment,
                const Order &fixed) {
  int64_t end = 0;
  for (size_t i : fixed)
    end =
        std::max(end, buffers[i].offset + alignTo(buffers[i].bytes, alignment));
  return end;
}

/// The greatest lower bound of the groups, or that end if greater.
int64_t findBound(const std::vector<Group> &groups, int64_t end) {
  int64_t bound = end;
  for (const Group &group : groups)
    bound = std::max(bound, group.bound());
  return bound;
}

} // namespace

int64_t lowerBound(const std::vector<Buffer> &buffers, int64_t alignment) {
  Sorted sorted = sortBuffers(buffers);
  return findBound(findGroups(buffers, alignment, sorted),
                   findEnd(buffers, alignment, sorted.fixed));
}

Packing pack(const std::vector<Buffer> &buffers, int64_t alignment) {
  Sorted sorted = sortBuffers(buffers);
  std::vector<Group> groups = findGroups(buffers, alignment, sorted);
  Packing packing;
  packing.offsets.resize(buffers.size());
  for (size_t index : sorted.fixed)
    packing.offsets[index] = buffers[index].offset;
  packing.peak = findEnd(buffers, alignment, sorted.fixed);
  // No group gains by needing less than the one that needs most.
  int64_t target = findBound(groups, packing.peak);
  for (Group &group : groups) {
    group.place(target);
    group.store(packing);
    packing.peak = std::max(packing.peak, group.peak());
  }
  return packing;
}

} // namespace fcdp::packing
