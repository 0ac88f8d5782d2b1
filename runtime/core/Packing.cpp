// SPDX-License-Identifier: Apache-2.0
#include "core/Packing.h"

#include "core/PlacedBuffers.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>
#include <utility>

namespace fcdp::packing {

namespace {

/// Indices of buffers.
using Order = std::vector<size_t>;

/// A way to place the buffers of a group: one by one, in a certain order.
struct Attempt {
  Order order;
  Fit fit;
  /// The position in `order` of the buffer that determines the peak.
  size_t atPeak = 0;
};

int64_t alignTo(int64_t bytes, int64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

/// A group of buffers. No other buffer of the problem, except for those with a
/// required offset, is in use at the same time as one of them.
class Group {
public:
  /// `fixed` are the buffers with a required offset, in order of that offset.
  Group(const std::vector<Buffer> &buffers, int64_t alignment, Order members,
        Order fixed)
      : buffers(buffers), alignment(alignment), members(std::move(members)),
        fixed(std::move(fixed)), best(std::numeric_limits<int64_t>::max()) {}

  int64_t bound() const;
  /// Tries orders until the group needs at most `target` bytes. `lives` has the
  /// lifetimes of all buffers of the problem.
  void place(int64_t target, const std::vector<Lifetime> &lives, Effort effort);
  /// Returns the bytes that the group needs.
  int64_t peak() const { return best; }
  void store(Packing &packing) const {
    packing.attempts += attempts;
    for (size_t i = 0; i < members.size(); ++i)
      packing.offsets[bestOrder[i]] = bestOffsets[i];
  }

private:
  /// Returns bytes times lifetime as a double, since the product may overflow.
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
  void countMoments(const std::vector<Lifetime> &all);
  Lifetime getLife(size_t index) const;
  int64_t placeFixed();
  void attempt(Attempt &one);
  void repair(Attempt attempted, int64_t target);

  const std::vector<Buffer> &buffers;
  int64_t alignment;
  /// The buffers by ascending begin.
  Order members;
  Order fixed;
  const std::vector<Lifetime> *lives = nullptr;
  /// The moments of the group.
  Lifetime span = {0, 0};
  /// The buffers that have a place while an order is tried.
  PlacedBuffers placed;
  int64_t best;
  int64_t attempts = 0;
  Order bestOrder;
  /// Offsets in the order of `bestOrder`.
  std::vector<int64_t> bestOffsets;
};

/// Returns the buffers by ascending key, then by index.
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
  // At equal moments, ends sort before begins.
  std::sort(changes.begin(), changes.end());
  for (auto [moment, bytes] : changes)
    peak = std::max(peak, live += bytes);
  return peak;
}

/// Returns the part of a buffer's lifetime within the group's.
Lifetime Group::getLife(size_t index) const {
  Lifetime life = (*lives)[index];
  return {std::max(life.begin, span.begin) - span.begin,
          std::min(life.end, span.end) - span.begin};
}

void Group::countMoments(const std::vector<Lifetime> &all) {
  lives = &all;
  span = all[members.front()];
  for (size_t index : members)
    span.end = std::max(span.end, all[index].end);
  placed = PlacedBuffers(span.end - span.begin, fixed.size() + members.size());
}

/// Begins with the buffers that have a required offset. Returns their end.
int64_t Group::placeFixed() {
  placed.clear();
  int64_t last = 0;
  for (size_t index : fixed) {
    const Buffer &buffer = buffers[index];
    int64_t end = buffer.offset + alignTo(buffer.bytes, alignment);
    placed.insert({buffer.offset, end, getLife(index)});
    last = std::max(last, end);
  }
  return last;
}

/// Places all buffers in the order of `one`, and keeps the result if it is the
/// best so far.
void Group::attempt(Attempt &one) {
  ++attempts;
  const Order &order = one.order;
  std::vector<int64_t> offsets;
  offsets.reserve(order.size());
  int64_t peak = placeFixed();
  one.atPeak = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    int64_t bytes = alignTo(buffers[order[i]].bytes, alignment);
    Lifetime life = getLife(order[i]);
    int64_t offset = bytes == 0 ? 0 : placed.findGap(life, bytes, one.fit);
    offsets.push_back(offset);
    if (bytes == 0)
      continue;
    if (offset + bytes > peak) {
      peak = offset + bytes;
      one.atPeak = i;
    }
    placed.insert({offset, offset + bytes, life});
  }
  if (peak < best) {
    best = peak;
    bestOrder = order;
    bestOffsets = std::move(offsets);
  }
}

/// Starts over with the buffer that determined the peak at the front, until
/// nothing changes, or up to a number of times that takes about a tenth of a
/// second if all placed buffers are checked for each. `attempted` is an attempt
/// that was made.
void Group::repair(Attempt attempted, int64_t target) {
  constexpr double kMostChecks = 1e8;
  constexpr int kMostRounds = 64;
  Order &order = attempted.order;
  double checks =
      static_cast<double>(order.size()) * static_cast<double>(order.size());
  for (int round = 0; round < kMostRounds; ++round) {
    if (best <= target || checks * (round + 1) > kMostChecks)
      return;
    if (round > 0)
      attempt(attempted);
    if (attempted.atPeak == 0)
      return;
    auto worst = order.begin() + static_cast<int64_t>(attempted.atPeak);
    std::rotate(order.begin(), worst, worst + 1);
  }
}

void Group::place(int64_t target, const std::vector<Lifetime> &lives,
                  Effort effort) {
  countMoments(lives);
  auto bytes = [&](size_t i) { return -buffers[i].bytes; };
  auto begin = [&](size_t i) { return std::pair(buffers[i].begin, bytes(i)); };
  Attempt bySize = {sorted(bytes), Fit::Lowest};
  Attempt byArea = {sorted([&](size_t i) { return -area(i); }), Fit::Lowest};
  Attempt byLife = {sorted([&](size_t i) { return -life(i); }), Fit::Lowest};
  Attempt byBegin = {sorted(begin), Fit::Smallest};
  // With many buffers, the search is cut short, because it saves few bytes.
  constexpr size_t kMany = 1000;
  constexpr int64_t kNear = 256;
  if (members.size() > kMany)
    target += target / kNear;
  for (Attempt *one : {&bySize, &byArea, &byLife, &byBegin})
    if (best > target)
      attempt(*one);
  if (effort == Effort::Full)
    for (Attempt *one : {&byBegin, &byLife, &bySize, &byArea})
      repair(std::move(*one), target);
  placed = PlacedBuffers(); // other groups need their own
}

/// Returns the lifetime of each buffer in moments, which are the begins of all
/// buffers, in order. Two buffers share a moment if, and only if, they are in
/// use at the same time.
std::vector<Lifetime> findLifetimes(const std::vector<Buffer> &buffers) {
  std::vector<int64_t> begins;
  for (const Buffer &buffer : buffers)
    begins.push_back(buffer.begin);
  std::sort(begins.begin(), begins.end());
  begins.erase(std::unique(begins.begin(), begins.end()), begins.end());
  auto count = [&](int64_t time) {
    return static_cast<int32_t>(
        std::lower_bound(begins.begin(), begins.end(), time) - begins.begin());
  };
  std::vector<Lifetime> lives;
  for (const Buffer &buffer : buffers)
    lives.push_back({count(buffer.begin), count(buffer.end)});
  return lives;
}

/// The buffers with a required offset, by that offset, and the others, by their
/// begin.
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

/// Splits the problem where only buffers with a required offset are in use.
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

/// Returns the greatest end of the buffers with a required offset.
int64_t findEnd(const std::vector<Buffer> &buffers, int64_t alignment,
                const Order &fixed) {
  int64_t end = 0;
  for (size_t i : fixed)
    end =
        std::max(end, buffers[i].offset + alignTo(buffers[i].bytes, alignment));
  return end;
}

/// Returns the greatest lower bound of the groups, or `end` if greater.
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

Packing pack(const std::vector<Buffer> &buffers, int64_t alignment,
             Effort effort) {
  Sorted sorted = sortBuffers(buffers);
  std::vector<Group> groups = findGroups(buffers, alignment, sorted);
  Packing packing;
  packing.offsets.resize(buffers.size());
  for (size_t index : sorted.fixed)
    packing.offsets[index] = buffers[index].offset;
  packing.peak = findEnd(buffers, alignment, sorted.fixed);
  // Only the greatest group matters, so no group has to use less than the
  // target.
  int64_t target = findBound(groups, packing.peak);
  std::vector<Lifetime> lives = findLifetimes(buffers);
  for (Group &group : groups) {
    group.place(target, lives, effort);
    group.store(packing);
    packing.peak = std::max(packing.peak, group.peak());
  }
  return packing;
}

} // namespace fcdp::packing
