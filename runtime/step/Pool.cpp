// SPDX-License-Identifier: Apache-2.0
#include "step/Pool.h"

#include "step/PoolRecording.h"
#include "step/PoolReplay.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/alignment.h>
#include <limits>
#include <mutex>

namespace fcdp {

namespace {

thread_local Pool *activePool = nullptr;

/// Stands in front of all memory that libtorch is given. Its maths libraries
/// ask by raw pointer and give back a pointer alone, so how to free must be
/// found from that.
struct Tag {
  c10::DeleterFnPtr release;
  void *context;
};
static_assert(sizeof(Tag) <= kPoolTagBytes &&
              kPoolTagBytes % c10::gAlignment == 0);

void releaseTagged(void *data) {
  if (!data)
    return;
  auto *tag =
      reinterpret_cast<Tag *>(static_cast<std::byte *>(data) - kPoolTagBytes);
  tag->release(tag->context);
}

/// Takes `memory`, whose first bytes are free for the tag.
c10::DataPtr tagged(c10::DataPtr memory) {
  auto *base = static_cast<std::byte *>(memory.get());
  c10::DeleterFnPtr release = memory.get_deleter();
  new (base) Tag{release, memory.release_context()};
  std::byte *data = base + kPoolTagBytes;
  return {data, data, &releaseTagged, c10::Device(c10::kCPU)};
}

/// Stands in for libtorch's CPU allocator in the whole process, and passes on
/// to it what is not for a pool. Thread-safe.
class RoutingAllocator final : public c10::Allocator {
public:
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0)
      return {nullptr, nullptr, &releaseTagged, c10::Device(c10::kCPU)};
    return tagged(activePool ? activePool->allocate(bytes + kPoolTagBytes)
                             : system().allocate(bytes + kPoolTagBytes));
  }
  c10::DeleterFnPtr raw_deleter() const override { return &releaseTagged; }
  void copy_data(void *target, const void *source,
                 std::size_t count) const override {
    default_copy_data(target, source, count);
  }
  static c10::Allocator &system() { return *c10::GetDefaultCPUAllocator(); }
};

/// Replaces libtorch's CPU allocator, once.
void installAllocator() {
  static std::once_flag once;
  std::call_once(once, [] {
    // libtorch keeps the pointer for good.
    static auto *allocator = new RoutingAllocator;
    constexpr uint8_t aboveDefault = 1;
    c10::SetCPUAllocator(allocator, aboveDefault);
  });
}

} // namespace

Pool::Pool(PoolArena arena) : arena(std::move(arena)) { installAllocator(); }

Pool::~Pool() {
  if (replay)
    replay->retire();
}

Pool::Scope::Scope(Pool &pool) : outer(std::exchange(activePool, &pool)) {}
Pool::Scope::~Scope() { activePool = outer; }

void Pool::beginStep() {
  recordedPeak = 0;
  if (replay)
    replay->begin();
  if (replay && replayIsStale) {
    replay->retire();
    replay = nullptr;
  }
  replayIsStale = false;
  if (replay) {
    mode = Mode::Replaying;
    return;
  }
  mode = Mode::Recording;
  recording = std::make_shared<PoolRecording>(arena.base);
}

/// Places what was recorded.
void Pool::plan() {
  StepEvents events = recording->events();
  Placement placement = placeLifetimes(events, arena.reserved);
  if (placement.regionBytes > arena.bytes)
    arena.grow(placement.regionBytes);
  replay = new PoolReplay(std::move(events), std::move(placement), arena.base);
}

void Pool::endStep() {
  if (mode == Mode::Recording) {
    recordedPeak = recording->peakBytes();
    plan();
    recording.reset();
  }
  mode = Mode::Idle;
}

void Pool::beginFunction(const HeldMemory &function,
                         std::span<const ResultPlace> results) {
  held = &function;
  nextMoment = 0;
  if (mode == Mode::Recording)
    recording->beginFunction(results);
}

void Pool::reachMoment(const HeldMoment &moment) {
  if (mode == Mode::Recording)
    recording->reach(*held, moment);
  else if (mode == Mode::Replaying)
    replay->reach(*held, moment);
}

void Pool::reach(size_t op) {
  if (held)
    for (; nextMoment < held->moments.size() &&
           held->moments[nextMoment].op <= op;
         ++nextMoment)
      reachMoment(held->moments[nextMoment]);
  if (mode == Mode::Recording)
    recording->reach(op);
}

void Pool::endFunction() {
  reach(std::numeric_limits<size_t>::max());
  held = nullptr;
}

c10::DataPtr Pool::fromSystem(size_t bytes) {
  ++systemCount;
  return RoutingAllocator::system().allocate(bytes);
}

c10::DataPtr Pool::allocate(size_t bytes) {
  switch (mode) {
  case Mode::Idle:
    return fromSystem(bytes);
  case Mode::Recording: {
    PoolRecording::Allocation made =
        recording->allocate(RoutingAllocator::system(), bytes);
    systemCount += made.isFromSystem;
    return std::move(made.memory);
  }
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

size_t Pool::regionBytes() const { return replay ? replay->regionBytes() : 0; }

} // namespace fcdp
