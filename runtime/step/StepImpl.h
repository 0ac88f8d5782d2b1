// SPDX-License-Identifier: Apache-2.0
//
// The state of a step, for the files of this folder that define its members.
// StepSetup.cpp makes it, StepAccess.cpp has inputs, settings and the states
// for checkpoints, Step.cpp runs steps, StepEvaluation.cpp the model between
// steps, and StepResults.cpp reads losses and checks gradients.
#pragma once

#include "memory/Pool.h"
#include "operators/CpuPool.h"
#include "operators/GradientCheck.h"
#include "operators/GraphSegment.h"
#include "operators/PreparedOp.h"
#include "step/HostCopies.h"
#include "step/RegionCopy.h"
#include "step/Step.h"
#include "step/StepArena.h"
#include "step/StepObject.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <array>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/StreamGuard.h>
#include <map>
#include <optional>
#include <set>

namespace fcdp {

struct Step::Impl {
  Impl(const StepObject &object, Backend &backend, const StepSetup &options);

  bool isOnCpu() const { return state.device.is_cpu(); }
  c10::Allocator &systemMemory() const {
    return isOnCpu() ? routeCpuAllocations()
                     : static_cast<c10::Allocator &>(*gpuMemory);
  }
  /// Returns the pool for results of steps of the current kind.
  ResultPool &pool() const { return *pools[kind]; }
  /// Returns the pool for results of a function.
  ResultPool &poolOf(plan::Role role) {
    auto own = ownPools.find(role);
    return own == ownPools.end() ? pool() : own->second;
  }
  /// Returns the set of inputs of functions that run between steps, which
  /// follows those of steps.
  size_t setBetweenSteps() const {
    return kMostUnread * object.plan().microBatches;
  }
  /// Returns an event of the backend that no plan uses.
  uint32_t eventOfStep(size_t place) const {
    return object.plan().numEvents + uint32_t(place);
  }

  PoolArena arena() { return stepArena(state, gpuMemory); }
  void throwIfBackendFailed() const;
  /// Runs an operation. Errors contain its name.
  void execute(size_t index, ResultPool &memory);
  /// Drops results of operators, which nothing reads any more.
  void dropResults();
  /// Changes to the step of another number. Other streams than compute begin a
  /// step while compute ends the one before, which is proved only for steps of
  /// one number.
  void changeTo(const StepRun &next);
  /// Runs the operations of a function.
  void call(StepFunction function);
  /// Groups operations that may be in graphs into segments.
  void makeSegments(GraphCapture &capture);
  /// Waits until the oldest unread step has ended, on a GPU.
  void waitForOldest();
  /// Waits for the micro-batches' losses, and returns whether one of them is
  /// infinite or NaN on any rank.
  bool isLossNonfinite();
  /// Decides whether the updates of this step leave everything unchanged.
  void judgeLoss();
  /// Finds the operations with which updates in micro-batches begin.
  void findEarlyUpdates();
  /// Does for a bucket that is updated in a micro-batch what is done for all
  /// others after the micro-batches.
  void beginEarlyUpdate(size_t bucket);
  /// Checks the gradients of the step that has just run.
  void checkGradients();
  /// Reads the result of that check, for the unread step at `place`.
  void readGradients(size_t place);

  const StepObject &object;
  const std::function<bool(bool)> isNonfiniteAnywhere;
  /// Null once nothing is recorded any more.
  StepRecorder *recorder;
  GraphCapture *const graphs;
  const std::optional<c10::Stream> computeStream;
  StepState state;
  HostCopies hostCopies;
  RegionCopy fileCopy;
  /// Null on the CPU.
  c10::DeviceAllocator *const gpuMemory;
  const std::function<uint64_t()> usedBytes;
  /// Bytes of the device in use after the last step was issued.
  uint64_t usedInStep = 0;
  /// The pools for results of steps by kind. Each records its own allocations.
  std::vector<std::unique_ptr<ResultPool>> pools;
  /// The number and the kind (StepRun) of the step that runs, or of the last
  /// one.
  uint32_t number = 0;
  size_t kind = 0;
  /// Recorded at the end of the last step, on a GPU.
  std::optional<uint32_t> lastEnd;
  /// The pools of functions that run alone. Each records its own allocations.
  std::map<plan::Role, ResultPool> ownPools;
  /// The roles of states that `init` leaves as they are.
  std::set<plan::StateRole> kept;
  /// By operation, the bucket whose update in a micro-batch begins with it, if
  /// any; empty if micro-batches update nothing.
  std::vector<std::optional<size_t>> earlyUpdates;
  /// Whether judgeLoss has decided on the current step.
  bool isJudged = false;
  /// Null if steps continue with any gradients and do not clip them.
  std::unique_ptr<GradientCheck> gradientCheck;
  /// Whether each unread step was skipped.
  std::array<bool, kMostUnread> wasSkipped = {};
  /// The results for the step whose losses were read last.
  std::optional<int64_t> nonfiniteGradient;
  std::optional<double> gradientNorm;
  /// Index of the set of inputs that the caller fills.
  size_t filling = 0;
  /// The seed of this rank.
  uint64_t seed = 0;
  /// The losses of the batch that a function runs between steps.
  LossLog otherLosses;
  std::vector<std::unique_ptr<PreparedOp>> ops;
  std::vector<std::unique_ptr<GraphSegment>> segments;
  /// The first error.
  std::optional<Failure> error;
};

/// Makes the compute stream libtorch's current stream while it lives.
struct StreamScope {
  explicit StreamScope(const std::optional<c10::Stream> &stream) {
    if (stream)
      guard.emplace(*stream);
  }
  std::optional<c10::StreamGuard> guard;
};

/// Lets this thread compute without autograd, in the pool and on the compute
/// stream, while it lives.
struct ComputeScope {
  ComputeScope(ResultPool &pool, const std::optional<c10::Stream> &stream)
      : streamScope(stream), poolScope(pool) {}
  StreamScope streamScope;
  at::AutoDispatchBelowADInplaceOrView belowAutograd;
  at::NoGradGuard noGrad;
  ResultPool::Scope poolScope;
};

} // namespace fcdp
