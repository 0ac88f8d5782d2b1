// SPDX-License-Identifier: Apache-2.0
//
// The ranges of the device arena that a function reserves, in the order in
// which its operations reach them.
#pragma once

#include "plan/Plan_generated.h"

#include <cstdint>
#include <vector>

namespace fcdp {

/// The ranges, by index, that end and begin before operation `op`. An index
/// after the last operation means the end of the function.
struct ReservationChange {
  uint64_t op;
  std::vector<uint32_t> ends, begins;
};

/// The reserved ranges of one function.
struct Reservations {
  Reservations() = default;
  explicit Reservations(std::vector<plan::ReservedRange> ranges);

  std::vector<plan::ReservedRange> ranges;
  /// The changes in the order of their operations.
  std::vector<ReservationChange> changes;
};

} // namespace fcdp
