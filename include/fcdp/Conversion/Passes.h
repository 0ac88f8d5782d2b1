// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace fcdp {

#define GEN_PASS_DECL
#include "fcdp/Conversion/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "fcdp/Conversion/Passes.h.inc"

} // namespace fcdp
