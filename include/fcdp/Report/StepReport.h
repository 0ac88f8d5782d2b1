// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fcdp/Report/BucketFacts.h"
#include "fcdp/Report/StepFacts.h"
#include "fcdp/Report/StepPrediction.h"

#include <optional>

namespace fcdp {

/// Bytes that a step may use of a rank's device and of a node's host.
struct MemoryCapacity {
  DeviceCapacity device;
  int64_t host = 0;
};

/// The spread of a measured step's time over the ranks.
struct RankSpread {
  int64_t ranks = 0;
  /// The rank whose spans are shown.
  int64_t shown = 0;
  /// Seconds of a step. `median` is the lower of two middle values.
  double least = 0, median = 0, most = 0;
};

/// How a strategy compares with the best one of the same step.
struct StepComparison {
  /// The best strategy.
  std::string best;
  bool isBest = false;
  /// The time relative to that of the best.
  TimeRatio ratio;
};

/// The report on one planned step on one cluster.
struct StepReport {
  /// The file that the step was read from.
  std::string input;
  StepFacts facts;
  StepPrediction prediction;
  MemoryCapacity capacity;
  std::vector<BucketFacts> buckets;
  /// Set for a measured step if the times of all ranks are known.
  std::optional<RankSpread> spread = std::nullopt;
  /// Set if several strategies are compared.
  std::optional<StepComparison> comparison = std::nullopt;

  bool fitsDevice() const {
    return facts.device.total() <= capacity.device.usable;
  }
  bool fitsHost() const { return facts.host <= capacity.host; }
};

/// Reports on `module`, in phase planned. `facts` are from measureStep, and
/// `prediction` is from a simulation on `cluster`.
StepReport makeReport(llvm::StringRef input, mlir::ModuleOp module,
                      const StepFacts &facts, const StepPrediction &prediction,
                      const Cluster &cluster, MemoryCapacity capacity);

} // namespace fcdp
