// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/OnNonfinite.h"
#include "session/Agreement.h"
#include "session/FileAgreement.h"
#include "session/Launch.h"
#include "session/LossScale.h"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace fcdp {

struct SessionOptions {
  /// The rank of this process in its job.
  Launch launch;
  /// Tells sessions apart that one job opens one after the other and whose
  /// store outlives them, as torchrun's does. Must be equal on all ranks.
  uint32_t number = 0;
  /// How long to wait for other ranks, in seconds. None: 60 to meet, 300 in a
  /// collective.
  std::optional<double> timeoutSeconds;
  /// The network interface for traffic between ranks. Empty: the one by which
  /// the job's store is reached.
  std::string interface;
  /// libtorch's threads for operators, which the whole process has while the
  /// session is open. None: the cores of this machine divided by the ranks of a
  /// node.
  std::optional<int> threads;
  /// The random state of rank r starts from seed + r. It is that of the
  /// process.
  uint64_t seed = 0;
  /// Have operators give the same bits in each run on the same device, which
  /// makes some slower. An operator that cannot fails the step. In force while
  /// the session works. Equal on all ranks.
  bool deterministic = false;
  /// On GPUs, have NCCL sum gradients whose type the reduction keeps. It may
  /// use switches that sum, and the bits depend on the machine. Equal on all
  /// ranks.
  bool reducesByNccl = false;
  /// Launch operators as CUDA graphs where that is possible.
  bool cudaGraphs = false;
  /// What happens to a step whose loss or gradients are infinite or NaN. With
  /// Skip, a GPU has no next step to work on while the losses of one are
  /// awaited. Equal on all ranks.
  OnNonfinite onNonfinite = OnNonfinite::Stop;
  /// How the loss is scaled by a step that scales it. None: as the checkpoint
  /// says that is loaded, or else by GradScaler's defaults. A scale that is not
  /// fixed goes on from that of the checkpoint, and skips the update of steps
  /// whose gradients overflow, so it needs Stop or Skip above. Equal on all
  /// ranks.
  std::optional<LossScaling> lossScaling;
  /// The values of elements with which inputs of a step of several shapes are
  /// padded, by the input's name; 0 for other inputs. Equal on all ranks.
  std::map<std::string, double> padding;
  /// Record when operations run, which makes a step on a GPU slower.
  bool record = false;
  /// Record so many steps after the first one, and no more, for a profile.
  /// Equal on all ranks. Excludes `record`.
  int64_t profiledSteps = 0;
  /// Called on rank 0 after the last of these steps, with the profile's text
  /// (docs/profile.md).
  std::function<void(const std::string &json)> onProfile;
  /// Called before the ranks meet. If it throws on any rank, `open` fails on
  /// all of them.
  std::function<void()> check;
  /// The same, but called once the ranks have met, which wait for each other
  /// for as long as it takes.
  std::function<void()> scan;
  /// Called after `scan`. What it returns must be the same on all ranks;
  /// otherwise `open` fails on all of them.
  std::function<std::vector<Fact>()> facts;
  /// The same for files, whose contents are compared.
  std::function<std::vector<FileFact>()> files;
  /// Called on a thread of the session's own, with a sentence about a process
  /// that does not belong to the job and was refused. The job goes on.
  std::function<void(const std::string &message)> onStranger;
  /// Called while the session opens, with a sentence about how this rank's
  /// device communicates. Not called on the CPU.
  std::function<void(const std::string &message)> onDevice;
  /// Called at most once, on a thread of the session's own, when another rank
  /// has died or failed. Without it the session fails the call that waits for
  /// that rank, or the next one, with PeerFailed; with it, it does the same
  /// once the function has returned.
  std::function<void(const std::string &message)> onPeerFailure;
};

} // namespace fcdp
