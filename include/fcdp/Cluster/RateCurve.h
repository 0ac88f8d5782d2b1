// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace fcdp {

/// A rate as a function of a size, given by measured points.
struct RateCurve {
  struct Point {
    double size = 0, rate = 0;
  };
  /// In ascending order of sizes, all positive.
  std::vector<Point> points;

  bool empty() const { return points.empty(); }
  /// Returns the rate at `size`. It interpolates linearly in logarithms between
  /// two points, and takes the nearest point outside of all. Requires a point.
  double read(double size) const;
};

} // namespace fcdp
