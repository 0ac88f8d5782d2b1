// SPDX-License-Identifier: Apache-2.0
//
// Work of the host in the order of CUDA's streams.
#pragma once

#include "core/Backend.h"
#include "core/FirstFailure.h"
#include "cuda/CudaLibrary.h"

#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

namespace fcdp {

/// Runs tasks of the host when a stream reaches them. Each stream that has
/// tasks has a thread, so that tasks of different streams run at the same time.
/// The stream writes the number of a task into pinned memory, which the thread
/// polls, and then waits until the thread has written it into another word. So
/// a task may wait for anything but work that is issued after it.
///
/// The issuer calls all functions except for `release`. After the first failure
/// of the backend no task begins, and the streams stay where they are.
class HostWork {
public:
  /// A failure of a task is stored in `failure`, which must outlive it, as is
  /// any other one of the backend. Throws std::runtime_error.
  HostWork(std::shared_ptr<const CudaLibrary> cuda, FirstFailure &failure);
  /// No stream may wait for a task.
  ~HostWork();
  HostWork(const HostWork &) = delete;
  HostWork &operator=(const HostWork &) = delete;

  /// Runs `task`, which must outlive it, when `on` reaches this place. Returns
  /// the task's number on this stream. Throws std::runtime_error.
  uint32_t start(StreamId stream, cudaStream_t on, HostTask &task);
  /// Makes `on` wait until that task and all before it are done.
  void await(StreamId stream, cudaStream_t on, uint32_t number);
  /// Waits for tasks that run, and drops all others. May be called again.
  void stop();
  /// Lets streams go on that wait for tasks which have failed or were dropped.
  /// Callable from any thread.
  void release();

private:
  /// Numbers of the tasks of one stream, from 1 on and modulo 2^32.
  struct alignas(64) Marks {
    uint32_t reached, done;
  };
  struct Task {
    HostTask *task;
    uint32_t number;
  };
  struct Lane {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<Task> tasks;
    uint32_t issued = 0;
    std::thread thread;
  };

  void work(size_t stream);
  /// Waits until the stream reaches the task. Returns false if it will not run.
  bool awaitStream(const Marks &marks, uint32_t number) const;

  const std::shared_ptr<const CudaLibrary> cuda;
  FirstFailure &failure;
  Marks *marks = nullptr; ///< kNumStreams of them, in pinned memory
  std::atomic<bool> stopping{false};
  std::array<Lane, kNumStreams> lanes;
};

} // namespace fcdp
