// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/Fcdp/Fcdp.h"
#include "llvm/Support/Error.h"

namespace fcdp {

/// Parses `model`, as a null type, or `f32`. Errors list them.
llvm::Expected<mlir::Type> parseMaster(llvm::StringRef spec,
                                       mlir::MLIRContext *context);

/// Parses `model`, as a null type, `f32`, `bf16` or `f16`. Errors list them.
llvm::Expected<mlir::Type> parseReduceType(llvm::StringRef spec,
                                           mlir::MLIRContext *context);

/// Parses `off` or `on`. Errors list them.
llvm::Expected<bool> parseLossScale(llvm::StringRef spec);

} // namespace fcdp
