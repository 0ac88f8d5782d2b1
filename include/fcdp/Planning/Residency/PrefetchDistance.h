// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace fcdp {

/// Returns whether the copy for live range `later` is fetched before the use in
/// live range `range`, if copies are fetched `distance` live ranges ahead. The
/// pass --fcdp-prefetch applies this rule and the residency estimate prices it.
constexpr bool isFetchedBefore(size_t range, size_t later, size_t distance) {
  return distance > 0 && later <= range + distance;
}

} // namespace fcdp
