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
  late.reserve(byEnd.size());
}

void PoolReplay::begin() {
  if (shares.load(std::memory_order_acquire) != 1)
    throw std::runtime_error(
        "memory that an operator took in the step before is still in use, and "
        "its place is due again: the steps differ in what they keep");
  nextEnd = 0;
  nextOperation = nextChange = 0;
  late.clear();
  ++step;
  isAsRecorded = isExact = true;
  beginOperation(0, firstOf(0));
}

size_t PoolReplay::firstOf(size_t operation) const {
  const std::vector<OperationStart> &operations = recorded.operations;
  return operation < operations.size() ? operations[operation].firstLifetime
                                       : lifetimes.size();
}

void PoolReplay::beginOperation(size_t first, size_t end) {
  firstBlock = nextBlock = first;
  blocksEnd = end;
  numMade = 0;
}

bool PoolReplay::isAmbiguous(size_t leftOut) const {
  if (!blocks[leftOut].owner || blocks[leftOut].madeIn == step)
    return false;
  for (size_t i = firstBlock; i < blocksEnd; ++i)
    if (blocks[i].madeIn == step &&
        lifetimes[i].bytes == lifetimes[leftOut].bytes)
      return true;
  return false;
}

void PoolReplay::judgeOperation() {
  if (numMade == blocksEnd - firstBlock)
    return;
  for (size_t i = firstBlock; i < blocksEnd; ++i)
    isExact = isExact && !isAmbiguous(i);
}

void PoolReplay::endOperation() {
  if (!isAsRecorded)
    return;
  judgeOperation();
  if (nextOperation < recorded.operations.size())
    goTo(recorded.operations[nextOperation].event);
}

void PoolReplay::use(size_t index) {
  blocks[index].madeIn = step;
  ++numMade;
  nextBlock = index + 1;
}

void PoolReplay::reach(const void *function, size_t op) {
  const std::vector<OperationStart> &operations = recorded.operations;
  isAsRecorded = isAsRecorded && nextOperation < operations.size() &&
                 operations[nextOperation].function == function &&
                 operations[nextOperation].op == op;
  if (!isAsRecorded)
    return;
  endOperation();
  beginOperation(firstOf(nextOperation), firstOf(nextOperation + 1));
  ++nextOperation;
}

void PoolReplay::goTo(uint32_t event) {
  for (; nextEnd < byEnd.size(); ++nextEnd) {
    uint32_t index = byEnd[nextEnd];
    if (lifetimes[index].freedAt > event)
      return;
    if (isInUse(index))
      late.push_back(index);
  }
}

bool PoolReplay::hasLate() {
  std::erase_if(late, [&](uint32_t index) { return !isInUse(index); });
  return !late.empty();
}

bool PoolReplay::isIn(uint32_t index, const plan::ReservedRange &range) const {
  uint64_t begin = placement.offsets[index];
  return begin < range.offset() + range.bytes() &&
         range.offset() < begin + lifetimes[index].bytes;
}

bool PoolReplay::isTaken(size_t index) {
  if (!blocks[index].owner || late.empty() || !hasLate())
    return false;
  const plan::ReservedRange place(0, 0, placement.offsets[index],
                                  lifetimes[index].bytes);
  return std::any_of(late.begin(), late.end(),
                     [&](uint32_t other) { return isIn(other, place); });
}

void PoolReplay::addUsersOf(const plan::ReservedRange &range,
                            std::vector<uint32_t> &users) {
  auto add = [&](uint32_t index) {
    if (isInUse(index) && isIn(index, range))
      users.push_back(index);
  };
  if (isAsRecorded)
    std::for_each(late.begin(), late.end(), add);
  else
    std::for_each(byEnd.begin(), byEnd.end(), add);
}

std::vector<uint32_t> PoolReplay::reach(const Reservations &reserved,
                                        const ReservationChange &change) {
  isAsRecorded = isAsRecorded && nextChange < recorded.changes.size();
  if (isAsRecorded)
    goTo(recorded.changes[nextChange++]);
  std::vector<uint32_t> users;
  if (!isAsRecorded || !late.empty())
    for (uint32_t range : change.begins)
      addUsersOf(reserved.ranges[range], users);
  return users;
}

PoolReplay::Result PoolReplay::allocate(size_t size) {
  size_t found = nextBlock;
  while (found < blocksEnd && lifetimes[found].bytes != size)
    ++found;
  if (!isAsRecorded || found >= blocksEnd) {
    isExact = false;
    return {Result::Kind::Mismatch, {}};
  }
  goTo(lifetimes[found].madeAt);
  use(found);
  Block &block = blocks[found];
  if (!block.owner)
    return {Result::Kind::Outlives, {}};
  if (isTaken(found)) {
    isExact = false;
    return {Result::Kind::Mismatch, {}};
  }
  block.inUse.store(true, std::memory_order_relaxed);
  shares.fetch_add(1, std::memory_order_relaxed);
  return {Result::Kind::Placed, {block.data, &block, &release, device}};
}

void PoolReplay::skip() {
  goTo(lifetimes[nextBlock].madeAt);
  TORCH_CHECK(!isTaken(nextBlock), "the place of allocation ", nextBlock,
              " of this step is still in use, and a graph needs it: the steps "
              "differ in what they keep");
  use(nextBlock);
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
