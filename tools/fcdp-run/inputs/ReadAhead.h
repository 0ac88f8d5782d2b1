// SPDX-License-Identifier: Apache-2.0
//
// Reads a rank's inputs while the rank computes.
#pragma once

#include "policy/StepNeeds.h"

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

namespace fcdp::run {

/// Reads one micro-batch, or one step, ahead of its use, on a thread of its own
/// and into memory that is allocated once. One other thread uses it.
class ReadAhead {
public:
  /// Reads an input of micro-batch `number`; these count from 0 over all steps.
  using Read = std::function<void(size_t input, int64_t number,
                                  std::span<std::byte> out)>;

  using Buffers = std::vector<std::vector<std::byte>>;
  /// Inspects all inputs after they have been read.
  using Inspect = std::function<StepNeeds(const Buffers &inputs)>;

  /// Begins to read micro-batch `first`, and ends with `last`. `bytes` has the
  /// size of each input. To read whole steps, pass the numbers of steps, and
  /// the inputs of all their micro-batches. `inspect` may be null.
  ReadAhead(const std::vector<size_t> &bytes, int64_t first, int64_t last,
            Read read, Inspect inspect = nullptr);
  /// Waits for a read that has begun.
  ~ReadAhead();
  ReadAhead(const ReadAhead &) = delete;
  ReadAhead &operator=(const ReadAhead &) = delete;

  /// Waits for the current micro-batch, and copies one of its inputs to `out`.
  /// The last input makes the next micro-batch the current one. Inputs must be
  /// taken in their order. Throws the error of reading this micro-batch.
  void take(size_t input, std::span<std::byte> out);
  /// Does the same, but passes the input to `use`.
  void take(size_t input,
            const std::function<void(std::span<const std::byte>)> &use);
  /// Waits for the current micro-batch, which must exist, and returns the
  /// result of `inspect` for it. Throws the error of reading it.
  StepNeeds inspected();

private:
  void readAll(int64_t last);
  /// Returns whether to continue.
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
