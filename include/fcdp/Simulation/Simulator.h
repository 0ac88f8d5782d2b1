// SPDX-License-Identifier: Apache-2.0
//
// Discrete events over streams that share resources. Knows no IR.
#pragma once

#include "fcdp/Cluster/Cost.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <array>
#include <cstdint>
#include <vector>

namespace fcdp {

/// What an operation does for the step.
enum class Activity : uint8_t {
  compute,
  optimizer,
  interGather,
  interReduce,
  intraGather,
  intraReduce,
  hostStore,
  hostLoad,
};
inline constexpr unsigned kNumActivities = 8;
llvm::StringRef stringifyActivity(Activity activity);

inline constexpr unsigned kNumSimulatedStreams = 7;
/// The stream whose idle time is exposed time.
inline constexpr uint8_t kComputeStream = 0;

struct Instruction {
  enum Kind : uint8_t { work, record, wait };
  Kind kind = work;
  /// Below kNumSimulatedStreams. In order within a stream.
  uint8_t stream = kComputeStream;
  /// Of work.
  Activity activity = Activity::compute;
  /// Of a record or wait: which event. A wait is for the latest record in front
  /// of it, in the order of the run; for nothing if there is none.
  uint32_t event = 0;
  /// Of work.
  Cost cost;
};

/// What one function issues, in order.
using InstructionList = std::vector<Instruction>;

/// What happened while the compute stream was in one function of a run.
struct FunctionTimes {
  /// When the compute stream has left it, in seconds from the run's start.
  double end = 0;
  /// Seconds that each activity took on its stream, in this function or not.
  std::array<double, kNumActivities> busy{};
  /// The part of it that was on the compute stream.
  std::array<double, kNumActivities> onCompute{};
  /// Seconds that the compute stream waited, by what it waited for.
  std::array<double, kNumActivities> exposed{};
};

/// When one instruction ran, in seconds from the run's start.
struct TimedWork {
  uint32_t function, instruction;
  double begin, end;
};

struct SimulatedRun {
  /// One for each function of the run.
  std::vector<FunctionTimes> functions;
  /// When everything is done, in seconds.
  double seconds = 0;
};

/// Runs the lists one after the other: a stream goes on with the next list as
/// soon as it is done with one. Where `trace` is given it gets all work, in
/// order of its end. Linear in the number of instructions.
SimulatedRun simulate(llvm::ArrayRef<const InstructionList *> run,
                      std::vector<TimedWork> *trace = nullptr);

} // namespace fcdp
