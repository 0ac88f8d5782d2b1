// SPDX-License-Identifier: Apache-2.0
//
// Signals that ask a rank to save and end.
#pragma once

namespace fcdp::run {

/// The exit code of a run that a signal has ended.
inline int exitCodeOf(int signal) { return 128 + signal; }

/// From now on SIGTERM and SIGINT are noted. A second one ends the process.
void noteStopSignals();

/// The signal that this process has got, or 0.
int stopSignal();

} // namespace fcdp::run
