// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "llvm/ADT/StringRef.h"

#include <optional>

namespace fcdp {

/// A problem in a text. Lines are counted from 1.
struct TextProblem {
  size_t line;
  llvm::StringRef message;
};

/// Finds constructs that no step has in its MLIR text, and that would exhaust
/// the stack, the memory or the time of MLIR's parser, passes and printer:
/// deeply nested brackets or signs, aliases that expand to much text, long
/// words.
std::optional<TextProblem> findTooDeep(llvm::StringRef text);

} // namespace fcdp
