// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "llvm/ADT/StringRef.h"

namespace fcdp::aten {

/// The way in which an operator's results share memory with its first operand.
enum class Aliasing {
  /// Results are new memory.
  Fresh,
  /// The result is a view of the first operand, and the operator computes
  /// nothing.
  View,
  /// Results may share memory with any operand.
  Unknown
};

/// The quantity that determines an operator's time.
enum class Work {
  /// Neither arithmetic nor memory traffic: views, and memory that is not
  /// filled.
  None,
  /// Reads its operands and writes its results.
  Bytes,
  /// Writes its results.
  Fill,
  /// Reads as many bytes of its first tensor as it writes, and all other
  /// operands.
  Lookup,
  /// Multiplies two matrices, or batches of them.
  MatMul,
  /// Multiplies a matrix of many groups, such as the tokens of experts, by one
  /// matrix for each group.
  GroupedMatMul,
  Convolution,
  ConvolutionBackward,
  Attention,
  AttentionBackward,
  /// Multiplies by a matrix, computes the cross entropy, and multiplies its
  /// gradient.
  ChunkedLoss
};

/// Properties of an ATen operator.
struct OpInfo {
  Aliasing aliasing = Aliasing::Unknown;
  /// Whether the operator may draw random numbers.
  bool random = true;
  Work work = Work::Bytes;
  /// Whether the operator draws random numbers only if its argument `dropout_p`
  /// is not 0.
  bool randomIfDropout = false;
};

/// Returns the properties of `callee` (`aten.mm.default`), and conservative
/// ones if it is not in the table.
OpInfo lookupOp(llvm::StringRef callee);

/// Returns the overload of the same operator that writes its result to the
/// argument `out`. All other arguments have the same names. Returns an empty
/// name if there is no such overload or if it copies.
llvm::StringRef lookupOut(llvm::StringRef callee);

} // namespace fcdp::aten
