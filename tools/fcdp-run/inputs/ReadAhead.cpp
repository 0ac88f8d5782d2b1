// SPDX-License-Identifier: Apache-2.0
#include "inputs/ReadAhead.h"

#include "core/Thread.h"

#include <cstring>

namespace fcdp::run {

ReadAhead::ReadAhead(const std::vector<size_t> &bytes, int64_t first,
                     int64_t last, Read read, Inspect inspect)
    : read(std::move(read)), inspect(std::move(inspect)), number(first) {
  for (size_t size : bytes)
    buffers.emplace_back(size);
  reader = startThread("fcdp-reader", [this, last] { readAll(last); });
}

ReadAhead::~ReadAhead() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    isStopped = true;
  }
  changed.notify_all();
  reader.join();
}

void ReadAhead::readAll(int64_t last) {
  for (bool goesOn = true; goesOn && number <= last; ++number) {
    std::exception_ptr thrown;
    try {
      for (size_t input = 0; input < buffers.size(); ++input)
        read(input, number, buffers[input]);
      if (inspect)
        inspection = inspect(buffers);
    } catch (...) {
      thrown = std::current_exception();
    }
    {
      std::lock_guard<std::mutex> lock(mutex);
      failure = thrown;
      isRead = true;
    }
    changed.notify_all();
    goesOn = waitUntilTaken();
  }
}

bool ReadAhead::waitUntilTaken() {
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait(lock, [&] { return !isRead || isStopped; });
  return !isStopped;
}

StepNeeds ReadAhead::inspected() {
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait(lock, [&] { return isRead; });
  if (failure)
    std::rethrow_exception(failure);
  return inspection;
}

void ReadAhead::take(size_t input, std::span<std::byte> out) {
  take(input, [&](std::span<const std::byte> read) {
    if (!out.empty())
      std::memcpy(out.data(), read.data(), out.size());
  });
}

void ReadAhead::take(
    size_t input, const std::function<void(std::span<const std::byte>)> &use) {
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait(lock, [&] { return isRead; });
  if (failure)
    std::rethrow_exception(failure);
  // The thread does not touch the buffers until the last one is taken.
  use(buffers[input]);
  if (input + 1 < buffers.size())
    return;
  isRead = false;
  lock.unlock();
  changed.notify_all();
}

} // namespace fcdp::run
