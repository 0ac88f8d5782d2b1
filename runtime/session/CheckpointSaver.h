// SPDX-License-Identifier: Apache-2.0
//
// Saves checkpoints of a session: a copy of this rank's states in host memory,
// which a background thread writes while training goes on.
#pragma once

#include "checkpoint/CheckpointLayout.h"
#include "collectives/Job.h"
#include "core/Backend.h"
#include "session/CheckpointOptions.h"
#include "session/SessionError.h"
#include "step/Step.h"

#include <ATen/core/Tensor.h>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace fcdp {

/// `save`, `wait` and `takeSaved` are called by the thread of the session. The
/// ranks agree by the job's store, so that the background threads need no
/// collective.
class CheckpointSaver {
public:
  struct Setup {
    const StepPlan &plan;
    Job &job;
    Backend &backend;
    Step &step;
    CheckpointOptions options;
    /// Called once, on the background thread, when a write has failed.
    std::function<void(const std::string &message)> onFailure;
  };

  /// Allocates the memory for the copy.
  explicit CheckpointSaver(Setup setup);
  /// Ends the background thread, even if other ranks are not done.
  ~CheckpointSaver();
  CheckpointSaver(const CheckpointSaver &) = delete;
  CheckpointSaver &operator=(const CheckpointSaver &) = delete;

  /// Waits for the last save, copies the states and has them written. `best` is
  /// the step of a checkpoint that is not removed. Throws SessionError if the
  /// last save has failed.
  void save(int64_t step, nlohmann::json job, std::optional<int64_t> best);
  /// Waits until the last save is complete. Throws SessionError.
  void wait();
  /// The oldest save that is complete and was not taken, if there is one.
  std::optional<SavedCheckpoint> takeSaved();
  /// The error of the background thread.
  std::optional<SessionError> failure() const;
  /// Host memory of the copies of a node's ranks, the greatest over nodes.
  uint64_t nodeCopyBytes() const;

private:
  void copyStates();
  void work();
  void writeCheckpoint();
  /// Removes older checkpoints. Returns why that was not possible, or "":
  /// training goes on.
  std::string prune() const;
  /// Returns the digest of the file's header.
  std::string writeOwnFile(const std::string &folder) const;
  void awaitRanks(const std::function<bool()> &isDone) const;
  std::string await(const std::string &key) const;
  std::optional<std::string> findTold(const std::string &key) const;
  void tell(const std::string &key, const std::string &text = "") const;
  void fail(SessionErrorCode code, const std::string &message);

  const Setup setup;
  const CheckpointLayout layout;
  at::Tensor memory;

  // What is being saved: the session's thread writes it while the background
  // thread is idle.
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
