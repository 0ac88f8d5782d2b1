// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/FirstFailure.h"
#include "streams/WaitPoint.h"
#include "streams/WorkQueue.h"

#include <thread>

namespace fcdp {

/// Executes all commands except waits, on the stream's thread.
class CommandExecutor {
public:
  virtual ~CommandExecutor() = default;
  /// Executes the command. Throws std::exception on failure.
  virtual void execute(StreamId stream, const Command &command) = 0;
  /// Ends all calls that may block, after the first failure of any stream. It
  /// is called once, on the thread that failed.
  virtual void interrupt() noexcept = 0;
};

/// A stream: a thread that runs commands in the order of issue. After the first
/// failure of any stream it skips queued commands, so that no thread waits
/// forever. One thread issues; each other function states which threads may
/// call it.
class StreamWorker {
public:
  StreamWorker(StreamId stream, uint32_t capacity, CommandExecutor &executor,
               FirstFailure &failure);
  /// Runs or skips queued commands, then joins the thread.
  ~StreamWorker();
  StreamWorker(const StreamWorker &) = delete;
  StreamWorker &operator=(const StreamWorker &) = delete;

  /// Enqueues a command. Blocks while the queue is full. For the issuer.
  void enqueue(const Command &command);
  /// Returns the sequence number of the last issued command. For the issuer.
  uint64_t lastIssued() const { return issued; }

  /// Returns whether that command is done. For any thread.
  bool isDone(uint64_t sequence) const {
    return completed.load(std::memory_order_seq_cst) >= sequence;
  }
  /// Blocks until that command is done or any work has failed. For any thread.
  void waitFor(uint64_t sequence);
  /// Blocks until that command is done or skipped. For any thread.
  void drain(uint64_t sequence);
  /// Wakes all threads that wait here, after a failure was stored. For any
  /// thread.
  void wakeAll();

private:
  void run();
  void execute(const Command &command);

  const StreamId stream;
  CommandExecutor &executor;
  FirstFailure &failure;
  WorkQueue queue;
  uint64_t issued = 0;
  std::atomic<uint64_t> completed{0};
  std::atomic<bool> stopping{false};
  WaitPoint workArrived;  ///< the stream's thread waits here
  WaitPoint workFinished; ///< for events and for room in the queue
  std::thread thread;
};

} // namespace fcdp
