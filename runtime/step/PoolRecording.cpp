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
    block->index = blocks.size();
    blocks.push_back({bytes, Lifetime::kNever});
    live += bytes;
    peak = std::max(peak, live);
  }
  void *data = block->memory.get();
  return {data, block.release(), &release, c10::Device(c10::kCPU)};
}

void PoolRecording::release(void *context) {
  std::unique_ptr<Block> block(static_cast<Block *>(context));
  PoolRecording &owner = *block->owner;
  std::lock_guard lock(owner.mutex);
  Lifetime &lifetime = owner.blocks[block->index];
  lifetime.freedAt = owner.blocks.size();
  owner.live -= lifetime.bytes;
}

std::vector<Lifetime> PoolRecording::lifetimes() const {
  std::lock_guard lock(mutex);
  return blocks;
}

size_t PoolRecording::peakBytes() const {
  std::lock_guard lock(mutex);
  return peak;
}

} // namespace fcdp
