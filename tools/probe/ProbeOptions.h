// SPDX-License-Identifier: Apache-2.0
//
// The options of a probe.
#pragma once

#include <optional>
#include <string>

namespace fcdp::probe {

struct ProbeOptions {
  /// Whether GPUs are measured instead of CPUs.
  bool isForGpus = false;
  std::optional<int> threads = std::nullopt;
  /// The time limit of waits for other ranks, in seconds.
  std::optional<double> timeout = std::nullopt;
  /// The network interface for traffic between ranks.
  std::string interface = "";
  /// The name of the probe at the beginning of messages.
  std::string name = "--probe-cluster";
  /// The command that the description names.
  std::string command = "fcdp-run --probe-cluster";
};

} // namespace fcdp::probe
