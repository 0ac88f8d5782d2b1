// SPDX-License-Identifier: Apache-2.0
#include "core/PlacedBuffers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

using namespace fcdp::packing;

namespace {

/// Looks at all placed buffers.
int64_t findGapSlowly(std::vector<PlacedBuffer> placed, Lifetime life,
                      int64_t bytes, Fit fit) {
  std::sort(placed.begin(), placed.end(),
            [](const PlacedBuffer &a, const PlacedBuffer &b) {
              return a.offset < b.offset;
            });
  int64_t best = -1, bestSize = std::numeric_limits<int64_t>::max(), end = 0;
  for (const PlacedBuffer &other : placed) {
    if (other.life.end <= life.begin || life.end <= other.life.begin)
      continue;
    int64_t size = other.offset - end;
    if (size >= bytes && size < bestSize) {
      best = end;
      bestSize = fit == Fit::Lowest ? 0 : size;
    }
    end = std::max(end, other.end);
  }
  return best < 0 ? end : best;
}

/// Many short lifetimes and a few of any length, as in a training step.
Lifetime makeLifetime(std::mt19937 &random, int32_t moments) {
  bool isShort = random() % 8 != 0;
  auto begin = static_cast<int32_t>(random() % static_cast<uint32_t>(moments));
  int32_t longest = isShort ? std::min(moments - begin, 20) : moments - begin;
  return {begin,
          begin + 1 +
              static_cast<int32_t>(random() % static_cast<uint32_t>(longest))};
}

} // namespace

TEST(PlacedBuffers, FindsTheGapsThatAScanOfAllFinds) {
  std::mt19937 random(1);
  for (int32_t moments : {1, 63, 129, 1000, 9000}) {
    PlacedBuffers placed(moments, 600);
    for (Fit fit : {Fit::Lowest, Fit::Smallest}) {
      placed.clear();
      std::vector<PlacedBuffer> all;
      for (int i = 0; i < 600; ++i) {
        Lifetime life = makeLifetime(random, moments);
        int64_t bytes = 64 * (1 + static_cast<int64_t>(random() % 16));
        int64_t offset = placed.findGap(life, bytes, fit);
        ASSERT_EQ(offset, findGapSlowly(all, life, bytes, fit));
        all.push_back({offset, offset + bytes, life});
        placed.insert(all.back());
      }
    }
  }
}
