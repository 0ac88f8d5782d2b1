// SPDX-License-Identifier: Apache-2.0
//
// The state that prepared operations of a running step use.
#pragma once

#include "core/Backend.h"
#include "core/OnNonfinite.h"
#include "operators/ArenaBases.h"
#include "operators/LossLog.h"
#include "optimizers/PieceUpdate.h"
#include "plan/StepPlan.h"
#include "plan/TorchTypes.h"

#include <ATen/core/stack.h>
#include <map>
#include <memory>
#include <stdexcept>
#include <vector>

namespace fcdp {

class HostThreads;

/// Optimizer state of one bucket that is not in an arena.
struct UpdateState {
  /// The number of updates, as a tensor of one f32 as in PyTorch.
  at::Tensor count;
  /// The same number on the host.
  int64_t number = 0;
};

/// Used by the issuing thread only.
struct StepState {
  const StepPlan &plan;
  Backend &backend;
  Place place;
  std::vector<at::Tensor> inputs = {};
  std::vector<at::Tensor> buffers = {};
  std::vector<at::Tensor> slots = {};
  std::vector<UpdateState> updates = {};
  /// For each bucket, the number of gathers so far that referred to the one
  /// before.
  std::vector<uint64_t> gathers = {};
  torch::jit::Stack stack = {};
  /// The strides of the values that are in host memory, by the offset of their
  /// places there. Values that are contiguous are left out.
  std::map<uint64_t, std::vector<int64_t>> storedStrides = {};
  /// The device of the tensors that the compute stream works on.
  at::Device device = at::kCPU;
  LossLog losses = {};
  /// The log of losses while a function runs the model between steps, or null.
  LossLog *otherLosses = nullptr;
  /// The learning rate of the current step.
  double learningRate = 0;
  OnNonfinite onNonfinite = OnNonfinite::Continue;
  /// The norm of the step's gradients over all ranks, an f64 without
  /// dimensions, if the step clips them.
  at::Tensor gradientNorm = {};
  /// The scale of the loss, an f32 without dimensions, and the same number on
  /// the host.
  at::Tensor lossScale = {};
  double lossScaleNumber = 1;
  /// The factor on the micro-batch's loss, an f32 without dimensions, and the
  /// same number on the host. 1 if losses are not weighted.
  at::Tensor lossWeight = {};
  double lossWeightNumber = 1;
  /// Whether a step whose scaled gradients overflow on any rank makes no
  /// update.
  bool skipsOverflow = false;
  /// Scratch memory for updates of pieces of a shard.
  PieceMemory pieces = PieceMemory(device);
  /// Scratch memory for updates of states in host memory by pieces, in f32.
  at::Tensor hostPieces = {};
  /// The threads of updates on the host, if the step has any.
  std::shared_ptr<HostThreads> hostThreads = {};
  /// Whether the updates of this step leave everything unchanged. Equal on all
  /// ranks.
  bool skipsUpdates = false;

  /// The memory of each arena.
  ArenaBases arenas = findArenas(plan, backend);
  /// The file arena; null if the plan has none.
  std::shared_ptr<StateFile> files = {};

  /// Returns the first byte of a region. Throws if it is in a file.
  std::byte *address(const plan::Buf &buf) {
    if (buf.arena() == plan::Arena::file)
      throw std::runtime_error("expected memory, got a place in a file");
    return arenas[size_t(buf.arena())].get() + offsetOn(buf, place);
  }
  /// Returns a one-dimensional view of a region for the compute stream. Throws
  /// if that stream cannot access it.
  at::Tensor flat(const plan::Buf &buf, int64_t elements, DType type) {
    if (buf.arena() != plan::Arena::device && !device.is_cpu())
      throw std::runtime_error("expected device memory: the compute stream of "
                               "a GPU does not work on the host's");
    return tensorOver(address(buf), {elements}, type, device);
  }
  template <typename Slots>
  void drop(const Slots &freed) {
    for (size_t slot : freed)
      slots[slot].reset();
  }
};

} // namespace fcdp
