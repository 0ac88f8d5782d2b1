// SPDX-License-Identifier: Apache-2.0
//
// The predicted time of a planned step on a cluster, and its utilization.
#pragma once

#include "fcdp/Cluster/CostModel.h"
#include "fcdp/Report/FamilyFacts.h"
#include "fcdp/Simulation/StepProgram.h"
#include "fcdp/Simulation/Uncertainty.h"

#include <string>

namespace fcdp {

/// Floating-point operations of one rank in an optimizer step.
struct FlopFacts {
  double count = 0;
  /// Seconds for these operations at the device's peak rates.
  double peakSeconds = 0;
};

/// Token counts. The elements of the first integer input count as tokens.
struct TokenFacts {
  /// The input's name; empty if there is none.
  std::string input;
  /// Tokens of one rank per micro-batch, and of all ranks per optimizer step.
  int64_t perMicroBatch = 0;
  /// Tokens of one sequence: the last dimension of that input.
  int64_t perSequence = 0;
  uint64_t perStep = 0;
};

struct StepPrediction {
  /// Name of the cluster.
  std::string cluster;
  StepTimes times;
  /// The times of smaller steps. All other members describe the greatest one.
  FamilyTimes family;
  /// Seconds in which the compute stream waits and nothing that it waits for
  /// runs. `times.seconds` is the sum of compute work, exposed time and bubble.
  double bubble = 0;
  /// Lower bounds in seconds, by resource; see boundStep.
  std::array<double, kNumResources> bounds{};
  /// Times in the scenarios of the cluster, and the spread of its inputs; none
  /// for a measured step.
  std::optional<ScenarioTimes> scenarios;
  Spread spread;
  TokenFacts tokens;
  /// Operations that the model needs, and those that are executed including
  /// recomputation.
  FlopFacts model, executed;

  /// Returns the range of the step's time in seconds. Requires `scenarios`.
  Range getRange() const { return findRange(*scenarios, spread); }
  /// Return model and hardware FLOPs utilization, from 0 to 1: the peak seconds
  /// of `model` or `executed` divided by the step's time, or 0 if the step
  /// takes no time.
  double getMfu() const;
  double getHfu() const;
  /// Returns the tokens per second of all ranks, or 0 if the step takes no
  /// time.
  double getTokensPerSecond() const;
  /// Returns the seconds that the compute stream waits for collectives between
  /// nodes.
  double getExposedInter() const;
};

/// The program of a step on a cluster, and one simulated run of it.
struct SimulatedStep {
  StepProgram program;
  /// The trace of simulateStep. Empty if it was not requested.
  std::vector<TimedWork> trace;
  StepPrediction prediction;
};

/// Simulates a module in phase scheduled or planned. The module's mesh must be
/// that of the cluster. Does not compute the bounds or the scenarios.
SimulatedStep simulateOn(mlir::ModuleOp module, const Cluster &cluster,
                         bool isTraced = false);

/// Adds the scenarios of `cluster`, on which `step` was simulated.
void addScenarios(SimulatedStep &step, const Cluster &cluster);

/// Returns the bounds for the same module and cluster.
std::array<double, kNumResources> boundOn(mlir::ModuleOp module,
                                          const Cluster &cluster);

} // namespace fcdp
