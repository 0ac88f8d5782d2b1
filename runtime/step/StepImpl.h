// SPDX-License-Identifier: Apache-2.0
//
// The state of a step, for the files of this folder that define its members.
// StepSetup.cpp makes it, StepAccess.cpp has inputs, settings and the states
// for checkpoints, Step.cpp runs steps, StepEvaluation.cpp runs evaluations,
// and StepResults.cpp reads losses and checks gradients.
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
  /// Returns, for example, "first_microbatch", or "first_microbatch.1" for one
  /// of several variants.
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
  /// Returns the pool for results of steps of the current variant, or of steps
  /// with that outer update in them.
  ResultPool &pool() const { return outerPoolOf(overlapped); }
  ResultPool &outerPoolOf(std::optional<uint32_t> fragment) const {
    return *pools[fragment ? state.plan.numVariants() + *fragment : variant];
  }
  /// Returns the pool for results of a function.
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
  /// Returns the set of inputs of an evaluation, which follows those of steps.
  size_t evaluationSet() const {
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
  /// Changes the variant from the next step on. Other streams than compute
  /// begin a step while compute ends the one before, which is proved only for
  /// steps of one variant.
  void changeTo(uint32_t next);
  /// Runs the operations of a function. A function that synchronizes nodes is
  /// chosen by `fragment`, and a micro-batch by the current variant.
  void call(plan::Role role, uint32_t fragment = 0);
  /// Sets the outer parameters to those of the job, once.
  void startOuter();
  /// Returns whether steps of several kinds run the function, so that its
  /// results are in different pools.
  bool isShared(const plan::FunctionT &function) const;
  /// Groups operations that may be in graphs into segments.
  void makeSegments(GraphCapture &capture);
  /// Waits until the oldest unread step has ended, on a GPU.
  void waitForOldest();
  /// Waits for the micro-batches' losses, and returns whether one of them is
  /// infinite or NaN on any rank.
  bool isLossNonfinite();
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
  /// Null on the CPU.
  c10::DeviceAllocator *const gpuMemory;
  const std::function<uint64_t()> usedBytes;
  /// Bytes of the device in use after the last step was issued.
  uint64_t usedInStep = 0;
  /// The pools for results of steps by variant, followed by the pools for steps
  /// with an outer update in them by fragment. Each records its own
  /// allocations.
  std::vector<std::unique_ptr<ResultPool>> pools;
  /// The variant of the step that runs, or of the last one.
  uint32_t variant = 0;
  /// The fragment whose outer update is in the last micro-batch of that step.
  std::optional<uint32_t> overlapped;
  /// Recorded at the end of the last step, on a GPU.
  std::optional<uint32_t> lastEnd;
  /// The pools of the first batch of an evaluation, and of the others. Each
  /// records its own allocations.
  ResultPool firstPool, nextPool;
  /// The pool of outer updates, whose operations allocate nothing from it.
  ResultPool outerPool;
  /// Whether the outer parameters have been set.
  bool hasOuter = false;
  /// Null if steps continue with any gradients and do not clip them.
  std::unique_ptr<GradientCheck> gradientCheck;
  /// Whether each unread step was skipped.
  std::array<bool, kMostUnread> wasSkipped = {};
  /// The results for the step whose losses were read last.
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
