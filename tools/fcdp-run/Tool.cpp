// SPDX-License-Identifier: Apache-2.0
#include "Tool.h"

#include "Options.h"
#include "ProbeRun.h"
#include "Rank.h"
#include "TorchVersion.h"
#include "core/LibrarySettings.h"
#include "launch/StartedRanks.h"
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

int spawn(Options options, const Mesh &mesh,
          const std::function<int(const Options &, const Launch &)> &body) {
  options.threads = threadsPerRank(options.threads, mesh.size());
  return startRanks(
      mesh, outputFiles(options),
      [&](const Launch &launch) { return body(options, launch); },
      options.saveDir.empty() ? OnSignal::End : OnSignal::Ask);
}

int start(const Options &options, const std::optional<Launch> &launch) {
  if (!options.probe.empty())
    return runProbe({{options.probesGpus, options.threads, options.timeout,
                      options.interface},
                     options.probe,
                     options.nodes,
                     options.ranksPerNode},
                    launch);
  auto object = loadStep(options.step);
  const Mesh &compiled = object->plan().mesh;
  Mesh asked = AskedRanks{options.nodes, options.ranksPerNode}.meshOr(compiled);
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
  reserveLibrarySettings();
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
