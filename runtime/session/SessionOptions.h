// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/OnNonfinite.h"
#include "core/SessionError.h"
#include "device/DeviceOptions.h"
#include "job/Agreement.h"
#include "job/FileAgreement.h"
#include "job/Launch.h"
#include "policy/LossScale.h"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace fcdp {

struct SessionOptions : DeviceOptions {
  /// The rank of this process in its job.
  Launch launch;
  /// Distinguishes sessions that one job opens one after the other, if the
  /// job's store outlives them, as torchrun's does. Must be equal on all ranks.
  uint32_t number = 0;
  /// The number of libtorch's threads for operators, for the whole process
  /// while the session is open. None means the cores of this machine divided by
  /// the ranks of a node.
  std::optional<int> threads;
  /// The random state of rank r, which is that of the process, starts from the
  /// sum of `seed` and r.
  uint64_t seed = 0;
  /// Whether operators give the same bits in each run on the same device, which
  /// makes some slower. An operator that cannot fails the step. In effect while
  /// the session works. Equal on all ranks.
  bool deterministic = false;
  /// The treatment of a step whose loss or gradients are infinite or NaN. With
  /// Skip, a GPU does not work on the next step while the host waits for the
  /// losses of one. Equal on all ranks.
  OnNonfinite onNonfinite = OnNonfinite::Stop;
  /// The scaling of the loss, for a step that scales it. None means the scaling
  /// of the loaded checkpoint, or else GradScaler's defaults. A scale that is
  /// not fixed continues from that of the checkpoint, and skips the update of
  /// steps whose gradients overflow, so it requires Stop or Skip above. Equal
  /// on all ranks.
  std::optional<LossScaling> lossScaling;
  /// The values that pad inputs of a step of several shapes, by the input's
  /// name; 0 for other inputs. Equal on all ranks.
  std::map<std::string, double> padding;
  /// Whether the times of operations are recorded, which makes a step on a GPU
  /// slower.
  bool record = false;
  /// The number of steps after the first one that are recorded for a profile.
  /// Equal on all ranks. Excludes `record`.
  int64_t profiledSteps = 0;
  /// Called on rank 0 after the last of these steps, with the profile's text
  /// (docs/profile.md).
  std::function<void(const std::string &json)> onProfile;
  /// Called before the ranks meet. If it throws on any rank, `open` fails on
  /// all of them.
  std::function<void()> check;
  /// Like `check`, but called after the ranks have met. The ranks wait for each
  /// other without a time limit.
  std::function<void()> scan;
  /// Called after `scan`. The result must be equal on all ranks; otherwise
  /// `open` fails on all of them.
  std::function<std::vector<Fact>()> facts;
  /// Like `facts`, for files, whose contents are compared.
  std::function<std::vector<FileFact>()> files;
  /// Called on a thread of the session with a sentence about a process that
  /// does not belong to the job and was refused. The job continues.
  std::function<void(const std::string &message)> onStranger;
  /// Called at most once, on a thread of the session, when another rank has
  /// died or failed. Without it, the call that waits for that rank, or the next
  /// one, fails with PeerFailed. With it, the same happens after the function
  /// has returned.
  std::function<void(const std::string &message)> onPeerFailure;
  /// Called at most once, on any thread, with a failure that the other ranks
  /// know of. The session's thread is blocked in a call of NCCL, whose abort
  /// follows and may end the process, so the error may never be thrown. Without
  /// it, the message is printed on the standard error.
  std::function<void(const SessionError &error)> onBlockedFailure;
};

} // namespace fcdp
