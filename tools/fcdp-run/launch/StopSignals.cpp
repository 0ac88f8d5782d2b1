// SPDX-License-Identifier: Apache-2.0
#include "launch/StopSignals.h"

#include <csignal>
#include <initializer_list>

namespace fcdp::run {

namespace {

volatile std::sig_atomic_t noted = 0;

void note(int signal) { noted = signal == kLaunchersSignal ? SIGTERM : signal; }

} // namespace

void noteStopSignals() {
  for (int signal : {SIGTERM, SIGINT, kLaunchersSignal}) {
    struct sigaction action = {};
    // A launcher makes its ranks ignore the signals that it passes on itself.
    if (sigaction(signal, nullptr, &action) != 0 ||
        action.sa_handler == SIG_IGN)
      continue;
    action = {};
    action.sa_handler = note;
    action.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);
    sigaction(signal, &action, nullptr);
  }
}

int stopSignal() { return noted; }

} // namespace fcdp::run
