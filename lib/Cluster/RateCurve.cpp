// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Cluster/RateCurve.h"

#include <algorithm>
#include <cassert>
#include <cmath>

using namespace fcdp;

double RateCurve::read(double size) const {
  assert(!empty() && "expected a point");
  auto above = std::upper_bound(
      points.begin(), points.end(), size,
      [](double value, const Point &point) { return value < point.size; });
  if (above == points.begin())
    return points.front().rate;
  const Point &low = above[-1];
  if (above == points.end())
    return low.rate;
  double part = std::log(size / low.size) / std::log(above->size / low.size);
  return low.rate * std::pow(above->rate / low.rate, part);
}
