// SPDX-License-Identifier: Apache-2.0

#include "streams/WorkQueue.h"

#include <gtest/gtest.h>
#include <thread>

using namespace fcdp;

static Command copyOf(size_t bytes) {
  Command command;
  command.kind = Command::Kind::Copy;
  command.copy = {nullptr, nullptr, bytes};
  return command;
}

TEST(WorkQueue, IsFullAtItsCapacityAndEmptyAfterwards) {
  WorkQueue queue(4);
  EXPECT_TRUE(queue.empty());
  for (size_t i = 0; i < 4; ++i)
    EXPECT_TRUE(queue.tryPush(copyOf(i)));
  EXPECT_TRUE(queue.full());
  EXPECT_FALSE(queue.tryPush(copyOf(4)));
  Command command;
  for (size_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(queue.tryPop(command));
    EXPECT_EQ(command.copy.bytes, i);
  }
  EXPECT_FALSE(queue.tryPop(command));
}

TEST(WorkQueue, KeepsTheOrderBetweenTwoThreads) {
  constexpr size_t count = 100000;
  WorkQueue queue(8);
  std::thread producer([&] {
    for (size_t i = 0; i < count; ++i)
      while (!queue.tryPush(copyOf(i)))
        std::this_thread::yield();
  });
  Command command;
  size_t wrong = 0;
  for (size_t i = 0; i < count; ++i) {
    while (!queue.tryPop(command))
      std::this_thread::yield();
    wrong += command.copy.bytes != i;
  }
  producer.join();
  EXPECT_EQ(wrong, 0u);
}
