// SPDX-License-Identifier: Apache-2.0
//
// The job's store, on c10d::TCPStore. This header includes torch, so only this
// folder may include it.
#pragma once

#include "collectives/KeyValueStore.h"

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

namespace fcdp {

struct TcpStoreOptions {
  std::string host;
  uint16_t port = 0;
  bool serves = false;
  double connectSeconds = 60;
  /// Time limit of each operation, in seconds.
  double operationSeconds = 60;
  /// Prefix of all keys.
  std::string prefix;
};

/// Thread-safe, but it runs one operation at a time: a waiting `get` blocks the
/// others.
class TcpStore final : public KeyValueStore {
public:
  /// Throws std::runtime_error with the address and advice.
  explicit TcpStore(const TcpStoreOptions &options);

  void set(const std::string &key, const std::string &value) override;
  std::string get(const std::string &key, double seconds) override;
  bool has(const std::string &key) override;
  std::vector<std::string>
  getMany(const std::vector<std::string> &keys) override;

  uint16_t port() const;
  /// Returns the store, with the prefix, for use by c10d.
  const c10::intrusive_ptr<c10d::Store> &handle() const { return store; }

private:
  c10::intrusive_ptr<c10d::TCPStore> tcp;
  c10::intrusive_ptr<c10d::Store> store;
};

/// Returns the text of a c10d exception on one line, without its stack trace.
std::string textOf(const std::exception &error);

} // namespace fcdp
