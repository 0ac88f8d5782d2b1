// SPDX-License-Identifier: Apache-2.0
//
// Measures what a job's ranks run on.
#pragma once

#include "session/Launch.h"

#include <optional>
#include <string>

namespace fcdp::run {

struct ProbeOptions {
  /// The file that rank 0 writes.
  std::string path;
  /// Measures GPUs instead of CPUs.
  bool isForGpus = false;
  std::optional<int> threads;
  /// How long to wait for other ranks, in seconds.
  std::optional<double> timeout;
  /// The network interface for traffic between ranks.
  std::string interface;
};

/// Joins the job, measures its links, copies and computing with all ranks at
/// once, and has rank 0 write the description. Ends the process on errors,
/// except for those before the other ranks are met: they throw
/// std::runtime_error.
void runProbe(const ProbeOptions &options, const Launch &launch);

} // namespace fcdp::run
