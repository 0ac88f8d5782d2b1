// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace fcdp {

/// The segment that a rank asks for. All ranks of a node ask for the same.
struct HostSegmentOptions {
  /// Name for the exchange between the ranks of one node. It must differ
  /// between jobs and nodes on one machine (see Job::segmentName).
  std::string name;
  uint32_t local = 0;
  uint32_t locals = 1;
  uint64_t bytes = 0;
  double timeoutSeconds = 60;
};

} // namespace fcdp
