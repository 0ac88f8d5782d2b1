// SPDX-License-Identifier: Apache-2.0
#include "ProbeTool.h"

#include "CommandLine.h"
#include "ProbeRun.h"
#include "TorchVersion.h"
#include "core/LibrarySettings.h"
#include "launch/StartedRanks.h"
#include "output/Failure.h"

#include <cstdlib>

namespace fcdp::run {

namespace {

constexpr const char *kName = "fcdp-probe";

constexpr const char *kExample = R"(
Example, this machine as two nodes of two ranks:
  fcdp-probe cluster.yaml --nodes 2 --ranks-per-node 2
  fcdp-sim step.pt2 --cluster=cluster.yaml

Several machines: start it with torchrun --no-python, srun or mpirun, which
set the numbers of nodes and ranks. FCDP_JOB_KEY, of at least 16 characters and
the same on all ranks, is the secret of the job: processes without it are
refused.)";

/// Returns none after printing the help.
std::optional<ProbeRun> parse(int argc, char **argv) {
  ProbeRun run;
  run.options.name = "probe";
  run.options.command = kName;
  CLI::App app("Measures the hardware that its ranks run on, all at once: "
               "computing, memory, copies and links.",
               kName);
  app.footer(kExample);
  app.add_option("FILE", run.path,
                 "Write the description to this file, which other tools read "
                 "with --cluster")
      ->required();
  std::string target;
  app.add_option("--target", target,
                 "Select what is measured: cpu (default), or cuda, the ranks' "
                 "GPUs, the copies to and from them, and NCCL")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  addRankOptions(app, run.nodes, run.ranksPerNode);
  addThreads(app, run.options.threads);
  addNetworkOptions(app, run.options.timeout, run.options.interface);
  if (!parseArguments(app, argc, argv))
    return std::nullopt;
  checkRanks(run.nodes, run.ranksPerNode);
  checkTimeout(run.options.timeout);
  run.options.isForGpus = target == "cuda";
  return run;
}

} // namespace

int runProbeTool(int argc, char **argv) {
  setProgramName(kName);
  std::optional<Launch> launch;
  reserveLibrarySettings();
  try {
    requireTorchVersion();
    const std::optional<ProbeRun> run = parse(argc, argv);
    if (!run)
      return EXIT_SUCCESS;
    launch = detectLaunch(processEnvironment, run->nodes || run->ranksPerNode);
    return runProbe(*run, launch);
  } catch (const std::exception &error) {
    return failBeforeMeeting(error, launch);
  }
}

} // namespace fcdp::run
