// SPDX-License-Identifier: Apache-2.0
//
// A compiled step on one rank of a job: the library that programs embed.
#pragma once

#include "checkpoint/ParameterFiles.h"
#include "core/SessionError.h"
#include "core/TensorView.h"
#include "policy/LossScale.h"
#include "policy/Schedule.h"
#include "policy/StepNeeds.h"
#include "policy/StepStats.h"
#include "session/SessionOptions.h"
#include "state/CheckpointOptions.h"
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
/// transports, its device, the step and its state. One thread at a time may
/// call functions. They throw SessionError, never print, and never end the
/// process. A forked process has no part in the job: there, calls throw Misuse,
/// and the destructor does nothing. All ranks of the job must call "collective"
/// functions, in the same order.
///
/// A process has one session at a time: libtorch's random state and its number
/// of threads belong to the process. If SIGPIPE would end the process, `open`
/// ignores it, since a connection to a dead rank raises it. While files of
/// weights are read, a handler of SIGBUS is installed, which affects only their
/// mappings (files/MappedFile.h).
class Session {
public:
  /// Meets the other ranks and makes the step. Collective. Parameters have no
  /// values yet.
  static std::unique_ptr<Session> open(std::shared_ptr<const StepObject> object,
                                       const SessionOptions &options);
  /// Aborts work that still runs. Without an earlier `close` the other ranks
  /// fail.
  ~Session();
  Session(const Session &) = delete;
  Session &operator=(const Session &) = delete;

  const StepPlan &plan() const;
  const Place &place() const;
  uint32_t rank() const;

  /// Reads the values of all parameters, and of the buffers for which the step
  /// has no values. Collective. The paths are .pt2 and safetensors files, and
  /// folders of the latter; each tensor comes from the file with its most
  /// specific name, as weights/WeightMatching.h describes. NAME=PATH is for
  /// the adapter or the module NAME of the step. Each rank reads and keeps its
  /// shards. Returns facts that a user should know, a sentence each. Before the
  /// first step only. Throws BadWeights.
  std::vector<std::string> loadWeights(const std::vector<std::string> &paths);
  /// Writes parameters and persistent buffers on rank 0. Collective. Throws
  /// FileFailed if they can be written neither to `output` nor to a folder of
  /// `output.elsewhere`. If they are in one of these, or under a temporary
  /// name, returns a message from rank 0: "PATH: ...; they are in OTHER
  /// instead".
  std::optional<std::string> saveWeights(const ParameterOutput &output);

  /// Sets this rank's shard of a parameter or buffer, or of its optimizer
  /// state, from the whole tensor. Before the first step only. Throws Misuse
  /// for an unknown name, shape, type or role, and then changes nothing.
  void setState(const std::string &name, plan::StateRole role,
                const TensorView &value);
  /// Collects a parameter, a buffer or its optimizer state on rank 0 in `out`.
  /// Collective. `out` has the bytes of the whole tensor; other ranks may pass
  /// an empty span. All steps must have been read. Throws Misuse.
  void getState(const std::string &name, plan::StateRole role,
                std::span<std::byte> out);
  /// Read and set the same as rows. Each rank has rows of a parameter's state
  /// as PyTorch's DTensor with Shard(0) places them (state/StateRows.h). A
  /// buffer is whole; reading gives that of rank 0. `numOwnElements` is the
  /// number of elements on this rank. `getRows` and `setRows` are collective;
  /// `setRows` is for before the first step only. They throw Misuse.
  size_t numOwnElements(const std::string &name, plan::StateRole role);
  void getRows(const std::string &name, plan::StateRole role,
               std::span<std::byte> out);
  void setRows(const std::string &name, plan::StateRole role,
               const TensorView &value);
  /// Return and set the number of updates that the optimizer has made of a
  /// parameter, by which AdamW corrects the bias of its moments. All parameters
  /// of a bucket have one count. `setUpdateCount` is for before the first step
  /// only, and throws Misuse if the same bucket was given another count.
  int64_t getUpdateCount(const std::string &name);
  void setUpdateCount(const std::string &name, int64_t count);

  /// Checks, before values are set, that the program agrees on all ranks.
  /// Collective. Fails on all ranks, with Misuse and one text, if the program
  /// has a problem on any of them ("" means none), or if `values`, a digest of
  /// the values to set, differs from that of rank 0. Before the first step
  /// only.
  void agree(const std::string &problem, const std::string &values);

  /// Return and set the loss scale of the next step; none if the step does not
  /// scale its loss. `setLossScale` replaces the scale and its settings. All
  /// ranks must call it, before the first step. It throws Misuse.
  std::optional<LossScale> lossScale() const;
  void setLossScale(const LossScaling &scaling, int64_t growthTracker);

  /// Loads all states from a checkpoint or, if `path` is the folder of a run,
  /// from its latest checkpoint. Collective. The number of steps, the count of
  /// updates and the random state continue from there. The checkpoint may have
  /// another mesh and strategy. If a run has no complete checkpoint, returns
  /// none and changes nothing. Before the first step only. Throws BadWeights,
  /// on all ranks also if they have read different checkpoints, which the
  /// message calls `name`. Rank 0 chooses the checkpoint of a run; the path of
  /// the run may differ between ranks.
  std::optional<LoadedCheckpoint>
  loadCheckpoint(const std::string &path,
                 const std::string &name = "the checkpoint");
  /// Creates the folder for checkpoints, and allocates host memory for a copy
  /// of this rank's states. Collective. Call it once, after loading a
  /// checkpoint. Throws FileFailed if the folder cannot be written to, or has
  /// checkpoints of later steps.
  void openCheckpoints(const CheckpointOptions &options);
  /// Copies the states after the last step that was run, and writes them in the
  /// background. Collective. `job` is a JSON object that `loadCheckpoint`
  /// returns. Waits if the checkpoint before it is not complete. If a file
  /// cannot be written, the session ends on all ranks, with FileFailed on this
  /// one. Throws Misuse without `openCheckpoints`, or if `job` is no JSON
  /// object. If a step that was read here requires it (see `requireFinite`),
  /// saves nothing and ends the session, with NotFinite on this rank. The
  /// checkpoint of step `best` is kept besides the latest ones.
  void saveCheckpoint(const std::string &job = "{}",
                      std::optional<int64_t> best = std::nullopt);
  /// Waits until the last checkpoint is complete. Collective. `close` does it,
  /// too.
  void finishCheckpoint();
  /// Returns the oldest complete checkpoint that was not taken, or none. Only
  /// the latest ones are remembered.
  std::optional<SavedCheckpoint> takeSavedCheckpoint();
  /// Returns the bytes of host memory for the copies of a node's ranks, the
  /// greatest over nodes; 0 without `openCheckpoints`.
  uint64_t checkpointCopyBytes() const;
  /// Returns the number of optimizer steps that were run, including those
  /// before a loaded checkpoint.
  int64_t numSteps() const;

  /// Sets the base rate of the schedule, instead of the one that was compiled
  /// in. The rate and the schedule must be equal on all ranks, which `combine`
  /// checks. They apply from the next step on and are part of checkpoints.
  /// `loadCheckpoint` replaces them if the checkpoint has them. Throws Misuse
  /// for a negative or infinite rate.
  void setLearningRate(double base);
  void setSchedule(const Schedule &schedule);
  /// Returns the schedule of the next step, which is `constant` unless one was
  /// set or loaded.
  std::string schedule() const;
  /// Returns the learning rate of the next step.
  double learningRate() const;
  /// Returns a line on trained elements that do not change by updates of the
  /// size of the learning rate, because their type rounds them away; "" if
  /// there are none. Collective. Before the first step.
  std::string describeLostUpdates();

  /// Fills the caches from the parameters. Collective. The first `run` does it,
  /// unless this was called before.
  void begin();

  /// Combines the requirements of all ranks' inputs for a step. Collective.
  /// Returns the greatest of their variants, which the inputs of all ranks fit
  /// into, and the sum of the weights. A program that reads its inputs ahead
  /// may let `combine` do it for the next step instead, with RankStats::next.
  StepNeeds agreeOnNeeds(const StepNeeds &own);

  /// Fills an input of a micro-batch, in the step's shape and type.
  using FillInput = std::function<void(size_t input, int64_t microBatch,
                                       std::span<std::byte> out)>;
  /// Runs one optimizer step, of the given variant if it has several shapes, or
  /// of the greatest. Collective. `needs` must be equal on all ranks; a step
  /// that weights its losses requires it. On the CPU the step has ended when
  /// this returns; on a GPU it is issued, and up to `maxUnread` steps may be
  /// unread. Throws Misuse if as many are unread already. Ends the session on
  /// all ranks, with InputMismatch, if the weights of all losses are 0.
  void run(const FillInput &fill,
           const std::optional<StepNeeds> &needs = std::nullopt);
  /// Does the same with tensors: all inputs of micro-batch 0 in the step's
  /// order, then those of micro-batch 1, and so on. Throws InputMismatch before
  /// anything has run. Tensors for a step of several shapes may be smaller than
  /// its inputs. The ranks agree on the least variant that all fit into, and
  /// pad with SessionOptions::padding.
  void run(std::span<const TensorView> inputs);

  /// Evaluates the model on `batches` batches of this rank, without a step.
  /// Collective. All ranks must have the same number of batches. `fill` fills
  /// the inputs of the evaluation, counted from 0. Returns the losses and
  /// figures, for `combine`. Figures of steps stay as they would be without the
  /// evaluation. Throws Misuse if the step was compiled without an evaluation,
  /// or if steps are unread, and InputMismatch if another rank has another
  /// number of batches.
  RankStats evaluate(int64_t batches, const FillInput &fill);
  /// Evaluates the model on whole inputs: all of batch 0, in the order of the
  /// evaluation's inputs, then those of batch 1, and so on. Collective. Throws
  /// InputMismatch before anything has run.
  RankStats evaluate(int64_t batches, std::span<const TensorView> inputs);

  /// Waits for the oldest unread step, and returns this rank's losses and
  /// figures in it.
  RankStats read();
  /// Return the number of steps that were run and not read, and its limit.
  size_t numUnread() const;
  size_t maxUnread() const;
  /// Combines the figures of this rank in the step that was read last with
  /// those of all ranks. Collective.
  StepStats combine(const RankStats &own);
  /// Ends the session on all ranks, with NotFinite, if a loss or gradient of
  /// the step is infinite or NaN, unless the step was skipped for it or the
  /// session is set to continue. Collective. A checkpoint that is being written
  /// is completed.
  void requireFinite(const StepStats &stats);

  /// Ends the session when all ranks have called it, and returns when the other
  /// ranks no longer need this one. Collective.
  void close();

  /// Runs collective work of the caller. An exception from it ends the session
  /// like a failed step: it is reported to the other ranks, and a SessionError
  /// names the rank that caused it.
  void guard(const std::function<void()> &work);

  /// Reports to the other ranks that this rank cannot continue. A running call
  /// and all later ones end with `message` as Failed. Any thread may call it.
  void interrupt(const std::string &message);

  /// Return the job and the recorder, for work that `guard` runs.
  Job &job();
  /// Returns null unless SessionOptions::record is set.
  StepRecorder *recorder();

private:
  struct Impl;
  explicit Session(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl;
};

} // namespace fcdp
