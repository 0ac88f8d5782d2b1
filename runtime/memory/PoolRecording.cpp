// SPDX-License-Identifier: Apache-2.0
#include "memory/PoolRecording.h"

#include <algorithm>
#include <stdexcept>

namespace fcdp {

void PoolRecording::beginFunction(std::span<const plan::ResultPlace> results) {
  std::lock_guard lock(mutex);
  planned.beginFunction(results);
}

void PoolRecording::reach(const void *function, size_t op) {
  std::lock_guard lock(mutex);
  planned.reach(op);
  recorded.operations.push_back(
      {function, op, recorded.lifetimes.size(), now++});
}

c10::DataPtr
PoolRecording::allocate(const std::function<c10::DataPtr(size_t)> &system,
                        size_t bytes) {
  auto block = std::make_unique<Block>();
  block->owner = shared_from_this();
  {
    std::lock_guard lock(mutex);
    block->place = planned.take(bytes);
    block->index = recorded.lifetimes.size();
    recorded.lifetimes.push_back({bytes, now++, Lifetime::kNever});
  }
  if (!block->place)
    block->memory = system(bytes);
  void *data = block->place ? base + *block->place : block->memory.get();
  return {data, block.release(), &release, device};
}

void PoolRecording::reach(const Reservations &reserved,
                          const ReservationChange &change) {
  std::lock_guard lock(mutex);
  for (uint32_t index : change.ends) {
    recorded.obstacles[open.at(index)].to = now;
    open.erase(index);
  }
  for (uint32_t index : change.begins) {
    const plan::ReservedRange &range = reserved.ranges[index];
    if (!planned.isFree(range.offset(), range.bytes()))
      throw std::runtime_error(
          "a result of an operator is still in use, and its place is due for a "
          "buffer of the plan: it is kept for longer than was planned");
    open[index] = recorded.obstacles.size();
    recorded.obstacles.push_back({range.offset(), range.bytes(), now});
  }
  recorded.changes.push_back(now++);
}

void PoolRecording::release(void *context) {
  std::unique_ptr<Block> block(static_cast<Block *>(context));
  PoolRecording &owner = *block->owner;
  std::lock_guard lock(owner.mutex);
  Lifetime &lifetime = owner.recorded.lifetimes[block->index];
  lifetime.freedAt = owner.now;
  if (block->place)
    owner.planned.release(*block->place);
}

StepEvents PoolRecording::events() const {
  std::lock_guard lock(mutex);
  return recorded;
}

} // namespace fcdp
