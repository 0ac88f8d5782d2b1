// SPDX-License-Identifier: Apache-2.0
//
// The private members of a session.
#pragma once

#include "checkpoint/RunLock.h"
#include "core/Backend.h"
#include "core/SessionClock.h"
#include "device/Device.h"
#include "device/TorchSettings.h"
#include "job/Job.h"
#include "job/PeerAlarm.h"
#include "policy/InputRules.h"
#include "policy/LearningRates.h"
#include "policy/NonfiniteCheck.h"
#include "policy/Padding.h"
#include "policy/ScaledLoss.h"
#include "policy/WeightedLosses.h"
#include "session/Session.h"
#include "session/StepProfile.h"
#include "state/CheckpointSaver.h"
#include "step/Step.h"

#include <chrono>
#include <deque>
#include <map>
#include <mutex>
#include <unistd.h>
#include <utility>

namespace fcdp {

struct Session::Impl {
  Impl(std::shared_ptr<const StepObject> object, const SessionOptions &options)
      : object(std::move(object)), plan(this->object->plan()),
        options(options) {}
  ~Impl();

  void join();
  void makeStep();
  /// Returns whether a GPU works on the next step while the losses of one are
  /// read. Not if operations are timed.
  bool isAhead() const { return device.gpu && !isRecording; }

  enum class Phase { Loading, Running, Closed, Failed };
  /// Returns whether this process opened the session, and not a process that it
  /// was forked from.
  bool isOfThisProcess() const;
  /// Throws Misuse if the session has failed or is closed, or belongs to
  /// another process.
  void requireOpen() const;
  /// Throws Misuse unless values may still be set.
  void requireLoading(const char *function) const;

  /// Runs `work` with the settings of the session. An error of it ends the
  /// session: it is reported to the other ranks, and a SessionError is thrown,
  /// with `code` unless the error has another one.
  template <typename Work>
  void attempt(SessionErrorCode code, Work work) {
    requireOpen();
    TorchScope scope(torchSettings);
    try {
      work();
    } catch (const std::exception &error) {
      if (phase == Phase::Failed && dynamic_cast<const SessionError *>(&error))
        throw; // by a call within `work`
      throw conclude(error, code);
    }
  }
  SessionError conclude(const std::exception &error, SessionErrorCode code);
  /// Returns the error for a failed transfer, after the other ranks know of it.
  SessionError explain(const std::string &message, SessionErrorCode code);
  /// Reports a failure while the session's thread is blocked in a call.
  void reportBlocked(const Failure &failure);
  /// Does the same for work that all ranks do together, and counts it. A rank
  /// that closes the session reports the count to the others.
  template <typename Work>
  void attemptTogether(SessionErrorCode code, Work work) {
    requireOpen();
    job->beginCall(numSteps);
    attempt(code, work);
  }

  /// Runs `work` and returns its error, with `code` unless it has another one.
  static std::optional<SessionError>
  problemOf(SessionErrorCode code, const std::function<void()> &work);
  /// Fails on all ranks if any of them has a problem, or with `code` if their
  /// facts differ.
  void agree(const std::optional<SessionError> &problem, const char *what,
             const std::vector<Fact> &facts = {},
             SessionErrorCode code = SessionErrorCode::RendezvousFailed);
  /// Does the same for the contents of files. `makeFiles` is not called if
  /// there is a problem.
  void agreeOnFiles(std::optional<SessionError> problem, const char *what,
                    const std::function<std::vector<FileFact>()> &makeFiles,
                    SessionErrorCode code = SessionErrorCode::RendezvousFailed);
  /// Returns the texts of all ranks. Fails on all of them if any of them has a
  /// problem.
  std::vector<std::string>
  exchangeTexts(const std::optional<SessionError> &problem, const char *what,
                const std::string &text);
  /// Returns the facts that must be equal on all ranks before they make the
  /// step.
  std::vector<Fact> openingFacts() const;
  /// Records a value that was set, which must be equal on all ranks.
  void noteValue(const std::string &name, const std::string &role,
                 std::span<const std::byte> value);

  /// Returns the checkpoint that `path` refers to, the same on all ranks, or
  /// none.
  std::optional<std::string> findCheckpointTogether(const std::string &path);

  /// Creates the folder for checkpoints. Fails on all ranks unless rank 0 can
  /// write to it, all see it, and it has no checkpoints of later steps.
  void openRunFolder(const std::string &run);

  double nextLearningRate() const { return rates.rateAfter(numSteps); }

  void begin();
  /// Returns whether `own` is true on any rank. Collective.
  bool isAnywhere(bool own, const char *what);
  void saveWeights(const ParameterOutput &output);
  void runStep(const FillInput &fill, const StepNeeds &needs);
  /// Fills input `index` of the plan, which is number `input` of a batch.
  /// Throws InputMismatch if its values break a rule of the step.
  void fillInput(const FillInput &fill, size_t index, size_t input,
                 int64_t batch);
  /// Fills the inputs `inputs` of the plan, those of batch `batch`, in the same
  /// way.
  void fillBatch(const FillInput &fill, StepPlan::Inputs inputs, int64_t batch);
  /// Returns the function by which policies combine numbers of all ranks.
  GatherOverRanks gatherOverRanks();
  /// Sets the weight of the loss of micro-batch `number`, whose `inputs` were
  /// filled, and records it. `total` is the sum over all losses of the step.
  void weightLoss(StepPlan::Inputs inputs, int64_t number, double total,
                  RankStats &stats);
  /// Records the weight of the loss of batch `number`, which is in no step.
  void recordWeight(StepPlan::Inputs inputs, int64_t number, RankStats &stats);
  /// Ends the session with InputMismatch if all losses have the weight 0.
  /// Collective. `what` is "step 3" or "the evaluation".
  void requireWeight(double total, const std::string &what);
  /// Ends the session with an error that all ranks have found, so that none
  /// waits for another.
  [[noreturn]] void endTogether(const SessionError &error);
  /// Throws InputMismatch on all ranks unless all have `batches`. Collective.
  void requireSameCount(int64_t batches);
  /// Adds the step that began at `start` to the profile, and stops recording
  /// when it has enough.
  void addToProfile(SessionClock::time_point start);
  RankStats evaluate(int64_t batches, const FillInput &fill);
  /// Sets the memory, and the bytes since `before`, which it updates.
  void countWork(RankStats &stats, ByteCounters &before);
  /// Returns the number of steps that were run and read.
  int64_t numRead() const { return numSteps - int64_t(unread.size()); }

  const std::shared_ptr<const StepObject> object;
  const StepPlan &plan;
  const SessionOptions options;
  const pid_t process = getpid();
  /// The settings of the process when the session was opened, with those of its
  /// options.
  TorchSettings torchSettings = TorchSettings::current();
  /// Set while the session is open, because changing it in each step would take
  /// time.
  std::optional<ThreadsScope> threads;
  Phase phase = Phase::Loading;
  std::unique_ptr<StepRecorder> recorder;
  bool isRecording = false;
  /// Null unless the session makes a profile of its first steps.
  std::unique_ptr<StepProfile> profile;
  /// The number of steps until the profile is complete, including the first
  /// one.
  int64_t toProfile = 0;
  std::mutex reporting;
  /// The error of `reportBlocked`, if it was called; `reporting` guards it.
  std::optional<SessionError> reported;
  PeerAlarm alarm;
  // Members are in the order of their creation, so that they are destroyed in
  // reverse.
  std::unique_ptr<Job> job;
  RankDevice device;
  std::unique_ptr<Step> step;
  /// The lock of rank 0, while there is a saver.
  std::optional<RunLock> runLock;
  /// Null before `openCheckpoints`.
  std::unique_ptr<CheckpointSaver> saver;
  /// The numbers of optimizer steps done, and of calls of `loadCheckpoint`.
  int64_t numSteps = 0, numLoads = 0;
  LearningRates rates{plan.learningRate()};
  ScaledLoss scaledLoss{plan.scalesLoss(), options.lossScaling,
                        options.onNonfinite};
  NonfiniteCheck nonfinite{plan, options.onNonfinite};
  /// None before the step is made.
  std::optional<WeightedLosses> losses;
  /// The sum of the checksums of values that were set, independent of their
  /// order.
  uint64_t valuesSet = 0;
  /// The counts of updates that were set, with the parameter that they were set
  /// for, by bucket.
  std::map<uint32_t, std::pair<std::string, int64_t>> updatesSet;
  std::deque<RankStats> unread;
  /// On a GPU, the end of the step that was read last.
  SessionClock::time_point lastEnd;
  ByteCounters counted;
  std::vector<PadElement> paddings;
  /// The rule of each input of the plan.
  std::vector<InputRule> inputRules;
  uint64_t allocationsCounted = 0;
};

} // namespace fcdp
