// SPDX-License-Identifier: Apache-2.0
//
// The options of a probe.
#pragma once

#include <optional>
#include <string>

namespace fcdp::run {

struct ProbeOptions {
  /// The file that rank 0 writes.
  std::string path;
  /// Whether GPUs are measured instead of CPUs.
  bool isForGpus = false;
  std::optional<int> threads;
  /// The time limit of waits for other ranks, in seconds.
  std::optional<double> timeout;
  /// The network interface for traffic between ranks.
  std::string interface;
};

} // namespace fcdp::run
