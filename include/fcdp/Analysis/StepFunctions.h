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

/// Returns the number of `function` among those of its role (FamilyMember).
int64_t getNumber(mlir::func::FuncOp function);

/// Returns the member that `function`, which must have a role, is.
FamilyMember getMember(mlir::func::FuncOp function);

/// Makes `function` the member `which` of a family with `count` functions of
/// its role: sets its name, its role and, if there are several, its number.
void setMember(mlir::func::FuncOp function, FamilyMember which, int64_t count);

/// Returns the family of the functions of a module in phase sharded or later.
StepFamily getFamily(mlir::ModuleOp module);

/// Returns the function's name in a family with `count` functions of its role.
std::string getFunctionName(FamilyMember which, int64_t count);

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

/// Returns the functions of the greatest variant that begin a step, and run in
/// all steps. Decisions that all steps share are made for them.
llvm::SmallVector<mlir::func::FuncOp>
getFirstMicrobatches(mlir::ModuleOp module);

/// The micro-batches of a step of several: the first, those that may be the
/// last, and one for all others.
struct StepMicrobatches {
  mlir::func::FuncOp first, next;
  llvm::SmallVector<mlir::func::FuncOp, 2> last;
};

/// Returns the micro-batches of each variant of the step, or nothing if a step
/// has one micro-batch.
llvm::SmallVector<StepMicrobatches> getSteps(mlir::ModuleOp module);

/// Returns the inputs that have memory of their own. The inputs of a smaller
/// variant use the memory of the inputs of the greatest one.
llvm::SmallVector<InputOp> getInputsWithMemory(mlir::ModuleOp module);

/// Returns the share of a job's steps that run `function`, whose role only some
/// steps run.
double getShareOfSteps(mlir::func::FuncOp function);

/// Returns whether `op` is an update that only some steps run.
bool updatesInSomeSteps(mlir::Operation *op);

/// Returns the function of the module for `role`, which variants share; null if
/// there is none.
mlir::func::FuncOp findFunction(mlir::ModuleOp module, Role role);

/// Returns whether the module has functions that run the model between steps.
bool runsBetweenSteps(mlir::ModuleOp module);

/// Returns the functions of the module after which `function` may run.
llvm::SmallVector<mlir::func::FuncOp>
findPredecessors(mlir::func::FuncOp function);

} // namespace fcdp
