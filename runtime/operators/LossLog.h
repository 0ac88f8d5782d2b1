// SPDX-License-Identifier: Apache-2.0
//
// The losses of steps that have not been read yet.
#pragma once

#include <ATen/core/Tensor.h>
#include <vector>

namespace fcdp {

/// Copies losses to host memory on the stream that computes them. So on a GPU
/// only the reader of a loss waits for it. Used by the issuing thread only.
class LossLog {
public:
  /// Reserves memory for `steps` steps of `microBatches` losses each.
  void reserve(size_t steps, int64_t microBatches, at::Device device);

  /// Throws std::runtime_error if as many steps as there is room for are
  /// unread.
  void beginStep();
  /// The next micro-batch's, a tensor of one element. Throws
  /// std::runtime_error if the step has had all of them.
  void keep(const at::Tensor &loss);
  /// The same for a micro-batch of weight 0, whose loss may be NaN: logs 0.
  void keepZero();
  /// Throws std::runtime_error unless the step has had all of them.
  void endStep();
  /// Returns whether all losses of the last step that has begun are finite.
  /// Their copies must be done.
  bool isFinite() const;

  /// Steps that have begun and are not read.
  size_t numUnread() const { return begun - read; }
  /// The place, from 0 to `steps`, of the oldest unread step, and of the last
  /// one that has begun.
  size_t oldest() const { return read % numSteps; }
  size_t newest() const { return (begun - 1) % numSteps; }
  /// Returns the losses of the oldest unread step, whose copies must be done.
  std::vector<double> take();

private:
  /// The place of the next micro-batch's loss.
  at::Tensor &next();

  size_t numSteps = 1;
  int64_t microBatches = 0;
  size_t begun = 0, read = 0;
  int64_t kept = 0; ///< of the last step
  /// All in one, [steps, microBatches] f64, and one by one.
  at::Tensor memory;
  std::vector<at::Tensor> places;
};

} // namespace fcdp
