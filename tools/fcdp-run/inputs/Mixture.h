// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace fcdp::run {

/// Spreads the rows of several files over positions by whole weights. A period
/// has as many positions as the weights' sum, and each file has as many of them
/// as its weight, spread evenly ("smooth weighted round-robin", as in nginx).
/// Each position goes to the file that has the fewest relative to its weight,
/// or to the first of several such files. python/fcdp/data.py computes the
/// same. Immutable, hence thread-safe.
class Mixture {
public:
  explicit Mixture(const std::vector<uint32_t> &weights);

  size_t fileAt(int64_t position) const;
  /// Returns the number of positions before `position` that belong to `file`.
  int64_t countBefore(size_t file, int64_t position) const;

private:
  std::vector<uint32_t> weights;
  std::vector<uint32_t> files; ///< by position within a period
};

} // namespace fcdp::run
