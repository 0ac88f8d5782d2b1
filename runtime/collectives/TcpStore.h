// SPDX-License-Identifier: Apache-2.0
//
// c10d::TCPStore, over which the ranks of a launcher that is not fcdp-run find
// the job's own store: torchrun's agent serves it, the program, or a rank. This
// header includes torch, so only this folder may include it.
#pragma once

#include "collectives/KeyValueStore.h"

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

namespace fcdp {

struct TcpStoreOptions {
  std::string host;
  uint16_t port = 0;
  bool serves = false;
  /// The numeric address to serve on. Empty: all addresses.
  std::string address;
  /// Time limit of connecting and of each operation.
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
  /// Waits until the key exists, for at most `seconds`. None if it does not.
  std::optional<std::string> get(const std::string &key, double seconds);
  /// Sets the value if there is none. Returns the value from then on.
  std::string setOnce(const std::string &key, const std::string &value);

  uint16_t port() const;

private:
  c10::intrusive_ptr<c10d::TCPStore> tcp;
};

/// Runs `work` on another thread. Throws StoreError with `late` if it takes
/// longer than `seconds`; then the thread and what it uses are left behind.
void runWithin(double seconds, const std::string &late,
               const std::function<void()> &work);

/// Returns the text of a c10d exception on one line, without its stack trace.
std::string textOf(const std::exception &error);

} // namespace fcdp
