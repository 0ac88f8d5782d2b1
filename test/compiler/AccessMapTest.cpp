// SPDX-License-Identifier: Apache-2.0
//
// The proof of a plan knows which bytes blocks of nested values share.

#include "Verification/AccessMap.h"
#include "gtest/gtest.h"

using namespace fcdp;

namespace {

constexpr size_t kStream = 0;
constexpr uint8_t kInner = 1, kAround = 2, kRest = 4;

/// All bytes of an arena that a block of that shape has in `planes`.
Extent planesOf(int32_t shape, uint8_t planes) {
  return {0, 64, planes, shape};
}

std::vector<int32_t> contentsOf(AccessMap &map, const Extent &extent) {
  std::vector<int32_t> found;
  map.visitContents(extent, [&](int32_t content) {
    found.push_back(content);
    return true;
  });
  return found;
}

/// Each byte may be in any plane of another block, so it has a content that is
/// known only if all planes had it.
TEST(AccessMapTest, AnotherBlockHasAContentOnlyIfAllPlanesHadIt) {
  for (int32_t last : {7, 8}) {
    AccessMap map(64);
    map.write(planesOf(1, kInner | kAround), kStream, 1, 7);
    map.write(planesOf(1, kRest), kStream, 2, last);
    EXPECT_EQ(contentsOf(map, planesOf(1, kRest)), std::vector{last});
    map.write(planesOf(2, kInner), kStream, 3, 9);
    EXPECT_EQ(contentsOf(map, planesOf(2, kInner)), std::vector{9});
    EXPECT_EQ(contentsOf(map, planesOf(2, kAround)),
              std::vector{last == 7 ? 7 : 0});
  }
}

} // namespace
