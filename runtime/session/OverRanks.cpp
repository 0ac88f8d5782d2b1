// SPDX-License-Identifier: Apache-2.0
#include "session/OverRanks.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace fcdp {

double secondsOverRanks(const Mesh &mesh, std::optional<AxisId> axis,
                        const std::vector<double> &ofRanks) {
  if (!axis)
    return std::accumulate(ofRanks.begin(), ofRanks.end(), 0.0) /
           double(ofRanks.size());
  if (*axis == AxisId::World)
    return *std::min_element(ofRanks.begin(), ofRanks.end());
  bool isNode = *axis == AxisId::Node;
  std::vector<double> least(isNode ? mesh.locals : mesh.nodes,
                            std::numeric_limits<double>::infinity());
  for (uint32_t rank = 0; rank < mesh.size(); ++rank) {
    Place place = placeOf(mesh, rank);
    double &group = least[isNode ? place.local : place.node];
    group = std::min(group, ofRanks[rank]);
  }
  return *std::max_element(least.begin(), least.end());
}

double medianOf(std::vector<double> values) {
  auto middle = values.begin() + values.size() / 2;
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1)
    return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

} // namespace fcdp
