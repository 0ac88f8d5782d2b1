// SPDX-License-Identifier: Apache-2.0
//
// Operands are prepared for the kernels as in PyTorch's
// scaled_dot_product_attention (ATen/native/transformers/attention.cpp,
// cuda/sdp_utils.cpp).

#include "CudaAttention.h"

#include "CpuAttention.h"
#include "CudaKernels.h"
#include "dialects/Fcdp/Fcdp.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;
using namespace fcdp;
using aten::CallOp;

/// The greatest heads for which cuDNN's backward pass is there and fast.
static constexpr int64_t kGreatestCudnnHead = 128;

namespace {
enum class Kernel { Flash, Cudnn, Efficient };

/// An attention call for CUDA, with the values that its backward pass needs.
struct Attention {
  Kernel kernel;
  bool isCausal;
  /// The scale; null means one over the square root of the depth.
  Attribute scale;
  /// The operands, with a head depth that the kernels can read and, for the
  /// memory-efficient kernel, as many key heads as query heads.
  Value query, key, value;
  Value bias;
  /// The types of the CPU operator's operands.
  Type queryType, keyType;
  /// The results of the call.
  Value out, logSumExp, seed, offset;
};

class Retargeter {
public:
  explicit Retargeter(double computeCapability)
      : hasFlash(computeCapability >= kFirstFlashCapability),
        prefersCudnn(computeCapability == 9 || computeCapability == 10) {}

  LogicalResult forward(CallOp call);
  LogicalResult backward(CallOp call);

private:
  Kernel chooseKernel(CallOp call) const;
  Attention prepare(CallOp call, OpBuilder &builder);
  Value prepareMask(Value mask, ArrayRef<int64_t> shape, Type type);

  bool hasFlash;
  /// Whether cuDNN's kernel is preferred, as by PyTorch on these GPUs
  /// (check_prefer_cudnn_attention).
  bool prefersCudnn;
  llvm::DenseMap<Operation *, Attention> attentions;
  /// The prepared masks, which layers share as they share the masks.
  llvm::DenseMap<std::pair<Value, Type>, Value> masks;
};
} // namespace

static bool isGiven(Attribute argument) {
  return argument && !isa<UnitAttr>(argument);
}

//===----------------------------------------------------------------------===//
// Forward
//===----------------------------------------------------------------------===//

/// Returns the mask in the type of the query, with rows at multiples of the
/// alignment and a matrix for each head.
Value Retargeter::prepareMask(Value mask, ArrayRef<int64_t> shape, Type type) {
  Value &prepared = masks[{mask, RankedTensorType::get(shape, type)}];
  if (prepared)
    return prepared;
  // The mask is prepared where it is defined, so that every layer can read it.
  OpBuilder builder(mask.getContext());
  builder.setInsertionPointAfterValue(mask);
  Location location = mask.getLoc();
  Value made = mask;
  if (getTensorType(made).getElementType() != type) {
    CallBuilder cast(builder, location, "aten._to_copy.default");
    cast.tensor("self", made).literal("dtype", TypeAttr::get(type));
    made = cast.create({getTensorType(made).clone(type)}).getResult(0);
  }
  auto expandTo = [&](ArrayRef<int64_t> wanted) {
    if (getTensorType(made).getShape() == wanted)
      return;
    CallBuilder expand(builder, location, "aten.expand.default");
    expand.tensor("self", made).integers("size", wanted);
    made = createLike(expand, made, wanted);
  };
  SmallVector<int64_t> rows(getTensorType(made).getShape());
  rows.back() = shape.back();
  expandTo(rows);
  if (shape.back() % kAlignment == 0) {
    CallBuilder clone(builder, location, "aten.clone.default");
    clone.tensor("self", made);
    clone.literal("memory_format",
                  aten::MemoryFormatAttr::get(builder.getContext(),
                                              aten::MemoryFormat::contiguous));
    made = createLike(clone, made, rows);
  } else {
    made = takeFirst(padLast(made, kAlignment, builder), rows.size() - 1,
                     rows.back(), builder);
  }
  expandTo(shape);
  return masks[{mask, RankedTensorType::get(shape, type)}] = made;
}

Kernel Retargeter::chooseKernel(CallOp call) const {
  Value query = getTensor(call, "query");
  ArrayRef<int64_t> q = getTensorType(query).getShape(),
                    k = getTensorType(getTensor(call, "key")).getShape();
  int64_t head = llvm::alignTo(q[3], kAlignment);
  // With more keys than queries, the flash kernel aligns the last query with
  // the last key, and the CPU's kernel the first query with the first key.
  bool isFlash = hasFlash && !getTensorType(query).getElementType().isF32() &&
                 !getTensor(call, "attn_mask") && head <= kGreatestFlashHead &&
                 (!isCausal(call) || q[2] == k[2]) && q[2] > 0 && k[2] > 0;
  if (!isFlash)
    return Kernel::Efficient;
  // cuDNN refuses a single key, and a single query gains nothing from it.
  bool isCudnn = prefersCudnn && head <= kGreatestCudnnHead && q[1] == k[1] &&
                 q[2] > 1 && k[2] > 1;
  return isCudnn ? Kernel::Cudnn : Kernel::Flash;
}

Attention Retargeter::prepare(CallOp call, OpBuilder &builder) {
  Value query = getTensor(call, "query"), key = getTensor(call, "key"),
        value = getTensor(call, "value"), mask = getTensor(call, "attn_mask");
  ArrayRef<int64_t> q = getTensorType(query).getShape(),
                    k = getTensorType(key).getShape();
  Type type = getTensorType(query).getElementType();
  Attention attention;
  attention.queryType = query.getType();
  attention.keyType = key.getType();
  attention.isCausal = isCausal(call);
  attention.kernel = chooseKernel(call);
  Attribute scale = call.getArgument("scale");
  if (isGiven(scale))
    attention.scale = scale;
  else if (q[3] % kAlignment != 0)
    attention.scale = builder.getF64FloatAttr(1 / std::sqrt(double(q[3])));
  int64_t times = attention.kernel == Kernel::Efficient ? q[1] / k[1] : 1;
  attention.query = padLast(query, kAlignment, builder);
  attention.key =
      repeatHeads(padLast(key, kAlignment, builder), times, builder);
  attention.value =
      repeatHeads(padLast(value, kAlignment, builder), times, builder);
  if (mask)
    attention.bias = prepareMask(mask, {q[0], q[1], q[2], k[2]}, type);
  return attention;
}

static CallOp createFlash(const Attention &a, CallOp call, OpBuilder &builder) {
  ArrayRef<int64_t> q = getTensorType(a.query).getShape();
  Type u64 = builder.getIntegerType(64, /*isSigned=*/false);
  CallBuilder flash(builder, call.getLoc(),
                    "aten._scaled_dot_product_flash_attention.default");
  flash.tensor("query", a.query).tensor("key", a.key).tensor("value", a.value);
  flash.number("dropout_p", 0).boolean("is_causal", a.isCausal);
  flash.optional("scale", a.scale);
  // Lengths of sequences are for nested tensors, and two are integers.
  return flash.create(
      {a.query.getType(),
       RankedTensorType::get(q.take_front(3), builder.getF32Type()),
       RankedTensorType::get({2}, u64), RankedTensorType::get({}, u64),
       getTensorType(a.query).clone(ArrayRef<int64_t>{0})},
      /*undefined=*/{2, 3, 4, 5});
}

static CallOp createCudnn(const Attention &a, CallOp call, OpBuilder &builder) {
  SmallVector<int64_t> sums(getTensorType(a.query).getShape());
  sums.back() = 1;
  auto number = RankedTensorType::get({}, builder.getI64Type());
  CallBuilder cudnn(builder, call.getLoc(),
                    "aten._scaled_dot_product_cudnn_attention.default");
  cudnn.tensor("query", a.query).tensor("key", a.key).tensor("value", a.value);
  cudnn.tensor("attn_bias", Value());
  cudnn.boolean("compute_log_sumexp", !call.getResult(1).use_empty());
  cudnn.number("dropout_p", 0).boolean("is_causal", a.isCausal);
  cudnn.optional("scale", a.scale);
  return cudnn.create({a.query.getType(),
                       RankedTensorType::get(sums, builder.getF32Type()),
                       number, number},
                      /*undefined=*/{2, 3, 4, 5, 8});
}

static EfficientAttention asEfficient(const Attention &a) {
  return {a.query, a.key, a.value, a.bias, a.isCausal, a.scale};
}

static CallOp create(const Attention &a, CallOp call, OpBuilder &builder) {
  switch (a.kernel) {
  case Kernel::Flash:
    return createFlash(a, call, builder);
  case Kernel::Cudnn:
    return createCudnn(a, call, builder);
  case Kernel::Efficient:
    return asEfficient(a).forward(
        /*hasBackward=*/!call.getResult(1).use_empty(), call.getLoc(), builder);
  }
  llvm_unreachable("a kernel that has no call");
}

LogicalResult Retargeter::forward(CallOp call) {
  if (failed(checkAttention(call, {"query"}, /*results=*/2)))
    return failure();
  OpBuilder builder(call);
  Attention attention = prepare(call, builder);
  CallOp made = create(attention, call, builder);
  if (std::optional<bool> given = getRecompute(call))
    setRecompute(made, *given);
  attention.out = made.getResult(0);
  attention.logSumExp = made.getResult(1);
  attention.seed = made.getResult(2);
  attention.offset = made.getResult(3);
  int64_t depth = getTensorType(call.getResult(0)).getShape().back();
  Value out = takeFirst(attention.out, 3, depth, builder);
  // The memory-efficient kernel's result is ordered by token; the results of
  // the others have the order of the query, as the CPU's result has.
  SmallVector<int64_t> order = getOrder(call);
  bool isArranged =
      out == attention.out && (attention.kernel != Kernel::Efficient ||
                               llvm::equal(order, kTokenMajor));
  if (!isArranged)
    out = arrange(out, order, builder);
  call.getResult(0).replaceAllUsesWith(out);
  attentions[call] = attention;
  return success();
}

//===----------------------------------------------------------------------===//
// Backward
//===----------------------------------------------------------------------===//

static CallOp createFlashBackward(const Attention &a, Value grad, Location loc,
                                  OpBuilder &builder) {
  CallBuilder flash(
      builder, loc,
      "aten._scaled_dot_product_flash_attention_backward.default");
  flash.tensor("grad_out", grad).tensor("query", a.query).tensor("key", a.key);
  flash.tensor("value", a.value).tensor("out", a.out);
  flash.tensor("logsumexp", a.logSumExp);
  flash.tensor("cum_seq_q", Value()).tensor("cum_seq_k", Value());
  flash.integer("max_q", getTensorType(a.query).getDimSize(2));
  flash.integer("max_k", getTensorType(a.key).getDimSize(2));
  flash.number("dropout_p", 0).boolean("is_causal", a.isCausal);
  flash.tensor("philox_seed", a.seed).tensor("philox_offset", a.offset);
  flash.optional("scale", a.scale);
  return flash.create({a.query.getType(), a.key.getType(), a.value.getType()});
}

static CallOp createCudnnBackward(const Attention &a, Value grad, Location loc,
                                  OpBuilder &builder) {
  CallBuilder cudnn(
      builder, loc,
      "aten._scaled_dot_product_cudnn_attention_backward.default");
  cudnn.tensor("grad_out", grad).tensor("query", a.query).tensor("key", a.key);
  cudnn.tensor("value", a.value).tensor("out", a.out);
  cudnn.tensor("logsumexp", a.logSumExp);
  cudnn.tensor("philox_seed", a.seed).tensor("philox_offset", a.offset);
  cudnn.tensor("attn_bias", Value());
  cudnn.tensor("cum_seq_q", Value()).tensor("cum_seq_k", Value());
  cudnn.integer("max_q", getTensorType(a.query).getDimSize(2));
  cudnn.integer("max_k", getTensorType(a.key).getDimSize(2));
  cudnn.number("dropout_p", 0).boolean("is_causal", a.isCausal);
  cudnn.optional("scale", a.scale);
  return cudnn.create({a.query.getType(), a.key.getType(), a.value.getType()});
}

static CallOp createBackward(const Attention &a, Value grad, Location loc,
                             OpBuilder &builder) {
  switch (a.kernel) {
  case Kernel::Flash:
    return createFlashBackward(a, grad, loc, builder);
  case Kernel::Cudnn:
    return createCudnnBackward(a, grad, loc, builder);
  case Kernel::Efficient:
    return asEfficient(a).backward(grad, a.out, {a.logSumExp, a.seed, a.offset},
                                   loc, builder);
  }
  llvm_unreachable("a kernel that has no backward pass");
}

LogicalResult Retargeter::backward(CallOp call) {
  if (failed(checkAttention(call, {"query", "key", "value"}, /*results=*/3)))
    return failure();
  auto found = attentions.find(getForward(getTensor(call, "logsumexp")));
  Value grad = getTensor(call, "grad_out");
  if (found == attentions.end() || !grad ||
      grad.getType() != found->second.queryType ||
      getTensor(call, "query").getType() != found->second.queryType ||
      getTensor(call, "key").getType() != found->second.keyType)
    return call.emitError("expected the argument 'logsumexp' of '")
           << call.getCallee() << "' to be a result of '" << kCpuForward
           << "' with operands of these types, and 'grad_out' to be of the "
              "query's";
  const Attention &attention = found->second;
  OpBuilder builder(call);
  grad = padLast(grad, kAlignment, builder);
  CallOp made = createBackward(attention, grad, call.getLoc(), builder);
  for (auto [before, after] :
       llvm::zip_equal(call.getResults(), made.getResults())) {
    ArrayRef<int64_t> shape = getTensorType(before).getShape();
    Value gradient = takeFirst(after, 3, shape[3], builder);
    gradient = sumHeads(
        gradient, getTensorType(gradient).getDimSize(1) / shape[1], builder);
    before.replaceAllUsesWith(arrange(gradient, kTokenMajor, builder));
  }
  call.erase();
  return success();
}

LogicalResult fcdp::retargetAttention(Operation *step,
                                      double computeCapability) {
  SmallVector<CallOp> forwards, backwards;
  step->walk([&](CallOp call) {
    if (call.getCallee() == kCpuForward)
      forwards.push_back(call);
    else if (call.getCallee() == kCpuBackward)
      backwards.push_back(call);
  });
  Retargeter retargeter(computeCapability);
  bool isDone = true;
  for (CallOp call : forwards)
    isDone &= succeeded(retargeter.forward(call));
  if (!isDone) // or every backward pass would complain as well
    return failure();
  for (CallOp call : backwards)
    isDone &= succeeded(retargeter.backward(call));
  if (!isDone)
    return failure();
  for (CallOp call : forwards) {
    if (Operation *reader = eraseSaved(call.getResult(1)))
      return reader->emitError("reads the log-sum-exp of attention, which only "
                               "its backward pass can on CUDA");
    call.erase();
  }
  return success();
}
