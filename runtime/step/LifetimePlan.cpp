// SPDX-License-Identifier: Apache-2.0
#include "step/LifetimePlan.h"

namespace fcdp {

Placement placeLifetimes(const std::vector<Lifetime> &lifetimes) {
  std::vector<packing::Buffer> buffers;
  std::vector<size_t> indices;
  for (size_t i = 0; i < lifetimes.size(); ++i) {
    if (lifetimes[i].freedAt == Lifetime::kNever)
      continue;
    buffers.push_back({static_cast<int64_t>(lifetimes[i].bytes),
                       static_cast<int64_t>(i),
                       static_cast<int64_t>(lifetimes[i].freedAt)});
    indices.push_back(i);
  }
  packing::Packing packed = packing::pack(buffers, packing::kPoolAlignment);
  Placement placement;
  placement.offsets.resize(lifetimes.size());
  for (size_t i = 0; i < indices.size(); ++i)
    placement.offsets[indices[i]] = static_cast<size_t>(packed.offsets[i]);
  placement.regionBytes = static_cast<size_t>(packed.peak);
  return placement;
}

} // namespace fcdp
