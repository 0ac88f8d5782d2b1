// SPDX-License-Identifier: Apache-2.0
#include "inputs/Mixture.h"

#include <algorithm>
#include <numeric>

namespace fcdp::run {

Mixture::Mixture(const std::vector<uint32_t> &weights)
    : weights(weights),
      files(std::accumulate(weights.begin(), weights.end(), size_t(0))) {
  std::vector<int64_t> behind(weights.size());
  for (uint32_t &file : files) {
    for (size_t i = 0; i < weights.size(); ++i)
      behind[i] += weights[i];
    auto most = std::max_element(behind.begin(), behind.end());
    *most -= int64_t(files.size());
    file = uint32_t(most - behind.begin());
  }
}

size_t Mixture::fileAt(int64_t position) const {
  return files[size_t(position) % files.size()];
}

int64_t Mixture::countBefore(size_t file, int64_t position) const {
  auto period = int64_t(files.size());
  return position / period * weights[file] +
         std::count(files.begin(), files.begin() + position % period, file);
}

} // namespace fcdp::run
