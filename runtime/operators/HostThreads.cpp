// SPDX-License-Identifier: Apache-2.0
#include "operators/HostThreads.h"

#include "core/Thread.h"

#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>

namespace fcdp {

HostThreads::HostThreads(size_t count) {
  const int before = at::get_num_threads();
  try {
    for (size_t i = 0; i < count; ++i)
      threads.push_back(startThread("fcdp-update", [this, i] { work(i); }));
  } catch (...) {
    end();
    throw;
  }
  std::unique_lock lock(mutex);
  done.wait(lock, [&] { return numStarted == threads.size(); });
  // The threads have changed the number for threads that begin later.
  at::set_num_threads(before);
}

HostThreads::~HostThreads() { end(); }

void HostThreads::end() {
  {
    std::lock_guard lock(mutex);
    stops = true;
  }
  changed.notify_all();
  for (std::thread &thread : threads)
    thread.join();
}

void HostThreads::run(size_t tasks,
                      const std::function<void(size_t, size_t)> &task) {
  std::unique_lock lock(mutex);
  current = &task;
  next = 0;
  count = tasks;
  error = nullptr;
  changed.notify_all();
  done.wait(lock, [&] { return next >= count && running == 0; });
  current = nullptr;
  count = 0;
  if (error)
    std::rethrow_exception(error);
}

void HostThreads::work(size_t thread) {
  at::AutoDispatchBelowADInplaceOrView belowAutograd;
  at::NoGradGuard noGrad;
  // The first use in a thread sets the number of the process, here and in
  // libtorch, which has a flag of its own.
  at::internal::lazy_init_num_threads();
  (void)at::get_num_threads();
  at::set_num_threads(1);
  std::unique_lock lock(mutex);
  ++numStarted;
  done.notify_all();
  for (;;) {
    changed.wait(lock, [&] { return stops || next < count; });
    if (stops)
      return;
    const size_t index = next++;
    const auto &task = *current;
    ++running;
    lock.unlock();
    std::exception_ptr failure;
    try {
      task(thread, index);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    if (failure) {
      if (!error)
        error = failure;
      next = count;
    }
    if (--running == 0 && next >= count)
      done.notify_all();
  }
}

} // namespace fcdp
