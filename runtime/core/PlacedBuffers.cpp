// SPDX-License-Identifier: Apache-2.0
#include "core/PlacedBuffers.h"

#include <algorithm>
#include <limits>

namespace fcdp::packing {

namespace {
/// The distance in moments between the begins of the shortest windows, and the
/// factor by which it grows from one length to the next.
constexpr int32_t kShortest = 64, kGrowth = 32;
} // namespace

PlacedBuffers::PlacedBuffers(int32_t moments, size_t buffers) {
  placed.reserve(buffers);
  for (int32_t stride = kShortest; stride < moments / 2; stride *= kGrowth) {
    auto windows = static_cast<size_t>((moments + stride - 1) / stride);
    levels.push_back({stride, std::vector<Window>(windows)});
  }
}

void PlacedBuffers::clear() {
  placed.clear();
  all.clear();
  for (Level &level : levels)
    for (Window &window : level.windows)
      window.clear();
}

void PlacedBuffers::insert(Window &window, uint32_t index) {
  auto position =
      std::upper_bound(window.begin(), window.end(), placed[index].offset,
                       [&](int64_t offset, uint32_t other) {
                         return offset < placed[other].offset;
                       });
  window.insert(position, index);
}

void PlacedBuffers::insert(const PlacedBuffer &buffer) {
  auto index = static_cast<uint32_t>(placed.size());
  placed.push_back(buffer);
  insert(all, index);
  for (Level &level : levels) {
    // A window also covers the stride after the one that it begins with.
    int32_t first = std::max(buffer.life.begin / level.stride - 1, 0);
    int32_t last = (buffer.life.end - 1) / level.stride;
    for (int32_t window = first; window <= last; ++window)
      insert(level.windows[static_cast<size_t>(window)], index);
  }
}

const PlacedBuffers::Window &PlacedBuffers::getWindow(Lifetime life) const {
  for (const Level &level : levels)
    if (life.end - life.begin <= level.stride)
      return level.windows[static_cast<size_t>(life.begin / level.stride)];
  return all;
}

int64_t PlacedBuffers::findGap(Lifetime life, int64_t bytes, Fit fit) const {
  int64_t best = -1, bestSize = std::numeric_limits<int64_t>::max(), end = 0;
  for (uint32_t index : getWindow(life)) {
    const PlacedBuffer &other = placed[index];
    if (other.life.end <= life.begin || life.end <= other.life.begin)
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

} // namespace fcdp::packing
