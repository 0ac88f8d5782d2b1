// SPDX-License-Identifier: Apache-2.0
//
// Reads a rank's inputs while it computes.
#pragma once

#include "session/LossWeight.h"

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

namespace fcdp::run {

/// Reads one micro-batch, or one step, ahead, by a thread of its own, into
/// memory that is allocated once. Used by one thread beside its own.
class ReadAhead {
public:
  /// Reads an input of micro-batch `number`; these count from 0 over all steps.
  using Read = std::function<void(size_t input, int64_t number,
                                  std::span<std::byte> out)>;

  using Buffers = std::vector<std::vector<std::byte>>;
  /// Looks at all inputs once they have been read.
  using Inspect = std::function<StepNeeds(const Buffers &inputs)>;

  /// Begins to read micro-batch `first`; `last` is the last one. `bytes` has
  /// the size of each input. For whole steps these are numbers of steps, and
  /// the inputs of all their micro-batches. `inspect` may be null.
  ReadAhead(const std::vector<size_t> &bytes, int64_t first, int64_t last,
            Read read, Inspect inspect = nullptr);
  /// Waits for a read that has begun.
  ~ReadAhead();
  ReadAhead(const ReadAhead &) = delete;
  ReadAhead &operator=(const ReadAhead &) = delete;

  /// Waits for the current micro-batch, and copies an input of it to `out`. The
  /// last input makes the next micro-batch the current one. Inputs are asked
  /// for in their order. Throws what reading this micro-batch threw.
  void take(size_t input, std::span<std::byte> out);
  /// The same, with what `use` makes of the input.
  void take(size_t input,
            const std::function<void(std::span<const std::byte>)> &use);
  /// Waits for the current micro-batch, of which there must be one, and returns
  /// what `inspect` said of it. Throws what reading it threw.
  StepNeeds inspected();

private:
  void readAll(int64_t last);
  /// Returns whether to go on.
  bool waitUntilTaken();

  const Read read;
  const Inspect inspect;
  Buffers buffers;
  StepNeeds inspection;
  int64_t number;

  std::mutex mutex;
  std::condition_variable changed;
  bool isRead = false, isStopped = false;
  std::exception_ptr failure;
  std::thread reader;
};

} // namespace fcdp::run
