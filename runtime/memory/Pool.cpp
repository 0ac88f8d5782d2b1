// SPDX-License-Identifier: Apache-2.0
#include "memory/Pool.h"

#include "memory/PoolRecording.h"
#include "memory/PoolReplay.h"
#include "memory/SystemUse.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace fcdp {

namespace {

thread_local ResultPool *activePool = nullptr;

/// Returns the lowest offset of any allocation that ends at or after `end`.
uint64_t findFirstBehind(const StepEvents &events, const Placement &placement,
                         uint64_t end) {
  uint64_t first = placement.regionBytes;
  for (size_t i = 0; i < events.lifetimes.size(); ++i)
    if (events.lifetimes[i].freedAt != Lifetime::kNever &&
        placement.offsets[i] + events.lifetimes[i].bytes > end)
      first = std::min<uint64_t>(first, placement.offsets[i]);
  return first;
}

} // namespace

ResultPool::ResultPool(PoolArena arena, c10::Allocator &system)
    : arena(std::move(arena)), system(system),
      systemUse(std::make_shared<SystemUse>()) {}

ResultPool::~ResultPool() {
  if (replay)
    replay->retire();
}

ResultPool::Scope::Scope(ResultPool &pool)
    : outer(std::exchange(activePool, &pool)) {}
ResultPool::Scope::~Scope() { activePool = outer; }

ResultPool::Apart::Apart() : pool(activePool) {
  if (pool)
    ++pool->numApart;
}
ResultPool::Apart::~Apart() {
  if (pool)
    --pool->numApart;
}

ResultPool *ResultPool::active() { return activePool; }

void ResultPool::beginStep() {
  systemUse->beginStep();
  if (replay)
    replay->begin();
  if (replay && replayIsStale && recordings < kMostRecordings) {
    replay->retire();
    replay = nullptr;
  }
  replayIsStale = false;
  if (replay) {
    mode = Mode::Replaying;
    return;
  }
  mode = Mode::Recording;
  ++recordings;
  recording = std::make_shared<PoolRecording>(arena.base, arena.device);
}

/// Places the recorded allocations.
void ResultPool::plan() {
  StepEvents events = recording->events();
  Placement placement = placeLifetimes(events, arena.reserved);
  PoolMemory memory{arena.base, arena.bytes, arena.bytes, nullptr};
  if (placement.regionBytes > arena.bytes) {
    memory.behindFrom = findFirstBehind(events, placement, arena.bytes);
    memory.behind = arena.extend(memory.behindFrom, placement.regionBytes);
  }
  replay = new PoolReplay(std::move(events), std::move(placement),
                          std::move(memory), arena.device);
}

void ResultPool::endStep() {
  if (mode == Mode::Recording) {
    plan();
    recording.reset();
  }
  mode = Mode::Idle;
}

void ResultPool::beginFunction(const Reservations &function,
                               std::span<const plan::ResultPlace> results) {
  reserved = &function;
  nextChange = 0;
  if (mode == Mode::Recording)
    recording->beginFunction(results);
}

void ResultPool::apply(const ReservationChange &change) {
  if (mode == Mode::Recording)
    recording->reach(*reserved, change);
  else if (mode == Mode::Replaying)
    moveOut(replay->reach(*reserved, change));
}

void ResultPool::moveOut(const std::vector<uint32_t> &allocations) {
  for (uint32_t index : allocations) {
    if (arena.moveOut)
      arena.moveOut(replay->bytesOf(index),
                    [this](size_t bytes) { return fromSystem(bytes); });
    if (replay->isInUse(index))
      throw std::runtime_error(
          "allocation " + std::to_string(index) +
          " of this step is still in use, and its place is due for a buffer of "
          "the plan: the steps differ in what they keep");
  }
}

void ResultPool::reach(size_t op) {
  if (reserved)
    for (; nextChange < reserved->changes.size() &&
           reserved->changes[nextChange].op <= op;
         ++nextChange)
      apply(reserved->changes[nextChange]);
  if (mode == Mode::Recording)
    recording->reach(reserved, op);
  else if (mode == Mode::Replaying)
    replay->reach(reserved, op);
}

void ResultPool::endFunction() {
  reach(std::numeric_limits<size_t>::max());
  reserved = nullptr;
}

c10::DataPtr ResultPool::fromSystem(size_t bytes) {
  ++systemCount;
  return systemUse->allocate(system, bytes);
}

c10::DataPtr ResultPool::allocate(size_t bytes) {
  if (numApart != 0)
    return fromSystem(bytes);
  switch (mode) {
  case Mode::Idle:
    return fromSystem(bytes);
  case Mode::Recording:
    return recording->allocate([this](size_t size) { return fromSystem(size); },
                               bytes);
  case Mode::Replaying:
    break;
  }
  PoolReplay::Result result = replay->allocate(bytes);
  if (result.kind == PoolReplay::Result::Kind::Placed)
    return std::move(result.memory);
  if (result.kind == PoolReplay::Result::Kind::Mismatch)
    replayIsStale = true;
  return fromSystem(bytes);
}

bool ResultPool::isReplaying() const {
  return mode == Mode::Replaying && replay->isLikeRecorded();
}

size_t ResultPool::numPlaced() const {
  return isReplaying() ? replay->numPlaced() : 0;
}

const std::byte *ResultPool::place(size_t index) const {
  return isReplaying() ? replay->place(index) : nullptr;
}

void ResultPool::skip(size_t count) {
  for (size_t i = 0; i < count; ++i)
    replay->skip();
}

void ResultPool::endOperation() {
  if (mode == Mode::Replaying)
    replay->endOperation();
}

bool ResultPool::isExact() {
  return isReplaying() && replay->isLikeRecordedOnes();
}

size_t ResultPool::systemBytes() const { return systemUse->peakBytes(); }

size_t ResultPool::regionBytes() const {
  return replay ? replay->regionBytes() : 0;
}

} // namespace fcdp
