// SPDX-License-Identifier: Apache-2.0
#include "memory/PoolReplay.h"

#include <algorithm>
#include <c10/util/Exception.h>
#include <stdexcept>

namespace fcdp {

PoolReplay::PoolReplay(StepEvents events, Placement planned, PoolMemory given,
                       c10::Device device)
    : recorded(std::move(events)), placement(std::move(planned)),
      memory(std::move(given)), device(device) {
  blocks = std::make_unique<Block[]>(lifetimes.size());
  for (uint32_t i = 0; i < lifetimes.size(); ++i) {
    if (lifetimes[i].freedAt == Lifetime::kNever)
      continue;
    blocks[i].owner = this;
    uint64_t offset = placement.offsets[i];
    bool isBehind = offset + lifetimes[i].bytes > memory.bytes;
    blocks[i].data = isBehind
                         ? memory.behind.get() + (offset - memory.behindFrom)
                         : memory.base + offset;
    byEnd.push_back(i);
  }
  std::sort(byEnd.begin(), byEnd.end(), [&](uint32_t a, uint32_t b) {
    return lifetimes[a].freedAt < lifetimes[b].freedAt;
  });
}

void PoolReplay::begin() {
  if (shares.load(std::memory_order_acquire) != 1)
    throw std::runtime_error(
        "memory that an operator took in the step before is still in use, and "
        "its place is due again: the steps differ in what they keep");
  nextBlock = 0;
  nextEnd = 0;
  now = 0;
  nextOperation = nextChange = 0;
  blocksEnd = firstOf(0);
  isAsRecorded = true;
}

size_t PoolReplay::firstOf(size_t operation) const {
  const std::vector<OperationStart> &operations = recorded.operations;
  return operation < operations.size() ? operations[operation].firstLifetime
                                       : lifetimes.size();
}

void PoolReplay::reach(const void *function, size_t op) {
  const std::vector<OperationStart> &operations = recorded.operations;
  isAsRecorded = isAsRecorded && nextOperation < operations.size() &&
                 operations[nextOperation].function == function &&
                 operations[nextOperation].op == op;
  if (!isAsRecorded)
    return;
  nextBlock = firstOf(nextOperation);
  blocksEnd = firstOf(++nextOperation);
}

std::optional<uint32_t> PoolReplay::findLate() {
  for (; nextEnd < byEnd.size(); ++nextEnd) {
    uint32_t index = byEnd[nextEnd];
    if (lifetimes[index].freedAt > now)
      break;
    if (blocks[index].inUse.load(std::memory_order_acquire))
      return index;
  }
  return std::nullopt;
}

std::optional<uint32_t>
PoolReplay::findIn(const plan::ReservedRange &range) const {
  for (uint32_t i = 0; i < lifetimes.size(); ++i) {
    uint64_t begin = placement.offsets[i], end = begin + lifetimes[i].bytes;
    if (begin < range.offset() + range.bytes() && range.offset() < end &&
        blocks[i].inUse.load(std::memory_order_acquire))
      return i;
  }
  return std::nullopt;
}

void PoolReplay::reach(const Reservations &reserved,
                       const ReservationChange &change) {
  std::optional<uint32_t> late;
  isAsRecorded = isAsRecorded && nextChange < recorded.changes.size();
  if (isAsRecorded) {
    now = recorded.changes[nextChange++];
    late = findLate();
  } else {
    for (size_t i = 0; i < change.begins.size() && !late; ++i)
      late = findIn(reserved.ranges[change.begins[i]]);
  }
  if (late)
    throw std::runtime_error(
        "allocation " + std::to_string(*late) +
        " of this step is still in use, and its place is due for a buffer of "
        "the plan: the steps differ in what they keep");
}

PoolReplay::Result PoolReplay::allocate(size_t size) {
  size_t found = nextBlock;
  while (found < blocksEnd && lifetimes[found].bytes != size)
    ++found;
  if (!isAsRecorded || found >= blocksEnd)
    return {Result::Kind::Mismatch, {}};
  goTo(lifetimes[found].madeAt);
  nextBlock = found + 1;
  Block &block = blocks[found];
  if (!block.owner)
    return {Result::Kind::Outlives, {}};
  block.inUse.store(true, std::memory_order_relaxed);
  shares.fetch_add(1, std::memory_order_relaxed);
  return {Result::Kind::Placed, {block.data, &block, &release, device}};
}

void PoolReplay::skip() {
  goTo(lifetimes[nextBlock].madeAt);
  ++nextBlock;
}

void PoolReplay::goTo(uint32_t event) {
  now = event;
  std::optional<uint32_t> late = findLate();
  TORCH_CHECK(!late, "allocation ", *late,
              " of this step is still in use where the recorded step had freed "
              "it, and its place is due again: the steps differ in what they "
              "keep");
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
