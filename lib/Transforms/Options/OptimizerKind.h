// SPDX-License-Identifier: Apache-2.0
//
// The options of optimizers, from the records in FcdpOptimizers.td, which
// describe the fields.
#pragma once

#include "SettingSpec.h"
#include "mlir/IR/BuiltinAttributes.h"

namespace fcdp {

struct OptimizerKind {
  unsigned index;
  llvm::StringLiteral name;
  /// Returns the settings with their defaults.
  llvm::SmallVector<Setting> (*getSettings)();
  /// Makes the attribute from a number for each setting.
  mlir::Attribute (*make)(mlir::MLIRContext *context,
                          llvm::ArrayRef<mlir::FloatAttr> numbers);
  /// Returns whether settings exclude each other, as `conflict` says.
  bool (*isConflict)(llvm::ArrayRef<mlir::FloatAttr> numbers);
  llvm::StringLiteral conflict;
  bool needsLayout;
  int64_t leastElements;
  bool onlyHiddenMatrices;
  llvm::StringLiteral unusedReason;
  bool takesRest;
  llvm::StringLiteral rest;
  bool restHasSettings;
};

/// Returns the optimizer with this name, or null.
const OptimizerKind *findOptimizerKind(llvm::StringRef name);

/// Returns the names of all optimizers in the order of their records.
llvm::SmallVector<llvm::StringRef> listOptimizers();

} // namespace fcdp
