// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "streams/StreamWorker.h"

#include <array>
#include <chrono>
#include <vector>

namespace fcdp {

/// The streams and events of a rank. The compute stream is the issuer's own
/// thread, so its work runs at once. Any thread may call `fail`, `failed` and
/// `failure`; one thread, the issuer, calls all other functions.
class StreamSet {
public:
  /// `run` executes the commands; it must outlive the set.
  StreamSet(CommandExecutor &run, uint32_t numEvents, uint32_t queueCapacity);
  /// Runs or skips queued work. Call `fail` first to skip it.
  ~StreamSet();

  void issue(StreamId stream, const Command &command);
  void record(uint32_t event, StreamId stream);
  void wait(uint32_t event, StreamId stream);
  /// Blocks until all queued work is done or skipped.
  void synchronize();
  /// Returns the seconds for which compute has waited so far, for events of
  /// other streams and in `synchronize`.
  double secondsWaited() const {
    return std::chrono::duration<double>(waited).count();
  }
  /// Returns whether all queued work is done or skipped.
  bool idle() const;

  /// Stores a failure unless there is one already, and ends all waits.
  void fail(std::string message, FailureKind kind = FailureKind::Other);
  bool failed() const { return firstFailure.failed(); }
  std::string failure() const { return firstFailure.message(); }
  FailureKind failureKind() const { return firstFailure.kind(); }

private:
  /// A point in a stream. As in CUDA, an event that was never recorded counts
  /// as done.
  struct Event {
    StreamWorker *stream = nullptr;
    uint64_t sequence = 0;
  };

  /// Wakes all waiting threads, then interrupts the executor.
  struct Interrupter : CommandExecutor {
    Interrupter(StreamSet &set, CommandExecutor &run) : set(set), run(run) {}
    void execute(StreamId stream, const Command &command) override {
      run.execute(stream, command);
    }
    void interrupt() noexcept override;

    StreamSet &set;
    CommandExecutor &run;
  };

  Event &eventAt(uint32_t event);
  StreamWorker *workerOf(StreamId stream);

  Interrupter interrupter;
  FirstFailure firstFailure;
  std::vector<Event> events;
  std::chrono::steady_clock::duration waited{0};
  /// One worker per stream, except for compute, which has no thread. All are
  /// constructed before the first command, so that a failing one can wake the
  /// others.
  std::array<std::unique_ptr<StreamWorker>, kNumStreams> workers;
};

} // namespace fcdp
