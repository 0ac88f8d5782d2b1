// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "llvm/ADT/StringRef.h"

#include <optional>

namespace fcdp {

/// The error for a line that `findTooDeep` returns.
inline constexpr llvm::StringLiteral kTooDeep =
    "expected at most 256 brackets or signs within each other, got more";

/// Returns the first line, counted from 1, of MLIR text with more brackets or
/// signs within each other than any step has, or none. MLIR's parser and passes
/// recurse, and such text would use up their stack.
std::optional<size_t> findTooDeep(llvm::StringRef text);

} // namespace fcdp
