// SPDX-License-Identifier: Apache-2.0
#include "plan/HeldMemory.h"

#include <map>

namespace fcdp {

HeldMemory::HeldMemory(std::vector<HeldRange> given)
    : ranges(std::move(given)) {
  std::map<size_t, HeldMoment> byOp;
  for (uint32_t i = 0; i < ranges.size(); ++i) {
    byOp[ranges[i].from].begins.push_back(i);
    byOp[ranges[i].to].ends.push_back(i);
  }
  for (auto &[op, moment] : byOp) {
    moment.op = op;
    moments.push_back(std::move(moment));
  }
}

} // namespace fcdp
