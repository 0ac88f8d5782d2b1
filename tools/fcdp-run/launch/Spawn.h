// SPDX-License-Identifier: Apache-2.0
//
// Starts all ranks of a job on this machine, as a launcher does.
#pragma once

#include "session/Launch.h"

#include <functional>
#include <string>
#include <vector>

namespace fcdp::run {

/// Runs one rank; returns its exit code, and does not throw.
using RankBody = std::function<int(const Launch &)>;

/// Runs `body` in a process of its own for each rank, and serves the job's
/// store. The processes are forked, so that libtorch is loaded once and not
/// once a rank. Returns the exit code: 0, 1 if a rank failed, 130 after an
/// interrupt. All ranks have ended when it returns. `temporaryFiles` are
/// removed if the job fails. Throws std::runtime_error before any rank has done
/// anything. To be called by the main thread of a process that has started no
/// other, and has not used a GPU.
int spawnRanks(const Mesh &mesh, const RankBody &body,
               const std::vector<std::string> &temporaryFiles);

/// Ends the process without the destructors of static objects: libtorch would
/// take its operators out of their tables, one by one.
[[noreturn]] void endProcess(int exitCode);

} // namespace fcdp::run
