// SPDX-License-Identifier: Apache-2.0
//
// The functions of a step in a module. Their order is in StepFamily.h.
#pragma once

#include "dialects/Fcdp/Fcdp.h"
#include "dialects/Fcdp/StepFamily.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace fcdp {

/// Returns the role of `function`, which must have one.
Role getRole(mlir::func::FuncOp function);

/// Returns the variant of `function`; 0 for a function that all variants share.
/// That of one that synchronizes nodes is its fragment.
int64_t getVariant(mlir::func::FuncOp function);

/// Returns the role, which `function` must have, and the variant.
VariantRole getVariantRole(mlir::func::FuncOp function);

/// Returns whether functions of `role` have a variant, or a fragment, if there
/// are several.
bool hasVariants(Role role);

/// Returns the name of that function in a family with `count` of its role.
std::string getFunctionName(VariantRole which, int64_t count);

/// Returns the number of variants of the step; 1 if it has one shape. In phase
/// imported, too.
int64_t countVariants(mlir::ModuleOp module);

/// Returns whether `function` is of that variant of the step, or shared by all.
bool isOfVariant(mlir::func::FuncOp function, int64_t variant);

/// Returns the functions of a variant and those that all variants share; of the
/// greatest variant if none is given.
llvm::SmallVector<mlir::func::FuncOp>
getFunctionsOf(mlir::ModuleOp module,
               std::optional<int64_t> variant = std::nullopt);

/// Returns whether memory of its own is set aside for `input`. Inputs of a
/// variant are in the memory of those of the greatest one, `variants` - 1.
bool hasMemory(InputOp input, int64_t variants);

/// Returns the function of the module for `role`, which variants share; null if
/// there is none.
mlir::func::FuncOp findFunction(mlir::ModuleOp module, Role role);

/// Returns whether the module has functions that evaluate the model.
bool hasEvaluation(mlir::ModuleOp module);

/// Returns the functions of the module that `function` may come after.
llvm::SmallVector<mlir::func::FuncOp>
findPredecessors(mlir::func::FuncOp function);

} // namespace fcdp
