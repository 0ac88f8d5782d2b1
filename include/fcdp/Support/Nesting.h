// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "llvm/ADT/StringRef.h"

#include <optional>

namespace fcdp {

/// What is wrong with a text. Lines are counted from 1.
struct TextProblem {
  size_t line;
  llvm::StringRef message;
};

/// Finds what no step has in MLIR text, and what MLIR's parser, passes and
/// printer would use up their stack, memory or time with: many brackets or
/// signs within each other, aliases that stand for much text, long words.
std::optional<TextProblem> findTooDeep(llvm::StringRef text);

} // namespace fcdp
