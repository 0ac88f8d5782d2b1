// SPDX-License-Identifier: Apache-2.0
#include "policy/NodeMean.h"

#include "core/Pieces.h"

#include <algorithm>
#include <cstring>
#include <gtest/gtest.h>
#include <vector>

using namespace fcdp;

namespace {

/// Returns the mean of values of two nodes, of which this is the first.
template <typename T>
std::vector<T> meanOf(DType type, const std::vector<T> &own,
                      const std::vector<T> &other) {
  std::vector<T> mean(own.size());
  size_t done = 0;
  writeNodeMean(
      2, type, std::as_bytes(std::span(own)),
      std::as_writable_bytes(std::span(mean)).data(),
      [&](std::span<const std::byte> piece, std::span<std::byte> all) {
        ASSERT_EQ(all.size(), 2 * piece.size());
        std::copy(piece.begin(), piece.end(), all.begin());
        std::memcpy(all.data() + piece.size(),
                    std::as_bytes(std::span(other)).data() + done,
                    piece.size());
        done += piece.size();
      });
  EXPECT_EQ(done, own.size() * sizeof(T));
  return mean;
}

TEST(NodeMeanTest, IsTakenOfEveryPiece) {
  // Three pieces, of which the last is shorter.
  SmallPieces small(3);
  const std::vector<float> own = {1, 2, 3, 4, 5, 6, 7, 8},
                           other = {3, 2, 9, 4, 1, 0, 7, 10};
  EXPECT_EQ(meanOf(DType::F32, own, other),
            (std::vector<float>{2, 2, 6, 4, 3, 3, 7, 9}));
}

TEST(NodeMeanTest, IsRoundedOnce) {
  // In f32 the sum of the greatest numbers would be infinite.
  const float most = 3.4028234663852886e38F;
  EXPECT_EQ(meanOf<float>(DType::F32, {most}, {most})[0], most);
  // 1 and 1 + 2^-7 in bf16: their mean is a tie, which is rounded to even.
  EXPECT_EQ(meanOf<uint16_t>(DType::BF16, {0x3f80}, {0x3f81})[0], 0x3f80);
}

} // namespace
