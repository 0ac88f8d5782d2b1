// SPDX-License-Identifier: Apache-2.0
//
// Opens TCP sockets by numeric address.
#pragma once

#include "core/FileDescriptor.h"

#include <cstdint>
#include <string>

namespace fcdp {

/// Listens without blocking. With `port` 0 it takes a free one. Throws
/// std::runtime_error.
FileDescriptor listenOn(const std::string &address, uint16_t port);
uint16_t portOf(const FileDescriptor &listening);

/// Begins to connect without blocking: the socket is connected once it can be
/// written to and has no pending error. Throws std::runtime_error.
FileDescriptor beginConnecting(const std::string &address, uint16_t port);

/// Returns the next connection, which does not block, or none.
struct Accepted {
  FileDescriptor socket;
  std::string address;
  uint16_t port = 0;
  /// Whether the system has no descriptor left.
  bool isOutOfDescriptors = false;
};
Accepted acceptFrom(const FileDescriptor &listening);

} // namespace fcdp
