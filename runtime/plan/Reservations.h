// SPDX-License-Identifier: Apache-2.0
//
// The ranges of the device arena that a function reserves, in the order in
// which its operations reach them.
#pragma once

#include "plan/Plan_generated.h"

#include <cstdint>
#include <vector>

namespace fcdp {

/// The ranges, by index, that end and begin in front of operation `op`. An
/// index behind the last operation stands for the end of the function.
struct ReservationChange {
  uint64_t op;
  std::vector<uint32_t> ends, begins;
};

/// The reserved ranges of one function.
struct Reservations {
  Reservations() = default;
  explicit Reservations(std::vector<plan::ReservedRange> ranges);

  std::vector<plan::ReservedRange> ranges;
  /// By operation.
  std::vector<ReservationChange> changes;
};

} // namespace fcdp
