// SPDX-License-Identifier: Apache-2.0
//
// A transport over libtorch's ProcessGroupGloo. Includes torch: for this
// folder only; others get it from a Job.
#pragma once

#include "collectives/Transport.h"

#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace gloo::transport {
class Device;
}

namespace fcdp {

/// The sockets of a process; one is enough for all its groups.
using GlooDevice = std::shared_ptr<gloo::transport::Device>;

/// Throws std::runtime_error.
GlooDevice makeGlooDevice(const std::string &interface,
                          const std::string &address);

struct GlooGroupOptions {
  std::vector<uint32_t> worldRanks;
  uint32_t rank = 0;
  c10::intrusive_ptr<c10d::Store> store;
  /// Keeps the keys of the groups apart: equal on the ranks of one group.
  std::string name;
  double joinSeconds = 60;
  double collectiveSeconds = 300;
};

/// Connects the ranks of a group; throws TransportError. The transport follows
/// the thread-safety rules of `Transport`.
std::unique_ptr<Transport> makeGlooTransport(const GlooDevice &device,
                                             const GlooGroupOptions &options);

} // namespace fcdp
