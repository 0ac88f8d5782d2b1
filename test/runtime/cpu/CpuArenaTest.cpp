// SPDX-License-Identifier: Apache-2.0

#include "cpu/CpuArena.h"

#include <gtest/gtest.h>
#include <stdexcept>
#include <string>

using namespace fcdp;

TEST(CpuArena, IsAlignedAndZero) {
  CpuArena arena(10000);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(arena.base()) % 4096, 0u);
  for (size_t i = 0; i < arena.size(); ++i)
    ASSERT_EQ(arena.base()[i], std::byte(0));
}

TEST(CpuArena, GrowsWhereItIs) {
  CpuArena arena(10000);
  std::byte *base = arena.base();
  base[0] = std::byte(7);
  arena.grow(5000);
  EXPECT_EQ(arena.size(), 10000u);
  arena.grow(1 << 20);
  EXPECT_EQ(arena.size(), 1u << 20);
  EXPECT_EQ(arena.base(), base);
  EXPECT_EQ(base[0], std::byte(7));
  EXPECT_EQ(base[arena.size() - 1], std::byte(0));
  EXPECT_THROW(arena.grow(uint64_t(1) << 50), std::runtime_error);
}

TEST(CpuArena, RefusesMoreThanThereIs) {
  try {
    CpuArena arena(uint64_t(1) << 50);
    FAIL() << "a PiB was had";
  } catch (const std::runtime_error &error) {
    EXPECT_NE(std::string(error.what()).find("1125899906842624 bytes"),
              std::string::npos)
        << error.what();
  }
}
