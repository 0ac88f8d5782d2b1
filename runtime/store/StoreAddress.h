// SPDX-License-Identifier: Apache-2.0
//
// Lets ranks find the job's store, which one of them serves, by the TCPStore at
// the launcher's address.
#pragma once

#include <cstdint>
#include <string>

namespace fcdp {

class TcpStore;

struct StoreAddress {
  /// The name of the host that serves the store, for messages.
  std::string host;
  /// The numeric address.
  std::string address;
  uint16_t port = 0;
};

/// Publishes the address with a proof. Throws StoreError if another process of
/// the job has published one. Replaces a value that has no proof. `scope` is a
/// prefix of keys.
void publishStoreAddress(TcpStore &store, const std::string &scope,
                         const std::string &secret, const StoreAddress &own);

/// Waits for an address with a proof, for at most `seconds`. Throws StoreError.
StoreAddress findStoreAddress(TcpStore &store, const std::string &scope,
                              const std::string &secret, double seconds);

} // namespace fcdp
