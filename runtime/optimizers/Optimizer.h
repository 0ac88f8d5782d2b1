// SPDX-License-Identifier: Apache-2.0
//
// Updates parts of a rank's shard. Each optimizer is a class in a file of its
// own, with an overload of `makeOptimizer` beside it.
#pragma once

#include "optimizers/PieceUpdate.h"
#include "plan/StepPlan.h"

#include <algorithm>
#include <memory>
#include <optional>

namespace fcdp {

/// The shard of one bucket, for which an optimizer is made.
struct OptimizedShard {
  const StepPlan &plan;
  size_t bucket;
  /// The memory that updates change: the master, if there is one, or the shard.
  at::Tensor parameter;
  PieceMemory &memory;
};

/// The elements and the memory that one call of an optimizer has.
struct UpdateNeeds {
  enum class Unit {
    /// Elements with the same settings.
    Segment,
    /// A piece of them. In f16 and bf16, it is computed in f32.
    Piece,
    /// A parameter, which is whole in a shard.
    Parameter
  };
  Unit unit = Unit::Segment;
  /// Whether the kernel can divide gradients when it reads them.
  bool dividesGradients = false;
  /// The number of `UpdatePart::memories` of a piece.
  size_t numMemories = 0;
  /// The bytes of `UpdateStep::scratch`. They are equal on all ranks, although
  /// these have other parameters, so that their pools are equal.
  int64_t scratchBytes = 0;
  /// Whether operators allocate memory of their own in only some updates. It
  /// then comes from the system, since steps else allocate as the recorded one.
  bool allocatesSometimes = false;
};

/// One update of a bucket.
struct UpdateStep {
  /// The learning rate of the part.
  double rate;
  /// The number of the update, counted from 1, and the same as a tensor of one
  /// f32 on the device.
  int64_t number;
  const at::Tensor &count;
  /// The divisor of gradients, if the kernel divides them.
  const std::optional<at::Tensor> &divisor;
  const at::Tensor &scratch;
};

/// Used by the issuing thread only. Immutable but for memory that is free
/// between updates.
class Optimizer {
public:
  virtual ~Optimizer() = default;
  virtual UpdateNeeds needs() const = 0;
  virtual void update(const UpdatePart &part, const UpdateStep &step) const = 0;
};

/// Returns the most bytes that `bytesOf` returns for a parameter of the bucket.
template <typename BytesOf>
int64_t mostBytes(const OptimizedShard &shard, BytesOf bytesOf) {
  int64_t bytes = 0;
  for (const auto &parameter : shard.plan.parameters)
    if (parameter->bucket == shard.bucket)
      bytes = std::max(bytes, bytesOf(*parameter));
  return bytes;
}

/// Moves an average of gradients by `value`, which is overwritten. The product
/// is rounded before it is added, so that an element's bits do not depend on
/// its place in a vector.
inline void mixInto(const at::Tensor &average, double beta,
                    const at::Tensor &value) {
  average.mul_(beta).add_(value.mul_(1 - beta));
}

/// Declares an overload for the table of each class that CMakeLists.txt lists.
/// The visitor that makes an optimizer does not compile without a table's
/// overload.
#define FCDP_OPTIMIZER(Table)                                                  \
  std::unique_ptr<Optimizer> makeOptimizer(const plan::Table &settings,        \
                                           const OptimizedShard &shard);
#include "optimizers/Optimizers.inc"
#undef FCDP_OPTIMIZER

} // namespace fcdp
