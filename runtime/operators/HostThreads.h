// SPDX-License-Identifier: Apache-2.0
//
// The threads of a rank that update states in host memory.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace fcdp {

/// A fixed number of threads. Operators of libtorch that they call use no other
/// threads: OpenMP's barriers were seen to take 20 to 90 times as long as the
/// work if another process has a core.
class HostThreads {
public:
  /// Starts the threads. The caller's number of threads in libtorch stays.
  explicit HostThreads(size_t count);
  ~HostThreads();
  HostThreads(const HostThreads &) = delete;
  HostThreads &operator=(const HostThreads &) = delete;

  size_t size() const { return threads.size(); }

  /// Calls `task(thread, index)` for each index below `count`, on any thread,
  /// and waits until all are done. Throws the first error. One thread at a time
  /// calls it.
  void run(size_t count, const std::function<void(size_t, size_t)> &task);

private:
  void work(size_t thread);
  void end();

  std::mutex mutex;
  std::condition_variable changed, done;
  const std::function<void(size_t, size_t)> *current = nullptr;
  size_t next = 0, count = 0, running = 0, numStarted = 0;
  std::exception_ptr error;
  bool stops = false;
  std::vector<std::thread> threads;
};

} // namespace fcdp
