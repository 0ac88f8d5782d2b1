// SPDX-License-Identifier: Apache-2.0
#include "memory/SystemUse.h"

#include <algorithm>

namespace fcdp {

void SystemUse::beginStep() {
  std::lock_guard lock(mutex);
  peak = live;
}

c10::DataPtr SystemUse::allocate(c10::Allocator &system, size_t bytes) {
  auto block = std::make_unique<Block>();
  block->owner = shared_from_this();
  block->memory = system.allocate(bytes);
  block->bytes = bytes;
  {
    std::lock_guard lock(mutex);
    live += bytes;
    peak = std::max(peak, live);
  }
  void *data = block->memory.get();
  c10::Device device = block->memory.device();
  return {data, block.release(), &release, device};
}

void SystemUse::release(void *context) {
  std::unique_ptr<Block> block(static_cast<Block *>(context));
  std::lock_guard lock(block->owner->mutex);
  block->owner->live -= block->bytes;
}

size_t SystemUse::peakBytes() const {
  std::lock_guard lock(mutex);
  return peak;
}

} // namespace fcdp
