// SPDX-License-Identifier: Apache-2.0
#include "step/PoolReplay.h"

#include <algorithm>
#include <c10/util/Exception.h>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <sys/mman.h>

namespace fcdp {

namespace {

std::byte *mapRegion(size_t bytes) {
  if (bytes == 0)
    return nullptr;
  void *region = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (region == MAP_FAILED)
    throw std::runtime_error(
        "the pool for results of operators needs " + std::to_string(bytes) +
        " bytes, which cannot be had: " + std::strerror(errno));
  // Fewer page faults in the first replayed step; no harm if refused.
  (void)madvise(region, bytes, MADV_HUGEPAGE);
  return static_cast<std::byte *>(region);
}

} // namespace

void PoolReplay::Unmap::operator()(std::byte *region) const {
  munmap(region, bytes);
}

PoolReplay::PoolReplay(std::vector<Lifetime> recorded)
    : lifetimes(std::move(recorded)) {
  Placement placement = placeLifetimes(lifetimes);
  bytes = placement.regionBytes;
  region = {mapRegion(bytes), Unmap{bytes}};
  blocks = std::make_unique<Block[]>(lifetimes.size());
  for (uint32_t i = 0; i < lifetimes.size(); ++i) {
    if (lifetimes[i].freedAt == Lifetime::kNever)
      continue;
    blocks[i].owner = this;
    blocks[i].data = region.get() + placement.offsets[i];
    byEnd.push_back(i);
  }
  std::sort(byEnd.begin(), byEnd.end(), [&](uint32_t a, uint32_t b) {
    return lifetimes[a].freedAt < lifetimes[b].freedAt;
  });
}

bool PoolReplay::begin() {
  nextBlock = 0;
  nextEnd = 0;
  return shares.load(std::memory_order_acquire) == 1;
}

void PoolReplay::checkFreed() {
  for (; nextEnd < byEnd.size(); ++nextEnd) {
    uint32_t index = byEnd[nextEnd];
    if (lifetimes[index].freedAt > nextBlock)
      return;
    TORCH_CHECK(!blocks[index].inUse.load(std::memory_order_acquire),
                "allocation ", index,
                " of this step is still in use where the "
                "recorded step had freed it, and its place is due again: the "
                "steps differ in what "
                "they keep");
  }
}

PoolReplay::Result PoolReplay::allocate(size_t size) {
  if (nextBlock >= lifetimes.size() || lifetimes[nextBlock].bytes != size)
    return {Result::Kind::Mismatch, {}};
  checkFreed();
  Block &block = blocks[nextBlock++];
  if (!block.owner)
    return {Result::Kind::Outlives, {}};
  block.inUse.store(true, std::memory_order_relaxed);
  shares.fetch_add(1, std::memory_order_relaxed);
  return {Result::Kind::Placed,
          {block.data, &block, &release, c10::Device(c10::kCPU)}};
}

void PoolReplay::release(void *context) {
  auto *block = static_cast<Block *>(context);
  PoolReplay *owner = block->owner;
  block->inUse.store(false, std::memory_order_release);
  owner->releaseShare();
}

void PoolReplay::releaseShare() {
  if (shares.fetch_sub(1, std::memory_order_acq_rel) == 1)
    delete this;
}

} // namespace fcdp
