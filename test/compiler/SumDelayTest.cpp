// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Analysis/SumDelay.h"

#include "dialects/Aten/Aten.h"
#include "fcdp/Analysis/GradientSums.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

#include <limits>

using namespace mlir;
using namespace fcdp;

TEST(SumDelayTest, SumsWaitForAsManyUnitsAsMayBeReducedAtOnce) {
  EXPECT_EQ(findSumPlace(0, 1, 5), 1u);
  EXPECT_EQ(findSumPlace(0, 2, 5), 2u);
  EXPECT_EQ(findSumPlace(2, 2, 5), 4u);
}

TEST(SumDelayTest, TheLastSumsRemainForTheEnd) {
  EXPECT_EQ(findSumPlace(3, 2, 5), 5u);
  EXPECT_EQ(findSumPlace(4, 1, 5), 5u);
  EXPECT_EQ(findSumPlace(0, 9, 5), 5u);
  EXPECT_EQ(findSumPlace(4, std::numeric_limits<size_t>::max(), 5), 5u);
}

/// The reductions of at most `inFlight` units are not accumulated at any time,
/// and sums keep the order of their reductions.
TEST(SumDelayTest, BoundsTheReductionsInFlight) {
  constexpr size_t units = 7;
  for (size_t inFlight = 1; inFlight <= units + 1; ++inFlight) {
    size_t before = 0;
    for (size_t unit = 0; unit < units; ++unit) {
      size_t place = findSumPlace(unit, inFlight, units), pending = 0;
      EXPECT_GT(place, unit);
      EXPECT_GE(place, before);
      before = place;
      for (size_t other = 0; other <= unit; ++other)
        pending += findSumPlace(other, inFlight, units) > unit;
      EXPECT_EQ(pending, std::min(unit + 1, inFlight));
    }
  }
}
