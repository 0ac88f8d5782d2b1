// SPDX-License-Identifier: Apache-2.0
//
// Wraps c10d::TCPStore, by which ranks find the job's own store if the launcher
// is not fcdp-run. torchrun's agent, the program or a rank serves it. This
// header includes torch, so only runtime/store, runtime/transports and
// runtime/job may include it.
#pragma once

#include "store/KeyValueStore.h"

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

namespace fcdp {

struct TcpStoreOptions {
  std::string host;
  uint16_t port = 0;
  bool serves = false;
  /// The numeric address to serve on; empty for all addresses.
  std::string address;
  /// The time limit for connecting and for each operation.
  double seconds = 60;
};

/// Thread-safe, but it runs one operation at a time. An operation may take any
/// time if the server does not answer; see `runWithin`. Functions throw
/// StoreError.
class TcpStore {
public:
  /// Throws std::runtime_error with the address and advice.
  explicit TcpStore(const TcpStoreOptions &options);

  void set(const std::string &key, const std::string &value);
  /// Waits until the key exists, for at most `seconds`. Returns none if it does
  /// not.
  std::optional<std::string> get(const std::string &key, double seconds);
  /// Sets the value if there is none. Returns the resulting value.
  std::string setOnce(const std::string &key, const std::string &value);

  uint16_t port() const;

private:
  c10::intrusive_ptr<c10d::TCPStore> tcp;
};

/// Runs `work` on another thread. Throws StoreError with the text `late` if it
/// takes longer than `seconds`. The thread and its data are leaked then.
void runWithin(double seconds, const std::string &late,
               const std::function<void()> &work);

/// Returns the text of a c10d exception on one line, without its stack trace.
std::string textOf(const std::exception &error);

} // namespace fcdp
