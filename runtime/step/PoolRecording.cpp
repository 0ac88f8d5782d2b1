// SPDX-License-Identifier: Apache-2.0
#include "step/PoolRecording.h"

#include <algorithm>

namespace fcdp {

c10::DataPtr PoolRecording::allocate(c10::Allocator &system, size_t bytes) {
  auto block = std::make_unique<Block>();
  block->memory = system.allocate(bytes);
  block->owner = shared_from_this();
  {
    std::lock_guard lock(mutex);
    block->index = noted.lifetimes.size();
    noted.lifetimes.push_back({bytes, now++, Lifetime::kNever});
    live += bytes;
    peak = std::max(peak, live);
  }
  void *data = block->memory.get();
  return {data, block.release(), &release, c10::Device(c10::kCPU)};
}

void PoolRecording::reach(const HeldMemory &held, const HeldMoment &moment) {
  std::lock_guard lock(mutex);
  for (uint32_t range : moment.ends) {
    noted.obstacles[open.at(range)].to = now;
    open.erase(range);
  }
  for (uint32_t range : moment.begins) {
    open[range] = noted.obstacles.size();
    noted.obstacles.push_back(
        {held.ranges[range].offset, held.ranges[range].bytes, now});
  }
  ++now;
}

void PoolRecording::release(void *context) {
  std::unique_ptr<Block> block(static_cast<Block *>(context));
  PoolRecording &owner = *block->owner;
  std::lock_guard lock(owner.mutex);
  Lifetime &lifetime = owner.noted.lifetimes[block->index];
  lifetime.freedAt = owner.now;
  owner.live -= lifetime.bytes;
}

StepEvents PoolRecording::events() const {
  std::lock_guard lock(mutex);
  return noted;
}

size_t PoolRecording::peakBytes() const {
  std::lock_guard lock(mutex);
  return peak;
}

} // namespace fcdp
