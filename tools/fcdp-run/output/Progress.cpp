// SPDX-License-Identifier: Apache-2.0
#include "output/Progress.h"

#include <cstdlib>
#include <iostream>
#include <unistd.h>

namespace fcdp::run {

Progress::Progress(bool isWanted) {
  const char *told = std::getenv(kTerminalVariable);
  bool isTerminal = told ? *told == '1' : isatty(STDERR_FILENO) != 0;
  isOn = isWanted && isTerminal;
}

void Progress::show(const std::string &text) {
  if (!isOn)
    return;
  clear();
  std::cerr << text << " ..." << std::flush;
  isShown = true;
}

void Progress::clear() {
  if (isShown)
    std::cerr << "\r\x1b[K" << std::flush;
  isShown = false;
}

} // namespace fcdp::run
