// SPDX-License-Identifier: Apache-2.0
//
// The state that prepared operations of a running step use.
#pragma once

#include "core/Backend.h"
#include "core/OnNonfinite.h"
#include "operators/LossLog.h"
#include "operators/TorchTypes.h"
#include "plan/StepPlan.h"

#include <ATen/core/stack.h>
#include <map>
#include <stdexcept>
#include <vector>

namespace fcdp {

/// Optimizer state of one bucket that no arena holds.
struct UpdateState {
  /// AdamW's step count, as a tensor of one f32 as PyTorch keeps it.
  at::Tensor count;
  /// The same number; SGD has no other.
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
  /// How often each bucket has been gathered by differences.
  std::vector<uint64_t> gathers = {};
  torch::jit::Stack stack = {};
  /// The device of the tensors that the compute stream works on.
  at::Device device = at::kCPU;
  LossLog losses = {};
  /// The loss of one batch of an evaluation, while that runs.
  LossLog evaluated = {};
  bool isEvaluating = false;
  /// Of the step that runs.
  double learningRate = 0;
  OnNonfinite onNonfinite = OnNonfinite::Continue;
  /// The norm of the step's gradients over all ranks, an f64 of no dimension,
  /// if the step clips them.
  at::Tensor gradientNorm = {};
  /// What the loss is scaled by, an f32 of no dimension, and the same number.
  at::Tensor lossScale = {};
  double lossScaleNumber = 1;
  /// The factor of the micro-batch's loss, an f32 of no dimension, and the same
  /// number. 1 if losses are not weighted.
  at::Tensor lossWeight = {};
  double lossWeightNumber = 1;
  /// A step whose scaled gradients overflow on any rank makes no update.
  bool skipsOverflow = false;
  /// Memory in which updates work on pieces of a shard, by type. All share it:
  /// they run one after another, on one stream.
  std::map<at::ScalarType, at::Tensor> pieces = {};
  /// Memory in which outer steps work on pieces of a bucket, in f32.
  at::Tensor outerPieces = {};
  /// The updates of this step leave everything as it is. The same on all ranks.
  bool skipsUpdates = false;

  std::byte *address(const plan::Buf &buf) {
    std::byte *base = buf.arena() == plan::Arena::device ? backend.deviceBase()
                                                         : backend.hostBase();
    return base + offsetOn(buf, place);
  }
  /// A one-dimensional view of a region, for the compute stream. Throws if
  /// that cannot work on it.
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
