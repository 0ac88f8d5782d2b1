// SPDX-License-Identifier: Apache-2.0
//
// Matches the calls of nn.RMSNorm (ATen's rms_norm_composite) and of the norms
// of Transformers' models, and the calls that autograd derives from them
// (tools/autograd/derivatives.yaml of PyTorch 2.13).

#include "RmsNormPattern.h"

#include "CpuAttention.h"
#include "TensorCalls.h"
#include "dialects/Fcdp/Fcdp.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace fcdp;
using aten::CallOp;

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

static bool isCall(Operation *op, StringRef callee) {
  auto call = dyn_cast_or_null<CallOp>(op);
  return call && call.getCallee() == callee && call.getNumResults() == 1;
}

/// Returns the only reader of the call's result, which is of `callee`, or null.
static CallOp getOnlyReader(CallOp call, StringRef callee) {
  if (!call || !call.getResult(0).hasOneUse())
    return {};
  Operation *reader = *call.getResult(0).user_begin();
  return isCall(reader, callee) ? cast<CallOp>(reader) : CallOp();
}

static std::optional<double> getNumber(CallOp call, StringRef name) {
  Attribute value = call.getArgument(name);
  if (auto number = dyn_cast_or_null<FloatAttr>(value))
    return number.getValueAsDouble();
  if (auto integer = dyn_cast_or_null<IntegerAttr>(value))
    return double(integer.getInt());
  return std::nullopt;
}

/// Returns whether the call has no arguments but the named ones.
static bool hasOnly(CallOp call, ArrayRef<StringRef> names) {
  return llvm::all_of(
      call.getArgNames().getAsValueRange<StringAttr>(),
      [&](StringRef name) { return is_contained(names, name); });
}

/// Returns whether the call has only `operand` and the number `value` as its
/// arguments.
static bool isScalarCall(CallOp call, StringRef name, double value) {
  return call && hasOnly(call, {"self", name}) &&
         getNumber(call, name) == value;
}

/// Returns the other factor of a product of two tensors, or null.
static Value getOtherFactor(CallOp product, Value factor) {
  if (!isCall(product, "aten.mul.Tensor") || product.getNumOperands() != 2)
    return {};
  Value self = product.getOperand(0), other = product.getOperand(1);
  if (self == other)
    return {};
  return self == factor ? other : other == factor ? self : Value();
}

/// Returns whether the argument `dim` of a reduction that keeps its dimensions
/// is `begin` up to `end`.
static bool reduces(CallOp call, int64_t begin, int64_t end) {
  auto dims = dyn_cast_or_null<ArrayAttr>(call.getArgument("dim"));
  auto keeps = dyn_cast_or_null<BoolAttr>(call.getArgument("keepdim"));
  if (!dims || !keeps || !keeps.getValue() ||
      !hasOnly(call, {"self", "dim", "keepdim"}))
    return false;
  int64_t rank = getTensorType(call.getOperand(0)).getRank();
  SmallVector<int64_t> given;
  for (Attribute dim : dims) {
    auto number = dyn_cast<IntegerAttr>(dim);
    if (!number)
      return false;
    given.push_back(number.getInt() + (number.getInt() < 0 ? rank : 0));
  }
  llvm::sort(given);
  return llvm::equal(given, llvm::seq<int64_t>(begin, end));
}

bool fcdp::isCast(CallOp call) {
  return isCall(call, "aten._to_copy.default") &&
         hasOnly(call, {"self", "dtype", "layout", "device"}) &&
         isa<FloatType>(getTensorType(call.getResult(0)).getElementType()) &&
         isa<FloatType>(getTensorType(call.getOperand(0)).getElementType());
}

//===----------------------------------------------------------------------===//
// Forward
//===----------------------------------------------------------------------===//

/// Returns the number of last dimensions that `mean` reduces, or 0.
static int64_t countReduced(CallOp mean) {
  auto dims = dyn_cast_or_null<ArrayAttr>(mean.getArgument("dim"));
  int64_t rank = getTensorType(mean.getOperand(0)).getRank();
  int64_t count = dims ? int64_t(dims.size()) : 0;
  return count > 0 && count < rank && reduces(mean, rank - count, rank) ? count
                                                                        : 0;
}

/// Returns the sum of a tensor and `eps`, as either overload spells it.
static CallOp matchShift(Value value) {
  CallOp shift = getDefinition(value, "aten.add.Scalar");
  if (!shift)
    shift = getDefinition(value, "aten.add.Tensor");
  bool isShift = shift && shift.getNumOperands() == 1 &&
                 hasOnly(shift, {"self", "other"}) &&
                 getNumber(shift, "other") && shift.getResult(0).hasOneUse();
  return isShift ? shift : CallOp();
}

static std::optional<RmsNorm> matchForward(CallOp rsqrt) {
  CallOp shift = matchShift(rsqrt.getOperand(0));
  CallOp mean =
      shift ? getDefinition(shift.getOperand(0), "aten.mean.dim") : CallOp();
  CallOp pow = mean
                   ? getDefinition(mean.getOperand(0), "aten.pow.Tensor_Scalar")
                   : CallOp();
  if (!isScalarCall(pow, "exponent", 2) || !pow.getResult(0).hasOneUse() ||
      !mean.getResult(0).hasOneUse())
    return std::nullopt;
  RmsNorm norm;
  norm.input = pow.getOperand(0);
  RankedTensorType type = getTensorType(norm.input);
  Type element = type.getElementType();
  int64_t reduced = countReduced(mean);
  if (reduced == 0 || !type.hasStaticShape() || type.getNumElements() == 0 ||
      !(element.isF32() || element.isF64()) ||
      getTensorType(rsqrt.getResult(0)).getElementType() != element)
    return std::nullopt;
  norm.eps = *getNumber(shift, "other");
  norm.shape = llvm::to_vector(type.getShape().take_back(reduced));
  norm.rsqrt = rsqrt;
  for (Operation *user : rsqrt.getResult(0).getUsers()) {
    auto product = dyn_cast<CallOp>(user);
    if (!product || getOtherFactor(product, rsqrt.getResult(0)) != norm.input)
      continue;
    if (norm.scaled)
      return std::nullopt;
    norm.scaled = product;
  }
  // The kernel requires a result whose dimensions are in order in memory.
  if (!norm.scaled || getDimOrder(norm.scaled))
    return std::nullopt;
  norm.calls = {pow, mean, shift, rsqrt, norm.scaled};
  return norm;
}

/// Finds the product of the norm with a weight of its last dimensions.
static void matchWeight(RmsNorm &norm) {
  for (Operation *user : norm.scaled.getResult(0).getUsers()) {
    auto product = dyn_cast<CallOp>(user);
    Value weight =
        product ? getOtherFactor(product, norm.scaled.getResult(0)) : Value();
    if (!weight || getTensorType(weight).getShape() != ArrayRef(norm.shape) ||
        product.getResult(0).getType() != norm.input.getType())
      continue;
    if (norm.weighted) { // two products share the norm
      norm.weighted = {};
      norm.weight = {};
      return;
    }
    norm.weighted = product;
    norm.weight = weight;
  }
}

//===----------------------------------------------------------------------===//
// Backward
//===----------------------------------------------------------------------===//

/// Finds the gradient of the weight: `grad` * scaled, summed to its shape.
static bool matchWeightGradient(RmsNorm &norm, CallOp product,
                                RmsNormGradients &found) {
  CallOp sum = getOnlyReader(product, "aten.sum.dim_IntList");
  CallOp view = getOnlyReader(sum, "aten.view.default");
  int64_t outer =
      getTensorType(norm.input).getRank() - int64_t(norm.shape.size());
  if (!view || !reduces(sum, 0, outer) ||
      getTensorType(view.getResult(0)).getShape() != ArrayRef(norm.shape))
    return false;
  found.grad = getOtherFactor(product, norm.scaled.getResult(0));
  found.ofWeight = view.getResult(0);
  found.calls.append({product, sum, view});
  return found.grad.getType() == norm.input.getType();
}

/// Finds the factor 2 * input ^ 1 of `last` that autograd derives from the
/// square.
static bool matchSquareGradient(Value input, CallOp last,
                                RmsNormGradients &found) {
  for (Operation *user : input.getUsers()) {
    if (!isCall(user, "aten.pow.Tensor_Scalar") ||
        !isScalarCall(cast<CallOp>(user), "exponent", 1))
      continue;
    CallOp twice = getOnlyReader(cast<CallOp>(user), "aten.mul.Scalar");
    if (!isScalarCall(twice, "other", 2) ||
        getOnlyReader(twice, "aten.mul.Tensor") != last)
      continue;
    found.calls.append({cast<CallOp>(user), twice});
    return true;
  }
  return false;
}

/// Follows the gradient of the inverse deviation, `sum`, back to the input:
/// sum * -0.5 * rstd ^ 3 / N * 2 * input. Returns the last product, or null.
static CallOp followDeviation(RmsNorm &norm, CallOp sum,
                              RmsNormGradients &found) {
  CallOp half = getOnlyReader(sum, "aten.mul.Scalar");
  CallOp product = getOnlyReader(half, "aten.mul.Tensor");
  CallOp expand = getOnlyReader(product, "aten.expand.default");
  CallOp mean = getOnlyReader(expand, "aten.div.Scalar");
  CallOp last = getOnlyReader(mean, "aten.mul.Tensor");
  if (!last || !isScalarCall(half, "other", -0.5) ||
      expand.getResult(0).getType() != norm.input.getType() ||
      !isScalarCall(mean, "other", llvm::product_of(norm.shape)))
    return {};
  CallOp cube = getDefinition(getOtherFactor(product, half.getResult(0)),
                              "aten.pow.Tensor_Scalar");
  if (!isScalarCall(cube, "exponent", 3) ||
      getForward(cube.getOperand(0)) != norm.rsqrt)
    return {};
  if (!matchSquareGradient(norm.input, last, found))
    return {};
  found.calls.append({half, product, cube, expand, mean, last});
  return last;
}

/// Returns the last sum of the input's gradients, reached through sums without
/// other readers, from `direct` to the sum that adds `indirect`. Returns null
/// if both are not in one sum.
static CallOp matchSum(CallOp direct, CallOp indirect) {
  CallOp last = getOnlyReader(indirect, "aten.add.Tensor");
  for (CallOp at = getOnlyReader(direct, "aten.add.Tensor"); last && at;
       at = getOnlyReader(at, "aten.add.Tensor")) {
    if (at.getNumOperands() != 2 || !hasOnly(at, {"self", "other"}))
      return {};
    if (at == last)
      return last;
  }
  return {};
}

/// Finds the gradient of the input, of which `direct` is one part.
static bool matchInputGradient(RmsNorm &norm, CallOp direct,
                               RmsNormGradients &found) {
  Value scaledGrad = getOtherFactor(direct, norm.rsqrt.getResult(0));
  if (!scaledGrad || scaledGrad.getType() != norm.input.getType() ||
      getDimOrder(direct))
    return false;
  for (Operation *user : scaledGrad.getUsers()) {
    auto product = dyn_cast<CallOp>(user);
    if (!product || getOtherFactor(product, scaledGrad) != norm.input)
      continue;
    int64_t rank = getTensorType(norm.input).getRank();
    CallOp sum = getOnlyReader(product, "aten.sum.dim_IntList");
    if (!sum || !reduces(sum, rank - int64_t(norm.shape.size()), rank))
      return false;
    CallOp indirect = followDeviation(norm, sum, found);
    found.direct = direct;
    found.sum = indirect ? matchSum(direct, indirect) : CallOp();
    if (!found.sum)
      return false;
    found.indirect = indirect.getResult(0);
    found.calls.append({direct, product, sum});
    Value grad = scaledGrad;
    if (norm.weight) {
      // Its readers are `direct` and `product`.
      CallOp weighted = getDefinition(scaledGrad, "aten.mul.Tensor");
      grad = weighted ? getOtherFactor(weighted, norm.weight) : Value();
      if (!grad || !scaledGrad.hasNUses(2))
        return false;
      found.calls.push_back(weighted);
    }
    if (found.grad && found.grad != grad)
      return false;
    found.grad = grad;
    return grad.getType() == norm.input.getType();
  }
  return false;
}

/// Returns whether `call` passes the inverse deviation only to its cube.
static bool isHandedOn(Operation *call, const RmsNormGradients &found) {
  return isCall(call, "aten.detach.default") &&
         llvm::all_of(call->getUsers(), [&](Operation *user) {
           return isHandedOn(user, found) ||
                  is_contained(found.calls, dyn_cast<CallOp>(user));
         });
}

/// Finds the gradients. Returns whether the norm and its gradients read all
/// intermediate results of the norm.
static bool matchGradients(RmsNorm &norm) {
  RmsNormGradients found;
  if (norm.weight)
    for (Operation *user : norm.scaled.getResult(0).getUsers())
      if (user != norm.weighted &&
          (found.ofWeight || !isa<CallOp>(user) ||
           !matchWeightGradient(norm, cast<CallOp>(user), found)))
        return false;
  for (Operation *user : norm.rsqrt.getResult(0).getUsers()) {
    if (user == norm.scaled || isCall(user, "aten.detach.default"))
      continue;
    if (found.direct || !isa<CallOp>(user) ||
        !matchInputGradient(norm, cast<CallOp>(user), found))
      return false;
  }
  for (Operation *user : norm.rsqrt.getResult(0).getUsers())
    if (isCall(user, "aten.detach.default") && !isHandedOn(user, found))
      return false;
  if (!found.grad)
    return true;
  found.first = *llvm::min_element(
      found.calls, [](CallOp a, CallOp b) { return a->isBeforeInBlock(b); });
  if (!norm.getResult()->isBeforeInBlock(found.first))
    return false;
  norm.gradients = std::move(found);
  return true;
}

static bool isInOneBlock(RmsNorm &norm) {
  return llvm::all_of(norm.calls, [&](CallOp call) {
    return call->getBlock() == norm.rsqrt->getBlock() &&
           call->getDiscardableAttrDictionary() ==
               norm.rsqrt->getDiscardableAttrDictionary();
  });
}

std::optional<RmsNorm> fcdp::matchRmsNorm(CallOp rsqrt) {
  if (!isCall(rsqrt, "aten.rsqrt.default"))
    return std::nullopt;
  std::optional<RmsNorm> norm = matchForward(rsqrt);
  if (!norm)
    return std::nullopt;
  matchWeight(*norm);
  if (norm->weighted)
    norm->calls.push_back(norm->weighted);
  if (norm->weighted && (!isInOneBlock(*norm) || !matchGradients(*norm))) {
    norm->calls.pop_back();
    norm->weighted = {};
    norm->weight = {};
  }
  if (!isInOneBlock(*norm))
    return std::nullopt;
  if (!norm->weighted)
    (void)matchGradients(*norm);
  return norm;
}
