// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Cluster/OperatorCost.h"

#include "dialects/Aten/OpTable.h"
#include "dialects/Fcdp/Fcdp.h"

using namespace mlir;
using namespace fcdp;

using aten::CallOp;
using aten::Work;

/// Null for a type without a size, which no export has.
static RankedTensorType getSizedType(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  return hasByteSize(type) ? type : RankedTensorType();
}

static double bytesOf(Value value) {
  RankedTensorType type = getSizedType(value);
  return type ? byteSize(type) : 0;
}

static double bytesOf(ValueRange values) {
  double sum = 0;
  for (Value value : values)
    sum += bytesOf(value);
  return sum;
}

/// The type of the argument `name`; null if it is no tensor.
static RankedTensorType getTensor(CallOp call, StringRef name) {
  auto operand = dyn_cast_or_null<aten::OperandAttr>(call.getArgument(name));
  return operand ? getSizedType(call.getOperands()[operand.getIndex()])
                 : RankedTensorType();
}

static RankedTensorType getFirstResult(CallOp call) {
  return call.getNumResults() == 0 ? RankedTensorType()
                                   : getSizedType(call.getResult(0));
}

static double elements(RankedTensorType type) {
  double product = 1;
  for (int64_t size : type.getShape())
    product *= size;
  return product;
}

/// The product of `batch` pairs of matrices, m x k by k x n.
static void addProduct(OperatorWork &work, Type type, double batch, double m,
                       double n, double k) {
  if (!(batch * m * n * k > 0)) // with no elements, not a number
    return;
  work.type = type;
  work.flops += 2 * batch * m * n * k;
}

static void addMatMul(OperatorWork &work, CallOp call) {
  // Of the names that the family's schemas have, those of the left factor that
  // are not also an addend's.
  RankedTensorType left;
  for (StringRef name : {"mat1", "batch1", "input", "self"})
    if ((left = getTensor(call, name)))
      break;
  RankedTensorType result = getFirstResult(call);
  if (!left || left.getRank() == 0 || !result)
    return;
  double n = result.getRank() > 0 ? result.getShape().back() : 1;
  // A batch of products has as many right factors; a linear layer has one, and
  // all its rows are one matrix.
  bool batched = left.getRank() > 2 && !getTensor(call, "weight");
  double m =
      batched ? left.getDimSize(left.getRank() - 2) : elements(result) / n;
  addProduct(work, left.getElementType(), elements(result) / (m * n), m, n,
             left.getShape().back());
}

static bool isTrue(Attribute attribute) {
  auto value = dyn_cast_or_null<BoolAttr>(attribute);
  return value && value.getValue();
}

/// An output element, or an input element if `transposed`, is the sum over what
/// one filter holds.
static void addConvolution(OperatorWork &work, CallOp call,
                           RankedTensorType output, unsigned times) {
  RankedTensorType input = getTensor(call, "input"),
                   weight = getTensor(call, "weight");
  if (!input || !weight || !output || weight.getRank() == 0)
    return;
  RankedTensorType many =
      isTrue(call.getArgument("transposed")) ? input : output;
  double filters = weight.getDimSize(0);
  for (unsigned i = 0; i < times; ++i)
    addProduct(work, input.getElementType(), 1, elements(many) / filters,
               filters, elements(weight) / filters);
}

/// As many products as gradients of input and weight are asked for.
static void addConvolutionBackward(OperatorWork &work, CallOp call) {
  unsigned times = 2;
  if (auto mask = dyn_cast_or_null<ArrayAttr>(call.getArgument("output_mask"));
      mask && mask.size() == 3)
    times = isTrue(mask[0]) + isTrue(mask[1]);
  addConvolution(work, call, getTensor(call, "grad_output"), times);
}

/// `products` matrix products of the size of query x key. A causal mask leaves
/// half of them out.
static void addAttention(OperatorWork &work, CallOp call, unsigned products) {
  RankedTensorType query = getTensor(call, "query"),
                   key = getTensor(call, "key");
  if (!query || !key || query.getRank() < 2 || key.getRank() < 2)
    return;
  double rows = query.getDimSize(query.getRank() - 2),
         columns = key.getDimSize(key.getRank() - 2),
         depth = query.getShape().back();
  double share = isTrue(call.getArgument("is_causal")) ? 0.5 : 1;
  work.isAttention = true;
  addProduct(work, query.getElementType(),
             products * share * elements(query) / (rows * depth), rows, columns,
             depth);
}

OperatorWork fcdp::measureWork(CallOp call) {
  OperatorWork work;
  double results = bytesOf(call.getResults());
  work.bytes = bytesOf(call.getOperands()) + results;
  switch (aten::lookupOp(call.getCallee()).work) {
  case Work::None:
    work.bytes = 0;
    break;
  case Work::Bytes:
    break;
  case Work::Fill:
    work.bytes = results;
    break;
  case Work::Lookup:
    if (!call.getOperands().empty())
      work.bytes += results - bytesOf(call.getOperands().front());
    break;
  case Work::MatMul:
    addMatMul(work, call);
    break;
  case Work::Convolution:
    addConvolution(work, call, getFirstResult(call), 1);
    break;
  case Work::ConvolutionBackward:
    addConvolutionBackward(work, call);
    break;
  // Dao et al., "FlashAttention" (2022): 2 products forward; backward computes
  // the scores again, and then 4.
  case Work::Attention:
    addAttention(work, call, 2);
    break;
  case Work::AttentionBackward:
    addAttention(work, call, 5);
    work.repeatedFlops = work.flops / 5;
    break;
  }
  return work;
}

static double getRate(const FlopRates &rates, Type type) {
  if (type.isF64())
    return rates.f64;
  if (type.isBF16())
    return rates.bf16;
  return type.isF16() ? rates.f16 : rates.f32;
}

double fcdp::peakTimeOfWork(const Device &device, const OperatorWork &work) {
  return work.flops == 0 ? 0 : work.flops / getRate(device.flops, work.type);
}

double fcdp::costOfWork(const Device &device, const OperatorWork &work) {
  double seconds = device.getMemoryTime(work.bytes);
  if (work.flops == 0)
    return seconds;
  double share = work.isAttention ? device.getAttentionEfficiency()
                                  : device.computeEfficiency;
  return seconds + peakTimeOfWork(device, work) / share;
}
