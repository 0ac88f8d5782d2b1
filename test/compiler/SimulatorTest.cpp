// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Simulation/Simulator.h"

#include "gtest/gtest.h"

using namespace fcdp;

namespace {
constexpr uint8_t inter = 1, intra = 2;

Instruction work(uint8_t stream, Activity activity, Resource resource,
                 double seconds, double latency = 0) {
  Instruction instruction;
  instruction.stream = stream;
  instruction.activity = activity;
  instruction.cost = {resource, latency, seconds};
  return instruction;
}
Instruction compute(double seconds) {
  return work(kComputeStream, Activity::compute, Resource::compute, seconds);
}
Instruction gather(double seconds, double latency = 0) {
  return work(inter, Activity::interGather, Resource::inter, seconds, latency);
}
Instruction order(Instruction::Kind kind, uint8_t stream, uint32_t event) {
  Instruction instruction;
  instruction.kind = kind;
  instruction.stream = stream;
  instruction.event = event;
  return instruction;
}
Instruction record(uint8_t stream, uint32_t event) {
  return order(Instruction::record, stream, event);
}
Instruction wait(uint8_t stream, uint32_t event) {
  return order(Instruction::wait, stream, event);
}

SimulatedRun run(std::vector<const InstructionList *> lists,
                 std::vector<TimedWork> *trace = nullptr) {
  return simulate(lists, trace);
}
double of(const std::array<double, kNumActivities> &seconds,
          Activity activity) {
  return seconds[static_cast<unsigned>(activity)];
}
} // namespace

TEST(Simulator, StreamsRunBesideEachOther) {
  InstructionList list{gather(2), compute(3)};
  SimulatedRun result = run({&list});
  EXPECT_DOUBLE_EQ(result.seconds, 3);
  EXPECT_DOUBLE_EQ(result.functions[0].end, 3);
  EXPECT_DOUBLE_EQ(of(result.functions[0].exposed, Activity::interGather), 0);
}

TEST(Simulator, AWaitIsExposedAsWhatItWaitsFor) {
  // The chain inter -> intra delays compute: 2 s of one, 1 s of the other.
  InstructionList list{
      gather(2),        record(inter, 0),
      wait(intra, 0),   work(intra, Activity::intraGather, Resource::intra, 1),
      record(intra, 1), wait(kComputeStream, 1),
      compute(5)};
  SimulatedRun result = run({&list});
  EXPECT_DOUBLE_EQ(result.seconds, 8);
  EXPECT_DOUBLE_EQ(of(result.functions[0].exposed, Activity::interGather), 2);
  EXPECT_DOUBLE_EQ(of(result.functions[0].exposed, Activity::intraGather), 1);
  EXPECT_DOUBLE_EQ(of(result.functions[0].busy, Activity::compute), 5);
  EXPECT_DOUBLE_EQ(of(result.functions[0].onCompute, Activity::compute), 5);
  EXPECT_DOUBLE_EQ(of(result.functions[0].busy, Activity::interGather), 2);
  EXPECT_DOUBLE_EQ(of(result.functions[0].onCompute, Activity::interGather), 0);
}

TEST(Simulator, WorkOnOneResourceSharesIt) {
  // Work of 3 s and 1 s shares a link: the short one ends at 2, the long one at
  // 4.
  InstructionList list{gather(3),
                       work(intra, Activity::interReduce, Resource::inter, 1)};
  std::vector<TimedWork> trace;
  EXPECT_DOUBLE_EQ(run({&list}, &trace).seconds, 4);
  ASSERT_EQ(trace.size(), 2u);
  EXPECT_EQ(trace[0].instruction, 1u);
  EXPECT_DOUBLE_EQ(trace[0].end, 2);
  EXPECT_DOUBLE_EQ(trace[1].end, 4);
}

namespace {
/// Adds a demand for the memories' bandwidth, in seconds of full bandwidth.
Instruction withMemory(Instruction instruction, double device,
                       double host = 0) {
  instruction.cost.deviceMemory = device;
  instruction.cost.hostMemory = host;
  return instruction;
}
} // namespace

TEST(Simulator, MemoryIsSharedAsItIsAskedFor) {
  // One needs all of the bandwidth and one half of it, so both take 1.5 times
  // as long until one ends.
  InstructionList list{withMemory(gather(2), 1), withMemory(compute(4), 4)};
  std::vector<TimedWork> trace;
  EXPECT_DOUBLE_EQ(run({&list}, &trace).seconds, 5);
  ASSERT_EQ(trace.size(), 2u);
  EXPECT_EQ(trace[0].instruction, 0u);
  EXPECT_DOUBLE_EQ(trace[0].end, 3);
  // The host's memory is a separate resource.
  list = {withMemory(work(5, Activity::hostStore, Resource::d2h, 2), 0, 1.6),
          withMemory(work(6, Activity::hostLoad, Resource::h2d, 2), 0, 1.6),
          withMemory(compute(3), 3)};
  trace.clear();
  EXPECT_DOUBLE_EQ(run({&list}, &trace).seconds, 3.2);
  EXPECT_DOUBLE_EQ(trace[0].end, 3);
}

TEST(Simulator, DontShareMemoryThatIsEnough) {
  InstructionList list{withMemory(gather(4), 2), withMemory(compute(4), 2)};
  EXPECT_DOUBLE_EQ(run({&list}).seconds, 4);
  // Work that shares a link demands less bandwidth accordingly.
  list = {withMemory(gather(2), 1),
          withMemory(work(intra, Activity::interReduce, Resource::inter, 2), 1),
          withMemory(compute(4), 2)};
  EXPECT_DOUBLE_EQ(run({&list}).seconds, 4);
}

TEST(Simulator, NothingIsFasterThanMemory) {
  InstructionList list{withMemory(gather(2), 3)};
  EXPECT_DOUBLE_EQ(run({&list}).seconds, 3);
}

TEST(Simulator, LatencyHoldsNoResource) {
  InstructionList list{gather(2, /*latency=*/1),
                       work(intra, Activity::interReduce, Resource::inter, 1)};
  EXPECT_DOUBLE_EQ(run({&list}).seconds, 3);
}

TEST(Simulator, EventsCrossFunctionsAndAreUsedAgain) {
  InstructionList first{gather(4), record(inter, 7), compute(1)};
  InstructionList second{wait(kComputeStream, 7), compute(1)};
  SimulatedRun result = run({&first, &second, &first, &second});
  EXPECT_DOUBLE_EQ(result.functions[0].end, 1);
  EXPECT_DOUBLE_EQ(result.functions[1].end, 5);
  EXPECT_DOUBLE_EQ(of(result.functions[1].exposed, Activity::interGather), 3);
  // The second gather begins when the first one ends, and lasts until 8.
  EXPECT_DOUBLE_EQ(result.functions[2].end, 6);
  EXPECT_DOUBLE_EQ(result.functions[3].end, 9);
  EXPECT_DOUBLE_EQ(result.seconds, 9);
}

TEST(Simulator, AWaitWithoutARecordIsForNothing) {
  InstructionList list{wait(kComputeStream, 3), compute(1), record(inter, 3)};
  EXPECT_DOUBLE_EQ(run({&list}).seconds, 1);
}

TEST(Simulator, ComputeHasWhatCollectivesLeaveOfTheProcessors) {
  Instruction held = gather(3);
  held.cost.processors = 0.25;
  // 3 s at three quarters of the rate do 2.25 s of work; 0.75 s remain.
  InstructionList list{held, compute(3)};
  EXPECT_DOUBLE_EQ(run({&list}).seconds, 3.75);
}

namespace {
Instruction issued(Instruction instruction, double seconds) {
  instruction.cost.issue = seconds;
  return instruction;
}
} // namespace

TEST(Simulator, TheDeviceWaitsForTheHost) {
  // The host needs 2 s for each of three operators, which take 1, 5 and 1 s:
  // they begin at 2, 4 and 9.
  InstructionList list{issued(compute(1), 2), issued(compute(5), 2),
                       issued(compute(1), 2)};
  std::vector<TimedWork> trace;
  SimulatedRun result = run({&list}, &trace);
  EXPECT_DOUBLE_EQ(trace[0].begin, 2);
  EXPECT_DOUBLE_EQ(trace[1].begin, 4);
  EXPECT_DOUBLE_EQ(trace[2].begin, 9);
  EXPECT_DOUBLE_EQ(of(result.functions[0].exposed, Activity::hostIssue), 3);
  EXPECT_DOUBLE_EQ(of(result.functions[0].onCompute, Activity::compute), 7);
}

TEST(Simulator, TheHostIssuesInTheOrderOfTheProgram) {
  // The gather is issued after compute, although its stream is free.
  InstructionList list{issued(compute(1), 3), issued(gather(1), 2)};
  std::vector<TimedWork> trace;
  run({&list}, &trace);
  EXPECT_DOUBLE_EQ(trace[1].begin, 5);
}

TEST(Simulator, TheHostWaitsForWhatItReads) {
  InstructionList first{issued(compute(10), 1)}, second{issued(compute(1), 2)};
  std::vector<const InstructionList *> lists{&first, &second};
  EXPECT_DOUBLE_EQ(simulate(lists).seconds, 12);
  EXPECT_DOUBLE_EQ(simulate(lists, nullptr, 1).seconds, 14);
  // A list without compute in front of the wait holds nothing up.
  InstructionList empty;
  EXPECT_DOUBLE_EQ(
      simulate(std::vector<const InstructionList *>{&empty, &second}, nullptr,
               1)
          .seconds,
      3);
}

TEST(Simulator, TheHostWaitsOnlyIfIssuingTakesTime) {
  // The gather of the second list begins beside the first list's compute.
  InstructionList first{compute(10)}, second{gather(4), compute(1)};
  EXPECT_DOUBLE_EQ(
      simulate(std::vector<const InstructionList *>{&first, &second}, nullptr,
               1)
          .seconds,
      11);
}
