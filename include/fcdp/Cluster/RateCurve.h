// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace fcdp {

/// How a rate grows with a size, as points that were measured.
struct RateCurve {
  struct Point {
    double size = 0, rate = 0;
  };
  /// In ascending order of sizes, all positive.
  std::vector<Point> points;

  bool empty() const { return points.empty(); }
  /// Returns the rate at `size`, between two points on the line that joins them
  /// in logarithms, outside of them that of the nearest. Requires a point.
  double read(double size) const;
};

} // namespace fcdp
