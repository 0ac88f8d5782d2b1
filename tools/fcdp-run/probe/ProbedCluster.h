// SPDX-License-Identifier: Apache-2.0
//
// What a probe has found, as docs/cluster.md describes a cluster.
#pragma once

#include "core/Mesh.h"
#include "probe/LinkFit.h"

#include <optional>
#include <string>

namespace fcdp::run {

struct ProbedCluster {
  Mesh mesh;
  /// Bytes of a rank's device and of a node's host memory.
  uint64_t deviceMemory = 0, hostMemory = 0;
  double memoryBandwidth = 0; ///< bytes per second, read and written
  double f64 = 0, f32 = 0, bf16 = 0, f16 = 0; ///< operations per second
  double launchLatency = 0;                   ///< seconds
  /// None where there is nobody to send to.
  std::optional<SharedLink> inter, intra;
  SharedLink h2d, d2h;
};

/// The description, which --cluster takes.
std::string toYaml(const ProbedCluster &cluster);

} // namespace fcdp::run
