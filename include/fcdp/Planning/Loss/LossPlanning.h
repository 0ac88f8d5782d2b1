// SPDX-License-Identifier: Apache-2.0
//
// Decides whether a loss is computed in chunks, and how long these are.
#pragma once

#include "core/LossWorkspace.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <optional>
#include <string>

namespace fcdp {

/// The rows of a chunk, and the classes of a block (see LossShape). No rows are
/// the whole loss.
struct LossChunk {
  int64_t rows = 0, block = 0;
};

/// A loss that may be computed in chunks. It does not use the IR.
struct LossProblem {
  /// The ways to choose the rows of a chunk, and the gradient of the weight.
  enum class Rows { Auto, Given };
  enum class Head { Auto, Sum, Blocks };

  /// The sizes of the loss; the rows of a chunk are the ones that are asked
  /// for.
  LossShape shape;
  Rows rows = Rows::Auto;
  Head head = Head::Auto;
  /// The most bytes of results of operators that are in use at a time: with
  /// the whole loss, without it, and at the loss without its workspace.
  int64_t wholePeak = 0, otherPeak = 0, atLoss = 0;
  /// The least bytes of states and gathered parameters.
  int64_t states = 0;
  /// The bytes of the device that a plan may use, if there is a bound.
  std::optional<int64_t> budget;
  /// The cost of the whole loss, and of one in chunks, in bytes that the device
  /// could move in that time.
  double wholeCost = 0;
  llvm::function_ref<double(const LossShape &)> getCost;

  /// Returns the peak if the loss is computed in these chunks.
  int64_t getPeak(const LossChunk &chunk) const;
  /// Returns `shape` with these chunks.
  LossShape getShape(const LossChunk &chunk) const;

  /// Fails on numbers that are negative or contradict each other.
  llvm::Error check() const;
};

struct LossSolution {
  LossChunk chunk;
  int64_t peak = 0;
  double cost = 0;
  /// Why the loss stays whole, or is computed in these chunks.
  std::string reason;

  /// Fails if the chunks are not possible, or if the numbers are wrong.
  llvm::Error verify(const LossProblem &problem) const;
};

/// Returns the chunks of a loss. With `Rows::Auto` the loss stays whole if its
/// logits do not decide the peak and it fits the budget, or if chunks cost much
/// more. If the whole does not fit, the cheapest chunks that fit are taken.
/// Otherwise chunks need almost the least memory, without costing much more
/// than others.
LossSolution planLoss(const LossProblem &problem);

} // namespace fcdp
