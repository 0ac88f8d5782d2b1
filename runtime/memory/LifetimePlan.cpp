// SPDX-License-Identifier: Apache-2.0
#include "memory/LifetimePlan.h"

namespace fcdp {

Placement placeLifetimes(const StepEvents &events, size_t reserved) {
  std::vector<packing::Buffer> buffers;
  // The order is that of the compiler: reserved memory, then allocations.
  constexpr int64_t end = Lifetime::kNever;
  if (reserved > 0)
    buffers.push_back({static_cast<int64_t>(reserved), 0, end, 0});
  for (const Obstacle &obstacle : events.obstacles)
    buffers.push_back({static_cast<int64_t>(obstacle.bytes), obstacle.from,
                       obstacle.to, static_cast<int64_t>(obstacle.offset)});
  const size_t first = buffers.size();
  std::vector<size_t> indices;
  for (size_t i = 0; i < events.lifetimes.size(); ++i) {
    const Lifetime &lifetime = events.lifetimes[i];
    if (lifetime.freedAt == Lifetime::kNever)
      continue;
    buffers.push_back({static_cast<int64_t>(lifetime.bytes), lifetime.madeAt,
                       lifetime.freedAt});
    indices.push_back(i);
  }
  packing::Packing packed = packing::pack(buffers, packing::kPoolAlignment);
  Placement placement;
  placement.offsets.resize(events.lifetimes.size());
  for (size_t i = 0; i < indices.size(); ++i)
    placement.offsets[indices[i]] =
        static_cast<size_t>(packed.offsets[first + i]);
  placement.regionBytes = static_cast<size_t>(packed.peak);
  return placement;
}

} // namespace fcdp
