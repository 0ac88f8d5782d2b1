// SPDX-License-Identifier: Apache-2.0

#include "cpu/MemoryLimit.h"

#include <gtest/gtest.h>

using namespace fcdp;

TEST(MemoryLimit, IsPlausible) {
  EXPECT_GT(availableMemory(), uint64_t(1) << 20);
  EXPECT_LT(availableMemory(), uint64_t(1) << 50);
}
