// SPDX-License-Identifier: Apache-2.0
//
// Recognizes the projection to a vocabulary with its cross entropy, forward and
// backward, in an imported step.
#pragma once

#include "Shard/LossCalls.h"
#include "dialects/Aten/Aten.h"
#include "llvm/ADT/SetVector.h"

#include <string>

namespace fcdp {

/// A projection and its cross entropy. Values and calls that the step does not
/// have are null.
struct LossHead {
  /// The rows that are projected, the matrix [vocabulary, features], and the
  /// bias.
  mlir::Value hidden, weight, bias;
  /// The words and factors of fcdp.chunked_loss.
  llvm::SmallVector<llvm::StringRef> steps;
  llvm::SmallVector<double> factors;
  /// Views and slices of the product's result, and copies of slices, in order.
  llvm::SmallVector<aten::CallOp> shapes;
  /// The type of the log-probabilities.
  mlir::RankedTensorType logProbs;
  mlir::Value labels;
  int64_t reduction = 1, ignoreIndex = -100;
  /// The call of nll_loss_forward, or that of a gather.
  aten::CallOp loss;
  /// The sums of each row's log-probabilities, for label smoothing.
  aten::CallOp sums;
  /// Whether the gather, and the sums, are of negated log-probabilities.
  bool negatesPicked = false, negatesSums = false;

  /// The gradients of loss and sums.
  mlir::Value gradient, sumGradient;
  aten::CallOp gradHidden, gradWeight, gradBias;
  /// Operations between the loss and its gradient that compute the gradients
  /// of loss and sums, in order. They move before the loss.
  llvm::SmallVector<mlir::Operation *> seeds;

  /// All calls that the chunked loss replaces.
  llvm::SmallSetVector<mlir::Operation *, 32> calls;

  /// Returns the rows of the product. Slices take fewer.
  int64_t getRows() const { return typeOf(hidden).getDimSize(0); }
  int64_t getVocabulary() const { return typeOf(weight).getDimSize(0); }
  /// Returns whether the loss is the log-probabilities that a gather picks.
  bool isGathered() const;
  bool isSliced() const;
};

/// Returns whether the call may pick the log-probabilities of labels: a gather
/// from a log-softmax.
bool picksLabels(aten::CallOp call);

/// Matches the head around the call `loss` of nll_loss_forward, or of a gather
/// for which `picksLabels` holds. Returns an empty text, or the reason why the
/// loss stays whole.
std::string matchLossHead(aten::CallOp loss, LossHead &head);

} // namespace fcdp
