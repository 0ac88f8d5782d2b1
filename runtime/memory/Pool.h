// SPDX-License-Identifier: Apache-2.0
//
// The memory that results of ATen operators come from.
//
// A training step makes the same allocations each time. So the first step is
// recorded (each allocation's size and when it was freed), places are planned
// from that, and later steps replay: allocation i of a step gets its planned
// place at once, and the system is asked for nothing. The places are in the
// device arena, where and when no buffer of the plan holds it, and behind that.
// In the recorded step, results are where the compiler has planned them; what
// operators take for themselves, which it does not know of, comes from the
// system.
#pragma once

#include "memory/LifetimePlan.h"
#include "plan/HeldMemory.h"

#include <c10/core/Allocator.h>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

namespace fcdp {

class PoolRecording;
class PoolReplay;

/// In front of each allocation stands how to free it: this many bytes, which
/// keep what follows aligned like the whole.
inline constexpr size_t kPoolTagBytes = packing::kPoolTagBytes;

/// The device arena, as the pool sees it.
struct PoolArena {
  std::byte *base = nullptr;
  uint64_t bytes = 0;
  /// In front, never the pool's; a multiple of kPoolAlignment.
  uint64_t reserved = 0;
  /// Memory for bytes [from, to) of an arena that goes on, or throws
  /// std::runtime_error. It need not be where the arena ends.
  std::function<std::shared_ptr<std::byte>(uint64_t from, uint64_t to)> extend;
  c10::Device device = c10::kCPU;
};

/// Serves the thread that holds a Scope, and no other. Memory may be freed by
/// any thread, and after the pool is gone, but not after the arena. Everything
/// else is for one thread.
///
/// An allocation that differs in size from the recorded one, or that the
/// recorded step did not make, comes from the system, as do all that follow it
/// in this step; the next step is recorded anew. An allocation that is still
/// in use when its planned place is due again, for another one or for a buffer
/// of the plan, is an error.
///
/// Memory is given back when nobody on the host has it any more. On a GPU,
/// operators that are still to run may use it; they do so before those that get
/// it next, as all run on one stream.
class Pool {
public:
  /// `system` must outlive all memory that comes from the pool.
  Pool(PoolArena arena, c10::Allocator &system);
  ~Pool();
  Pool(const Pool &) = delete;
  Pool &operator=(const Pool &) = delete;

  /// Throws std::runtime_error if memory of the step before is still in use.
  void beginStep();
  /// Throws std::runtime_error if the arena cannot be as long as the recorded
  /// step needs it.
  void endStep();

  /// Between them, around each function: what is held while it runs, and where
  /// its results are planned, by operation. Both must live as long.
  void beginFunction(const HeldMemory &held,
                     std::span<const ResultPlace> results = {});
  /// In front of operation `op` of it; operations come in order. Throws
  /// std::runtime_error, as does the end.
  void reach(size_t op);
  void endFunction();

  /// Makes the pool this thread's active one while it lives: libtorch's
  /// allocators ask that (CpuPool.h).
  class Scope {
  public:
    explicit Scope(Pool &pool);
    ~Scope();
    Scope(const Scope &) = delete;
    Scope &operator=(const Scope &) = delete;

  private:
    Pool *outer;
  };

  /// Whether allocations get planned places: so far this step has made those of
  /// the recorded one. Below, that is what is told of: how many it has made,
  /// where allocation `index` of the step is, and where the next ones will be;
  /// null for what is not there.
  bool isReplaying() const;
  size_t numPlaced() const;
  const std::byte *place(size_t index) const;
  const std::byte *nextPlace(size_t index) const {
    return place(numPlaced() + index);
  }
  /// In place of the next `count` allocations, by somebody who uses their
  /// places as if they had been made, and freed when they are in the recorded
  /// step. Throws c10::Error as `allocate`.
  void skip(size_t count);

  /// The calling thread's, or null.
  static Pool *active();
  c10::Device device() const { return arena.device; }

  /// Allocations that the system was asked for since the pool was made.
  uint64_t systemAllocations() const { return systemCount; }
  /// What the pool and what is held make of the arena; 0 if nothing was
  /// recorded yet.
  size_t regionBytes() const;
  /// What the last step took of the system, if that was a recorded one: the
  /// greatest number of bytes in use at once. Else 0.
  size_t recordedBytes() const { return recordedPeak; }

  /// For the allocator. Throws c10::Error.
  c10::DataPtr allocate(size_t bytes);

private:
  c10::DataPtr fromSystem(size_t bytes);
  void reachMoment(const HeldMoment &moment);
  void plan();

  const PoolArena arena;
  c10::Allocator &system;
  enum class Mode { Idle, Recording, Replaying };
  Mode mode = Mode::Idle;
  const HeldMemory *held = nullptr;
  size_t nextMoment = 0;
  std::shared_ptr<PoolRecording> recording;
  PoolReplay *replay = nullptr;
  bool replayIsStale = false;
  uint64_t systemCount = 0;
  size_t recordedPeak = 0;
};

} // namespace fcdp
