// SPDX-License-Identifier: Apache-2.0
#include "inputs/ReadAhead.h"

#include <atomic>
#include <chrono>
#include <gtest/gtest.h>
#include <stdexcept>
#include <string>

using namespace fcdp::run;

namespace {

/// Two inputs of one byte: the micro-batch's number, and 100 more.
class ReadAheadTest : public ::testing::Test {
protected:
  ReadAhead::Read reader() {
    return [this](size_t input, int64_t number, std::span<std::byte> out) {
      if (number == broken)
        throw std::runtime_error("micro-batch " + std::to_string(number));
      if (input == 0)
        memory = out.data();
      out[0] = std::byte(number + 100 * input);
      if (input == 1)
        lastRead = number;
    };
  }

  static int take(ReadAhead &ahead, size_t input) {
    std::byte out{};
    ahead.take(input, std::span(&out, 1));
    return int(out);
  }

  /// Returns whether the micro-batch is read soon.
  bool isReadSoon(int64_t number) const {
    auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (lastRead < number && std::chrono::steady_clock::now() < end)
      std::this_thread::yield();
    return lastRead >= number;
  }

  int64_t broken = -1;
  std::atomic<int64_t> lastRead = -1;
  std::atomic<const void *> memory = nullptr;
};

TEST_F(ReadAheadTest, GivesAllMicroBatchesInOrder) {
  ReadAhead ahead({1, 1}, 7, 90, reader());
  for (int number = 7; number <= 90; ++number) {
    EXPECT_EQ(take(ahead, 0), number);
    EXPECT_EQ(take(ahead, 1), number + 100);
  }
}

TEST_F(ReadAheadTest, ReadsTheNextOneUnasked) {
  ReadAhead ahead({1, 1}, 0, 9, reader());
  EXPECT_TRUE(isReadSoon(0));
  const void *first = memory;
  for (int number = 0; number < 3; ++number) {
    take(ahead, 0);
    // The micro-batch is in use.
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_EQ(lastRead, number);
    take(ahead, 1);
    EXPECT_TRUE(isReadSoon(number + 1));
    EXPECT_EQ(memory, first);
  }
}

TEST_F(ReadAheadTest, AnErrorIsThatOfItsMicroBatch) {
  broken = 2;
  ReadAhead ahead({1, 1}, 0, 9, reader());
  for (int number = 0; number < 2; ++number)
    for (size_t input : {0, 1})
      EXPECT_EQ(take(ahead, input), number + 100 * int(input));
  for (int i = 0; i < 2; ++i)
    try {
      take(ahead, 0);
      FAIL() << "expected an error";
    } catch (const std::runtime_error &error) {
      EXPECT_STREQ(error.what(), "micro-batch 2");
    }
}

TEST_F(ReadAheadTest, InspectsWhatWasRead) {
  broken = 3;
  ReadAhead ahead({1, 1}, 0, 9, reader(), [](const ReadAhead::Buffers &read) {
    return fcdp::StepNeeds{uint32_t(read[0][0]) + uint32_t(read[1][0]), 0};
  });
  for (int number = 0; number < 3; ++number) {
    EXPECT_EQ(ahead.inspected().variant, uint32_t(2 * number + 100));
    EXPECT_EQ(take(ahead, 0), number);
    EXPECT_EQ(ahead.inspected().variant, uint32_t(2 * number + 100));
    take(ahead, 1);
  }
  EXPECT_THROW(ahead.inspected(), std::runtime_error);
}

TEST_F(ReadAheadTest, MayEndAtAnyTime) {
  for (int taken = 0; taken < 4; ++taken) {
    ReadAhead ahead({1, 1}, 0, 2, reader());
    for (int i = 0; i < taken; ++i)
      take(ahead, i % 2);
  }
}

} // namespace
