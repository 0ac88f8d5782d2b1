// SPDX-License-Identifier: Apache-2.0
//
// Signals that ask a rank to save and end.
#pragma once

#include <csignal>

namespace fcdp::run {

/// The exit code of a run that a signal has ended.
inline int exitCodeOf(int signal) { return 128 + signal; }

/// By this signal a launcher asks its ranks to end. SIGTERM would be lost on
/// ranks that have inherited to ignore it, and would be the second one for
/// ranks that it has reached as members of a process group.
inline constexpr int kLaunchersSignal = SIGUSR2;

/// From now on SIGTERM, SIGINT and the launcher's signal are noted. A second
/// one ends the process.
void noteStopSignals();

/// The signal that this process has got, or 0. That of the launcher counts as
/// SIGTERM.
int stopSignal();

} // namespace fcdp::run
