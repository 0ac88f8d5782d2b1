// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/Fcdp/Fcdp.h"
#include "llvm/Support/Error.h"

namespace fcdp {

/// Parses `flat`, `ragged<N>` with N from 1 on, or `owned`. Errors list these
/// forms.
llvm::Expected<LayoutAttr> parseLayout(llvm::StringRef spec,
                                       mlir::MLIRContext *context);

} // namespace fcdp
