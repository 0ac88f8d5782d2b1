// SPDX-License-Identifier: Apache-2.0
//
// Limits of PyTorch's attention kernels for CUDA, and calls of them.
#pragma once

#include "TensorCalls.h"

namespace fcdp {

/// All kernels read 16 bytes at once: 8 elements of half precision.
inline constexpr int64_t kAlignment = 8;
/// The greatest heads that the flash kernel supports.
inline constexpr int64_t kGreatestFlashHead = 256;
/// The first compute capability for which PyTorch has the flash kernel.
inline constexpr double kFirstFlashCapability = 8;

/// The order in memory of [batch, head, token, depth]: the projections before
/// attention write it, and the one after it reads it.
inline constexpr int64_t kTokenMajor[] = {0, 2, 1, 3};

/// Returns the order in memory of the call's first result in the export.
llvm::SmallVector<int64_t> getOrder(aten::CallOp call);

/// The memory-efficient kernel, whose result is ordered by token.
struct EfficientAttention {
  /// [batch, heads, tokens, depth], with as many heads of keys as of queries.
  mlir::Value query, key, value;
  /// [batch, heads, queries, keys], or null.
  mlir::Value bias;
  bool isCausal;
  /// The factor of scores; null means one over the square root of the depth.
  mlir::Attribute scale;

  /// The forward pass's results that the backward pass reads.
  struct Saved {
    mlir::Value logSumExp, seed, offset;
  };

  /// Creates the call. Its results are the attention, and those of `Saved`; the
  /// first of these is empty unless there is a backward pass.
  aten::CallOp forward(bool hasBackward, mlir::Location loc,
                       mlir::OpBuilder &builder) const;
  /// Creates the call that returns the gradients of query, key and value.
  aten::CallOp backward(mlir::Value grad, mlir::Value out, const Saved &saved,
                        mlir::Location loc, mlir::OpBuilder &builder) const;
};

/// The flash kernel over sequences of several lengths, which are causal.
struct FlashAttention {
  /// [tokens, heads, depth]. Keys may have fewer heads, by which the number of
  /// the query's is divisible.
  mlir::Value query, key, value;
  /// The first token of each sequence and the end of the last, in i32.
  mlir::Value bounds;
  /// The most tokens that a sequence may have.
  int64_t longest;
  /// The factor of scores; null means one over the square root of the depth.
  mlir::Attribute scale;

  /// The forward pass's results that the backward pass reads.
  struct Saved {
    mlir::Value logSumExp, state, unused;
  };

  /// Creates the call. Its results are the attention, and those of `Saved`.
  aten::CallOp forward(mlir::Location loc, mlir::OpBuilder &builder) const;
  /// Creates the call that returns the gradients of query, key and value.
  aten::CallOp backward(mlir::Value grad, mlir::Value out, const Saved &saved,
                        mlir::Location loc, mlir::OpBuilder &builder) const;
};

} // namespace fcdp
