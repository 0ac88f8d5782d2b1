// SPDX-License-Identifier: Apache-2.0

#include "job/PeerWatch.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <thread>

using namespace fcdp;

namespace {

constexpr Mesh fourRankMesh{2, 2};
constexpr double silenceLimit = 0.15;

/// The statuses of four ranks, of which those in `silent` do not change.
struct Statuses {
  std::vector<std::string> next(const std::vector<uint32_t> &silent) {
    ++beats;
    for (uint32_t rank = 0; rank < fourRankMesh.size(); ++rank)
      if (std::count(silent.begin(), silent.end(), rank) == 0)
        values[rank] = status::alive + std::to_string(beats);
    return values;
  }
  uint64_t beats = 0;
  std::vector<std::string> values =
      std::vector<std::string>(fourRankMesh.size(), "a0");
};

void pass(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

} // namespace

TEST(PeerWatch, NamesAllThatAreSilent) {
  PeerWatch watch(fourRankMesh, 0, silenceLimit);
  Statuses statuses;
  std::optional<std::string> found;
  for (int look = 0; look < 40 && !found; ++look) {
    pass(silenceLimit / 10);
    found = watch.judge(statuses.next({2, 3}));
  }
  ASSERT_TRUE(found);
  EXPECT_EQ(found->find("rank 1"), std::string::npos) << *found;
  for (const char *rank :
       {"rank 2 (node 1, local 0) stopped: no heartbeat for",
        "rank 3 (node 1, local 1) stopped: no heartbeat for"})
    EXPECT_NE(found->find(rank), std::string::npos) << *found;
}

// This process was stopped, or the store did not answer, for twice the limit:
// no other rank is to blame, whose heartbeat may come with the next look.
TEST(PeerWatch, ALongPauseOfItsOwnIsNobodysSilence) {
  PeerWatch watch(fourRankMesh, 0, silenceLimit);
  Statuses statuses;
  EXPECT_FALSE(watch.judge(statuses.next({})));
  pass(2 * silenceLimit);
  EXPECT_FALSE(watch.judge(statuses.next({1, 2, 3})));
  EXPECT_FALSE(watch.judge(statuses.next({})));
}

// Looks that each take longer than a heartbeat do not hide the dead.
TEST(PeerWatch, SlowLooksFindTheSilent) {
  PeerWatch watch(fourRankMesh, 0, silenceLimit);
  Statuses statuses;
  std::optional<std::string> found;
  int looks = 0;
  for (; looks < 8 && !found; ++looks) {
    pass(silenceLimit);
    found = watch.judge(statuses.next({3}));
  }
  ASSERT_TRUE(found);
  EXPECT_GE(looks, 4); // three are the limit
  EXPECT_EQ(found->rfind("rank 3", 0), 0u) << *found;
}

TEST(PeerWatch, WordsCountMoreThanAnEnd) {
  PeerWatch watch(fourRankMesh, 0, silenceLimit);
  std::vector<std::string> statuses = {"a1", "xrank 0 does not answer", "g",
                                       "a1"};
  EXPECT_EQ(watch.judge(statuses), "rank 0 does not answer");
  EXPECT_FALSE(watch.othersHaveLeft());
  statuses = {"a1", "l", "g", "fdisk full"};
  EXPECT_EQ(watch.judge(statuses),
            "rank 3 (node 1, local 1) failed: disk full");
  EXPECT_TRUE(watch.othersHaveLeft());
  EXPECT_FALSE(watch.everyoneIsDone());
  EXPECT_FALSE(watch.judge({"d", "l", "d", "l"}));
  EXPECT_TRUE(watch.everyoneIsDone());
  EXPECT_FALSE(watch.othersHaveLeft());
}

// Equal counts are the ordinary end of a job, in whatever order ranks reach it.
TEST(PeerWatch, NamesARankThatHasEndedWhileThisOneGoesOn) {
  PeerWatch watch(fourRankMesh, 0, silenceLimit);
  const std::string closed = status::closing + encode(ClosedSession{7, 2});
  std::vector<std::string> statuses = {"a1", closed + " 0", "a1", "a1"};
  EXPECT_FALSE(watch.judge(statuses, {6, 2}));
  EXPECT_FALSE(watch.judge(statuses, {7, 2}));
  statuses[1] = closed + " 1"; // its next heartbeat
  EXPECT_EQ(watch.judge(statuses, {8, 2}),
            "rank 1 (node 0, local 1) has ended its loop after 2 steps, but "
            "rank 0 (node 0, local 0) goes on after 2 steps");
  // A rank's own error is the cause.
  statuses[2] = "fno rows are left";
  EXPECT_EQ(watch.judge(statuses, {8, 2}),
            "rank 2 (node 1, local 0) failed: no rows are left");
}

TEST(PeerWatch, ARankThatHasEndedItsLoopIsWatched) {
  PeerWatch watch(fourRankMesh, 0, silenceLimit);
  const std::string closed = status::closing + encode(ClosedSession{7, 1});
  EXPECT_FALSE(watch.othersHaveLeft());
  std::optional<std::string> found;
  for (int look = 0; look < 40 && !found; ++look) {
    pass(silenceLimit / 10);
    const std::string beat = std::to_string(look);
    found = watch.judge({"a", closed + " 0", "a" + beat, "a" + beat}, {7, 1});
  }
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rfind("rank 1 (node 0, local 1) stopped: no heartbeat", 0),
            0u)
      << *found;
}
