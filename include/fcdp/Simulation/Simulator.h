// SPDX-License-Identifier: Apache-2.0
//
// A discrete-event simulation of streams that share resources. This code does
// not depend on the IR.
#pragma once

#include "dialects/Fcdp/Enums.h"
#include "fcdp/Cluster/Cost.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace fcdp {

/// The purpose of an operation in the step.
enum class Activity : uint8_t {
  compute,
  optimizer,
  interGather,
  interReduce,
  intraGather,
  intraReduce,
  hostStore,
  hostLoad,
  /// The host issues work. No instruction has this activity; compute waits for
  /// it.
  hostIssue,
};
inline constexpr unsigned kNumActivities =
    static_cast<unsigned>(Activity::hostIssue) + 1;
llvm::StringRef stringifyActivity(Activity activity);

/// The simulator has the streams of a rank.
inline constexpr unsigned kNumSimulatedStreams = kNumStreams;
/// The stream whose idle time is exposed time.
inline constexpr uint8_t kComputeStream = 0;

struct Instruction {
  enum Kind : uint8_t { work, record, wait };
  Kind kind = work;
  /// The stream, below kNumSimulatedStreams. Instructions of one stream run in
  /// order.
  uint8_t stream = kComputeStream;
  /// Used by work only.
  Activity activity = Activity::compute;
  /// The event of a record or wait. A wait waits for the latest record of the
  /// event before it in the run, and does nothing if there is none.
  uint32_t event = 0;
  /// Used by work only.
  Cost cost;

  static Instruction makeWork(uint8_t stream, Activity activity,
                              const Cost &cost) {
    return {work, stream, activity, 0, cost};
  }
  static Instruction makeRecord(uint8_t stream, uint32_t event) {
    return {record, stream, Activity::compute, event, {}};
  }
  static Instruction makeWait(uint8_t stream, uint32_t event) {
    return {wait, stream, Activity::compute, event, {}};
  }
};

/// The instructions that one function issues, in order.
using InstructionList = std::vector<Instruction>;

/// Times of one function of a run.
struct FunctionTimes {
  /// Seconds from the run's start until the compute stream has finished the
  /// function.
  double end = 0;
  /// Seconds that each of the function's activities took on its stream. They
  /// may run while compute is in another function.
  std::array<double, kNumActivities> busy{};
  /// The part of `busy` that ran on the compute stream.
  std::array<double, kNumActivities> onCompute{};
  /// Seconds that the compute stream waited, by the activity that it waited
  /// for.
  std::array<double, kNumActivities> exposed{};
};

/// The times of one instruction, in seconds from the run's start.
struct TimedWork {
  uint32_t function, instruction;
  double begin, end;
};

struct SimulatedRun {
  /// One entry for each function of the run.
  std::vector<FunctionTimes> functions;
  /// Seconds until all streams are done.
  double seconds = 0;
};

/// Simulates the lists one after the other. A stream begins the next list as
/// soon as it has finished the one before. One thread of the host issues all
/// instructions in their order, each in its `cost.issue` seconds, and none
/// begins before it is issued. If `hostWaitsBefore` is the index of a list, the
/// host issues that list and those after it when compute has finished all lists
/// before it, as if it had to read their results. This has an effect only if
/// issuing takes time. If `trace` is not null, all work is appended to it in
/// order of its end. The time is linear in the number of instructions.
SimulatedRun simulate(llvm::ArrayRef<const InstructionList *> run,
                      std::vector<TimedWork> *trace = nullptr,
                      std::optional<size_t> hostWaitsBefore = std::nullopt);

} // namespace fcdp
