// SPDX-License-Identifier: Apache-2.0
//
// A compiled step on one rank of a job: the library that programs embed.
#pragma once

#include "checkpoint/ParameterFiles.h"
#include "session/CheckpointOptions.h"
#include "session/LossScale.h"
#include "session/LossWeight.h"
#include "session/NamedTensor.h"
#include "session/Schedule.h"
#include "session/SessionError.h"
#include "session/SessionOptions.h"
#include "session/StepStats.h"
#include "step/StepObject.h"

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace fcdp {

class Job;
class StepRecorder;

/// Loads a compiled step. Throws SessionError(BadObject).
std::shared_ptr<const StepObject> loadStep(const std::string &path);

/// One rank of a running job. It owns the rank's membership of the job, its
/// transports, its device, the step and its state. Functions are called by one
/// thread at a time, and throw SessionError. They never print, and never end
/// the process. A process that is forked has no part in the job: there, calls
/// throw Misuse, and the destructor leaves all as it is. "Collective" functions
/// are called by all ranks of the job, in the same order.
///
/// A process has one session at a time: libtorch's random state and its number
/// of threads belong to the process. If SIGPIPE would end the process, `open`
/// has it ignored, since a connection to a rank that died raises it. While
/// files of weights are read there is a handler of SIGBUS, which concerns only
/// their mappings (checkpoint/MappedFile.h).
class Session {
public:
  /// Collective. Meets the other ranks and makes the step. Parameters have no
  /// values yet.
  static std::unique_ptr<Session> open(std::shared_ptr<const StepObject> object,
                                       const SessionOptions &options);
  /// Aborts what still runs. Without `close` before it the other ranks fail.
  ~Session();
  Session(const Session &) = delete;
  Session &operator=(const Session &) = delete;

  const StepPlan &plan() const;
  const Place &place() const;
  uint32_t rank() const;

  /// Collective. Reads the values of all parameters, and of the buffers that
  /// the step has no values of, from .pt2 and safetensors files, and folders of
  /// the latter; each from the file with the most specific name of it, as
  /// checkpoint/WeightMatching.h says. NAME=PATH is for the adapter NAME of the
  /// step. Each rank reads and keeps its shards. Returns what a user should
  /// know, a sentence each. Before the first step only. Throws BadWeights.
  std::vector<std::string> loadWeights(const std::vector<std::string> &paths);
  /// Collective. Writes parameters and persistent buffers, by rank 0. Throws
  /// FileFailed if they cannot be written, not even to a folder of
  /// `output.elsewhere`. If they are in one, or under a temporary name, returns
  /// what happened on rank 0: "PATH: ...; they are in OTHER instead".
  std::optional<std::string> saveWeights(const ParameterOutput &output);

  /// Sets what this rank owns of a parameter or buffer, given whole, or of its
  /// optimizer state. Before the first step only. Throws Misuse for an unknown
  /// name, shape, type or role, which changes nothing.
  void setState(const std::string &name, StateRole role,
                const TensorView &value);
  /// Collective. Collects a parameter, a buffer or its optimizer state on
  /// rank 0 in `out`, which has the bytes of the whole tensor; other ranks may
  /// pass an empty one. All steps must have been read. Throws Misuse.
  void getState(const std::string &name, StateRole role,
                std::span<std::byte> out);
  /// The same as rows, which each rank has of a parameter's state as PyTorch's
  /// DTensor with Shard(0) has them (session/StateRows.h). A buffer is whole,
  /// and is that of rank 0 where it is read. `numOwnElements` is what this rank
  /// has. `getRows` and `setRows` are collective; `setRows` is for before the
  /// first step only. Throw Misuse.
  size_t numOwnElements(const std::string &name, StateRole role);
  void getRows(const std::string &name, StateRole role,
               std::span<std::byte> out);
  void setRows(const std::string &name, StateRole role,
               const TensorView &value);
  /// How many updates the optimizer has made of a parameter, by which AdamW
  /// corrects the bias of its moments. All parameters of a bucket have one
  /// count. `setUpdateCount` is for before the first step only, and throws
  /// Misuse for another count than was set for the same bucket.
  int64_t getUpdateCount(const std::string &name);
  void setUpdateCount(const std::string &name, int64_t count);

  /// Collective, before values are set. Fails on all ranks, with Misuse and one
  /// text, if the program has a problem on any of them ("" is none), or if
  /// `values`, a digest of what it sets, is not that of rank 0. Before the
  /// first step only.
  void agree(const std::string &problem, const std::string &values);

  /// The loss scale of the next step, or none if the step does not scale its
  /// loss. `setLossScale` replaces it and its settings, is called by all ranks
  /// before the first step, and throws Misuse.
  std::optional<LossScale> lossScale() const;
  void setLossScale(const LossScaling &scaling, int64_t growthTracker);

  /// Collective. Loads all states from a checkpoint or, if `path` is the folder
  /// of a run, from its latest checkpoint; the number of steps, the count of
  /// updates and the random state go on from there. The checkpoint may be of
  /// another mesh and strategy. Returns none, and changes nothing, if a run has
  /// no complete checkpoint. Before the first step only. Throws BadWeights, on
  /// all ranks also if they have read different checkpoints, which the message
  /// calls `name`. Rank 0 chooses the checkpoint of a run; the path of the run
  /// may differ between ranks.
  std::optional<LoadedCheckpoint>
  loadCheckpoint(const std::string &path,
                 const std::string &name = "the checkpoint");
  /// Collective. Makes the folder for checkpoints, and allocates host memory
  /// for a copy of this rank's states. To be called once, after a checkpoint is
  /// loaded. Throws FileFailed if the folder cannot be written to, or has
  /// checkpoints of later steps.
  void openCheckpoints(const CheckpointOptions &options);
  /// Collective. Copies the states after the last step that was run, and has
  /// them written in the background; `job` is a JSON object that
  /// `loadCheckpoint` gives back. Waits if the checkpoint before it is not
  /// complete. If a file cannot be written, the session ends on all ranks, with
  /// FileFailed on this one. Throws Misuse without `openCheckpoints`, or if
  /// `job` is no JSON object. Saves nothing and ends the session, with
  /// NotFinite on this rank, if a step that was read here calls for that (see
  /// `requireFinite`).
  /// `best` is the step of a checkpoint that is kept beside the latest ones.
  void saveCheckpoint(const std::string &job = "{}",
                      std::optional<int64_t> best = std::nullopt);
  /// Collective. Waits until the last checkpoint is complete. `close` does it,
  /// too.
  void finishCheckpoint();
  /// The oldest checkpoint that is complete and was not taken, if there is one.
  /// Only the latest ones are remembered.
  std::optional<SavedCheckpoint> takeSavedCheckpoint();
  /// Host memory that the copies of a node's ranks take, the greatest over
  /// nodes; 0 without `openCheckpoints`.
  uint64_t checkpointCopyBytes() const;
  /// Optimizer steps that were run, those before a loaded checkpoint included.
  int64_t numSteps() const;

  /// Sets the rate that a schedule's factors apply to, instead of the one that
  /// was compiled in. This and the schedule must be the same on all ranks, as
  /// `combine` checks, hold from the next step on, are part of checkpoints, and
  /// are replaced by `loadCheckpoint` if the checkpoint has them. Throws Misuse
  /// for a negative or infinite rate.
  void setLearningRate(double base);
  void setSchedule(const Schedule &schedule);
  /// That of the next step, `constant` unless one was set or loaded.
  std::string schedule() const;
  /// The learning rate of the next step.
  double learningRate() const;
  /// Collective. Returns a line on trained elements that updates of the
  /// learning rate do not change, because their type rounds them away; "" if
  /// there are none. Before the first step.
  std::string describeLostUpdates();

  /// Collective. Fills the caches from the parameters. The first `run` does
  /// it, unless this was called before.
  void begin();

  /// Collective. Returns what a step needs, given what the inputs of each rank
  /// need: the greatest of the variants, which the inputs of all ranks fit
  /// into, and the sum of the weights. A program that reads its inputs ahead
  /// may have `combine` do it for the next step instead, with
  /// RankStats::nextVariant and RankStats::nextWeight.
  StepNeeds agreeOnNeeds(const StepNeeds &own);

  /// Fills an input of a micro-batch, in the step's shape and type.
  using FillInput = std::function<void(size_t input, int64_t microBatch,
                                       std::span<std::byte> out)>;
  /// Collective. Runs one optimizer step, of the given variant if it has
  /// several shapes, or of the greatest. The needs are the same on all ranks; a
  /// step that weights its losses must be given them. On the CPU the step has
  /// ended when it returns; on a GPU it is issued, and `maxUnread` steps may
  /// be. Throws Misuse if as many are unread. Ends the session on all ranks,
  /// with InputMismatch, if the weights of all losses are 0.
  void run(const FillInput &fill,
           const std::optional<StepNeeds> &needs = std::nullopt);
  /// The same with tensors: all inputs of micro-batch 0 in the step's order,
  /// then those of micro-batch 1, and so on. Throws InputMismatch before
  /// anything has run. Tensors for a step of several shapes may be smaller than
  /// its inputs: the ranks agree on the least variant that all fit into, and
  /// pad with SessionOptions::padding.
  void run(std::span<const TensorView> inputs);

  /// Collective. Evaluates the model on `batches` batches of this rank, as many
  /// as on each other, without a step; `fill` fills the inputs of the
  /// evaluation, counted from 0. Returns the losses and figures, for `combine`;
  /// they leave those of steps as they would be without. Throws Misuse if the
  /// step was compiled without an evaluation, or steps are unread, and
  /// InputMismatch if another rank has another number of batches.
  RankStats evaluate(int64_t batches, const FillInput &fill);
  /// Collective. Evaluates the model on whole inputs: all of batch 0, in the
  /// order of the evaluation's inputs, then those of batch 1, and so on. Throws
  /// InputMismatch before anything has run.
  RankStats evaluate(int64_t batches, std::span<const TensorView> inputs);

  /// The losses and figures of this rank in the oldest unread step, for which
  /// it waits.
  RankStats read();
  /// Steps that were run and not read, and how many there may be.
  size_t numUnread() const;
  size_t maxUnread() const;
  /// Collective. The figures of all ranks in the step that was read last, given
  /// those of each rank.
  StepStats combine(const RankStats &own);
  /// Collective. Ends the session on all ranks, with NotFinite, if a loss or
  /// gradient of the step is infinite or NaN and did not have the step skipped,
  /// unless the session is to continue. A checkpoint that is being written is
  /// completed.
  void requireFinite(const StepStats &stats);

  /// Collective. Ends the session when all ranks are here, and returns when
  /// this one needs the others no more.
  void close();

  /// Runs collective work of the caller. An exception from it ends the session
  /// like a failed step: other ranks are told, and a SessionError names the
  /// rank that caused it.
  void guard(const std::function<void()> &work);

  /// Tells the other ranks that this one cannot go on. A call that runs ends
  /// with `message` as Failed, and so do later ones. Any thread may call it.
  void interrupt(const std::string &message);

  /// The job and the recorder, for work that `guard` runs.
  Job &job();
  /// Null unless SessionOptions::record is set.
  StepRecorder *recorder();

private:
  struct Impl;
  explicit Session(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl;
};

} // namespace fcdp
