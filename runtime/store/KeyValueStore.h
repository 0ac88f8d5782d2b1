// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace fcdp {

/// The store cannot be reached or did not answer in time.
class StoreError : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

/// A store of small values that all ranks of a job share. Thread-safe.
/// Functions throw StoreError, also if the store does not answer within its own
/// time limit.
class KeyValueStore {
public:
  virtual ~KeyValueStore() = default;

  /// Returns when the store has the value.
  virtual void set(const std::string &key, const std::string &value) = 0;
  /// Sends a value without waiting for an answer. Values that are sent and set
  /// by one object arrive in order.
  virtual void post(const std::string &key, const std::string &value) = 0;
  /// Makes the store set a value when this object's connection ends, for
  /// whatever reason. An empty value withdraws it.
  virtual void leaveWill(const std::string &key, const std::string &value) = 0;
  /// Returns the values of keys, or none for those that do not exist.
  virtual std::vector<std::optional<std::string>>
  find(const std::vector<std::string> &keys) = 0;
  /// Waits until all keys exist, for at most `seconds`. Throws StoreError
  /// sooner if `isCancelled` returns true; it is called several times a second.
  virtual std::vector<std::string>
  await(const std::vector<std::string> &keys, double seconds,
        const std::function<bool()> &isCancelled) = 0;

  std::string get(const std::string &key, double seconds) {
    return await({key}, seconds, nullptr).front();
  }
  bool has(const std::string &key) { return find({key}).front().has_value(); }
  /// Returns the values of keys, all of which must exist.
  std::vector<std::string> getMany(const std::vector<std::string> &keys) {
    std::vector<std::string> values;
    for (std::optional<std::string> &value : find(keys)) {
      if (!value)
        throw StoreError("no key " + keys[values.size()]);
      values.push_back(std::move(*value));
    }
    return values;
  }
};

} // namespace fcdp
