// SPDX-License-Identifier: Apache-2.0
//
// Handles signals that ask a rank to save and end.
#pragma once

#include <csignal>

namespace fcdp::run {

/// Returns the exit code of a run that a signal has ended.
inline int exitCodeOf(int signal) { return 128 + signal; }

/// The signal by which a launcher asks its ranks to end. SIGTERM would not do:
/// ranks that ignore it by inheritance would miss it, and ranks that have
/// received it as members of a process group would count it as the second one.
inline constexpr int kLaunchersSignal = SIGUSR2;

/// Records SIGTERM, SIGINT and the launcher's signal from now on. A second
/// signal ends the process.
void noteStopSignals();

/// Returns the signal that this process has received, or 0. The launcher's
/// signal counts as SIGTERM.
int stopSignal();

} // namespace fcdp::run
