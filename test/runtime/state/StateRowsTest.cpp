// SPDX-License-Identifier: Apache-2.0
#include "state/StateRows.h"

#include <gtest/gtest.h>

using namespace fcdp;

namespace {

/// The first element and the number of elements of each rank.
std::vector<std::pair<int64_t, int64_t>> rowsOfRanks(const Shape &shape,
                                                     uint32_t ranks) {
  std::vector<std::pair<int64_t, int64_t>> found;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    ElementRange rows = rowsOf(shape, rank, ranks);
    found.emplace_back(rows.first, rows.count);
  }
  return found;
}

using Rows = std::vector<std::pair<int64_t, int64_t>>;

} // namespace

// torch.chunk: equal chunks, rounded up, and what is left for the last.
TEST(StateRows, AreThoseOfTorchChunk) {
  EXPECT_EQ(rowsOfRanks({8, 2}, 4), (Rows{{0, 4}, {4, 4}, {8, 4}, {12, 4}}));
  EXPECT_EQ(rowsOfRanks({10, 3}, 4), (Rows{{0, 9}, {9, 9}, {18, 9}, {27, 3}}));
}

TEST(StateRows, MayBeNone) {
  EXPECT_EQ(rowsOfRanks({3}, 4), (Rows{{0, 1}, {1, 1}, {2, 1}, {3, 0}}));
  EXPECT_EQ(rowsOfRanks({5}, 4), (Rows{{0, 2}, {2, 2}, {4, 1}, {5, 0}}));
  EXPECT_EQ(rowsOfRanks({0, 2}, 2), (Rows{{0, 0}, {0, 0}}));
  EXPECT_EQ(rowsOfRanks({2, 0}, 2), (Rows{{0, 0}, {0, 0}}));
}

TEST(StateRows, OfATensorWithoutDimensionsAreTheWhole) {
  EXPECT_EQ(rowsOfRanks({}, 3), (Rows{{0, 1}, {0, 1}, {0, 1}}));
}
