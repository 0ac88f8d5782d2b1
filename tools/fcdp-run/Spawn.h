// SPDX-License-Identifier: Apache-2.0
//
// Starts all ranks of a job on this machine, as a launcher does.
#pragma once

#include "core/Mesh.h"

#include <string>
#include <vector>

namespace fcdp::run {

/// Runs this program again once per rank, with torchrun's variables set and
/// `--threads` added, and serves the job's store. Returns the exit code: 0, 1
/// if a rank failed, 130 after an interrupt. All ranks have ended when it
/// returns. `temporaryFiles` are removed if the job fails. Throws
/// std::runtime_error before any rank is started. To be called by the main
/// thread of a process that has started no other.
int spawnRanks(const Mesh &mesh, int threadsPerRank, char **argv,
               const std::vector<std::string> &temporaryFiles);

} // namespace fcdp::run
