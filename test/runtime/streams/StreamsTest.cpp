// SPDX-License-Identifier: Apache-2.0
//
// Tests streams and events with an executor that only records the commands that
// ran.

#include "streams/StreamSet.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <mutex>
#include <random>
#include <set>

using namespace fcdp;

namespace {

/// Executes copies whose `bytes` is a label. A label can be made to block until
/// it is opened, or to fail.
class Recorder : public CommandExecutor {
public:
  void execute(StreamId, const Command &command) override {
    size_t label = command.copy.bytes;
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return !blocked.count(label) || interrupted; });
    if (failing.count(label))
      throw std::runtime_error("label " + std::to_string(label) + " failed");
    ran.push_back(label);
  }
  void interrupt() noexcept override {
    std::lock_guard<std::mutex> lock(mutex);
    interrupted = true;
    changed.notify_all();
  }
  void block(size_t label) {
    std::lock_guard<std::mutex> lock(mutex);
    blocked.insert(label);
  }
  void open(size_t label) {
    std::lock_guard<std::mutex> lock(mutex);
    blocked.erase(label);
    changed.notify_all();
  }
  size_t count() {
    std::lock_guard<std::mutex> lock(mutex);
    return ran.size();
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::set<size_t> blocked, failing;
  bool interrupted = false;
  std::vector<size_t> ran;
};

void issue(StreamSet &streams, StreamId stream, size_t label) {
  Command command;
  command.kind = Command::Kind::Copy;
  command.copy = {nullptr, nullptr, label};
  streams.issue(stream, command);
}

using Labels = std::vector<size_t>;

} // namespace

TEST(Streams, AStreamKeepsTheOrderOfIssue) {
  Recorder recorder;
  StreamSet streams(recorder, 0, 16);
  Labels expected;
  for (size_t i = 0; i < 5000; ++i) {
    issue(streams, StreamId::Inter, i);
    expected.push_back(i);
  }
  streams.synchronize();
  EXPECT_EQ(recorder.ran, expected);
}

TEST(Streams, CountsTheTimeThatComputeWaits) {
  Recorder recorder;
  StreamSet streams(recorder, 1, 16);
  recorder.block(1);
  issue(streams, StreamId::Inter, 1);
  streams.record(0, StreamId::Inter);
  // Another stream's wait does not count.
  streams.wait(0, StreamId::Intra);
  EXPECT_EQ(streams.secondsWaited(), 0);
  constexpr std::chrono::milliseconds held(20);
  auto start = std::chrono::steady_clock::now();
  std::thread opener([&] {
    std::this_thread::sleep_for(held);
    recorder.open(1);
  });
  streams.wait(0, StreamId::Compute);
  std::chrono::duration<double> passed =
      std::chrono::steady_clock::now() - start;
  opener.join();
  EXPECT_GT(streams.secondsWaited(), 0.01);
  EXPECT_LE(streams.secondsWaited(), passed.count());
  double before = streams.secondsWaited();
  streams.wait(0, StreamId::Compute);
  EXPECT_EQ(streams.secondsWaited(), before);
}

TEST(Streams, ComputeRunsOnTheIssuersThread) {
  Recorder recorder;
  StreamSet streams(recorder, 1, 16);
  issue(streams, StreamId::Compute, 7);
  EXPECT_EQ(recorder.ran, Labels{7});
  streams.record(0, StreamId::Compute);
  recorder.block(8);
  streams.wait(0, StreamId::Inter);
  streams.wait(0, StreamId::Compute); // done when recorded: returns at once
}

TEST(Streams, AWaitHoldsAStreamBack) {
  Recorder recorder;
  StreamSet streams(recorder, 1, 16);
  recorder.block(1);
  issue(streams, StreamId::Inter, 1);
  streams.record(0, StreamId::Inter);
  streams.wait(0, StreamId::Intra);
  issue(streams, StreamId::Intra, 2);
  issue(streams, StreamId::D2H, 3); // waits for nothing
  while (recorder.count() < 1)
    std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  {
    std::lock_guard<std::mutex> lock(recorder.mutex);
    EXPECT_EQ(recorder.ran, Labels{3});
  }
  recorder.open(1);
  streams.synchronize();
  EXPECT_EQ(recorder.ran, (Labels{3, 1, 2}));
}

// A wait refers to the record before it. Recording the event again for later
// work must not delay it.
TEST(Streams, RecordingAgainDoesNotMoveAnIssuedWait) {
  Recorder recorder;
  StreamSet streams(recorder, 1, 16);
  recorder.block(2);
  issue(streams, StreamId::Inter, 1);
  streams.record(0, StreamId::Inter);
  streams.wait(0, StreamId::Intra);
  issue(streams, StreamId::Inter, 2);
  streams.record(0, StreamId::Inter);
  issue(streams, StreamId::Intra, 3);
  streams.record(0, StreamId::Intra);
  streams.wait(0, StreamId::Compute); // hangs if 3 waited for 2
  {
    std::lock_guard<std::mutex> lock(recorder.mutex);
    EXPECT_EQ(recorder.ran, (Labels{1, 3}));
  }
  recorder.open(2);
  streams.synchronize();
}

TEST(Streams, AnEventNeverRecordedIsDone) {
  Recorder recorder;
  StreamSet streams(recorder, 2, 16);
  streams.wait(1, StreamId::Compute);
  streams.wait(1, StreamId::H2D);
  issue(streams, StreamId::H2D, 1);
  streams.synchronize();
  EXPECT_EQ(recorder.ran, Labels{1});
}

TEST(Streams, RefusesAnEventThatDoesNotExist) {
  Recorder recorder;
  StreamSet streams(recorder, 2, 16);
  EXPECT_THROW(streams.record(2, StreamId::Inter), std::runtime_error);
  EXPECT_THROW(streams.wait(2, StreamId::Inter), std::runtime_error);
}

TEST(Streams, AFullQueueHoldsTheIssuerBack) {
  Recorder recorder;
  StreamSet streams(recorder, 0, 4);
  recorder.block(0);
  std::atomic<size_t> issued{0};
  std::thread issuer([&] {
    for (size_t i = 0; i < 100; ++i) {
      issue(streams, StreamId::D2H, i);
      ++issued;
    }
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_LE(issued.load(), 5u); // four queued, one running
  recorder.open(0);
  issuer.join();
  streams.synchronize();
  EXPECT_EQ(recorder.ran.size(), 100u);
}

TEST(Streams, AfterAFailureNothingRunsAndNobodyHangs) {
  Recorder recorder;
  StreamSet streams(recorder, 3, 16);
  recorder.failing.insert(1);
  recorder.block(5); // as with a collective whose peer never takes part
  issue(streams, StreamId::Intra, 5);
  streams.record(0, StreamId::Intra);
  issue(streams, StreamId::Inter, 1);
  issue(streams, StreamId::Inter, 2);
  streams.record(1, StreamId::Inter);
  streams.wait(1, StreamId::D2H);
  issue(streams, StreamId::D2H, 3);
  streams.wait(0, StreamId::Compute);
  streams.wait(1, StreamId::Compute);
  for (size_t i = 100; i < 200; ++i)
    issue(streams, StreamId::H2D, i);
  streams.synchronize();
  EXPECT_TRUE(streams.failed());
  EXPECT_EQ(streams.failure(), "label 1 failed");
  for (size_t label : recorder.ran)
    EXPECT_TRUE(label == 5 || label >= 100) << label;
}

TEST(Streams, KeepsTheFirstFailure) {
  Recorder recorder;
  StreamSet streams(recorder, 0, 16);
  streams.fail("first");
  streams.fail("second");
  EXPECT_EQ(streams.failure(), "first");
}

TEST(Streams, EveryThreadHasANameOfItsOwn) {
  auto namesOfThreads = [] {
    std::multiset<std::string> names;
    for (const auto &task :
         std::filesystem::directory_iterator("/proc/self/task")) {
      std::ifstream file(task.path() / "comm");
      std::string name;
      std::getline(file, name);
      names.insert(name);
    }
    return names;
  };
  Recorder recorder;
  StreamSet streams(recorder, 0, 16);
  std::multiset<std::string> names = namesOfThreads();
  for (const char *name : {"fcdp-inter", "fcdp-intra", "fcdp-d2h", "fcdp-h2d",
                           "fcdp-inter_redu", "fcdp-intra_redu"})
    EXPECT_EQ(names.count(name), 1u) << name;
}

// Random programs: whatever the timing, work after a wait starts only after the
// work before the record has run.
TEST(Streams, RandomProgramsKeepTheirOrder) {
  constexpr uint32_t numEvents = 8;
  for (unsigned seed = 0; seed < 30; ++seed) {
    std::mt19937 random(seed);
    Recorder recorder;
    StreamSet streams(recorder, numEvents, 8);
    // For each stream, the labels that must have run before its next one.
    std::vector<std::vector<size_t>> before(kNumStreams);
    std::vector<std::vector<size_t>> atEvent(numEvents);
    std::vector<std::vector<size_t>> needs;
    for (size_t i = 0; i < 400; ++i) {
      auto stream = StreamId(random() % kNumStreams);
      uint32_t event = random() % numEvents;
      auto &known = before[size_t(stream)];
      switch (random() % 3) {
      case 0:
        needs.push_back(known);
        issue(streams, stream, needs.size() - 1);
        known = {needs.size() - 1}; // it depends on the older ones
        break;
      case 1:
        streams.record(event, stream);
        atEvent[event] = known;
        break;
      case 2:
        streams.wait(event, stream);
        known.insert(known.end(), atEvent[event].begin(), atEvent[event].end());
        break;
      }
    }
    streams.synchronize();
    ASSERT_EQ(recorder.ran.size(), needs.size());
    std::vector<size_t> position(needs.size());
    for (size_t at = 0; at < recorder.ran.size(); ++at)
      position[recorder.ran[at]] = at;
    for (size_t label = 0; label < needs.size(); ++label)
      for (size_t need : needs[label])
        EXPECT_LT(position[need], position[label]) << "seed " << seed;
  }
}
