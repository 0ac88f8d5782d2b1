// SPDX-License-Identifier: Apache-2.0
//
// The parts of matchLossHead. Each is in the file that its comment names.
#pragma once

#include "Shard/LossHead.h"

namespace fcdp {

class LossMatcher {
public:
  LossMatcher(aten::CallOp loss, LossHead &head) : head(head) {
    head.loss = loss;
  }
  std::string match();

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

  // LossForward.cpp: from log-probabilities back to the product.
  bool matchLogProbs();
  bool matchLogits(mlir::Value logits);
  bool matchProduct(aten::CallOp product);

  // LossBackward.cpp: from the gradient of log-probabilities to those of the
  // product's operands.
  bool matchBackward();
  bool matchLogitGradient(mlir::Value gradient);
  bool matchProducts(mlir::Value gradient);
  bool findSeeds();

  // LossMatcher.cpp: that nothing else reads what is replaced, and types.
  bool checkReaders();
  bool checkUsers();
  bool checkOrder();
  bool checkTypes();

  aten::CallOp take(aten::CallOp call) {
    head.calls.insert(call);
    return call;
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
  /// The result of the step `tanh`.
  mlir::Value tanh;
  mlir::Type lossType, modelType;
  std::string reason;
};

} // namespace fcdp
