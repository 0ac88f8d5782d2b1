// SPDX-License-Identifier: Apache-2.0
#include "Tool.h"

#include "Options.h"
#include "Rank.h"
#include "TorchVersion.h"
#include "core/Thread.h"
#include "job/JobSetup.h"
#include "launch/Spawn.h"
#include "output/Failure.h"
#include "output/OutputFiles.h"
#include "probe/Probe.h"
#include "report/EnvironmentReport.h"
#include "session/Session.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <stdexcept>
#include <string_view>

namespace fcdp::run {
namespace {

/// Returns the mesh of ranks that this process starts by itself.
Mesh ownMesh(const Options &options, const Mesh &compiled) {
  Mesh mesh = compiled;
  if (options.nodes)
    mesh.nodes = *options.nodes;
  if (options.ranksPerNode)
    mesh.locals = *options.ranksPerNode;
  return mesh;
}

void checkMesh(const Mesh &compiled, const Mesh &started,
               const std::string &launcher) {
  std::string problem = meshMismatch(compiled, started, launcher);
  if (!problem.empty())
    throw std::runtime_error(problem);
}

/// Reports an error from before the ranks have met. All ranks of a node have
/// it, and one of them prints it.
int failBeforeMeeting(const std::exception &error,
                      const std::optional<Launch> &launch) {
  if (!launch || launch->place.local == 0)
    printError(errorText(error));
  return EXIT_FAILURE;
}

int spawn(Options options, const Mesh &mesh,
          const std::function<int(const Options &, const Launch &)> &body) {
  // All ranks are on this machine, whatever the number of nodes.
  options.threads = threadsPerRank(options.threads, mesh.size());
  auto rank = [&](const Launch &launch) {
    try {
      return body(options, launch);
    } catch (const std::exception &error) {
      return failBeforeMeeting(error, launch);
    }
  };
  // This is made before the ranks are forked, so that they have the same
  // temporary names.
  OutputFiles outputs(outputFiles(options));
  return spawnRanks(
      mesh, rank, [&] { outputs.cleanUp(); },
      options.saveDir.empty() ? OnSignal::End : OnSignal::Ask);
}

int probeRank(const Options &options, const Launch &launch) {
  runProbe({options.probe, options.probesGpus, options.threads, options.timeout,
            options.interface},
           launch);
  return EXIT_SUCCESS;
}

int probe(const Options &options, const std::optional<Launch> &launch) {
  if (launch) {
    checkMesh(ownMesh(options, launch->mesh), launch->mesh, launch->launcher);
    return probeRank(options, *launch);
  }
  Mesh asked = ownMesh(options, Mesh());
  if (asked.size() > 1)
    return spawn(options, asked, probeRank);
  return probeRank(options, onlyRank("fcdp-run"));
}

int start(const Options &options, const std::optional<Launch> &launch) {
  if (!options.probe.empty())
    return probe(options, launch);
  auto object = loadStep(options.step);
  const Mesh &compiled = object->plan().mesh;
  Mesh asked = ownMesh(options, compiled);
  if (launch) {
    checkMesh(compiled, launch->mesh, launch->launcher);
    checkMesh(asked, launch->mesh, launch->launcher);
    return runRank(options, object, *launch);
  }
  checkMesh(compiled, asked, "fcdp-run");
  if (asked.size() > 1)
    return spawn(options, asked,
                 [&](const Options &options, const Launch &launch) {
                   return runRank(options, object, launch);
                 });
  return runRank(options, object, onlyRank("fcdp-run"));
}

} // namespace

int runTool(int argc, char **argv) {
  std::optional<Launch> launch;
  try {
    // The report is also for users with another libtorch.
    if (std::find(argv, argv + argc,
                  std::string_view("--report-environment")) == argv + argc)
      requireTorchVersion();
    std::optional<Options> options = parseOptions(argc, argv);
    if (!options)
      return EXIT_SUCCESS;
    if (options->reportsEnvironment) {
      if (!(std::cout << describeEnvironment() << std::flush))
        throw std::runtime_error(std::string("standard output: ") +
                                 std::strerror(errno));
      return EXIT_SUCCESS;
    }
    launch = detectLaunch(processEnvironment,
                          options->nodes || options->ranksPerNode);
    return start(*options, launch);
  } catch (const std::exception &error) {
    return failBeforeMeeting(error, launch);
  }
}

} // namespace fcdp::run
