// SPDX-License-Identifier: Apache-2.0
//
// A transport over libtorch's ProcessGroupGloo. This header includes torch, so
// only runtime/transports and runtime/job may include it; other code gets
// transports from a Job.
#pragma once

#include "transports/Transport.h"

#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace gloo::transport {
class Device;
}

namespace fcdp {

/// The sockets of a process. All groups of the process share one device.
using GlooDevice = std::shared_ptr<gloo::transport::Device>;

/// Makes the device on an interface or, if that is empty, on an address. Throws
/// std::runtime_error.
GlooDevice makeGlooDevice(const std::string &interface,
                          const std::string &address);

struct GlooGroupOptions {
  std::vector<uint32_t> worldRanks;
  uint32_t rank = 0;
  c10::intrusive_ptr<c10d::Store> store;
  /// Prefix of the group's keys in the store. It is equal on the ranks of one
  /// group and differs between groups.
  std::string name;
  /// The secret that the ranks prove to know before anything else is sent.
  std::string secret;
  double joinSeconds = 60;
  double collectiveSeconds = 300;
};

/// Connects the ranks of a group. Throws TransportError. For thread-safety, see
/// `Transport`.
std::unique_ptr<Transport> makeGlooTransport(const GlooDevice &device,
                                             const GlooGroupOptions &options);

} // namespace fcdp
