// SPDX-License-Identifier: Apache-2.0
//
// The results of a probe, in the form of docs/cluster.md.
#pragma once

#include "core/Mesh.h"
#include "probe/LinkFit.h"

#include <optional>
#include <string>

namespace fcdp::run {

/// The times of collectives along one axis, by the bytes that a rank sends.
struct ProbedCollectives {
  std::vector<TimedSize> gathers, reductions;
};

struct ProbedCluster {
  Mesh mesh;
  /// Bytes of a rank's device and of a node's host memory.
  uint64_t deviceMemory = 0, hostMemory = 0;
  double memoryBandwidth = 0; ///< bytes per second, read and written
  double f64 = 0, f32 = 0, bf16 = 0, f16 = 0; ///< operations per second
  double launchLatency = 0;                   ///< seconds
  /// Bytes of values per second that are coded, and that are decoded.
  double codecRate = 0;
  /// Not set if there is no peer to send to.
  std::optional<SharedLink> inter, intra;
  SharedLink h2d, d2h;
  /// Empty along an axis of one rank.
  ProbedCollectives overNodes, overLocals;
};

/// The description, which --cluster takes.
std::string toYaml(const ProbedCluster &cluster);

} // namespace fcdp::run
