// SPDX-License-Identifier: Apache-2.0
//
// Starts all ranks of a job on this machine.
#pragma once

#include "job/Launch.h"

#include <functional>
#include <string>
#include <vector>

namespace fcdp::run {

/// Runs one rank; returns its exit code, and does not throw.
using RankBody = std::function<int(const Launch &)>;

/// The reaction of a launcher to the first SIGTERM or SIGINT.
enum class OnSignal {
  End, ///< ends all ranks soon
  Ask, ///< passes it on, and waits until the ranks have ended
};

/// Runs `body` in a process of its own for each rank, and serves the job's
/// store. The processes are forked, so that libtorch is loaded once and not
/// once per rank. Returns the exit code: 0, 1 if a rank failed, 143 or 130
/// after SIGTERM or SIGINT, or if the ranks ended with it. All ranks have ended
/// when it returns. If the job has failed, `cleanUp` is called after that.
/// Throws std::runtime_error before any rank has started work. It must be
/// called by the main thread of a process that has started no other thread, and
/// has not used a GPU.
int spawnRanks(const Mesh &mesh, const RankBody &body,
               const std::function<void()> &cleanUp,
               OnSignal onSignal = OnSignal::End);

/// Ends the process without the destructors of static objects, because libtorch
/// would remove its operators from their tables one by one.
[[noreturn]] void endProcess(int exitCode);

} // namespace fcdp::run
