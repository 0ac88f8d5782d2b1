// SPDX-License-Identifier: Apache-2.0
#include "job/JobSetup.h"

#include "fcdp/runtime.h"

#include <algorithm>
#include <thread>

namespace fcdp {

namespace {

constexpr double kJoinSeconds = 60;

/// Returns the seconds of silence after which a rank counts as dead: a tenth of
/// the time for which the user lets the ranks wait for each other. It is at
/// least the time in which TCP repeats what a short outage has lost, and at
/// most a minute, because nothing is computed in that time.
double silenceLimit(double collectiveSeconds) {
  constexpr double part = 0.1, least = 6, most = 60;
  return std::clamp(part * collectiveSeconds, least, most);
}

} // namespace

JobOptions makeJobOptions(const Launch &launch,
                          const std::optional<double> &timeoutSeconds,
                          const std::string &interface) {
  JobOptions job;
  job.mesh = launch.mesh;
  job.place = launch.place;
  job.launcherRank = launch.rank;
  job.launcherSize = launch.mesh.size();
  job.host = launch.masterHost;
  job.port = launch.masterPort;
  job.isOwnStore = launch.isOwnStore;
  job.servesStore = launch.servesStore;
  // The only rank meets no other, and does not use the launcher's port.
  if (launch.mesh.size() == 1 && !launch.isOwnStore) {
    job.host = "127.0.0.1";
    job.port = 0;
    job.servesStore = true;
  }
  job.secret = launch.secret;
  job.restartCount = launch.restartCount;
  job.interface = interface;
  job.abi = FCDP_ABI_VERSION;
  job.joinSeconds = timeoutSeconds.value_or(kJoinSeconds);
  if (timeoutSeconds)
    job.collectiveSeconds = *timeoutSeconds;
  job.heartbeatLimitSeconds = silenceLimit(job.collectiveSeconds);
  return job;
}

int threadsPerRank(const std::optional<int> &threads, uint32_t ranks) {
  int cores = std::max(1u, std::thread::hardware_concurrency());
  return threads.value_or(std::max(1, cores / int(ranks)));
}

std::string meshMismatch(const Mesh &compiled, const Mesh &started,
                         const std::string &launcher) {
  if (compiled.nodes == started.nodes && compiled.locals == started.locals)
    return "";
  auto spell = [](const Mesh &mesh) {
    return std::to_string(mesh.nodes) + (mesh.nodes == 1 ? " node" : " nodes") +
           " x " + std::to_string(mesh.locals) +
           (mesh.locals == 1 ? " rank" : " ranks");
  };
  return "the step was compiled for " + spell(compiled) + ", but " + launcher +
         " starts " + spell(started) +
         "; start as many, or compile it for these";
}

} // namespace fcdp
