// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/Fcdp/Fcdp.h"

namespace fcdp {

/// Emits a remark of pass `category` on how many of `before` buckets were
/// merged, and up to which size. Does nothing if none were.
void remarkOnMerging(mlir::ModuleOp module, llvm::StringRef category,
                     size_t before);

} // namespace fcdp
