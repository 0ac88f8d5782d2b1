// SPDX-License-Identifier: Apache-2.0
//
// The parts of matchLossHead. Each is in the file that its comment names.
#pragma once

#include "Shard/LossHead.h"
#include "llvm/ADT/SmallPtrSet.h"

namespace fcdp {

class LossMatcher {
public:
  explicit LossMatcher(LossHead &head) : head(head) {}
  /// Matches the head around one of the calls that matchLossHead names.
  std::string match(aten::CallOp loss);

private:
  // LossForms.cpp: the loss and its gradient, on log-probabilities.
  bool matchForm();
  bool matchNll();
  bool matchGather();
  bool matchSums();
  bool matchFormGradient(mlir::Value gradient);
  bool matchNllGradient(aten::CallOp call);
  bool matchGatherGradient(aten::CallOp call);
  bool matchSumGradient(aten::CallOp call);

  // LossTeacher.cpp: the comparison with a teacher, and its gradient.
  bool matchTeacher(aten::CallOp softmax);
  bool matchTerms();
  bool matchProbs(mlir::Value probs);
  bool matchTeacherLogits(aten::CallOp softmax);
  bool matchInfinite(mlir::Value isInfinite);
  bool matchReduction(mlir::Value terms);
  bool matchTeacherGradient(mlir::Value gradient);
  bool matchTermGradient(mlir::Value gradient);
  bool checkTeacherTypes();

  // LossForward.cpp: from log-probabilities back to the product.
  bool matchLogProbs();
  bool isLogSoftmax(aten::CallOp softmax);
  mlir::Value followLogits(mlir::Value logits, LogitChain &chain,
                           bool stopsAtUsers = false);
  bool matchLogits(mlir::Value logits);
  bool failForLogits(mlir::Value logits);
  bool matchProduct(aten::CallOp product);
  aten::CallOp findComparison();

  // LossBackward.cpp: from the gradient of log-probabilities to those of the
  // product's operands.
  /// The part of a chain that is still to be reversed, from its end.
  struct Rest {
    explicit Rest(const LogitChain &chain);
    llvm::SmallVector<llvm::StringRef> steps;
    llvm::SmallVector<double> factors;
    llvm::SmallVector<aten::CallOp> slices;
    mlir::Value tanh;
  };
  bool matchBackward();
  bool matchBothBackward(aten::CallOp ofLabels, aten::CallOp ofTeacher);
  mlir::Value reverseSteps(mlir::Value gradient, Rest &rest);
  bool matchLogitGradient(mlir::Value gradient, Rest &rest);
  bool matchProducts(mlir::Value gradient);
  bool findSeeds();

  // LossMatcher.cpp: that nothing else reads what is replaced, and types.
  bool findPlace();
  bool checkReaders();
  bool checkUsers();
  bool checkOrder();
  bool checkTypes();

  aten::CallOp take(aten::CallOp call) {
    head.calls.insert(call);
    return call;
  }
  aten::CallOp takeTeacher(aten::CallOp call) {
    ofTeacher.insert(call);
    return take(call);
  }
  bool failForUser(mlir::Operation *user);
  bool fail(const llvm::Twine &why) {
    reason = why.str();
    return false;
  }

  LossHead &head;
  mlir::Value logProbs;
  /// The negated log-probabilities, if the step has them.
  mlir::Value negated;
  /// The calls that compute the teacher's probabilities.
  llvm::SmallPtrSet<mlir::Operation *, 16> ofTeacher;
  mlir::Type lossType, modelType;
  std::string reason;
};

} // namespace fcdp
