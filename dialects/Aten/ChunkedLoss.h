// SPDX-License-Identifier: Apache-2.0
//
// Typed access to calls of fcdp.chunked_loss and fcdp.chunked_distillation.
#pragma once

#include "core/LossWorkspace.h"
#include "dialects/Aten/Aten.h"

#include <array>

namespace fcdp::aten {

inline constexpr llvm::StringLiteral kChunkedLoss = "fcdp.chunked_loss.default";

/// The same with a teacher, whose logits the student's are compared with.
inline constexpr llvm::StringLiteral kChunkedDistillation =
    "fcdp.chunked_distillation.default";

/// The positions of the returns. Only a loss with a teacher has the last one.
enum class LossReturn {
  Loss,
  TotalWeight,
  RowSums,
  GradHidden,
  GradWeight,
  GradBias,
  Workspace,
  Divergence
};
inline constexpr unsigned kMostLossReturns = 8;

/// A call of either operator.
struct ChunkedLoss {
  LossShape shape;
  mlir::RankedTensorType hidden, weight;
  /// The type of log-probabilities.
  mlir::Type lossType;
  /// The type of a teacher's probabilities, and of its logits.
  mlir::Type studentType;
  mlir::RankedTensorType teacher;

  /// Returns the products of each chunk with the weight.
  unsigned countProducts() const {
    return 1 + shape.trainsHidden + shape.trainsWeight + (shape.block != 0);
  }
  int64_t countChunks() const {
    return (shape.rows + shape.chunk - 1) / shape.chunk;
  }

  /// Reads the call, which the verifier has accepted.
  static ChunkedLoss of(CallOp call);
};

/// Returns the sizes of a loss of these hidden states, with `steps` between the
/// product and the log-softmax. `mask` says whether the gradients of hidden
/// states, weight and bias are computed.
LossShape getLossShape(mlir::RankedTensorType hidden, int64_t vocabulary,
                       llvm::ArrayRef<llvm::StringRef> steps, int64_t rows,
                       std::array<bool, 3> mask, int64_t block,
                       const LossShape::Teacher &teacher = {});

/// Returns the words that say how a student is compared with a teacher.
llvm::ArrayRef<llvm::StringRef> getTeacherTerms();

/// Returns the result at this position, or null if it is undefined.
mlir::Value getLossReturn(CallOp call, LossReturn which);

/// Checks a call of either operator. Other calls pass.
mlir::LogicalResult verifyChunkedLoss(CallOp call);

} // namespace fcdp::aten
