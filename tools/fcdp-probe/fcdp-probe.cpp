// SPDX-License-Identifier: Apache-2.0
//
// fcdp-probe: describes the cluster that its ranks run on.
#include "ProbeTool.h"
#include "launch/Spawn.h"

#include <csignal>

int main(int argc, char **argv) {
  // These are errors to report, and must not end the process.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  fcdp::run::endProcess(fcdp::run::runProbeTool(argc, argv));
}
