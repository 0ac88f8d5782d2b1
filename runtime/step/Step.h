// SPDX-License-Identifier: Apache-2.0
//
// A running training step of one rank.
#pragma once

#include "core/Backend.h"
#include "core/OnNonfinite.h"
#include "plan/StepPlan.h"
#include "streams/GraphCapture.h"
#include "streams/StepRecorder.h"

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace c10 {
struct DeviceAllocator;
}

namespace fcdp {

class StepObject;

/// The GPU that a step computes on.
struct CudaDevice {
  /// The device's number in this process.
  int index = 0;
  /// The backend's compute stream, a cudaStream_t.
  void *computeStream = nullptr;
  /// libtorch's allocator for memory outside of pools. libtorch's current
  /// allocator must use the active pool.
  c10::DeviceAllocator *memory = nullptr;
  /// Returns the bytes of the device that are in use. Throws
  /// std::runtime_error.
  std::function<uint64_t()> usedBytes;
};

struct StepSetup {
  Place place;
  /// The random state starts from seed + world rank.
  uint64_t seed = 0;
  /// The CUDA device, for which libtorch's part for CUDA must be loaded. Not
  /// set on the CPU.
  std::optional<CudaDevice> cuda = std::nullopt;
  /// Records what each step does. May be null; must be the backend's recorder.
  StepRecorder *recorder = nullptr;
  /// Captures operations as graphs while nothing is recorded. May be null; must
  /// outlive the step.
  GraphCapture *graphs = nullptr;
  OnNonfinite onNonfinite = OnNonfinite::Continue;
  /// Folders on local disks for states in files. May be empty if the plan has
  /// none.
  std::vector<std::string> stateFolders = {};
  /// Returns whether any rank has an infinite or NaN loss. Collective. Called
  /// before each update if steps are skipped; may be null on a single rank.
  std::function<bool(bool own)> isNonfiniteAnywhere = nullptr;
};

/// A step on one rank. One thread, the issuer, uses it, and the step sets that
/// thread's random state. Functions throw std::runtime_error; after an error
/// the step must not be used.
class Step final {
public:
  /// Prepares all operations. The object and the backend must outlive the step.
  /// The caller fills parameters, buffers without constants and inputs.
  Step(const StepObject &object, Backend &backend, const StepSetup &options);
  ~Step();
  Step(const Step &) = delete;
  Step &operator=(const Step &) = delete;

  /// Returns an input of the plan for the micro-batch that is being filled. An
  /// input has the same memory in all variants of the step.
  std::span<std::byte> input(size_t index);
  /// Returns a buffer. On a GPU, here and below, results are copies on the
  /// host: `init` uploads the values that were written before it, and each call
  /// after `init` returns a new copy.
  std::span<std::byte> buffer(size_t index);
  /// Returns this rank's shard of a bucket.
  std::span<std::byte> shard(size_t bucket);
  /// Returns the same shard in f32, for a bucket that has a master.
  std::span<std::byte> master(size_t bucket);
  /// Returns this rank's bytes of a bucket's region. A region of the host arena
  /// is in host memory on a GPU, too. A region of files is copied to memory,
  /// which the next call for another such region ends: until `init`, it is
  /// written back then.
  std::span<std::byte> region(const plan::Buf &buf);
  /// Writes bytes of a region from `offset` on. Before `init` only.
  void writeRegion(const plan::Buf &buf, uint64_t offset,
                   std::span<const std::byte> from);
  /// Copies the bytes of a region from `offset` on to host memory, after all
  /// issued work of compute. Only after `init`.
  void copyRegion(const plan::Buf &buf, uint64_t offset,
                  std::span<std::byte> out);
  /// Returns whether the step has states in files, and io_uring does not
  /// transfer them.
  bool transfersByThreads() const;
  /// Returns the state of libtorch's random generator for the step's device.
  std::vector<std::byte> randomState() const;
  /// Throws std::runtime_error unless the state is one of such a generator.
  void setRandomState(std::span<const std::byte> random);
  /// Starts a new random state from `seed`.
  void seedRandom(uint64_t seed);
  /// Returns the number of updates that the optimizer has made of a bucket.
  int64_t updateCount(size_t bucket) const;
  /// Sets that number. Before `init` only.
  void setUpdateCount(size_t bucket, int64_t count);

  /// Keeps states of `role` that were written to their regions, although `init`
  /// would make them copies of this rank's parameters. Before `init` only.
  void keepStates(plan::StateRole role);

  /// Sets the learning rate from the next step on.
  void setLearningRate(double rate);

  /// Sets the loss scale from the next step on, if the plan scales losses. It
  /// is 1 before. With `skipsOverflow`, a step whose gradients are infinite or
  /// NaN makes no update, independent of the setting for other steps.
  void setLossScale(float scale, bool skipsOverflow);

  /// Sets the factor on the loss of the micro-batch or batch that is being
  /// filled, if the plan weights losses. With 0, its loss is logged as 0 and
  /// its gradients are 0, even if the model computes NaN.
  void setLossWeight(float factor);

  /// Runs the initialization, once, before the first step and after the shards
  /// are filled.
  void init();
  /// Runs one optimizer step of these functions of the plan; calls
  /// `fillInputs(k)` before micro-batch k. On the CPU, and with a recorder, all
  /// work is done when it returns. On a GPU the work is issued without any
  /// wait. At most kMostUnread steps may have unread losses.
  void run(const std::function<void(int64_t microBatch)> &fillInputs,
           const StepRun &functions);
  /// Does the same with the functions of the first variant alone.
  void run(const std::function<void(int64_t microBatch)> &fillInputs);
  /// Records no more, so that later steps are as those of a step without a
  /// recorder. To be called between two steps.
  void stopRecording();
  /// Runs a function between steps, while nothing else is in flight, and waits
  /// for it.
  void runAlone(StepFunction function);
  /// Runs the model on `batches` batches without a step, and returns their
  /// losses, for which it waits. The plan must have functions for it. Calls
  /// `fillInputs(k)` before batch k. All steps must have been read. Leaves
  /// parameters, optimizer states, buffers and the random state as they were;
  /// each call draws the same random numbers.
  std::vector<double>
  runModel(int64_t batches,
           const std::function<void(int64_t batch)> &fillInputs);
  /// Returns the micro-batches' losses of the oldest unread step. Waits for
  /// that step and, if it is the last one, for all work.
  std::vector<double> losses();
  /// Returns whether the last step that was run left parameters and optimizer
  /// states as they were.
  bool isSkipped() const;
  /// Returns the bucket of an infinite or NaN gradient of this rank in the step
  /// whose losses were read last, -1 if the step clips gradients and their norm
  /// is infinite or NaN, or none. Always none if steps continue.
  std::optional<int64_t> nonfiniteGradient() const;

  /// Returns the norm of the gradients over all ranks before they were clipped,
  /// in the step whose losses were read last, or none if the step does not clip
  /// them.
  std::optional<double> gradientNorm() const;

  static constexpr uint32_t kMostUnread = 2;
  /// Returns the number of events that the backend must have: those of the
  /// plan, and one for each step whose end may be awaited.
  static uint32_t numEvents(const StepPlan &plan) {
    return plan.numEvents + kMostUnread;
  }

  struct Memory {
    /// Bytes in the last step: the arena of this rank, inputs and buffers. In a
    /// recorded step, such as the first one, they include memory that operators
    /// allocated from the system without a planned place. On a GPU, they are
    /// all memory of the device that was in use, including libtorch's reserved
    /// memory, the contexts of this and other processes, and NCCL's buffers.
    uint64_t devicePeakBytes;
    /// The number of operators' allocations from the system so far.
    uint64_t systemAllocations;
  };
  Memory memory() const;

private:
  struct Impl;
  void call(StepFunction function);
  double runBatch(StepFunction function);
  void throwIfFailed() const;

  std::unique_ptr<Impl> impl;
};

} // namespace fcdp
