// SPDX-License-Identifier: Apache-2.0
//
// The kernels compute in f32 if their tensors are of half precision, and round
// each result once (ATen/native/cuda/layer_norm_kernel.cu of PyTorch 2.13).

#include "CudaNorms.h"

#include "CallBuilder.h"
#include "RmsNormPattern.h"
#include "TensorCalls.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace fcdp;
using aten::CallOp;

namespace {
/// The operands of the kernels, and the values that their results replace.
struct Operands {
  Value input, weight, grad;
  Value result, ofInput, ofWeight;
  /// The casts that the kernels replace.
  SmallVector<CallOp> casts;
};
} // namespace

static Type getElementType(Value value) {
  return getTensorType(value).getElementType();
}

/// Returns the cast to `type` that is the only reader of `value`, or null.
static CallOp getOnlyCast(Value value, Type type) {
  auto cast =
      value.hasOneUse() ? dyn_cast<CallOp>(*value.user_begin()) : CallOp();
  return cast && isCast(cast) && getElementType(cast.getResult(0)) == type
             ? cast
             : CallOp();
}

/// Returns the cast from `type` that computes `value`, or null.
static CallOp getCastFrom(Value value, Type type) {
  auto cast = value.getDefiningOp<CallOp>();
  return cast && isCast(cast) && getElementType(cast.getOperand(0)) == type
             ? cast
             : CallOp();
}

/// Adds the operands in `type` of the norm's gradients. Returns whether the
/// gradients are computed from and rounded to this type.
static bool narrowGradients(const RmsNormGradients &gradients, Type type,
                            Operands &operands) {
  CallOp grad = getCastFrom(gradients.grad, type);
  if (!grad || !llvm::all_of(gradients.grad.getUsers(), [&](Operation *user) {
        return llvm::is_contained(gradients.calls, dyn_cast<CallOp>(user));
      }))
    return false;
  operands.grad = grad.getOperand(0);
  operands.casts.push_back(grad);
  if (CallOp sum = gradients.sum) {
    CallOp direct = gradients.direct,
           cast = getOnlyCast(sum.getResult(0), type);
    if (!cast || !llvm::is_contained(sum.getOperands(), direct.getResult(0)))
      return false;
    operands.ofInput = cast.getResult(0);
    operands.casts.push_back(cast);
  }
  if (gradients.ofWeight) {
    CallOp cast = getOnlyCast(gradients.ofWeight, type);
    if (!cast)
      return false;
    operands.ofWeight = cast.getResult(0);
    operands.casts.push_back(cast);
  }
  return true;
}

/// Returns the operands in half precision, if the norm casts them to f32 and
/// its results back.
static std::optional<Operands> narrow(RmsNorm &norm) {
  auto cast = norm.input.getDefiningOp<CallOp>();
  if (!cast || !isCast(cast) || !getElementType(norm.input).isF32())
    return std::nullopt;
  Type type = getElementType(cast.getOperand(0));
  CallOp result = getOnlyCast(norm.getResult().getResult(0), type);
  if (!(type.isF16() || type.isBF16()) || !result ||
      (norm.weight && getElementType(norm.weight) != type))
    return std::nullopt;
  Operands operands;
  operands.input = cast.getOperand(0);
  operands.weight = norm.weight;
  operands.result = result.getResult(0);
  operands.casts = {cast, result};
  if (norm.gradients && !narrowGradients(*norm.gradients, type, operands))
    return std::nullopt;
  return operands;
}

/// Returns the operands in the type in which the norm is computed.
static Operands widen(RmsNorm &norm, OpBuilder &builder) {
  Operands operands;
  operands.input = norm.input;
  operands.result = norm.getResult().getResult(0);
  operands.weight = norm.weight;
  Type type = getElementType(norm.input);
  if (norm.weight && getElementType(norm.weight) != type) {
    CallBuilder cast(builder, norm.weighted.getLoc(), "aten._to_copy.default");
    cast.tensor("self", norm.weight).literal("dtype", TypeAttr::get(type));
    operands.weight =
        cast.create({getTensorType(norm.weight).clone(type)}).getResult(0);
  }
  if (norm.gradients) {
    operands.grad = norm.gradients->grad;
    operands.ofWeight = norm.gradients->ofWeight;
  }
  return operands;
}

static CallOp createForward(RmsNorm &norm, const Operands &operands,
                            OpBuilder &builder) {
  CallBuilder call(builder, norm.getResult().getLoc(),
                   "aten._fused_rms_norm.default");
  call.tensor("input", operands.input);
  call.integers("normalized_shape", norm.shape);
  call.tensor("weight", operands.weight).number("eps", norm.eps);
  CallOp made = call.create(
      {operands.result.getType(), norm.rsqrt.getResult(0).getType()});
  // The attributes are a region of recomputation, or a decision of the user.
  made->setDiscardableAttrs(norm.rsqrt->getDiscardableAttrDictionary());
  return made;
}

/// Replaces the gradients by those of the kernel.
static void replaceGradients(RmsNorm &norm, Operands operands,
                             Value deviation) {
  RmsNormGradients &gradients = *norm.gradients;
  OpBuilder builder(gradients.first);
  bool hasInput = bool(gradients.sum), hasWeight = bool(operands.ofWeight);
  SmallVector<Type> types;
  SmallVector<int64_t> undefined;
  if (hasInput)
    types.push_back(operands.input.getType());
  else
    undefined.push_back(0);
  if (hasWeight)
    types.push_back(operands.ofWeight.getType());
  else
    undefined.push_back(1);
  CallBuilder call(builder, gradients.first.getLoc(),
                   "aten._fused_rms_norm_backward.default");
  call.tensor("grad_out", operands.grad).tensor("input", operands.input);
  call.integers("normalized_shape", norm.shape).tensor("rstd", deviation);
  call.tensor("weight", operands.weight);
  call.literal("output_mask", builder.getBoolArrayAttr({hasInput, hasWeight}));
  CallOp made = call.create(types, undefined);
  if (hasWeight)
    operands.ofWeight.replaceAllUsesWith(made.getResults().back());
  if (!hasInput)
    return;
  if (operands.ofInput) {
    operands.ofInput.replaceAllUsesWith(made.getResult(0));
    return;
  }
  // Gradients of the input's other users may be between the two parts.
  gradients.direct.getResult(0).replaceAllUsesWith(made.getResult(0));
  CallOp sum = gradients.sum;
  Value others = sum.getOperand(0) == gradients.indirect ? sum.getOperand(1)
                                                         : sum.getOperand(0);
  sum.getResult(0).replaceAllUsesWith(others);
}

/// Erases those of `calls` that have no readers any more.
static void eraseUnread(SmallVector<CallOp> calls) {
  llvm::sort(calls, [](CallOp a, CallOp b) { return b->isBeforeInBlock(a); });
  calls.erase(llvm::unique(calls), calls.end());
  for (CallOp call : calls)
    if (call->use_empty())
      call->erase();
}

static void retargetNorm(RmsNorm &norm) {
  SmallVector<CallOp> former = norm.calls;
  for (Operation *user : norm.rsqrt.getResult(0).getUsers())
    if (auto call = dyn_cast<CallOp>(user);
        call && call.getCallee() == "aten.detach.default")
      former.push_back(call);
  OpBuilder builder(norm.weighted ? norm.weighted : norm.rsqrt);
  std::optional<Operands> narrowed = narrow(norm);
  Operands operands = narrowed ? *narrowed : widen(norm, builder);
  CallOp made = createForward(norm, operands, builder);
  if (norm.gradients)
    replaceGradients(norm, operands, made.getResult(1));
  operands.result.replaceAllUsesWith(made.getResult(0));
  norm.rsqrt.getResult(0).replaceAllUsesWith(made.getResult(1));
  former.append(operands.casts);
  if (norm.gradients) {
    former.append(norm.gradients->calls);
    if (norm.gradients->sum)
      former.push_back(norm.gradients->sum);
  }
  eraseUnread(std::move(former));
  if (!norm.gradients && !made.getResult(1).use_empty())
    made.emitRemark("the backward pass of this RMS norm stays operator by "
                    "operator: it is not what PyTorch derives for the norm");
}

void fcdp::retargetNorms(func::FuncOp function) {
  SmallVector<CallOp> deviations;
  function.walk([&](CallOp call) {
    if (call.getCallee() == "aten.rsqrt.default")
      deviations.push_back(call);
  });
  for (CallOp rsqrt : deviations)
    if (std::optional<RmsNorm> norm = matchRmsNorm(rsqrt))
      retargetNorm(*norm);
}
