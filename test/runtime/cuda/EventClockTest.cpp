// SPDX-License-Identifier: Apache-2.0
//
// Tests the times of operations by the device's clock.

#include "OnGpuOrFake.h"

using namespace fcdp;

namespace {

class EventClock : public OnGpuOrFake {
protected:
  static constexpr size_t bytes = 1 << 20;

  EventClock() : OnGpuOrFake(bytes, bytes, &recorder) {}

  template <typename Issue>
  void record(StreamId stream, Issue issue) {
    recorder.issue(stream, 0);
    recorder.beginSpan(stream);
    issue();
    recorder.endSpan(stream);
  }
  /// A store, a load that waits for it, and compute that waits for both.
  void runStep() {
    recorder.beginStep();
    recorder.beginFunction("only_microbatch");
    record(StreamId::D2H, [&] {
      backend->copy(StreamId::D2H, backend->hostBase(), backend->deviceBase(),
                    bytes);
    });
    backend->record(0, StreamId::D2H);
    backend->wait(0, StreamId::H2D);
    record(StreamId::H2D, [&] {
      backend->copy(StreamId::H2D, backend->deviceBase(), backend->hostBase(),
                    bytes);
    });
    backend->record(0, StreamId::H2D);
    record(StreamId::Compute, [&] { backend->wait(0, StreamId::Compute); });
    auto *sum = reinterpret_cast<float *>(backend->deviceBase());
    record(StreamId::Compute, [&] {
      backend->add(StreamId::Compute, sum, sum, bytes / sizeof(float));
    });
    backend->synchronize();
    ASSERT_EQ(backend->failure(), "");
    recorder.endStep();
  }
  const std::vector<StepRecorder::Span> &spans(StreamId stream) {
    return recorder.getSpans(stream);
  }

  StepRecorder recorder{1};
};

/// Only the fake counts calls.
class EventClockOverFake : public EventClock {};

} // namespace

TEST_P(EventClock, TellsWhenOperationsRan) {
  double before = readClock();
  runStep();
  double after = readClock();
  ASSERT_EQ(spans(StreamId::D2H).size(), 1u);
  ASSERT_EQ(spans(StreamId::H2D).size(), 1u);
  ASSERT_EQ(spans(StreamId::Compute).size(), 2u);
  EXPECT_TRUE(spans(StreamId::Inter).empty());
  StepRecorder::Span store = spans(StreamId::D2H)[0],
                     load = spans(StreamId::H2D)[0],
                     wait = spans(StreamId::Compute)[0],
                     sum = spans(StreamId::Compute)[1];
  // Slack between two clocks, and the resolution of one.
  constexpr double slack = 1e-3, tick = 1e-6;
  EXPECT_GE(store.begin, before - slack);
  EXPECT_LT(store.begin, store.end);
  EXPECT_GE(load.begin, store.end - tick);
  EXPECT_LT(load.begin, load.end);
  EXPECT_GE(wait.end, load.end - tick);
  EXPECT_GE(sum.begin, wait.end - tick);
  EXPECT_LT(sum.begin, sum.end);
  EXPECT_LE(sum.end, after + slack);
}

TEST_P(EventClock, TellsOfTheLastStepAlone) {
  runStep();
  double first = spans(StreamId::Compute)[1].end;
  runStep();
  ASSERT_EQ(spans(StreamId::Compute).size(), 2u);
  EXPECT_GE(spans(StreamId::D2H)[0].begin, first - 1e-3);
}

TEST_P(EventClockOverFake, MakesNoEventTwice) {
  runStep();
  fake::Machine &machine = fake::Machine::instance();
  auto made = [&] {
    std::lock_guard<std::recursive_mutex> lock(machine.mutex);
    return machine.calls["cudaEventCreateWithFlags"];
  };
  uint64_t before = made();
  runStep();
  EXPECT_EQ(made(), before);
}

FCDP_INSTANTIATE_ON_GPU_OR_FAKE(EventClock);
INSTANTIATE_TEST_SUITE_P(Fake, EventClockOverFake, testing::Values(false));
