// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/Fcdp/Fcdp.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/GlobPattern.h"

#include <optional>

namespace fcdp {

/// The frozen matrices that are packed, and how.
struct FrozenSpec {
  struct Pattern {
    std::string text;
    llvm::GlobPattern glob;

    /// Returns whether it matches one of PyTorch's names.
    bool matches(ParameterOp parameter) const;
  };
  /// None if matrices stay as they are.
  std::optional<Packing> packing;
  /// Matrices that are not packed.
  llvm::SmallVector<Pattern> keep;
  /// Output heads that are packed, too.
  llvm::SmallVector<Pattern> pack;
};

/// Parses `off`, or `nf4` or `int8` with settings `keep=PATTERN` and
/// `pack=PATTERN`. An error names the bad part and what was expected.
llvm::Expected<FrozenSpec> parseFrozen(llvm::StringRef text);

} // namespace fcdp
