// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/Aten/AtenDialect.h.inc"
#include "dialects/Aten/AtenEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/Aten/AtenAttrs.h.inc"
#define GET_OP_CLASSES
#include "dialects/Aten/AtenOps.h.inc"

namespace fcdp::aten {

/// The state of the random-number generator, which dropout and other operators
/// use.
struct RandomState : mlir::SideEffects::Resource::Base<RandomState> {
  llvm::StringRef getName() final { return "RandomState"; }
};

} // namespace fcdp::aten
