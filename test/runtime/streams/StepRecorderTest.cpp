// SPDX-License-Identifier: Apache-2.0

#include "streams/StepRecorder.h"
#include "streams/StreamSet.h"

#include <chrono>
#include <gtest/gtest.h>
#include <stdexcept>
#include <thread>

using namespace fcdp;

namespace {

/// Takes a millisecond for each command, and fails for copies to null.
class Slow final : public CommandExecutor {
public:
  void execute(StreamId, const Command &command) override {
    if (!command.copy.dst)
      throw std::runtime_error("no target");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  void interrupt() noexcept override { ++interrupts; }

  int interrupts = 0;
};

Command makeCopy(void *dst) {
  Command command;
  command.kind = Command::Kind::Copy;
  command.copy = {dst, nullptr, 0};
  return command;
}

} // namespace

TEST(StepRecorder, TimesWhatOtherStreamsDo) {
  Slow slow;
  StepRecorder recorder(4);
  RecordingExecutor recording(slow, recorder);
  StreamSet streams(recording, /*numEvents=*/1, /*queueCapacity=*/4);
  int target = 0;
  recorder.beginStep();
  recorder.beginFunction("only_microbatch");
  recorder.issue(StreamId::H2D, 2);
  streams.issue(StreamId::H2D, makeCopy(&target));
  recorder.beginFunction("update");
  recorder.issue(StreamId::H2D, 3);
  streams.issue(StreamId::H2D, makeCopy(&target));
  streams.record(0, StreamId::H2D);
  streams.wait(0, StreamId::D2H); // a wait is not an operation
  streams.issue(StreamId::Compute, makeCopy(&target));
  streams.synchronize();

  const auto &issues = recorder.getIssues(StreamId::H2D);
  const auto &spans = recorder.getSpans(StreamId::H2D);
  ASSERT_EQ(issues.size(), 2u);
  EXPECT_EQ(issues[0].op, 2u);
  EXPECT_EQ(issues[1].op, 3u);
  EXPECT_EQ(recorder.getFunctions()[issues[0].function], "only_microbatch");
  EXPECT_EQ(recorder.getFunctions()[issues[1].function], "update");
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_GE(spans[0].end - spans[0].begin, 1e-3);
  EXPECT_GE(spans[1].begin, spans[0].end);
  EXPECT_TRUE(recorder.getSpans(StreamId::D2H).empty());
  EXPECT_TRUE(recorder.getSpans(StreamId::Compute).empty());

  recorder.beginStep();
  EXPECT_TRUE(recorder.getFunctions().empty());
  EXPECT_TRUE(recorder.getIssues(StreamId::H2D).empty());
  EXPECT_TRUE(recorder.getSpans(StreamId::H2D).empty());
}

TEST(StepRecorder, LeavesFailuresToWhoMakesThem) {
  Slow slow;
  StepRecorder recorder(1);
  RecordingExecutor recording(slow, recorder);
  StreamSet streams(recording, /*numEvents=*/0, /*queueCapacity=*/4);
  streams.issue(StreamId::D2H, makeCopy(nullptr));
  streams.synchronize();
  EXPECT_TRUE(streams.failed());
  EXPECT_EQ(streams.failure(), "no target");
  EXPECT_EQ(slow.interrupts, 1);
  EXPECT_TRUE(recorder.getSpans(StreamId::D2H).empty());
}

namespace {

/// A clock that advances by one with each mark.
class Ticks final : public StreamClock {
public:
  void begin() override { marks = {}; }
  void mark(StreamId stream) override {
    marks[size_t(stream)].push_back(++now);
  }
  std::vector<double> read(StreamId stream) const override {
    return marks[size_t(stream)];
  }

private:
  double now = 0;
  std::array<std::vector<double>, kNumStreams> marks;
};

} // namespace

TEST(StepRecorder, TakesTheTimesOfADevice) {
  Ticks ticks;
  StepRecorder recorder(2);
  recorder.measureBy(ticks);
  recorder.beginStep();
  recorder.beginFunction("only_microbatch");
  for (StreamId stream : {StreamId::Inter, StreamId::Compute}) {
    recorder.issue(stream, 1);
    recorder.beginSpan(stream);
  }
  recorder.endSpan(StreamId::Inter);
  recorder.endSpan(StreamId::Compute);
  EXPECT_TRUE(recorder.getSpans(StreamId::Inter).empty());
  recorder.endStep();
  ASSERT_EQ(recorder.getSpans(StreamId::Inter).size(), 1u);
  EXPECT_EQ(recorder.getSpans(StreamId::Inter)[0].begin, 1);
  EXPECT_EQ(recorder.getSpans(StreamId::Inter)[0].end, 3);
  ASSERT_EQ(recorder.getSpans(StreamId::Compute).size(), 1u);
  EXPECT_EQ(recorder.getSpans(StreamId::Compute)[0].begin, 2);
  EXPECT_EQ(recorder.getSpans(StreamId::Compute)[0].end, 4);
}
