// SPDX-License-Identifier: Apache-2.0
#include "plan/Reservations.h"

#include <map>

namespace fcdp {

Reservations::Reservations(std::vector<plan::ReservedRange> given)
    : ranges(std::move(given)) {
  std::map<uint64_t, ReservationChange> byOp;
  for (uint32_t i = 0; i < ranges.size(); ++i) {
    byOp[ranges[i].from()].begins.push_back(i);
    byOp[ranges[i].to()].ends.push_back(i);
  }
  for (auto &[op, change] : byOp) {
    change.op = op;
    changes.push_back(std::move(change));
  }
}

} // namespace fcdp
