// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/Fcdp/Fcdp.h"
#include "llvm/Support/Error.h"

namespace fcdp {

/// The settings that the option --outer gives.
struct OuterSpec {
  OuterAttr outer;
  /// The type in which differences are sent.
  mlir::Type type;
  /// The form in which sums of differences are sent, of getReductionForms; ""
  /// if it is not given.
  llvm::StringRef form;

  /// Returns why steps for `target` cannot have these settings; "" if they can.
  llvm::StringRef findObstacle(Target target) const;
};

/// Parses `H[,KEY=VALUE]...`. Errors say what was expected.
llvm::Expected<OuterSpec> parseOuter(llvm::StringRef text,
                                     mlir::MLIRContext *context);

} // namespace fcdp
