// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/Fcdp/Fcdp.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/GlobPattern.h"

#include <optional>

namespace fcdp {

/// Parameters with settings of their own.
struct GroupSpec {
  struct Pattern {
    std::string text;
    llvm::GlobPattern glob;
  };
  /// Shell patterns of PyTorch's names.
  llvm::SmallVector<Pattern> patterns;
  /// The factor of the learning rate.
  double lr = 1;
  /// None: the optimizer's.
  std::optional<double> weightDecay;
};

/// Parses groups that `;` separates, each
/// `PATTERN[,PATTERN]...:KEY=VALUE[,...]` with the keys lr and weight_decay. An
/// error names the bad part and what was expected.
llvm::Expected<llvm::SmallVector<GroupSpec>> parseGroups(llvm::StringRef text);

/// Returns the settings of the first group with a pattern that one of the
/// parameter's names matches; null if there is none or it is not trained.
GroupAttr findGroup(ParameterOp parameter, llvm::ArrayRef<GroupSpec> groups,
                    mlir::Attribute optimizer);

/// Reports an error for a pattern that no trained parameter matches.
mlir::LogicalResult checkPatterns(mlir::ModuleOp module,
                                  llvm::ArrayRef<GroupSpec> groups);

} // namespace fcdp
