// SPDX-License-Identifier: Apache-2.0

#include "core/Backend.h"

#include <gtest/gtest.h>

using namespace fcdp;

TEST(DType, SizesAndNamesAreThoseOfThePlan) {
  struct Expected {
    DType type;
    const char *name;
    size_t bytes;
  } const all[] = {{DType::F16, "f16", 2}, {DType::BF16, "bf16", 2},
                   {DType::F32, "f32", 4}, {DType::F64, "f64", 8},
                   {DType::I8, "i8", 1},   {DType::I16, "i16", 2},
                   {DType::I32, "i32", 4}, {DType::I64, "i64", 8},
                   {DType::U8, "u8", 1},   {DType::Bool, "bool", 1}};
  for (const Expected &expected : all) {
    EXPECT_STREQ(name(expected.type), expected.name);
    EXPECT_EQ(byteSize(expected.type), expected.bytes) << expected.name;
  }
}
