// SPDX-License-Identifier: Apache-2.0
//
// The range of a predicted time, from the spread of the inputs of the cost
// model. The plan stays the same. This code does not depend on the IR.
#pragma once

#include "fcdp/Cluster/Cluster.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace fcdp {

/// Times of a step, in seconds.
struct ScenarioTimes {
  /// With the given inputs.
  double nominal = 0;
  /// With one input a standard deviation slower or faster, by CostInput. Inputs
  /// without an effect have the nominal time.
  std::array<double, kNumCostInputs> slower{}, faster{};
};

/// Returns the seconds of a step on a cluster whose `input` is `factor` times
/// as fast as described.
using ScenarioRunner = llvm::function_ref<double(
    const Cluster &scenario, CostInput input, double factor)>;

/// Returns the times that `secondsOn` gives for the scenarios of `cluster` in
/// which one of `inputs` deviates.
ScenarioTimes runScenarios(const Cluster &cluster,
                           llvm::ArrayRef<CostInput> inputs, double nominal,
                           ScenarioRunner secondsOn);

/// Returns all inputs of the cost model.
llvm::ArrayRef<CostInput> getCostInputs();
/// Returns the inputs whose errors affect strategies differently. `auto`
/// decides by them.
llvm::ArrayRef<CostInput> getPlanningInputs();

/// A range that should contain eight of ten times: from the 10th to the 90th
/// percentile.
struct Range {
  double low = 0, high = 0;
};

/// Returns the range of the time, in seconds. Errors of the inputs, and that of
/// the model, are independent and lognormal, so their effects on the logarithm
/// of the time are added in quadrature. Effects that make a step slower give
/// the upper end, and the others the lower end.
Range findRange(const ScenarioTimes &times, const Spread &spread);

/// Returns the mean time over the spread of the planning inputs, in seconds, to
/// the second order of their effects.
double findMean(const ScenarioTimes &times);

/// The time of a step relative to the time of another step with the same
/// inputs.
struct TimeRatio {
  /// The time divided by that of the other step.
  double nominal = 1;
  Range range;

  /// Returns whether the same step is faster in nine of ten cases.
  bool isCertain() const { return range.low > 1 || range.high < 1; }
};

/// Returns the ratio of `times` to `others`. Both were run on one cluster, so
/// that an input that slows both down does not change it.
TimeRatio compareTimes(const ScenarioTimes &times, const ScenarioTimes &others,
                       const Spread &spread);

} // namespace fcdp
