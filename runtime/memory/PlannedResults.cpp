// SPDX-License-Identifier: Apache-2.0
#include "memory/PlannedResults.h"

#include <algorithm>

namespace fcdp {

void PlannedResults::beginFunction(std::span<const plan::ResultPlace> of) {
  results = of;
  now.clear();
  next = 0;
}

void PlannedResults::reach(size_t op) {
  now.clear();
  for (; next < results.size() && results[next].op() <= op; ++next)
    if (results[next].op() == op)
      now.push_back(results[next]);
}

bool PlannedResults::isFree(uint64_t offset, uint64_t bytes) const {
  auto behind = inUse.lower_bound(offset);
  if (behind != inUse.end() && behind->first < offset + bytes)
    return false;
  return behind == inUse.begin() || std::prev(behind)->second <= offset;
}

std::optional<uint64_t> PlannedResults::take(uint64_t bytes) {
  auto found =
      std::find_if(now.begin(), now.end(), [&](const plan::ResultPlace &r) {
        return r.bytes() == bytes;
      });
  if (found == now.end() || !isFree(found->offset(), bytes))
    return std::nullopt;
  uint64_t offset = found->offset();
  now.erase(found);
  inUse[offset] = offset + bytes;
  return offset;
}

} // namespace fcdp
