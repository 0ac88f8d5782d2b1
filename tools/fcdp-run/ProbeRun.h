// SPDX-License-Identifier: Apache-2.0
//
// Measures a cluster with the ranks of a job, and writes its description.
#pragma once

#include "job/Launch.h"
#include "probe/ProbeOptions.h"

#include <optional>
#include <string>

namespace fcdp::run {

struct ProbeRun {
  probe::ProbeOptions options;
  /// The file that rank 0 writes.
  std::string path;
  /// The nodes and ranks that this process starts; none for one.
  std::optional<uint32_t> nodes, ranksPerNode;
};

/// Runs the rank that `launch` describes, or starts all ranks on this machine
/// if it is none. Returns the exit code. Throws std::runtime_error for errors
/// before the ranks have met. After that, an error ends the process.
int runProbe(const ProbeRun &run, const std::optional<Launch> &launch);

} // namespace fcdp::run
