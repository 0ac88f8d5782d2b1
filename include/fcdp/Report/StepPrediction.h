// SPDX-License-Identifier: Apache-2.0
//
// How a planned step runs on a cluster, and how well it uses it.
#pragma once

#include "fcdp/Cluster/CostModel.h"
#include "fcdp/Simulation/StepProgram.h"

#include <string>

namespace fcdp {

/// Floating-point operations of one rank in an optimizer step.
struct FlopFacts {
  double count = 0;
  /// Seconds that they take at the device's peak rates.
  double peakSeconds = 0;
};

/// What is counted as tokens: the elements of the first input of integers.
struct TokenFacts {
  /// The input's name; empty if there is none.
  std::string input;
  /// Of one rank in one micro-batch, and of all ranks in an optimizer step.
  int64_t perMicroBatch = 0;
  uint64_t perStep = 0;
};

struct StepPrediction {
  /// Of the cluster.
  std::string cluster;
  StepTimes times;
  /// Seconds in which the compute stream waits and nothing that it waits for
  /// runs. With its work and what is exposed they are times.seconds.
  double bubble = 0;
  /// Seconds by resource that no schedule of the step's operations takes less
  /// than; see boundStep.
  std::array<double, kNumResources> bounds{};
  TokenFacts tokens;
  /// What the model needs, and with it what is computed twice.
  FlopFacts model, executed;

  /// Model and hardware FLOPs utilization, from 0 to 1: the peak seconds of
  /// either over the step's. 0 if the step takes no time.
  double getMfu() const;
  double getHfu() const;
  /// Of all ranks; 0 if the step takes no time.
  double getTokensPerSecond() const;
  /// Seconds that the compute stream waits for collectives between nodes.
  double getExposedInter() const;
};

/// A step's program on a cluster, and one run of it.
struct SimulatedStep {
  StepProgram program;
  /// As simulateStep has it; empty if nobody asked for it.
  std::vector<TimedWork> trace;
  StepPrediction prediction;
};

/// Simulates a module in phase scheduled or planned, whose mesh is the
/// cluster's.
/// Leaves out the bounds.
SimulatedStep simulateOn(mlir::ModuleOp module, const Cluster &cluster,
                         bool isTraced = false);

/// The bounds of the same.
std::array<double, kNumResources> boundOn(mlir::ModuleOp module,
                                          const Cluster &cluster);

} // namespace fcdp
