// SPDX-License-Identifier: Apache-2.0
//
// What the command line says of a probe.
#pragma once

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

} // namespace fcdp::run
