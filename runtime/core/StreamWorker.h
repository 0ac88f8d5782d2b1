// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/FirstFailure.h"
#include "core/WaitPoint.h"
#include "core/WorkQueue.h"

#include <thread>

namespace fcdp {

/// What carries out the commands that are not waits, on the stream's thread.
class CommandExecutor {
public:
  virtual ~CommandExecutor() = default;
  /// Throws std::exception on failure.
  virtual void execute(StreamId stream, const Command &command) = 0;
  /// The first failure of any stream was just stored; ends what may block.
  /// Called once, on the thread that failed.
  virtual void interrupt() noexcept = 0;
};

/// A stream: a thread that runs commands in the order of issue. After the
/// first failure of any stream it skips what is queued, so that everyone who
/// waits for it goes on. One thread issues; the others' functions say who may
/// call them.
class StreamWorker {
public:
  StreamWorker(StreamId stream, uint32_t capacity, CommandExecutor &executor,
               FirstFailure &failure);
  /// Runs or skips what is queued, then joins the thread.
  ~StreamWorker();
  StreamWorker(const StreamWorker &) = delete;
  StreamWorker &operator=(const StreamWorker &) = delete;

  /// By the issuer; blocks while the queue is full.
  void enqueue(const Command &command);
  /// By the issuer: the sequence number of the last command issued.
  uint64_t lastIssued() const { return issued; }

  /// By any thread.
  bool isDone(uint64_t sequence) const {
    return completed.load(std::memory_order_seq_cst) >= sequence;
  }
  /// By any thread: blocks until that command is done or anything has failed.
  void waitFor(uint64_t sequence);
  /// By any thread: blocks until that command is done or skipped.
  void drain(uint64_t sequence);
  /// By any thread, after a failure was stored: wakes who waits here.
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
  WaitPoint workArrived;  ///< the stream's thread sleeps here
  WaitPoint workFinished; ///< who waits for an event or for room sleeps here
  std::thread thread;
};

} // namespace fcdp
