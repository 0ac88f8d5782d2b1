// SPDX-License-Identifier: Apache-2.0
//
// The losses and figures of a step.
#pragma once

#include "core/Links.h"
#include "core/Mesh.h"
#include "policy/StepNeeds.h"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace fcdp {

/// The figures of one rank. Byte counts are of this step alone.
struct RankStats {
  std::vector<double> losses; ///< one per micro-batch
  /// The weights of the losses, if the step weights them; else empty. The loss
  /// of a micro-batch of weight 0 is given as 0.
  std::vector<double> weights;
  double learningRate = 0;
  double seconds = 0;
  LinkArray<double> linkBytes;
  double controlBytes = 0;
  double devicePeakBytes = 0;
  double systemAllocations = 0;
  /// The norm of the gradients over all ranks before they are clipped, if the
  /// step clips them, and the seconds for which compute waited for
  /// communication and copies. Unknown values are kUnknown.
  double gradientNorm = kUnknown, exposedSeconds = kUnknown;
  /// The scale of the loss, if the step scales it.
  double lossScale = kUnknown;
  static constexpr double kUnknown = -1;
  /// 1 if the step made no update, because a loss or gradient was not finite.
  double skipped = 0;
  /// A bucket with an infinite or NaN gradient, -1 if only the gradients' norm
  /// is known to be so, and none as the number kNoBucket.
  double nonfiniteGradient = kNoBucket;
  static constexpr double kNoBucket = -2;
  /// A number that the program may set for its own use before `combine`.
  double request = 0;
  /// The requirements of this rank's inputs of a later step, if the program
  /// sets them before `combine`.
  StepNeeds next;
  /// The variant of this step, equal on all ranks.
  uint32_t variant = 0;

  /// Converts the figures to numbers that ranks exchange; `unpack` is the
  /// inverse.
  std::vector<double> pack() const;
  static RankStats unpack(std::span<const double> values);
};

/// The first infinite or NaN number of a step.
struct Nonfinite {
  uint32_t rank;
  /// The micro-batch of a nonfinite loss; none if all losses are finite.
  std::optional<size_t> microBatch;
  double loss = 0;
  /// The bucket of a nonfinite gradient, if all losses are finite; -1 for the
  /// norm of all.
  int64_t bucket = -1;
};

/// The figures of all ranks.
struct StepStats {
  int64_t step = 0; ///< from 1
  double loss = 0;
  double learningRate = 0;
  /// The norm of all gradients before they are clipped; none if they are not
  /// clipped.
  std::optional<double> gradientNorm;
  /// The scale of the loss; none if the step does not scale it.
  std::optional<double> lossScale;
  double seconds = 0; ///< of the slowest rank
  /// The seconds for which compute waited for communication and copies, the
  /// greatest over ranks; none on a GPU.
  std::optional<double> exposedSeconds;
  std::vector<double> secondsOfRanks; ///< in the order of world ranks
  /// Bytes per node: summed over its ranks, the greatest over nodes.
  LinkArray<double> linkBytes;
  double controlBytes = 0;
  double hostCacheBytes = 0;    ///< per node
  double devicePeakBytes = 0;   ///< the greatest over ranks
  double systemAllocations = 0; ///< over all ranks
  double request = 0;           ///< the greatest over ranks
  StepNeeds next;               ///< of all ranks together
  /// The sum of the losses' weights over ranks and micro-batches; none if the
  /// step does not weight them.
  std::optional<double> weight;
  /// The variant of a step of several shapes; none if it has one shape.
  std::optional<uint32_t> variant;
  /// Whether the step made no update.
  bool skipped = false;
  int64_t skippedSteps = 0; ///< of the job so far; for the program to count
  std::optional<Nonfinite> nonfinite;
};

/// Combines the figures of `ranks`, in the order of world ranks. Throws
/// std::runtime_error unless they have one learning rate and one loss scale.
/// The loss is the mean over ranks and micro-batches, added over micro-batches,
/// locals and nodes in order. It is weighted if the ranks have weights, and 0
/// if all weights are 0.
StepStats combine(const Mesh &mesh, const std::vector<RankStats> &ranks);

} // namespace fcdp
