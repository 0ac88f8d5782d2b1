// SPDX-License-Identifier: Apache-2.0
//
// Serves a job's store. PyTorch's TCPStore cannot take its place: it obeys any
// process that can connect to its port, and its clients wait forever for a
// server that does not answer.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace fcdp {

struct StoreServerOptions {
  /// The numeric address to listen on.
  std::string address = "127.0.0.1";
  /// The secret that clients must prove to know before they are answered.
  std::string secret;
  /// Called on the server's thread with a sentence about a client that was
  /// refused as a stranger, once for each address.
  std::function<void(const std::string &)> onStranger;
  /// Seconds within which a client must prove itself.
  double proofSeconds = 30;
};

/// Listens on a free port and serves while it lives, on a thread of its own.
/// Clients that have not proved themselves never delay the others. Throws
/// std::runtime_error if it cannot listen.
class StoreServer {
public:
  explicit StoreServer(StoreServerOptions options);
  ~StoreServer();
  StoreServer(const StoreServer &) = delete;
  StoreServer &operator=(const StoreServer &) = delete;

  uint16_t port() const;

private:
  class Impl;
  std::unique_ptr<Impl> impl;
};

} // namespace fcdp
