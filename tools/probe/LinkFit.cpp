// SPDX-License-Identifier: Apache-2.0
#include "probe/LinkFit.h"

#include <algorithm>
#include <cmath>

namespace fcdp::probe {

namespace {

/// The factor above noise by which a burst is faster than the sustained rate.
constexpr double kBurst = 1.25;
/// The share of the greatest possible determinant below which all sizes are
/// equal up to rounding.
constexpr double kLeastDeterminant = 1e-12;

} // namespace

static TimedSize findLargest(const std::vector<TimedSize> &times) {
  return *std::max_element(
      times.begin(), times.end(),
      [](const TimedSize &p, const TimedSize &q) { return p.bytes < q.bytes; });
}

std::vector<TimedSize> withoutBursts(const std::vector<TimedSize> &times) {
  double lasting = findLargest(times).rate();
  std::vector<TimedSize> kept;
  for (const TimedSize &time : times)
    if (time.rate() <= kBurst * lasting)
      kept.push_back(time);
  return kept;
}

LinkFigures fitLink(const std::vector<TimedSize> &times) {
  // The normal equations for (a + b x) / t = 1.
  double one = 0, x = 0, xx = 0, a = 0, b = 0;
  for (const TimedSize &time : withoutBursts(times)) {
    double u = 1 / time.seconds, v = time.bytes / time.seconds;
    one += u * u;
    x += u * v;
    xx += v * v;
    a += u;
    b += v;
  }
  double determinant = one * xx - x * x;
  bool isSolvable = determinant > kLeastDeterminant * one * xx;
  double latency = isSolvable ? (a * xx - b * x) / determinant : 0;
  double slope = isSolvable ? (one * b - x * a) / determinant : 0;
  // Small sizes determine the latency. Their noise must not change the time of
  // the largest.
  TimedSize largest = findLargest(times);
  if (latency >= 0 && slope > 0 && latency < largest.seconds / 2)
    return {latency, largest.bytes / (largest.seconds - latency)};
  if (latency >= 0 && slope > 0)
    return {latency, 1 / slope};
  // This is noise: no size took longer than another, or a transfer without
  // bytes would take less than no time. The largest size determines the
  // bandwidth best.
  return {0, latency < 0 && b > 0 ? xx / b : findLargest(times).rate()};
}

uint32_t countSharers(double slowdown, uint32_t ranks) {
  uint32_t nearest = 1;
  for (uint32_t sharers = 2; sharers <= ranks; ++sharers)
    if (ranks % sharers == 0 && std::abs(std::log(sharers / slowdown)) <
                                    std::abs(std::log(nearest / slowdown)))
      nearest = sharers;
  return nearest;
}

} // namespace fcdp::probe
