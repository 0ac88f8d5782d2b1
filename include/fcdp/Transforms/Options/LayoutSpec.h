// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/Fcdp/Fcdp.h"
#include "llvm/Support/Error.h"

namespace fcdp {

/// Parses `flat`, `ragged<N>` with N from 1 on, or `owned`. The error lists
/// them.
llvm::Expected<LayoutAttr> parseLayout(llvm::StringRef spec,
                                       mlir::MLIRContext *context);

/// The layout of `bucket`, `flat` where none is given.
LayoutAttr getLayout(BucketOp bucket);

} // namespace fcdp
