// SPDX-License-Identifier: Apache-2.0

#include "CpuAttention.h"

#include "TensorCalls.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace fcdp;
using aten::CallOp;

Value fcdp::getTensor(CallOp call, StringRef name) {
  auto operand = dyn_cast_or_null<aten::OperandAttr>(call.getArgument(name));
  return operand ? call.getOperands()[operand.getIndex()] : Value();
}

bool fcdp::isCausal(CallOp call) {
  auto flag = dyn_cast_or_null<BoolAttr>(call.getArgument("is_causal"));
  return flag && flag.getValue();
}

static bool hasDropout(CallOp call) {
  Attribute rate = call.getArgument("dropout_p");
  if (auto number = dyn_cast_or_null<FloatAttr>(rate))
    return !number.getValue().isZero();
  auto integer = dyn_cast_or_null<IntegerAttr>(rate);
  return integer && integer.getInt() != 0;
}

/// Returns whether a call has the form that the schema and the CPU's kernels
/// require: query, key and value [batch, heads, tokens, depth], and results of
/// the types of `like`.
static bool isWellFormed(CallOp call, ArrayRef<StringRef> like) {
  SmallVector<RankedTensorType> types;
  for (StringRef name : {"query", "key", "value"}) {
    Value tensor = getTensor(call, name);
    if (!tensor || getTensorType(tensor).getRank() != 4 ||
        !getTensorType(tensor).hasStaticShape())
      return false;
    types.push_back(getTensorType(tensor));
  }
  for (auto [index, name] : llvm::enumerate(like))
    if (index >= call.getNumResults() ||
        call.getResult(index).getType() != getTensor(call, name).getType())
      return false;
  ArrayRef<int64_t> query = types[0].getShape(), key = types[1].getShape();
  return types[1] == types[2] && query[0] == key[0] && query[3] == key[3] &&
         query[3] > 0 && query[1] > 0 && key[1] > 0 && query[1] % key[1] == 0 &&
         types[0].getElementType() == types[1].getElementType() &&
         !call.getUndefined();
}

static bool hasMaskOfFloats(CallOp call) {
  Value mask = getTensor(call, "attn_mask");
  return !mask || ((getTensorType(mask).getRank() == 2 ||
                    getTensorType(mask).getRank() == 4) &&
                   isa<FloatType>(getTensorType(mask).getElementType()) &&
                   getTensorType(mask).hasStaticShape());
}

LogicalResult fcdp::checkAttention(CallOp call, ArrayRef<StringRef> like,
                                   unsigned results) {
  if (call.getNumResults() != results || !isWellFormed(call, like) ||
      !hasMaskOfFloats(call))
    return call.emitError("expected the operands and results of '")
           << call.getCallee() << "' as PyTorch exports them: query, key and "
           << "value [batch, heads, tokens, depth] of one type";
  if (hasDropout(call))
    return call.emitError("expected dropout_p 0, got ")
           << call.getArgument("dropout_p")
           << ": the CPU's attention drops nothing";
  Type type = getTensorType(getTensor(call, "query")).getElementType();
  if (!type.isF32() && !type.isBF16() && !type.isF16())
    return call.emitError("attention in ")
           << type
           << " has no kernel for CUDA: export the model in f32, bf16 or f16, "
              "or under torch.nn.attention.sdpa_kernel(SDPBackend.MATH)";
  return success();
}

static bool isDetach(Operation *op) {
  auto call = dyn_cast<CallOp>(op);
  return call && call.getNumResults() == 1 &&
         (call.getCallee() == "aten.detach.default" ||
          call.getCallee() == "aten.alias.default");
}

Operation *fcdp::getForward(Value saved) {
  Operation *op = saved ? saved.getDefiningOp() : nullptr;
  while (op && isDetach(op) && op->getNumOperands() == 1)
    op = op->getOperand(0).getDefiningOp();
  return op;
}

Operation *fcdp::eraseSaved(Value value) {
  SmallVector<Operation *> detaches;
  SmallVector<Value> worklist{value};
  while (!worklist.empty())
    for (Operation *user : worklist.pop_back_val().getUsers()) {
      if (!isDetach(user))
        return user;
      detaches.push_back(user);
      worklist.push_back(user->getResult(0));
    }
  for (Operation *detach : llvm::reverse(detaches))
    detach->erase();
  return nullptr;
}
