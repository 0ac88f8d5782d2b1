// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/Fcdp/Fcdp.h"
#include "llvm/Support/Error.h"

namespace fcdp {

/// What the option --outer asks for.
struct OuterSpec {
  OuterAttr outer;
  /// The type in which differences are sent.
  mlir::Type type;
  /// The form in which sums of differences are sent, if it is given.
  std::optional<Wire> wire;
};

/// Parses `H[,KEY=VALUE]...`. The error says what was expected.
llvm::Expected<OuterSpec> parseOuter(llvm::StringRef text,
                                     mlir::MLIRContext *context);

} // namespace fcdp
