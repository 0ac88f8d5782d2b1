// SPDX-License-Identifier: Apache-2.0
//
// Typed access to calls of fcdp.chunked_loss.
#pragma once

#include "core/LossWorkspace.h"
#include "dialects/Aten/Aten.h"

#include <array>

namespace fcdp::aten {

inline constexpr llvm::StringLiteral kChunkedLoss = "fcdp.chunked_loss.default";

/// The positions of the returns of fcdp.chunked_loss.
enum class LossReturn {
  Loss,
  TotalWeight,
  RowSums,
  GradHidden,
  GradWeight,
  GradBias,
  Workspace
};
inline constexpr unsigned kLossReturns = 7;

/// A call of fcdp.chunked_loss.
struct ChunkedLoss {
  LossShape shape;
  mlir::RankedTensorType hidden, weight;
  /// The type of log-probabilities.
  mlir::Type lossType;

  /// Returns the matrix products of each chunk.
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
                       std::array<bool, 3> mask, int64_t block);

/// Returns the result at this position, or null if it is undefined.
mlir::Value getLossReturn(CallOp call, LossReturn which);

/// Checks a call of fcdp.chunked_loss. Other calls pass.
mlir::LogicalResult verifyChunkedLoss(CallOp call);

} // namespace fcdp::aten
