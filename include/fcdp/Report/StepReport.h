// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fcdp/Report/BucketFacts.h"
#include "fcdp/Report/StepFacts.h"
#include "fcdp/Report/StepPrediction.h"

#include <optional>

namespace fcdp {

/// Bytes that a step may use of a rank's device and of a node's host.
struct MemoryCapacity {
  int64_t device = 0, host = 0;
};

/// What the ranks of a measured step took.
struct RankSpread {
  int64_t ranks = 0;
  /// The one that is told of.
  int64_t shown = 0;
  /// Seconds of a step; `median` is the lower one of two.
  double least = 0, median = 0, most = 0;
};

/// All that is told of one planned step on one cluster.
struct StepReport {
  /// The file that the step was read from.
  std::string input;
  StepFacts facts;
  StepPrediction prediction;
  MemoryCapacity capacity;
  std::vector<BucketFacts> buckets;
  /// Of a measured step, if all ranks' times are known.
  std::optional<RankSpread> spread = std::nullopt;

  bool fitsDevice() const { return facts.device.total() <= capacity.device; }
  bool fitsHost() const { return facts.host <= capacity.host; }
};

/// Measures `module`, in phase planned, which was simulated on `cluster`. An
/// error is reported.
mlir::FailureOr<StepReport> makeReport(llvm::StringRef input,
                                       mlir::ModuleOp module,
                                       const StepPrediction &prediction,
                                       const Cluster &cluster,
                                       MemoryCapacity capacity);

} // namespace fcdp
