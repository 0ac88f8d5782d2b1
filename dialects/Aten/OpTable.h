// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "llvm/ADT/StringRef.h"

namespace fcdp::aten {

/// How an operator's results share memory with its first operand.
enum class Aliasing {
  /// Results are new memory.
  Fresh,
  /// The result is the first operand's memory, seen with another shape; the
  /// operator computes nothing.
  View,
  /// Results may share memory with any operand.
  Unknown
};

/// What an operator's time grows with.
enum class Work {
  /// Computes nothing and moves nothing: views, memory that is not filled.
  None,
  /// Reads its operands and writes its results.
  Bytes,
  /// Writes its results.
  Fill,
  /// Reads as much of its first tensor as it writes, and all other operands.
  Lookup,
  /// Multiplies two matrices, or batches of them.
  MatMul,
  Convolution,
  ConvolutionBackward,
  Attention,
  AttentionBackward
};

/// What the compiler knows of an ATen operator.
struct OpInfo {
  Aliasing aliasing = Aliasing::Unknown;
  /// Draws from the random-number generator, or may.
  bool random = true;
  Work work = Work::Bytes;
  /// Draws only if its argument `dropout_p` is not 0.
  bool randomIfDropout = false;
};

/// What is known of `callee` (`aten.mm.default`); the cautious answer for an
/// operator that is not in the table.
OpInfo lookupOp(llvm::StringRef callee);

/// The overload of `callee`'s operator that computes the same into its argument
/// `out`; empty where it has none, or one that copies. All other arguments have
/// the same names.
llvm::StringRef lookupOut(llvm::StringRef callee);

} // namespace fcdp::aten
