// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/Failure.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace fcdp {

/// The options of a rank's device.
struct DeviceOptions {
  /// The time limit of waits for other ranks, in seconds. None means 60 to meet
  /// and 300 in a collective.
  std::optional<double> timeoutSeconds;
  /// The network interface for traffic between ranks. If it is empty, the
  /// interface by which the job's store is reached is used.
  std::string interface;
  /// Whether NCCL adds gradients on GPUs, if the reduction keeps their type. It
  /// may use switches that add, and the bits depend on the machine. Equal on
  /// all ranks.
  bool reducesByNccl = false;
  /// Whether the opening thread, and threads that it starts later, run on the
  /// processors next to the GPU, unless the launcher has bound them.
  bool runsNextToDevice = false;
  /// Whether the process ends after a failure, so that work of the device may
  /// be left that no abort ends.
  bool endsAfterFailure = false;
  /// Whether operators are launched as CUDA graphs where that is possible.
  bool cudaGraphs = false;
  /// Folders on local disks for states in files, over which their bytes are
  /// striped. Required if the step has such states.
  std::vector<std::string> stateFolders;
  /// Called while the session opens, with a sentence about how this rank's
  /// device communicates, or how states in files are transferred.
  std::function<void(const std::string &message)> onDevice;
  /// Called on a thread of the device.
  OnBlocked onBlocked;
};

} // namespace fcdp
