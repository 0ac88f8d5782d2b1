// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "store/KeyValueStore.h"

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>

namespace fcdp {

/// The values of a store in this process, which can be lost or stop answering.
struct MemoryValues {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, std::string> values;
  bool lost = false, silent = false;

  void lose() {
    std::lock_guard<std::mutex> lock(mutex);
    lost = true;
    changed.notify_all();
  }
  /// While the store is silent, operations fail at their limit. Posted values
  /// arrive later.
  void silence(bool on) {
    std::lock_guard<std::mutex> lock(mutex);
    silent = on;
    changed.notify_all();
  }
};

/// A connection to them. Thread-safe.
class MemoryStore final : public KeyValueStore {
public:
  explicit MemoryStore(
      std::shared_ptr<MemoryValues> shared = std::make_shared<MemoryValues>(),
      double limitSeconds = 0.3)
      : shared(std::move(shared)), limitSeconds(limitSeconds) {}
  ~MemoryStore() override {
    std::lock_guard<std::mutex> lock(shared->mutex);
    for (const auto &[key, value] : wills)
      shared->values[key] = value;
    shared->changed.notify_all();
  }

  void set(const std::string &key, const std::string &value) override {
    Lock lock(shared->mutex);
    waitFor(lock, limitSeconds, [this] { return !shared->silent; }, nullptr);
    shared->values[key] = value;
    shared->changed.notify_all();
  }
  void post(const std::string &key, const std::string &value) override {
    std::lock_guard<std::mutex> lock(shared->mutex);
    check();
    shared->values[key] = value;
    shared->changed.notify_all();
  }
  void leaveWill(const std::string &key, const std::string &value) override {
    std::lock_guard<std::mutex> lock(shared->mutex);
    check();
    if (value.empty())
      wills.erase(key);
    else
      wills[key] = value;
  }
  std::vector<std::optional<std::string>>
  find(const std::vector<std::string> &keys) override {
    Lock lock(shared->mutex);
    waitFor(lock, limitSeconds, [this] { return !shared->silent; }, nullptr);
    std::vector<std::optional<std::string>> found;
    for (const std::string &key : keys)
      found.push_back(shared->values.contains(key)
                          ? std::optional(shared->values[key])
                          : std::nullopt);
    return found;
  }
  std::vector<std::string>
  await(const std::vector<std::string> &keys, double seconds,
        const std::function<bool()> &isCancelled) override {
    Lock lock(shared->mutex);
    waitFor(
        lock, seconds,
        [&] {
          for (const std::string &key : keys)
            if (!shared->values.contains(key))
              return false;
          return !shared->silent;
        },
        isCancelled);
    std::vector<std::string> found;
    for (const std::string &key : keys)
      found.push_back(shared->values[key]);
    return found;
  }

private:
  using Lock = std::unique_lock<std::mutex>;

  void waitFor(Lock &lock, double seconds, const std::function<bool()> &isDone,
               const std::function<bool()> &isCancelled) {
    constexpr std::chrono::milliseconds tick{5};
    const auto end = std::chrono::steady_clock::now() +
                     std::chrono::duration<double>(seconds);
    for (check(); !isDone(); check()) {
      shared->changed.wait_for(lock, tick);
      lock.unlock();
      const bool isEnded = isCancelled && isCancelled();
      lock.lock();
      if (isEnded || std::chrono::steady_clock::now() >= end)
        throw StoreError(isEnded ? "the wait was ended" : "no answer");
    }
  }
  void check() const {
    if (shared->lost)
      throw StoreError("connection reset");
  }

  const std::shared_ptr<MemoryValues> shared;
  const double limitSeconds;
  std::map<std::string, std::string> wills; ///< under the values' mutex
};

} // namespace fcdp
