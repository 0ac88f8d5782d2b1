// SPDX-License-Identifier: Apache-2.0
//
// Time limits are a twentieth of the real ones.

#include "job/FailureMonitor.h"
#include "store/MemoryStore.h"

#include <gtest/gtest.h>

using namespace fcdp;

namespace {

constexpr Mesh watchedMesh{2, 2};

/// A rank with its monitor, and the last message given to `onFailure`.
struct Rank {
  Rank(KeyValueStore &store, uint32_t rank) {
    publishAlive(store, rank);
    options.mesh = watchedMesh;
    options.rank = rank;
    options.heartbeatSeconds = 0.05;
    options.limitSeconds = 0.3;
    options.holdsStore = rank == 0;
    options.storeOwner =
        describeRank(watchedMesh, 0) + ", which holds the store at h:1,";
    options.onFailure = [this](const std::string &message) {
      std::lock_guard<std::mutex> lock(mutex);
      messages.push_back(message);
      changed.notify_all();
    };
  }
  void start(const std::shared_ptr<MemoryValues> &values) {
    monitor = std::make_unique<FailureMonitor>(
        std::make_shared<MemoryStore>(values),
        std::make_shared<MemoryStore>(values), options);
  }
  std::string waitForMessage(double seconds = 5) {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait_for(lock, std::chrono::duration<double>(seconds),
                     [&] { return !messages.empty(); });
    return messages.empty() ? "" : messages[0];
  }

  FailureMonitorOptions options;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> messages;
  std::unique_ptr<FailureMonitor>
      monitor; // last, because its thread uses the others
};

struct FailureMonitorTest : testing::Test {
  FailureMonitorTest() {
    MemoryStore connection(store);
    for (uint32_t rank = 0; rank < watchedMesh.size(); ++rank)
      ranks.push_back(std::make_unique<Rank>(connection, rank));
    for (auto &rank : ranks)
      rank->start(store);
  }
  /// Ends the process of a rank, and so its connections.
  void kill(uint32_t rank) { ranks[rank]->monitor.reset(); }

  std::shared_ptr<MemoryValues> store = std::make_shared<MemoryValues>();
  std::vector<std::unique_ptr<Rank>> ranks;
};

} // namespace

TEST_F(FailureMonitorTest, NamesARankWhoseProcessEnded) {
  kill(2);
  for (uint32_t rank : {0, 1, 3}) {
    std::string message = ranks[rank]->waitForMessage();
    EXPECT_EQ(message.rfind("rank 2 (node 1, local 0) stopped: its process has "
                            "ended",
                            0),
              0u)
        << "rank " << rank << ": " << message;
    EXPECT_EQ(message.find("rank 0"), std::string::npos) << message;
  }
}

TEST_F(FailureMonitorTest, PassesOnWhatAFailedRankSays) {
  ranks[1]->monitor->publishFailure("input 'ids' is out of range");
  kill(1);
  for (uint32_t rank : {0, 2, 3})
    EXPECT_EQ(ranks[rank]->waitForMessage(),
              "rank 1 (node 0, local 1) failed: input 'ids' is out of range");
  EXPECT_EQ(ranks[1]->waitForMessage(0), "");
}

// A rank that ends because of another one is not blamed, however late the
// others look: the store keeps what it found after its connection has ended.
TEST(FailureMonitor, ARankThatEndsAfterAVerdictLeavesItsCause) {
  auto store = std::make_shared<MemoryValues>();
  MemoryStore connection(store);
  std::vector<std::unique_ptr<Rank>> ranks;
  for (uint32_t rank = 0; rank < watchedMesh.size(); ++rank)
    ranks.push_back(std::make_unique<Rank>(connection, rank));
  for (uint32_t rank : {1, 3})
    ranks[rank]->start(store);
  ranks[3]->monitor.reset();
  const std::string cause = ranks[1]->waitForMessage();
  EXPECT_EQ(cause.rfind("rank 3 (node 1, local 1) stopped", 0), 0u) << cause;
  ranks[1]->monitor.reset();
  ranks[2]->start(store);
  EXPECT_EQ(ranks[2]->waitForMessage(), cause);
}

TEST_F(FailureMonitorTest, AnswersWhoeverAsksInsteadOfCalling) {
  kill(3);
  auto cause = ranks[0]->monitor->findCause(5);
  ASSERT_TRUE(cause);
  EXPECT_EQ(cause->rfind("rank 3 (node 1, local 1) stopped", 0), 0u) << *cause;
  EXPECT_EQ(ranks[0]->waitForMessage(0.1), "");
}

TEST_F(FailureMonitorTest, FindsNoCauseWhereAllAreAlive) {
  EXPECT_FALSE(ranks[0]->monitor->findCause(0.6));
}

TEST_F(FailureMonitorTest, NamesTheHolderOfALostStore) {
  store->lose();
  EXPECT_EQ(ranks[1]->waitForMessage().rfind(
                "rank 0 (node 0, local 0), which holds the store at h:1, is "
                "gone or does not answer: connection reset",
                0),
            0u);
}

TEST_F(FailureMonitorTest, NamesTheHolderOfASilentStore) {
  store->silence(true);
  EXPECT_EQ(ranks[1]->waitForMessage().rfind(
                "rank 0 (node 0, local 0), which holds the store at h:1, is "
                "gone or does not answer: no answer",
                0),
            0u);
  EXPECT_EQ(ranks[2]->monitor->findCause(5)->rfind("rank 0", 0), 0u);
  ranks[3]->monitor->publishFailure("own");
}

TEST_F(FailureMonitorTest, ARankThatIsDoneIsNotMissed) {
  ranks[2]->monitor->finish();
  kill(2);
  EXPECT_EQ(ranks[0]->waitForMessage(1), "");
}

TEST_F(FailureMonitorTest, TheHolderStaysUntilAllAreDone) {
  std::atomic<bool> returned{false};
  std::thread holder([&] {
    ranks[0]->monitor->finish();
    returned = true;
  });
  for (uint32_t rank : {1, 2})
    ranks[rank]->monitor->finish();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_FALSE(returned);
  ranks[3]->monitor->finish();
  holder.join();
  store->lose(); // as when its process ends
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  for (auto &rank : ranks)
    EXPECT_EQ(rank->waitForMessage(0), "");
}

TEST_F(FailureMonitorTest, TheHolderDoesNotWaitForTheDead) {
  for (uint32_t rank : {1, 2})
    ranks[rank]->monitor->finish();
  kill(3);
  EXPECT_THROW(ranks[0]->monitor->finish(), std::runtime_error);
}

TEST_F(FailureMonitorTest, ARankThatEndsItsLoopEarlyIsNamed) {
  for (auto &rank : ranks)
    for (int64_t step : {0, 1})
      rank->monitor->beginCall(step);
  ranks[1]->monitor->announceEnd(2);
  EXPECT_EQ(ranks[0]->waitForMessage(0.3), "");
  ranks[0]->monitor->beginCall(2);
  const std::string expected =
      "rank 1 (node 0, local 1) has ended its loop after 2 steps, but rank 0 "
      "(node 0, local 0) goes on after 2 steps";
  for (auto &rank : ranks)
    EXPECT_EQ(rank->waitForMessage(), expected);
}

// All make as many calls, and end in any order.
TEST_F(FailureMonitorTest, RanksThatEndTogetherAreNotMissed) {
  for (uint32_t rank : {2, 0, 3, 1}) {
    ranks[rank]->monitor->beginCall(0);
    ranks[rank]->monitor->announceEnd(1);
  }
  for (uint32_t rank : {1, 2, 3})
    ranks[rank]->monitor->finish();
  ranks[0]->monitor->finish();
  for (auto &rank : ranks)
    EXPECT_EQ(rank->waitForMessage(0), "");
}

// After a time-out, which was time enough for heartbeats, no more is waited
// for.
TEST_F(FailureMonitorTest, LooksAtOnceForTheCauseOfATimeOut) {
  ranks[1]->monitor->publishFailure("own");
  auto cause = ranks[3]->monitor->findCause(0.04, /*isLate=*/true);
  EXPECT_EQ(cause, "rank 1 (node 0, local 1) failed: own");
  EXPECT_FALSE(ranks[3]->monitor->describeSilent());
}

// A rank whose collective has timed out does not wait for a store that is
// stopped, too, and names its holder.
TEST(FailureMonitor, ATimeOutDoesNotWaitForASilentStore) {
  using Clock = std::chrono::steady_clock;
  constexpr double kLong = 30;
  auto values = std::make_shared<MemoryValues>();
  MemoryStore connection(values);
  Rank other(connection, 0), waiting(connection, 1);
  publishAlive(connection, 2);
  publishAlive(connection, 3);
  waiting.options.limitSeconds = kLong;
  waiting.monitor = std::make_unique<FailureMonitor>(
      std::make_shared<MemoryStore>(values, kLong),
      std::make_shared<MemoryStore>(values, kLong), waiting.options);
  EXPECT_FALSE(waiting.monitor->describeSilent());
  values->silence(true);
  const auto begin = Clock::now();
  std::optional<std::string> silent;
  while (!silent && Clock::now() - begin < std::chrono::seconds(10))
    silent = waiting.monitor->describeSilent();
  ASSERT_TRUE(silent);
  EXPECT_EQ(*silent, "rank 0 (node 0, local 0), which holds the store at h:1, "
                     "does not answer: nothing for 0 s");
  waiting.monitor->publishFailure("own", /*isLate=*/true);
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(20));
}
