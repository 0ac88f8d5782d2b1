// SPDX-License-Identifier: Apache-2.0
#include "ProbeRun.h"

#include "launch/StartedRanks.h"
#include "output/Failure.h"
#include "output/OutputFiles.h"
#include "output/Progress.h"
#include "probe/Probe.h"

#include <cstdlib>
#include <iostream>

namespace fcdp::run {

namespace {

/// Ends this rank after an error that another rank may have caused.
[[noreturn]] void failTransfer(Job &job, FailureExit &failureExit,
                               const std::string &message) {
  std::string explained = job.explainFailure(message);
  if (explained == message)
    failureExit.own(message);
  failureExit.shared(explained);
}

/// Measures and, on rank 0, prints and writes the description.
void measure(const ProbeRun &run, Job &job) {
  Progress progress(job.rank() == 0);
  probe::probeCluster(run.options, job,
                      {[&](const std::string &part) {
                         if (part.empty())
                           progress.clear();
                         else
                           progress.show("measuring " + part);
                       },
                       [&](const std::string &description) {
                         // It is printed, too, so that it is not lost if it
                         // cannot be written.
                         std::cout << description << std::flush;
                         writeWhole(run.options.name, run.path, description);
                       }});
}

int probeOnRank(const ProbeRun &run, const Launch &launch) {
  probe::requireProbe(run.options);
  uint32_t rank = worldRank(launch.mesh, launch.place);
  OutputFiles outputs({{run.options.name, run.path}});
  if (rank == 0)
    outputs.open();
  FailureExit failureExit(launch.isOwnStore, [&] {
    if (rank == 0)
      outputs.cleanUp();
  });
  JobOptions jobOptions = probe::prepareProbe(run.options, launch);
  jobOptions.onFailure = [&](const std::string &message) {
    failureExit.shared(message);
  };
  jobOptions.onStranger = printWarning;
  std::unique_ptr<Job> job = joinJob(jobOptions);
  try {
    measure(run, *job);
  } catch (const TransportError &error) {
    failTransfer(*job, failureExit, error.what());
  } catch (const std::exception &error) {
    job->publishFailure(error.what());
    failureExit.own(error.what());
  }
  return EXIT_SUCCESS;
}

} // namespace

int runProbe(const ProbeRun &run, const std::optional<Launch> &launch) {
  const AskedRanks asked{run.nodes, run.ranksPerNode};
  if (launch) {
    checkMesh(asked.meshOr(launch->mesh), launch->mesh, launch->launcher);
    return probeOnRank(run, *launch);
  }
  const Mesh mesh = asked.meshOr(Mesh());
  if (mesh.size() == 1)
    return probeOnRank(run, onlyRank(programName()));
  // Before ranks are started: those that meet would wait for rank 0.
  OutputFiles outputs({{run.options.name, run.path}});
  outputs.open();
  outputs.cleanUp();
  ProbeRun ofRank = run;
  ofRank.options.threads = threadsPerRank(run.options.threads, mesh.size());
  return startRanks(
      mesh, {{run.options.name, run.path}},
      [&](const Launch &launch) { return probeOnRank(ofRank, launch); },
      OnSignal::End);
}

} // namespace fcdp::run
