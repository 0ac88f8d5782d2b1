// SPDX-License-Identifier: Apache-2.0
//
// Stores the losses of steps that have not been read yet.
#pragma once

#include <ATen/core/Tensor.h>
#include <vector>

namespace fcdp {

/// Copies losses to host memory on the stream that computes them, so that on a
/// GPU only the reader of a loss waits for it. Used by the issuing thread only.
class LossLog {
public:
  /// Reserves memory for `steps` steps of `microBatches` losses each.
  void reserve(size_t steps, int64_t microBatches, at::Device device);

  /// Begins a step. Throws std::runtime_error if the log is full of unread
  /// steps.
  void beginStep();
  /// Logs the loss of the next micro-batch, a tensor of one element. Throws
  /// std::runtime_error if the step already has all of its losses.
  void keep(const at::Tensor &loss);
  /// Logs 0 for a micro-batch of weight 0, whose loss may be NaN.
  void keepZero();
  /// Throws std::runtime_error unless the step has all of its losses.
  void endStep();
  /// Returns whether all losses of the last step that has begun are finite.
  /// Their copies must be done.
  bool isFinite() const;

  /// Returns the number of steps that have begun and are not read.
  size_t numUnread() const { return begun - read; }
  /// Return the place, below `steps`, of the oldest unread step, and of the
  /// last one that has begun.
  size_t oldest() const { return read % numSteps; }
  size_t newest() const { return (begun - 1) % numSteps; }
  /// Returns the losses of the oldest unread step, whose copies must be done.
  std::vector<double> take();

private:
  /// Returns the place of the next micro-batch's loss.
  at::Tensor &next();

  size_t numSteps = 1;
  int64_t microBatches = 0;
  size_t begun = 0, read = 0;
  int64_t kept = 0; ///< of the last step
  /// All losses as one tensor, [steps, microBatches] f64, and one by one.
  at::Tensor memory;
  std::vector<at::Tensor> places;
};

} // namespace fcdp
