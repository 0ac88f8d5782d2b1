// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Simulation/Uncertainty.h"

#include "fcdp/Cluster/ScaledCluster.h"

#include <algorithm>
#include <cmath>

using namespace fcdp;

/// The 90th percentile of a normal distribution, in standard deviations.
static constexpr double kNinetieth = 1.2816;

llvm::ArrayRef<CostInput> fcdp::getCostInputs() {
  static constexpr auto inputs = [] {
    std::array<CostInput, kNumCostInputs> all{};
    for (unsigned i = 0; i < kNumCostInputs; ++i)
      all[i] = static_cast<CostInput>(i);
    return all;
  }();
  return inputs;
}

llvm::ArrayRef<CostInput> fcdp::getPlanningInputs() {
  static constexpr CostInput inputs[] = {CostInput::products, CostInput::inter,
                                         CostInput::intra, CostInput::copies};
  return inputs;
}

ScenarioTimes fcdp::runScenarios(const Cluster &cluster,
                                 llvm::ArrayRef<CostInput> inputs,
                                 double nominal, ScenarioRunner secondsOn) {
  ScenarioTimes times;
  times.nominal = nominal;
  times.slower.fill(nominal);
  times.faster.fill(nominal);
  for (CostInput input : inputs) {
    double deviation = cluster.spread.get(input);
    if (deviation == 0 || !isUsed(cluster, input))
      continue;
    auto i = static_cast<unsigned>(input);
    double factor = std::exp(deviation);
    auto run = [&](double speed) {
      return secondsOn(scaled(cluster, input, speed), input, speed);
    };
    times.slower[i] = run(1 / factor);
    times.faster[i] = run(factor);
  }
  return times;
}

namespace {
/// Adds effects on a logarithm, separately for increases and decreases.
class Effects {
public:
  /// Starts with `deviation` in both directions.
  explicit Effects(double deviation)
      : up(deviation * deviation), down(deviation * deviation) {}

  /// Adds the effects of an input that deviates to one side and to the other.
  void add(double one, double other) {
    double most = std::max({one, other, 0.0});
    double least = std::min({one, other, 0.0});
    up += most * most;
    down += least * least;
  }

  Range getRange(double nominal) const {
    return {nominal * std::exp(-kNinetieth * std::sqrt(down)),
            nominal * std::exp(kNinetieth * std::sqrt(up))};
  }

private:
  double up, down;
};
} // namespace

Range fcdp::findRange(const ScenarioTimes &times, const Spread &spread) {
  if (times.nominal <= 0)
    return {};
  Effects effects(spread.model);
  for (unsigned i = 0; i < kNumCostInputs; ++i)
    effects.add(std::log(times.slower[i] / times.nominal),
                std::log(times.faster[i] / times.nominal));
  return effects.getRange(times.nominal);
}

double fcdp::findMean(const ScenarioTimes &times) {
  double mean = times.nominal;
  for (CostInput input : getPlanningInputs()) {
    auto i = static_cast<unsigned>(input);
    mean += (times.slower[i] + times.faster[i]) / 2 - times.nominal;
  }
  return mean;
}

TimeRatio fcdp::compareTimes(const ScenarioTimes &times,
                             const ScenarioTimes &others,
                             const Spread &spread) {
  if (times.nominal <= 0 || others.nominal <= 0)
    return {1, {1, 1}};
  double ratio = times.nominal / others.nominal;
  Effects effects(spread.strategies);
  for (unsigned i = 0; i < kNumCostInputs; ++i)
    effects.add(std::log(times.slower[i] / others.slower[i] / ratio),
                std::log(times.faster[i] / others.faster[i] / ratio));
  return {ratio, effects.getRange(ratio)};
}
