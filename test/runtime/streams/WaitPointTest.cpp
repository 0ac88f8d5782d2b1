// SPDX-License-Identifier: Apache-2.0

#include "streams/WaitPoint.h"

#include <gtest/gtest.h>
#include <thread>

using namespace fcdp;

// Two threads pass a number back and forth. A lost wake-up would hang.
TEST(WaitPoint, LosesNoWakeUp) {
  constexpr int rounds = 20000;
  WaitPoint point;
  std::atomic<int> turn{0};
  std::thread other([&] {
    for (int i = 0; i < rounds; ++i) {
      point.wait([&] { return turn.load() == 2 * i + 1; });
      turn.store(2 * i + 2);
      point.notify();
    }
  });
  for (int i = 0; i < rounds; ++i) {
    turn.store(2 * i + 1);
    point.notify();
    point.wait([&] { return turn.load() == 2 * i + 2; });
  }
  other.join();
  EXPECT_EQ(turn.load(), 2 * rounds);
}

// Waits longer than the spin time, so that the thread sleeps.
TEST(WaitPoint, WakesASleeper) {
  WaitPoint point;
  std::atomic<bool> ready{false};
  std::thread other([&] { point.wait([&] { return ready.load(); }); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ready.store(true);
  point.notify();
  other.join();
}
