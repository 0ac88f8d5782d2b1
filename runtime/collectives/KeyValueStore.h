// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

namespace fcdp {

/// The store cannot be reached or did not answer in time.
class StoreError : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

/// A store of small values that all ranks of a job share. Thread-safe;
/// functions throw StoreError.
class KeyValueStore {
public:
  virtual ~KeyValueStore() = default;

  virtual void set(const std::string &key, const std::string &value) = 0;
  /// Waits until the key exists, for at most `seconds`.
  virtual std::string get(const std::string &key, double seconds) = 0;
  virtual bool has(const std::string &key) = 0;
  /// Returns the values of keys, all of which must exist.
  virtual std::vector<std::string>
  getMany(const std::vector<std::string> &keys) = 0;
};

} // namespace fcdp
