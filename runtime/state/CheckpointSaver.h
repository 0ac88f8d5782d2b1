// SPDX-License-Identifier: Apache-2.0
//
// Saves checkpoints of a session. This rank's states are copied to host memory,
// and a background thread writes them while training continues.
#pragma once

#include "checkpoint/CheckpointLayout.h"
#include "core/Backend.h"
#include "core/SessionError.h"
#include "files/DiskMemory.h"
#include "job/Job.h"
#include "state/CheckpointOptions.h"
#include "step/Step.h"

#include <ATen/core/Tensor.h>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace fcdp {

/// Saves checkpoints. The thread of the session calls `save`, `wait` and
/// `takeSaved`. The ranks agree by the job's store, so that the background
/// threads need no collective.
class CheckpointSaver {
public:
  struct Setup {
    const StepPlan &plan;
    Job &job;
    Backend &backend;
    Step &step;
    CheckpointOptions options;
    /// Folders for states in files. If the plan has some, the copies are in the
    /// first one.
    std::vector<std::string> stateFolders;
    /// Called once, on the background thread, after a write has failed.
    std::function<void(const std::string &message)> onFailure;
  };

  /// Allocates the memory for the copy.
  explicit CheckpointSaver(Setup setup);
  /// Ends the background thread, even if other ranks are not done.
  ~CheckpointSaver();
  CheckpointSaver(const CheckpointSaver &) = delete;
  CheckpointSaver &operator=(const CheckpointSaver &) = delete;

  /// Waits for the last save, copies the states and starts writing them. The
  /// checkpoint of step `best` is not removed. Throws SessionError if the last
  /// save has failed.
  void save(int64_t step, nlohmann::json job, std::optional<int64_t> best);
  /// Waits until the last save is complete. Throws SessionError.
  void wait();
  /// Returns the oldest complete save that was not taken, or none.
  std::optional<SavedCheckpoint> takeSaved();
  /// Returns the error of the background thread.
  std::optional<SessionError> failure() const;
  /// Returns the bytes of host memory for the copies of a node's ranks, the
  /// greatest over nodes; 0 if they are in files.
  uint64_t nodeCopyBytes() const;

private:
  void copyStates();
  void work();
  void writeCheckpoint();
  /// Removes older checkpoints. Returns the reason if that fails, or "":
  /// training continues.
  std::string prune() const;
  /// Writes this rank's file. Returns the digest of its header.
  std::string writeOwnFile(const std::string &folder) const;
  void awaitRanks(const std::function<bool()> &isDone) const;
  std::string await(const std::string &key) const;
  std::optional<std::string> findTold(const std::string &key) const;
  void tell(const std::string &key, const std::string &text = "") const;
  void fail(SessionErrorCode code, const std::string &message);

  const Setup setup;
  const CheckpointLayout layout;
  /// The copies: memory, or a file for a plan with states in files, which are
  /// more than the host has memory for.
  at::Tensor memory;
  std::unique_ptr<DiskMemory> onDisk;
  std::span<std::byte> copies;

  // The checkpoint that is being saved. The session's thread sets it while the
  // background thread is idle.
  int64_t number = 0; ///< of the save, from 1
  CheckpointIndex index;
  std::optional<int64_t> best;
  double exposedSeconds = 0;

  mutable std::mutex mutex;
  mutable std::condition_variable changed;
  bool isBusy = false, isEnding = false;
  std::deque<SavedCheckpoint> saved;
  std::optional<SessionError> error;
  std::thread thread;
};

} // namespace fcdp
