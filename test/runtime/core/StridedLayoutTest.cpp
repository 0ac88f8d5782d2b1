// SPDX-License-Identifier: Apache-2.0
#include "core/StridedLayout.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

using namespace fcdp;

namespace {

/// Copies a part of a tensor whose storage holds 0, 1, 2, ...
std::vector<int> copyOf(const StridedLayout &layout, int64_t first,
                        int64_t count) {
  std::vector<int> storage(measure(layout)->end), copied(count, -1);
  std::iota(storage.begin(), storage.end(), 0);
  copyElements(layout, sizeof(int),
               reinterpret_cast<const std::byte *>(storage.data()), first,
               count, reinterpret_cast<std::byte *>(copied.data()));
  return copied;
}

} // namespace

TEST(StridedLayout, MeasuresElementsAndWhereTheyEnd) {
  std::optional<StridedExtent> transposed = measure({{2, 3}, {1, 2}, 5});
  ASSERT_TRUE(transposed);
  EXPECT_EQ(transposed->elements, 6);
  EXPECT_EQ(transposed->end, 11);
  EXPECT_EQ(measure({{}, {}, 7})->elements, 1);
  EXPECT_EQ(measure({{}, {}, 7})->end, 8);
  EXPECT_EQ(measure({{4, 0}, {1, 1}, 0})->elements, 0);
}

TEST(StridedLayout, RefusesNumbersThatDoNotFit) {
  int64_t most = INT64_MAX;
  EXPECT_FALSE(measure({{most, most}, {1, 1}, 0}));
  EXPECT_FALSE(measure({{most}, {most}, 0}));
  EXPECT_FALSE(measure({{2}, {1}, most}));
}

TEST(StridedLayout, ContiguousStridesAreRowMajor) {
  EXPECT_EQ(contiguousStrides({2, 3, 4}), (std::vector<int64_t>{12, 4, 1}));
  EXPECT_TRUE(contiguousStrides({}).empty());
}

TEST(StridedLayout, CopiesInRowMajorOrder) {
  StridedLayout transposed{{2, 3}, {1, 2}, 5};
  EXPECT_EQ(copyOf(transposed, 0, 6), (std::vector<int>{5, 7, 9, 6, 8, 10}));
  EXPECT_EQ(copyOf(transposed, 2, 3), (std::vector<int>{9, 6, 8}));
}

TEST(StridedLayout, CopiesRunsAcrossTheirEnds) {
  StridedLayout rows{{3, 2, 2}, {8, 2, 1}, 1};
  EXPECT_EQ(copyOf(rows, 3, 6), (std::vector<int>{4, 9, 10, 11, 12, 17}));
}

TEST(StridedLayout, RepeatsAnElementOfStrideZero) {
  EXPECT_EQ(copyOf({{3}, {0}, 2}, 0, 3), (std::vector<int>{2, 2, 2}));
}
