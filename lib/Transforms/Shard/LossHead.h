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

/// The way from a product to a softmax.
struct LogitChain {
  /// The words and factors of fcdp.chunked_loss.
  llvm::SmallVector<llvm::StringRef> steps;
  llvm::SmallVector<double> factors;
  /// Views and slices of the product's result, and copies of slices, in order.
  llvm::SmallVector<aten::CallOp> shapes;
  /// The calls of steps and shapes, in order.
  llvm::SmallVector<aten::CallOp> path;
  /// The result of the step `tanh`.
  mlir::Value tanh;

  bool isSliced() const;
};

/// The comparison of a student's log-probabilities with a teacher's, if the
/// loss has one.
struct LossTeacher {
  /// The student's log-probabilities. The first `common` steps of their logits
  /// are those of the cross entropy, too.
  LogitChain student;
  mlir::Value logProbs;
  unsigned common = 0;
  /// The teacher's hidden states, weight and bias. Without a weight, they are
  /// logits.
  mlir::Value hidden, weight, bias;
  LogitChain logits;
  /// The probabilities, with which the gradient is multiplied, and the word
  /// `terms` of fcdp.chunked_distillation.
  mlir::Value probs;
  llvm::StringRef terms;
  /// The mask of the student's infinite logits, if these do not count.
  mlir::Value isInfinite;
  /// The call that adds up all terms, or those of each row.
  aten::CallOp sum;
  bool isByRow = false, isMean = false;
  /// The gradient of the sum, or the opposite.
  mlir::Value gradient;
  bool negatesGradient = false;

  /// Returns the type of the log-probabilities.
  mlir::RankedTensorType getType() const { return typeOf(logProbs); }
};

/// A projection and its cross entropy. Values and calls that the step does not
/// have are null.
struct LossHead {
  /// The rows that are projected, the matrix [vocabulary, features], and the
  /// bias.
  mlir::Value hidden, weight, bias;
  mlir::Value product;
  LogitChain logits;
  /// The type of the log-probabilities.
  mlir::RankedTensorType logProbs;
  mlir::Value labels;
  int64_t reduction = 1, ignoreIndex = -100;
  /// The call of nll_loss_forward, or that of a gather. Null if the logits are
  /// compared with a teacher's alone.
  aten::CallOp loss;
  std::optional<LossTeacher> teacher;
  /// The operation before which the chunked loss is computed.
  mlir::Operation *place = nullptr;
  /// Operations before that place that depend on the loss. They move after it.
  llvm::SmallVector<mlir::Operation *> dependants;
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
};

/// Returns whether the call may pick the log-probabilities of labels: a gather
/// from a log-softmax.
bool picksLabels(aten::CallOp call);

/// Returns whether the call may be compared with a teacher: a log-softmax that
/// is multiplied with, or subtracted from, a tensor of its size.
bool comparesLogits(aten::CallOp call);

/// Matches the head around the call `loss` of nll_loss_forward, or of a gather
/// for which `picksLabels` holds, or of a log-softmax for which
/// `comparesLogits` holds. Returns an empty text, or the reason why the loss
/// stays whole.
std::string matchLossHead(aten::CallOp loss, LossHead &head);

} // namespace fcdp
