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

/// What the compiler knows of an ATen operator.
struct OpInfo {
  Aliasing aliasing = Aliasing::Unknown;
  /// Draws from the random-number generator, or may.
  bool random = true;
};

/// What is known of `callee` (`aten.mm.default`); the cautious answer for an
/// operator that is not in the table.
OpInfo lookupOp(llvm::StringRef callee);

} // namespace fcdp::aten
