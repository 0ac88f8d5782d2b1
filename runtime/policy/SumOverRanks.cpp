// SPDX-License-Identifier: Apache-2.0
#include "policy/SumOverRanks.h"

namespace fcdp {

std::vector<double> sumOverRanks(std::span<const double> own, const char *what,
                                 const GatherOverRanks &gather) {
  const std::vector<double> all = gather(own, what);
  std::vector<double> sums(own.size());
  for (size_t i = 0; i < all.size(); ++i)
    sums[i % own.size()] += all[i];
  return sums;
}

} // namespace fcdp
