// SPDX-License-Identifier: Apache-2.0
#include "Suggestion.h"

#include <algorithm>
#include <numeric>

namespace fcdp::run {

/// Returns how many letters have to be added, removed or replaced.
static size_t editDistance(const std::string &from, const std::string &to) {
  std::vector<size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), size_t(0));
  for (size_t i = 0; i < from.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < to.size(); ++j) {
      const size_t replaced = diagonal + (from[i] != to[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

std::string nearestName(const std::string &given,
                        const std::vector<std::string> &known) {
  constexpr size_t most = 2;
  size_t best = std::min(most + 1, (given.size() + 1) / 2);
  std::string nearest;
  for (const std::string &name : known)
    if (size_t distance = editDistance(given, name); distance < best) {
      best = distance;
      nearest = name;
    }
  return nearest;
}

} // namespace fcdp::run
