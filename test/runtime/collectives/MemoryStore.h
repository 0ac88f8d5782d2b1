// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/KeyValueStore.h"

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>

namespace fcdp {

/// A store in this process that can be lost or stop answering. Thread-safe.
class MemoryStore final : public KeyValueStore {
public:
  void set(const std::string &key, const std::string &value) override {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [this] { return !silent; });
    check();
    values[key] = value;
    changed.notify_all();
  }
  std::string get(const std::string &key, double seconds) override {
    std::unique_lock<std::mutex> lock(mutex);
    bool found = changed.wait_for(lock, std::chrono::duration<double>(seconds),
                                  [&] { return lost || values.count(key); });
    check();
    if (!found)
      throw StoreError("no key " + key);
    return values[key];
  }
  bool has(const std::string &key) override {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [this] { return !silent; });
    check();
    return values.count(key);
  }
  std::vector<std::string>
  getMany(const std::vector<std::string> &keys) override {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [this] { return !silent; });
    check();
    std::vector<std::string> found;
    for (const std::string &key : keys)
      found.push_back(values.at(key));
    return found;
  }
  void lose() {
    std::lock_guard<std::mutex> lock(mutex);
    lost = true;
    changed.notify_all();
  }
  /// While the store is silent, operations do not return.
  void silence(bool on) {
    std::lock_guard<std::mutex> lock(mutex);
    silent = on;
    changed.notify_all();
  }

private:
  void check() const {
    if (lost)
      throw StoreError("connection reset");
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, std::string> values;
  bool lost = false, silent = false;
};

} // namespace fcdp
