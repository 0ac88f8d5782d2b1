// SPDX-License-Identifier: Apache-2.0
//
// The memory that results of ATen operators come from.
//
// A training step makes the same allocations each time. So the first step is
// recorded (each allocation's size and when it was freed), offsets in one
// region are planned from that, and later steps replay: allocation i of a step
// gets its planned place at once, and the system is asked for nothing.
#pragma once

#include "step/LifetimePlan.h"

#include <c10/core/Allocator.h>
#include <cstdint>
#include <memory>

namespace fcdp {

class PoolRecording;
class PoolReplay;

/// In front of each allocation stands how to free it: this many bytes, which
/// keep what follows aligned like the whole.
inline constexpr size_t kPoolTagBytes = packing::kPoolTagBytes;

/// Serves the thread that holds a Scope, and no other. Memory may be freed by
/// any thread, and after the pool is gone. Everything else is for one thread.
///
/// An allocation that differs in size from the recorded one, or that the
/// recorded step did not make, comes from the system, as do all that follow it
/// in this step; the next step is recorded anew. An allocation that is still
/// in use when its planned place is due again is an error.
class Pool {
public:
  Pool();
  ~Pool();
  Pool(const Pool &) = delete;
  Pool &operator=(const Pool &) = delete;

  void beginStep();
  void endStep();

  /// Routes this thread's CPU allocations to the pool while it lives.
  class Scope {
  public:
    explicit Scope(Pool &pool);
    ~Scope();
    Scope(const Scope &) = delete;
    Scope &operator=(const Scope &) = delete;

  private:
    Pool *outer;
  };

  /// Allocations that the system was asked for since the pool was made.
  uint64_t systemAllocations() const { return systemCount; }
  size_t regionBytes() const;
  /// The greatest number of bytes in use at once, or the region if larger.
  size_t peakBytes() const;

  /// For the allocator. Throws c10::Error.
  c10::DataPtr allocate(size_t bytes);

private:
  c10::DataPtr fromSystem(size_t bytes);

  /// Between steps and after a mismatch neither is set to run.
  enum class Mode { Idle, Recording, Replaying };
  Mode mode = Mode::Idle;
  std::shared_ptr<PoolRecording> recording;
  PoolReplay *replay = nullptr;
  bool replayIsStale = false;
  uint64_t systemCount = 0;
  size_t recordedPeak = 0;
};

} // namespace fcdp
