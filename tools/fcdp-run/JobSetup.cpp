// SPDX-License-Identifier: Apache-2.0
#include "JobSetup.h"

#include "JsonLog.h"
#include "fcdp/runtime.h"

#include <algorithm>
#include <thread>

namespace fcdp::run {

namespace {

constexpr double kJoinSeconds = 60;

} // namespace

JobOptions makeJobOptions(const Options &options, const Launch &launch,
                          FailureExit &failureExit) {
  JobOptions job;
  job.mesh = launch.mesh;
  job.place = launch.place;
  job.launcherRank = launch.rank;
  job.launcherSize = launch.mesh.size();
  job.host = launch.masterHost;
  job.port = launch.masterPort;
  job.servesStore = launch.servesStore;
  job.restartCount = launch.restartCount;
  job.interface = options.interface;
  job.abi = FCDP_ABI_VERSION;
  job.joinSeconds = options.timeout.value_or(kJoinSeconds);
  if (options.timeout)
    job.collectiveSeconds = *options.timeout;
  job.onFailure = [&failureExit](const std::string &message) {
    failureExit.shared(message);
  };
  return job;
}

int threadsPerRank(const Options &options, uint32_t ranks) {
  int cores = std::max(1u, std::thread::hardware_concurrency());
  return options.threads.value_or(std::max(1, cores / int(ranks)));
}

std::vector<std::string> temporaryFiles(const Options &options, uint32_t rank) {
  std::vector<std::string> files;
  if (rank == 0)
    for (const auto &[option, path] : outputFiles(options))
      files.push_back(temporaryName(path));
  return files;
}

void failTransfer(Job &job, FailureExit &failureExit,
                  const std::string &message) {
  std::string explained = job.explainFailure(message);
  if (explained == message)
    failureExit.own(message);
  failureExit.shared(explained);
}

} // namespace fcdp::run
