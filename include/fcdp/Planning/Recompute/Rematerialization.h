// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/Aten/Aten.h"
#include "dialects/Fcdp/Fcdp.h"
#include "fcdp/Analysis/BucketKind.h"
#include "fcdp/Cluster/CostModel.h"
#include "fcdp/Planning/Recompute/Recomputation.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <optional>

namespace fcdp {

/// Returns the operation that computes the loss. The forward pass ends with it,
/// and the backward pass follows. Null if no operation computes the loss.
mlir::Operation *findForwardEnd(mlir::func::FuncOp step);

/// Returns the reason, for a message, why `call` must run only once: it may
/// draw random numbers or alias its operands, reads a buffer that the step
/// changes, or computes a result of the step. Returns an empty string if it may
/// run twice.
llvm::StringRef findReasonToRunOnce(aten::CallOp call);

/// Operations of the forward pass that are to run again right before `user`, in
/// program order.
struct Recomputed {
  mlir::Operation *user;
  llvm::SmallVector<mlir::Operation *> ops;
};

/// Places the calls for which `isChosen` holds, and the views of their results,
/// before the first operation of the backward pass that needs them, each once.
/// Calls that the backward pass does not need are left out.
llvm::SmallVector<Recomputed>
placeRecomputed(mlir::func::FuncOp step,
                llvm::function_ref<bool(aten::CallOp)> isChosen);

/// The calls of the forward pass that run again in the backward pass, and the
/// resulting memory.
struct Rematerialization {
  llvm::SmallVector<aten::CallOp> calls;
  /// Bytes of the values that are kept from the forward to the backward pass,
  /// and the same if nothing ran again. Parameters, inputs and buffers are not
  /// counted, since they are always available.
  int64_t keptBytes = 0, allBytes = 0;
};

/// Returns the calls that the model asks to run again by
/// torch.utils.checkpoint: the calls of each region that may run twice and
/// whose results the rest of the forward pass does not read.
llvm::SmallVector<aten::CallOp> findCheckpointed(mlir::func::FuncOp step);

/// Returns the cost of running `call` once more, in bytes that the device could
/// move in that time. `model` gives the duration. Without a model, the cost is
/// the call's bytes, plus its floating-point operations at the rate of an A100,
/// the device that the defaults assume.
double costOfRecomputing(aten::CallOp call, const CostModel *model);

/// Returns the kind of a parameter's bucket, by the types in which the step
/// reads it and computes its gradient; null for no gradient.
using BucketKindOf = llvm::function_ref<BucketKind(ParameterOp, mlir::Type wire,
                                                   mlir::Type gradient)>;

/// Decides what the backward pass recomputes, within units: a value that
/// another unit reads in the forward pass is kept. So recomputed calls read
/// only parameters of their own unit, where the backward pass has them gathered
/// anyway. A call belongs to the unit of its module path, else of the
/// parameters that it reads, else of the calls before it. Parameters of one
/// unit and one kind, by `kindOf`, are gathered together. Attributes
/// `fcdp.recompute` take precedence.
///
/// With a `budget`, in bytes, as little as possible is recomputed, measured by
/// costOfRecomputing, so that the kept bytes fit the budget. Without one, the
/// fewest bytes are kept. In doubt it keeps values. If the budget is too small,
/// it keeps the least that is possible. Fails only if the decision contradicts
/// itself.
llvm::Expected<Rematerialization>
decideRematerialization(mlir::func::FuncOp step, std::optional<int64_t> budget,
                        const CostModel *model, BucketKindOf kindOf);

} // namespace fcdp
