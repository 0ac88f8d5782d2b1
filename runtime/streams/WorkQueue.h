// SPDX-License-Identifier: Apache-2.0
//
// Defines the commands of a stream, and the ring buffer that carries them to
// its thread.
#pragma once

#include "core/Backend.h"

#include <atomic>
#include <memory>
#include <type_traits>

namespace fcdp {

class StreamWorker;

struct CopyCommand {
  void *dst;
  const void *src;
  size_t bytes;
};

struct CallCommand {
  HostTask *task;
  size_t bytes;
};

struct AddCommand {
  float *sum;
  const float *part;
  size_t elements;
};

/// Makes the stream wait until `stream` has finished its first `sequence`
/// commands. The number is fixed at the time of issue: recording the event
/// again later does not change it.
struct WaitCommand {
  StreamWorker *stream;
  uint64_t sequence;
};

struct Command {
  enum class Kind : uint8_t { Copy, Call, Add, AllGather, ReduceScatter, Wait };

  Kind kind;
  union {
    CopyCommand copy = {};
    CallCommand call;
    AddCommand add;
    Collective collective;
    WaitCommand wait;
  };
};
static_assert(std::is_trivially_copyable_v<Command>);

/// A bounded ring of commands. Thread-safe for one thread that pushes and one
/// that pops. It never blocks or allocates.
class WorkQueue {
public:
  /// Rounds `capacity` up to a power of two.
  explicit WorkQueue(uint32_t capacity);

  bool tryPush(const Command &command);
  bool tryPop(Command &command);
  bool full() const;
  bool empty() const;

private:
  static constexpr size_t cacheLine = 64;

  const uint64_t mask;
  const std::unique_ptr<Command[]> ring;
  // The counters are on separate cache lines, so that the two threads do not
  // contend for one.
  alignas(cacheLine) std::atomic<uint64_t> pushed{0};
  alignas(cacheLine) std::atomic<uint64_t> popped{0};
};

} // namespace fcdp
