// SPDX-License-Identifier: Apache-2.0
//
// The rule of captures in the cases that the fake libcudart does not have:
// streams that join a capture, and modes other than the relaxed one.

#include "Captures.h"

#include <gtest/gtest.h>

using namespace fcdp::contracts;

namespace {

class CaptureRule : public testing::Test {
protected:
  std::vector<Violation> found;
  Captures captures{[this](const Violation &one) { found.push_back(one); }};
  const Handle a = reinterpret_cast<Handle>(0x10),
               b = reinterpret_cast<Handle>(0x20),
               fork = reinterpret_cast<Handle>(0x30),
               join = reinterpret_cast<Handle>(0x40);
  const std::thread::id own = std::this_thread::get_id(), other{};

  /// Stream b joins the capture of a and gets work. a waits for it if `joins`.
  void captureTwoStreams(bool joins, bool worksBehind = false) {
    captures.begin(a, CaptureMode::Relaxed, own);
    captures.record(fork, a);
    EXPECT_TRUE(captures.wait(b, fork));
    captures.add(b, {"work", {}});
    captures.record(join, b);
    if (worksBehind)
      captures.add(b, {"work", {}});
    if (joins)
      captures.wait(a, join);
    captures.end(a, own);
  }
};

} // namespace

TEST_F(CaptureRule, AStreamThatIsNotJoinedIsFound) {
  captureTwoStreams(false);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].found, "work that is not joined");
  EXPECT_FALSE(captures.isCaptured(a));
  EXPECT_FALSE(captures.isCaptured(b));
}

TEST_F(CaptureRule, WorkBehindTheJoinIsFound) {
  captureTwoStreams(true, true);
  EXPECT_EQ(found.size(), 1u);
}

TEST_F(CaptureRule, DontReportAStreamThatIsJoined) {
  captureTwoStreams(true);
  EXPECT_TRUE(found.empty());
}

TEST_F(CaptureRule, AllocationsInOtherModesAreFound) {
  captures.begin(a, CaptureMode::ThreadLocal, own);
  captures.requireSafe(own, CaptureMode::Global);
  EXPECT_EQ(found.size(), 1u);
  captures.end(a, own);
  captures.begin(a, CaptureMode::Global, other);
  captures.requireSafe(own, CaptureMode::Global);
  EXPECT_EQ(found.size(), 2u);
}

TEST_F(CaptureRule, DontReportAllocationsThatAreAllowed) {
  captures.begin(a, CaptureMode::Relaxed, own);
  captures.requireSafe(own, CaptureMode::Global);
  captures.begin(b, CaptureMode::ThreadLocal, other);
  captures.requireSafe(own, CaptureMode::Global);
  captures.requireSafe(other, CaptureMode::Relaxed);
  EXPECT_TRUE(found.empty());
}

TEST_F(CaptureRule, ACapturedEventIsNotQueried) {
  captures.begin(a, CaptureMode::Relaxed, own);
  captures.record(fork, a);
  captures.requireEventNotCaptured(fork);
  EXPECT_EQ(found.size(), 1u);
  // Recorded elsewhere, it is an event as any other.
  captures.record(fork, b);
  captures.requireEventNotCaptured(fork);
  EXPECT_EQ(found.size(), 1u);
}

TEST_F(CaptureRule, TheThreadThatBeginsACaptureEndsIt) {
  captures.begin(a, CaptureMode::ThreadLocal, other);
  captures.end(a, own);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].found, "its end in another thread");
}
