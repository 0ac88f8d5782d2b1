// SPDX-License-Identifier: Apache-2.0
//
// Starts the ranks that a command line asks for, and reports errors from before
// they have met.
#pragma once

#include "job/JobSetup.h"
#include "launch/Spawn.h"
#include "output/OutputFiles.h"

#include <exception>
#include <optional>
#include <string>
#include <vector>

namespace fcdp::run {

/// The numbers of nodes and of ranks of each that a command line asks for.
struct AskedRanks {
  std::optional<uint32_t> nodes, ranksPerNode;

  /// Returns the mesh, in which `otherwise` gives what is not asked for.
  Mesh meshOr(const Mesh &otherwise) const;
};

/// Throws std::runtime_error unless `launcher` has started the mesh.
void checkMesh(const Mesh &compiled, const Mesh &started,
               const std::string &launcher);

/// Reports an error from before the ranks have met. All ranks of a node have
/// it, and one of them prints it. Returns the exit code.
int failBeforeMeeting(const std::exception &error,
                      const std::optional<Launch> &launch);

/// Starts all ranks of the mesh on this machine, whatever its number of nodes.
/// `body` runs one of them, and may throw before they have met. `outputs` are
/// removed if the job fails. Returns the exit code.
int startRanks(const Mesh &mesh, std::vector<NamedFile> outputs,
               const RankBody &body, OnSignal onSignal);

} // namespace fcdp::run
