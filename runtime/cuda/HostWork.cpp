// SPDX-License-Identifier: Apache-2.0

#include "cuda/HostWork.h"
#include "core/Thread.h"

#include <algorithm>
#include <chrono>

namespace fcdp {
namespace {

/// The longest sleep of a thread that waits for a stream. It is short beside a
/// piece of an update, and costs about a hundredth of a core.
constexpr std::chrono::microseconds longestNap(100);

/// All platforms that CUDA supports have one address space for host and device.
CUdeviceptr addressOf(const uint32_t &word) {
  return CUdeviceptr(reinterpret_cast<uintptr_t>(&word));
}

/// Compares numbers that wrap around. At most half of all numbers are in
/// flight.
bool isAtLeast(const uint32_t &word, uint32_t number) {
  return int32_t(__atomic_load_n(&word, __ATOMIC_ACQUIRE) - number) >= 0;
}

} // namespace

HostWork::HostWork(std::shared_ptr<const CudaLibrary> library,
                   FirstFailure &failure)
    : cuda(std::move(library)), failure(failure) {
  cuda->check(cuda->cudaHostAlloc(reinterpret_cast<void **>(&marks),
                                  kNumStreams * sizeof(Marks),
                                  cudaHostAllocPortable),
              "cudaHostAlloc");
  std::fill(marks, marks + kNumStreams, Marks{0, 0});
}

HostWork::~HostWork() {
  stop();
  (void)cuda->cudaFreeHost(marks);
}

uint32_t HostWork::start(StreamId stream, cudaStream_t on, HostTask &task) {
  Lane &lane = lanes[size_t(stream)];
  if (!lane.thread.joinable())
    lane.thread = startThread(std::string("fcdp-") + name(stream),
                              [this, stream] { work(size_t(stream)); });
  const uint32_t number = lane.issued + 1;
  cuda->check(
      cuda->cuStreamWriteValue32(on, addressOf(marks[size_t(stream)].reached),
                                 number, CU_STREAM_WRITE_VALUE_DEFAULT),
      "cuStreamWriteValue32");
  {
    std::lock_guard lock(lane.mutex);
    lane.issued = number;
    lane.tasks.push_back({&task, number});
  }
  lane.changed.notify_one();
  return number;
}

void HostWork::await(StreamId stream, cudaStream_t on, uint32_t number) {
  cuda->check(cuda->cuStreamWaitValue32(on,
                                        addressOf(marks[size_t(stream)].done),
                                        number, CU_STREAM_WAIT_VALUE_GEQ),
              "cuStreamWaitValue32");
}

void HostWork::stop() {
  stopping = true;
  for (Lane &lane : lanes) {
    {
      std::lock_guard lock(lane.mutex);
    }
    lane.changed.notify_one();
    if (lane.thread.joinable())
      lane.thread.join();
  }
}

void HostWork::release() {
  for (size_t stream = 0; stream < kNumStreams; ++stream) {
    std::lock_guard lock(lanes[stream].mutex);
    __atomic_store_n(&marks[stream].done, lanes[stream].issued,
                     __ATOMIC_RELEASE);
  }
}

bool HostWork::awaitStream(const Marks &at, uint32_t number) const {
  std::chrono::microseconds nap(0);
  while (!stopping && !failure.failed()) {
    if (isAtLeast(at.reached, number))
      return true;
    std::this_thread::sleep_for(nap);
    nap = std::min(nap + std::chrono::microseconds(2), longestNap);
  }
  return false;
}

void HostWork::work(size_t stream) {
  Lane &lane = lanes[stream];
  for (;;) {
    std::unique_lock lock(lane.mutex);
    lane.changed.wait(lock, [&] { return stopping || !lane.tasks.empty(); });
    if (stopping)
      return;
    Task next = lane.tasks.front();
    lane.tasks.pop_front();
    lock.unlock();
    if (!awaitStream(marks[stream], next.number))
      return;
    try {
      next.task->run();
    } catch (const std::exception &error) {
      failure.set(error.what(), FailureKind::Local);
      return;
    } catch (...) {
      failure.set(std::string("unknown exception on stream ") +
                  name(StreamId(stream)));
      return;
    }
    // A failure elsewhere may have released the streams meanwhile.
    lock.lock();
    if (!isAtLeast(marks[stream].done, next.number))
      __atomic_store_n(&marks[stream].done, next.number, __ATOMIC_RELEASE);
  }
}

} // namespace fcdp
