// SPDX-License-Identifier: Apache-2.0
//
// fcdp-run: runs a compiled training step, as one rank of a job or as the
// launcher of all of them.
#include "Tool.h"
#include "launch/Spawn.h"

#include <csignal>

int main(int argc, char **argv) {
  // If Gloo writes to a socket whose peer is gone, this is an error to report,
  // and must not end the process.
  std::signal(SIGPIPE, SIG_IGN);
  // The same holds for a file that reaches the limit on file sizes.
  std::signal(SIGXFSZ, SIG_IGN);
  fcdp::run::endProcess(fcdp::run::runTool(argc, argv));
}
