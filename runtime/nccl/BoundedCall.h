// SPDX-License-Identifier: Apache-2.0
//
// Runs a call that may block forever on a thread of its own.
#pragma once

#include "core/Thread.h"

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <nccl.h>
#include <optional>
#include <thread>

namespace fcdp {

/// A call with a time limit. It is only for calls that a program makes once,
/// because it starts a thread. Thread-compatible.
class BoundedCall {
public:
  /// `call` must own its data, because it may outlive this object and its
  /// caller.
  explicit BoundedCall(std::function<ncclResult_t()> call) {
    auto task =
        std::make_shared<std::packaged_task<ncclResult_t()>>(std::move(call));
    future = task->get_future();
    thread = startThread("fcdp-nccl", [task] { (*task)(); });
  }
  /// Detaches the thread if the call has not ended.
  ~BoundedCall() {
    if (hasEnded(0))
      thread.join();
    else
      thread.detach();
  }
  BoundedCall(const BoundedCall &) = delete;
  BoundedCall &operator=(const BoundedCall &) = delete;

  /// Waits for the call. Returns whether it has ended within `seconds`.
  bool hasEnded(double seconds) {
    return !future.valid() ||
           future.wait_for(std::chrono::duration<double>(seconds)) ==
               std::future_status::ready;
  }
  /// Waits for the call and returns its result, once. Throws what it threw.
  ncclResult_t result() { return future.get(); }

private:
  std::future<ncclResult_t> future;
  std::thread thread;
};

} // namespace fcdp
