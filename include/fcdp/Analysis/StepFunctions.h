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

/// Returns the variant of `function`, or 0 for a function that all variants
/// share. For a function that synchronizes nodes, it returns the fragment.
int64_t getVariant(mlir::func::FuncOp function);

/// Returns the role, which `function` must have, and the variant.
VariantRole getVariantRole(mlir::func::FuncOp function);

/// Returns whether functions of `role` exist once for each variant or fragment,
/// if there are several.
bool hasVariants(Role role);

/// Returns the function's name in a family with `count` functions of its role.
std::string getFunctionName(VariantRole which, int64_t count);

/// Returns the number of variants of the step; 1 if it has one shape. Works in
/// phase imported, too.
int64_t countVariants(mlir::ModuleOp module);

/// Returns whether `function` belongs to `variant`, or is shared by all
/// variants.
bool isOfVariant(mlir::func::FuncOp function, int64_t variant);

/// Returns the functions of a variant and the functions that all variants
/// share. Without a variant, it takes the greatest one.
llvm::SmallVector<mlir::func::FuncOp>
getFunctionsOf(mlir::ModuleOp module,
               std::optional<int64_t> variant = std::nullopt);

/// Returns whether `input` has memory of its own. The inputs of a smaller
/// variant use the memory of the inputs of the greatest one, `variants` - 1.
bool hasMemory(InputOp input, int64_t variants);

/// Returns the function of the module for `role`, which variants share; null if
/// there is none.
mlir::func::FuncOp findFunction(mlir::ModuleOp module, Role role);

/// Returns whether the module has functions that evaluate the model.
bool hasEvaluation(mlir::ModuleOp module);

/// Returns the functions of the module after which `function` may run.
llvm::SmallVector<mlir::func::FuncOp>
findPredecessors(mlir::func::FuncOp function);

} // namespace fcdp
