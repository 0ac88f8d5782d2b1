// SPDX-License-Identifier: Apache-2.0
//
// The job's store over c10d::TCPStore. Includes torch: for this folder only.
#pragma once

#include "collectives/KeyValueStore.h"

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

namespace fcdp {

struct TcpStoreOptions {
  std::string host;
  uint16_t port = 0;
  bool serves = false;
  double connectSeconds = 60;
  /// Each operation ends after this time.
  double operationSeconds = 60;
  /// Put before all keys.
  std::string prefix;
};

/// Thread-safe, one operation at a time: a waiting `get` holds up the others.
class TcpStore final : public KeyValueStore {
public:
  /// Throws std::runtime_error with the address and what to do.
  explicit TcpStore(const TcpStoreOptions &options);

  void set(const std::string &key, const std::string &value) override;
  std::string get(const std::string &key, double seconds) override;
  bool has(const std::string &key) override;
  std::vector<std::string>
  getMany(const std::vector<std::string> &keys) override;

  uint16_t port() const;
  /// For c10d's own use, with the prefix.
  const c10::intrusive_ptr<c10d::Store> &handle() const { return store; }

private:
  c10::intrusive_ptr<c10d::TCPStore> tcp;
  c10::intrusive_ptr<c10d::Store> store;
};

/// What a c10d exception says, without its stack trace, on one line.
std::string textOf(const std::exception &error);

} // namespace fcdp
