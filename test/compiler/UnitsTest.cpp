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

TEST(UnitsTest, integers) {
  EXPECT_EQ(parseInteger("0"), 0);
  EXPECT_EQ(parseInteger("-12"), -12);
  EXPECT_EQ(parseInteger("9223372036854775807"), INT64_MAX);
  EXPECT_EQ(parseInteger("1e6"), 1000000);
  EXPECT_EQ(parseInteger("1.5E9"), 1500000000);
  EXPECT_EQ(parseInteger("-2e3"), -2000);
}

TEST(UnitsTest, textsThatAreNoIntegers) {
  for (const char *text :
       {"", "e", "e3", "1e", "1.5", "2.0", "1e-1", "2.5e0", "1e16", "1e400",
        "nan", "1e6 ", "1e6x", "0x1e1", "9223372036854775808"})
    EXPECT_EQ(parseInteger(text), std::nullopt) << text;
}
