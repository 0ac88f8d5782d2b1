// SPDX-License-Identifier: Apache-2.0
//
// Places allocations of known sizes and lifetimes in one region.
#pragma once

#include "core/Packing.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace fcdp {

/// One allocation of a step. Time is counted in allocations: allocation i is
/// made at time i, and freed before allocation `freedAt` was made.
struct Lifetime {
  static constexpr uint32_t kNever = std::numeric_limits<uint32_t>::max();
  size_t bytes = 0;
  uint32_t freedAt = kNever;
};

struct Placement {
  /// Offset of each allocation, multiples of kPoolAlignment; those that are
  /// never freed have none.
  std::vector<size_t> offsets;
  size_t regionBytes = 0;
};

inline constexpr size_t kPoolAlignment = packing::kPoolAlignment;

/// Places what is freed as core/Packing.h says.
Placement placeLifetimes(const std::vector<Lifetime> &lifetimes);

} // namespace fcdp
