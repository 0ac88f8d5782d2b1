// SPDX-License-Identifier: Apache-2.0
//
// The private members of a session.
#pragma once

#include "checkpoint/RunLock.h"
#include "collectives/Job.h"
#include "core/Backend.h"
#include "session/CheckpointSaver.h"
#include "session/Device.h"
#include "session/InputRules.h"
#include "session/Padding.h"
#include "session/PeerAlarm.h"
#include "session/Profile.h"
#include "session/Session.h"
#include "session/SessionClock.h"
#include "session/TorchSettings.h"
#include "step/Step.h"

#include <chrono>
#include <deque>
#include <map>
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
  /// The GPU has the next step to work on while the losses of one are read,
  /// unless operations are timed.
  bool isAhead() const { return device.gpu && !isRecording; }

  enum class Phase { Loading, Running, Closed, Failed };
  /// Whether the session was opened by this process, and not by one from which
  /// this one was forked.
  bool isOfThisProcess() const;
  /// Throws Misuse if the session has failed or is closed, or is another
  /// process's.
  void requireOpen() const;
  /// Throws Misuse unless values may still be given.
  void requireLoading(const char *function) const;

  /// Runs `work` with the settings of the session. An error of it ends the
  /// session: other ranks are told, and a SessionError is thrown, with `code`
  /// unless the error has another one.
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
  /// The same for work that all ranks do together, which is counted: a rank
  /// that closes the session tells the others how often it has done any.
  template <typename Work>
  void attemptTogether(SessionErrorCode code, Work work) {
    requireOpen();
    job->beginCall(numSteps);
    attempt(code, work);
  }

  /// Runs `work` and returns what went wrong, with `code` unless it has another
  /// one.
  static std::optional<SessionError>
  problemOf(SessionErrorCode code, const std::function<void()> &work);
  /// Fails on all ranks if any of them has a problem, or with `code` if their
  /// facts differ.
  void agree(const std::optional<SessionError> &problem, const char *what,
             const std::vector<Fact> &facts = {},
             SessionErrorCode code = SessionErrorCode::RendezvousFailed);
  /// The same for the contents of files. `makeFiles` is not called if there is
  /// a problem.
  void agreeOnFiles(std::optional<SessionError> problem, const char *what,
                    const std::function<std::vector<FileFact>()> &makeFiles,
                    SessionErrorCode code = SessionErrorCode::RendezvousFailed);
  /// Returns the texts of all ranks. Fails on all of them if any of them has a
  /// problem.
  std::vector<std::string>
  exchangeTexts(const std::optional<SessionError> &problem, const char *what,
                const std::string &text);
  /// What must be the same on all ranks before they make the step.
  std::vector<Fact> openingFacts() const;
  /// Notes a value that was set, which must be the same on all ranks.
  void noteValue(const std::string &name, const std::string &role,
                 std::span<const std::byte> value);

  /// The checkpoint that `path` stands for, the same on all ranks, or none.
  std::optional<std::string> findCheckpointTogether(const std::string &path);

  /// Makes the folder for checkpoints. Fails on all ranks unless rank 0 can
  /// write to it, all see it, and it has no checkpoints of later steps.
  void openRunFolder(const std::string &run);

  /// The job's settings with the learning rate and schedule that were set.
  nlohmann::json withRates(nlohmann::json job) const;
  /// Takes these from the settings, if they have them. Throws
  /// std::runtime_error, in which `origin` names their place.
  void takeRates(const nlohmann::json &job, const std::string &origin);
  double nextLearningRate() const;
  /// The rate of which a schedule takes factors.
  double baseLearningRate() const;

  /// Makes the loss scale, if the step scales its loss. Throws Misuse if the
  /// options ask for what it cannot do.
  void makeLossScale();
  void checkLossScale() const;
  /// The job's settings with the loss scale, and without.
  nlohmann::json withLossScale(nlohmann::json job) const;
  static nlohmann::json withoutLossScale(nlohmann::json job);
  /// Takes it from the settings, as takeRates does.
  void takeLossScale(const nlohmann::json &job, const std::string &origin);

  void begin();
  /// Collective. Whether `own` is true on any rank.
  bool isAnywhere(bool own, const char *what);
  void saveWeights(const ParameterOutput &output);
  void runStep(const FillInput &fill, const StepNeeds &needs);
  /// Fills input `index` of the plan, which is number `input` of a batch.
  /// Throws InputMismatch if its values break a rule of the step.
  void fillInput(const FillInput &fill, size_t index, size_t input,
                 int64_t batch);
  StepNeeds agreeOnNeeds(const StepNeeds &own);
  /// Finds the inputs by which losses are weighted.
  void findWeights();
  /// Has the loss of the micro-batch that was filled weighted, and notes its
  /// weight. `total` is the sum over all losses of the step.
  void weightLoss(int64_t microBatch, double total, RankStats &stats);
  /// Notes the weight of a batch of an evaluation that was filled.
  void weightEvaluation(int64_t batch, RankStats &stats);
  /// Collective. Ends the session with InputMismatch if all losses have the
  /// weight 0. `what` is "step 3" or "the evaluation".
  void requireWeight(double total, const std::string &what);
  /// The sum of the weights of tensors that are the inputs of a step.
  double sumOwnWeights(std::span<const TensorView> inputs) const;
  /// Ends the session with an error that all ranks have found, so that none
  /// waits for another.
  [[noreturn]] void endTogether(const SessionError &error);
  /// Collective. Throws InputMismatch on all ranks unless all have `batches`.
  void requireSameCount(int64_t batches);
  /// Adds the step that began at `start` to the profile, and stops recording
  /// when it has enough.
  void addToProfile(SessionClock::time_point start);
  RankStats evaluate(int64_t batches, const FillInput &fill);
  /// Sets the memory, and the bytes since `before`, which becomes now.
  void countWork(RankStats &stats, ByteCounters &before);
  /// The error with which an infinite or NaN number in a step ends the session,
  /// or none.
  std::optional<SessionError> nonfiniteError(const StepStats &stats) const;
  /// Notes what is wrong with this rank's numbers in a step.
  void noteNonfinite(const RankStats &stats);
  /// Steps that were run and read.
  int64_t numRead() const { return numSteps - int64_t(unread.size()); }

  const std::shared_ptr<const StepObject> object;
  const StepPlan &plan;
  const SessionOptions options;
  const pid_t process = getpid();
  /// Those of the process when the session was opened, and what its options
  /// say.
  TorchSettings torchSettings = TorchSettings::current();
  /// While the session is open: it would take time to change it in each step.
  std::optional<ThreadsScope> threads;
  Phase phase = Phase::Loading;
  std::unique_ptr<StepRecorder> recorder;
  bool isRecording = false;
  /// Null unless the session makes a profile of its first steps.
  std::unique_ptr<Profile> profile;
  /// Steps until the profile is complete, the first one included.
  int64_t toProfile = 0;
  PeerAlarm alarm;
  // Members are in the order in which they are made, so that they are destroyed
  // in reverse.
  std::unique_ptr<Job> job;
  RankDevice device;
  std::unique_ptr<Step> step;
  /// Of rank 0, while there is a saver.
  std::optional<RunLock> runLock;
  /// Null before `openCheckpoints`.
  std::unique_ptr<CheckpointSaver> saver;
  /// Optimizer steps done, and calls of `loadCheckpoint`.
  int64_t numSteps = 0, numLoads = 0;
  /// None if it was not set.
  std::optional<double> baseRate;
  std::optional<Schedule> schedule;
  /// None if the step does not scale its loss.
  std::optional<LossScale> lossScale;
  /// The sum of checksums of values that were set, in any order.
  uint64_t valuesSet = 0;
  /// The counts of updates that were set, and for which parameter, by bucket.
  std::map<uint32_t, std::pair<std::string, int64_t>> updatesSet;
  std::deque<RankStats> unread;
  /// What is wrong with the numbers of this rank in the steps that were read.
  std::optional<SessionError> notFinite;
  /// On a GPU, the end of the step that was read last.
  SessionClock::time_point lastEnd;
  ByteCounters counted;
  std::vector<PadElement> paddings;
  /// Of each input of the plan.
  std::vector<InputRule> inputRules;
  /// The input by which losses are weighted, from the first of a variant and of
  /// the evaluation on.
  size_t stepWeight = 0, evaluationWeight = 0;
  uint64_t allocationsCounted = 0;
};

} // namespace fcdp
