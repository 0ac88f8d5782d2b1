// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/Fcdp/Fcdp.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/GlobPattern.h"

#include <optional>

namespace fcdp {

/// Parameters with their own settings.
struct GroupSpec {
  struct Pattern {
    std::string text;
    llvm::GlobPattern glob;
  };
  /// Shell patterns that match PyTorch's names.
  llvm::SmallVector<Pattern> patterns;
  /// The factor on the learning rate.
  std::optional<double> lr;
  /// The weight decay; none for that of the optimizer.
  std::optional<double> weightDecay;
  /// The name of the optimizer that updates them; empty for the one that the
  /// optimizers' own rule gives.
  llvm::StringRef optimizer;
};

/// Parses groups that `;` separates, each
/// `PATTERN[,PATTERN]...:KEY=VALUE[,...]` with the keys lr, weight_decay and
/// optimizer. An error names the bad part and what was expected.
llvm::Expected<llvm::SmallVector<GroupSpec>> parseGroups(llvm::StringRef text);

/// Returns the first group with a pattern that matches one of the parameter's
/// names. Returns null if there is none or if the parameter is not trained.
const GroupSpec *findGroup(ParameterOp parameter,
                           llvm::ArrayRef<GroupSpec> groups);

/// Returns the settings that `group` gives a parameter that `optimizer`
/// updates; null if `group` is null or has none.
GroupAttr makeGroup(const GroupSpec *group, mlir::Attribute optimizer);

/// Reports an error for a pattern that no trained parameter matches.
mlir::LogicalResult checkPatterns(mlir::ModuleOp module,
                                  llvm::ArrayRef<GroupSpec> groups);

} // namespace fcdp
