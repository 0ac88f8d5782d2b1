// SPDX-License-Identifier: Apache-2.0
//
// The state of a step, for the files of this folder that define its members:
// StepSetup.cpp makes it, StepAccess.cpp has inputs, settings and what
// checkpoints keep, Step.cpp runs steps, StepEvaluation.cpp runs evaluations,
// and StepResults.cpp has losses and what is known of them.
#pragma once

#include "memory/Pool.h"
#include "operators/CpuPool.h"
#include "operators/GradientCheck.h"
#include "operators/GraphSegment.h"
#include "operators/PreparedOp.h"
#include "step/HostCopies.h"
#include "step/Step.h"
#include "step/StepArena.h"
#include "step/StepObject.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <array>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/StreamGuard.h>
#include <optional>

namespace fcdp {

struct Step::Impl {
  Impl(const StepObject &object, Backend &backend, const StepSetup &options);

  bool isOnCpu() const { return state.device.is_cpu(); }
  /// "first_microbatch", or "first_microbatch.1" for a variant of several.
  std::string nameOf(plan::Role role, uint32_t fragment) const {
    std::string name = plan::EnumNameRole(role);
    if (isOuter(role))
      return state.plan.outer->fragments > 1
                 ? name + "." + std::to_string(fragment)
                 : name;
    if (state.plan.numVariants() > 1 && isMicrobatch(role))
      return name + "." + std::to_string(variant);
    return name;
  }
  c10::Allocator &systemMemory() const {
    return isOnCpu() ? routeCpuAllocations()
                     : static_cast<c10::Allocator &>(*gpuMemory);
  }
  /// The memory of the results of steps of the variant that runs, or of those
  /// with that outer update in them.
  ResultPool &pool() const { return outerPoolOf(overlapped); }
  ResultPool &outerPoolOf(std::optional<uint32_t> fragment) const {
    return *pools[fragment ? state.plan.numVariants() + *fragment : variant];
  }
  /// The memory of the results of a function.
  ResultPool &poolOf(plan::Role role) {
    switch (role) {
    case plan::Role::first_evaluation:
      return firstPool;
    case plan::Role::next_evaluation:
      return nextPool;
    case plan::Role::outer_update:
      return outerPool;
    default:
      return pool();
    }
  }
  /// The set of inputs of an evaluation, behind those of steps.
  size_t evaluationSet() const {
    return kMostUnread * object.plan().microBatches;
  }
  /// Returns an event of the backend that no plan uses.
  uint32_t eventOfStep(size_t place) const {
    return object.plan().numEvents + uint32_t(place);
  }

  PoolArena arena() { return stepArena(state, gpuMemory); }
  void throwIfBackendFailed() const;
  /// Runs an operation; throws with its name.
  void execute(size_t index, ResultPool &memory);
  /// Forgets results of operators, which nothing reads any more.
  void dropResults();
  /// Has the steps from the next one on be of that variant. Other streams than
  /// compute begin a step while compute ends the one before, which is proved
  /// for steps of one variant alone.
  void changeTo(uint32_t next);
  /// Runs the operations of a function; of `fragment`, if it synchronizes
  /// nodes, else of the variant that runs, if it is a micro-batch.
  void call(plan::Role role, uint32_t fragment = 0);
  /// Has the outer parameters be those of the job, once.
  void startOuter();
  /// Returns whether steps of several kinds run the function, which has its
  /// results now in this pool, now in that.
  bool isShared(const plan::FunctionT &function) const;
  /// Groups operations that may be in graphs into segments.
  void makeSegments(GraphCapture &capture);
  /// Until the oldest step that is not read has ended, on a GPU.
  void waitForOldest();
  /// Waits for the micro-batches' losses, and returns whether one of them is
  /// infinite or NaN on any rank.
  bool isLossNonfinite();
  /// Looks at the gradients of the step that has just run.
  void checkGradients();
  /// Reads what was found, for the unread step at `place`.
  void readGradients(size_t place);

  const StepObject &object;
  const std::function<bool(bool)> isNonfiniteAnywhere;
  /// Null once nothing is recorded any more.
  StepRecorder *recorder;
  GraphCapture *const graphs;
  const std::optional<c10::Stream> computeStream;
  StepState state;
  HostCopies hostCopies;
  /// Null on the CPU.
  c10::DeviceAllocator *const gpuMemory;
  const std::function<uint64_t()> usedBytes;
  /// Bytes of the device in use when the last step had been issued.
  uint64_t usedInStep = 0;
  /// Memory of the results of steps, by variant, and behind it that of steps
  /// with an outer update in them, by fragment. Each records its own
  /// allocations.
  std::vector<std::unique_ptr<ResultPool>> pools;
  /// The variant of the step that runs, or of the last one.
  uint32_t variant = 0;
  /// The fragment whose outer update is in the last micro-batch of that step.
  std::optional<uint32_t> overlapped;
  /// Recorded at the end of the last step, on a GPU.
  std::optional<uint32_t> lastEnd;
  /// Those of the first batch of an evaluation, and of the others. Each records
  /// its own allocations.
  ResultPool firstPool, nextPool;
  /// That of outer updates, whose operations take none of it.
  ResultPool outerPool;
  /// Whether the outer parameters have been set.
  bool hasOuter = false;
  /// Null if steps continue with any gradients and do not clip them.
  std::unique_ptr<GradientCheck> gradientCheck;
  /// Whether each unread step was skipped.
  std::array<bool, kMostUnread> wasSkipped = {};
  /// Of the step whose losses were read last.
  std::optional<int64_t> nonfiniteGradient;
  std::optional<double> gradientNorm;
  /// Index of the set of inputs that the caller fills.
  size_t filling = 0;
  /// The random state at the beginning of an evaluation.
  uint64_t evaluationSeed = 0;
  std::vector<std::unique_ptr<PreparedOp>> ops;
  std::vector<std::unique_ptr<GraphSegment>> segments;
  /// The first error.
  std::optional<Failure> error;
};

/// While it lives, libtorch's current stream is the compute stream.
struct StreamScope {
  explicit StreamScope(const std::optional<c10::Stream> &stream) {
    if (stream)
      guard.emplace(*stream);
  }
  std::optional<c10::StreamGuard> guard;
};

/// While it lives, this thread computes without autograd, in the pool and on
/// the compute stream.
struct ComputeScope {
  ComputeScope(ResultPool &pool, const std::optional<c10::Stream> &stream)
      : streamScope(stream), poolScope(pool) {}
  StreamScope streamScope;
  at::AutoDispatchBelowADInplaceOrView belowAutograd;
  at::NoGradGuard noGrad;
  ResultPool::Scope poolScope;
};

} // namespace fcdp
