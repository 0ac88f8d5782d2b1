// SPDX-License-Identifier: Apache-2.0
#include "launch/StartedRanks.h"

#include "core/Thread.h"
#include "output/Failure.h"

#include <cstdlib>
#include <stdexcept>

namespace fcdp::run {

Mesh AskedRanks::meshOr(const Mesh &otherwise) const {
  Mesh mesh = otherwise;
  if (nodes)
    mesh.nodes = *nodes;
  if (ranksPerNode)
    mesh.locals = *ranksPerNode;
  return mesh;
}

void checkMesh(const Mesh &compiled, const Mesh &started,
               const std::string &launcher) {
  std::string problem = meshMismatch(compiled, started, launcher);
  if (!problem.empty())
    throw std::runtime_error(problem);
}

int failBeforeMeeting(const std::exception &error,
                      const std::optional<Launch> &launch) {
  if (!launch || launch->place.local == 0)
    printError(errorText(error));
  return EXIT_FAILURE;
}

int startRanks(const Mesh &mesh, std::vector<NamedFile> outputs,
               const RankBody &body, OnSignal onSignal) {
  auto rank = [&](const Launch &launch) {
    try {
      return body(launch);
    } catch (const std::exception &error) {
      return failBeforeMeeting(error, launch);
    }
  };
  // This is made before the ranks are forked, so that they have the same
  // temporary names.
  OutputFiles files(std::move(outputs));
  return spawnRanks(mesh, rank, [&] { files.cleanUp(); }, onSignal);
}

} // namespace fcdp::run
