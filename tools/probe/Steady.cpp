// SPDX-License-Identifier: Apache-2.0
#include "probe/Steady.h"

#include "session/OverRanks.h"

#include <cmath>
#include <vector>

namespace fcdp::probe {

namespace {

/// The total seconds of samples from which on the least number is enough.
constexpr double kLongSeconds = 0.4;
/// Samples with less scatter agree.
constexpr double kAgreeing = 0.1;
/// The standard deviation of a normal distribution over the median of the
/// distances from its median.
constexpr double kPerDistance = 1.4826;

} // namespace

static SteadyTime summarize(const std::vector<double> &samples) {
  SteadyTime time{medianOf(samples), 0};
  std::vector<double> distances;
  for (double sample : samples)
    distances.push_back(std::abs(sample - time.seconds));
  if (time.seconds > 0)
    time.scatter = kPerDistance * medianOf(distances) / time.seconds;
  return time;
}

SteadyTime takeSteady(const std::function<double()> &sample, size_t least,
                      size_t most) {
  std::vector<double> samples;
  double total = 0;
  while (true) {
    samples.push_back(sample());
    total += samples.back();
    if (samples.size() < least)
      continue;
    SteadyTime time = summarize(samples);
    if (time.scatter <= kAgreeing || total > kLongSeconds ||
        samples.size() == most)
      return time;
  }
}

} // namespace fcdp::probe
