// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Support/Units.h"

#include "gtest/gtest.h"

using namespace fcdp;

TEST(UnitsTest, bytes) {
  EXPECT_EQ(formatBytes(0), "0 B");
  EXPECT_EQ(formatBytes(999), "999 B");
  EXPECT_EQ(formatBytes(40000000), "40 MB");
  EXPECT_EQ(formatBytes(1536), "1.54 kB");
}

TEST(UnitsTest, seconds) {
  EXPECT_EQ(formatSeconds(0), "0 ns");
  EXPECT_EQ(formatSeconds(1.2), "1.2 s");
  EXPECT_EQ(formatSeconds(3.5e-4), "350 us");
  EXPECT_EQ(formatSeconds(12345), "1.23e+04 s");
}
