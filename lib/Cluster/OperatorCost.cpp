// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Cluster/OperatorCost.h"

#include "dialects/Aten/ChunkedLoss.h"
#include "dialects/Aten/OpTable.h"
#include "dialects/Fcdp/Fcdp.h"

using namespace mlir;
using namespace fcdp;

using aten::CallOp;
using aten::Work;

/// Returns null for a type without a size. Exported programs have none.
static RankedTensorType getSizedType(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  return hasByteSize(type) ? type : RankedTensorType();
}

double fcdp::countBytes(Value value) {
  RankedTensorType type = getSizedType(value);
  return type ? byteSize(type) : 0;
}

static double bytesOf(ValueRange values) {
  double sum = 0;
  for (Value value : values)
    sum += countBytes(value);
  return sum;
}

/// Returns the type of the argument `name`, or null if it is not a tensor.
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

/// Adds the product of `batch` pairs of matrices, m x k by k x n.
static void addProduct(OperatorWork &work, Type type, double batch, double m,
                       double n, double k) {
  if (!(batch * m * n * k > 0)) // no elements, or not a number
    return;
  work.type = type;
  work.product = {batch, m, n, k};
  ++work.products;
  work.flops += work.product.getFlops();
}

static void addMatMul(OperatorWork &work, CallOp call) {
  // The left factor has one of these names in the schemas of this family. Other
  // names of factors also name an addend in some schema, so they are left out.
  RankedTensorType left;
  for (StringRef name : {"mat1", "batch1", "input", "self"})
    if ((left = getTensor(call, name)))
      break;
  RankedTensorType result = getFirstResult(call);
  if (!left || left.getRank() == 0 || !result)
    return;
  double n = result.getRank() > 0 ? result.getShape().back() : 1;
  // A batched product has one right factor for each left factor. A linear layer
  // has one right factor, so all its rows form one matrix.
  bool batched = left.getRank() > 2 && !getTensor(call, "weight");
  double m =
      batched ? left.getDimSize(left.getRank() - 2) : elements(result) / n;
  addProduct(work, left.getElementType(), elements(result) / (m * n), m, n,
             left.getShape().back());
}

/// Adds the products of groups that share the rows, columns or summands that
/// `offs` divides.
static void addGroupedMatMul(OperatorWork &work, CallOp call) {
  RankedTensorType left = getTensor(call, "self"),
                   right = getTensor(call, "mat2"),
                   offsets = getTensor(call, "offs");
  if (!left || !right || left.getRank() < 2 || right.getRank() < 2)
    return;
  if (!offsets)
    return addMatMul(work, call);
  double groups = elements(offsets);
  double m = left.getDimSize(left.getRank() - 2), k = left.getShape().back(),
         n = right.getShape().back();
  bool isLeftOne = left.getRank() == 2, isRightOne = right.getRank() == 2;
  work.divided = isLeftOne && isRightOne ? &Product::k
                 : isLeftOne             ? &Product::m
                                         : &Product::n;
  Product each{groups, m, n, k};
  each.*work.divided /= groups;
  addProduct(work, left.getElementType(), groups, each.m, each.n, each.k);
}

static bool isTrue(Attribute attribute) {
  auto value = dyn_cast_or_null<BoolAttr>(attribute);
  return value && value.getValue();
}

/// Adds `times` products of the convolution's size. Each output element (each
/// input element if `transposed`) is a sum over the elements of one filter.
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

/// Adds one product for each gradient, of input and weight, that is computed.
static void addConvolutionBackward(OperatorWork &work, CallOp call) {
  unsigned times = 2;
  if (auto mask = dyn_cast_or_null<ArrayAttr>(call.getArgument("output_mask"));
      mask && mask.size() == 3)
    times = isTrue(mask[0]) + isTrue(mask[1]);
  addConvolution(work, call, getTensor(call, "grad_output"), times);
}

/// The products of fused attention's forward pass.
static constexpr unsigned kForwardProducts = 2;

/// Adds the products of sequences [tokens, heads, depth] of several lengths,
/// which are not known before the step. They count as if all had the greatest
/// length.
static void addSequences(OperatorWork &work, CallOp call, unsigned products) {
  RankedTensorType query = getTensor(call, "query");
  auto rows = dyn_cast_or_null<IntegerAttr>(call.getArgument("max_q")),
       columns = dyn_cast_or_null<IntegerAttr>(call.getArgument("max_k"));
  if (!query || query.getRank() != 3 || !rows || !columns || rows.getInt() <= 0)
    return;
  double depth = query.getShape().back(),
         share = isTrue(call.getArgument("is_causal")) ? 0.5 : 1;
  work.attention = {double(columns.getInt()), depth,
                    products > kForwardProducts, /*isMasked=*/false};
  addProduct(work, query.getElementType(),
             products * share * elements(query) / (rows.getInt() * depth),
             rows.getInt(), columns.getInt(), depth);
}

/// Adds `products` matrix products of the size of query x key. A causal kernel
/// computes half of them. A kernel that is given a mask computes all. Packed
/// attention counts as that of one document, because the documents of a row are
/// not known before the step.
static void addAttention(OperatorWork &work, CallOp call, unsigned products) {
  if (getTensor(call, "cum_seq_q"))
    return addSequences(work, call, products);
  RankedTensorType query = getTensor(call, "query"),
                   key = getTensor(call, "key");
  if (!query || !key || query.getRank() < 2 || key.getRank() < 2)
    return;
  double rows = query.getDimSize(query.getRank() - 2),
         columns = key.getDimSize(key.getRank() - 2),
         depth = query.getShape().back();
  bool isCausal = isTrue(call.getArgument("is_causal")) ||
                  call.getCallee().starts_with("fcdp.packed_attention");
  double share = isCausal ? 0.5 : 1;
  bool isMasked = getTensor(call, "attn_mask") || getTensor(call, "attn_bias");
  work.attention = {columns, depth, products > kForwardProducts, isMasked};
  addProduct(work, query.getElementType(),
             products * share * elements(query) / (rows * depth), rows, columns,
             depth);
}

/// The passes over logits of a chunk: the forward pass writes them and their
/// log-probabilities, and reads both once. The backward pass writes the
/// gradient twice, and reads it, the log-probabilities, and the gradient for
/// each of its products.
static constexpr unsigned kForwardPasses = 4, kBackwardPasses = 4;

/// Adds the products of a chunked loss, and the traffic of its logits, which
/// are larger than a device's cache. The workspace is no traffic of its own.
static void addChunkedLoss(OperatorWork &work, CallOp call) {
  aten::ChunkedLoss loss = aten::ChunkedLoss::of(call);
  const LossShape &shape = loss.shape;
  double logits = double(shape.rows) * shape.vocabulary;
  work.bytes -=
      countBytes(aten::getLossReturn(call, aten::LossReturn::Workspace));
  const LossShape::Teacher &teacher = shape.teacher;
  if (teacher.hidden != 0)
    addProduct(work, loss.teacher.getElementType(), 1, shape.rows,
               shape.vocabulary, teacher.hidden);
  for (unsigned i = 0; i < loss.countProducts(); ++i)
    addProduct(work, loss.hidden.getElementType(), 1, shape.rows,
               shape.vocabulary, shape.hidden);
  unsigned passes = kForwardPasses;
  if (shape.hasGradient())
    passes += kBackwardPasses + loss.countProducts() - 1;
  // Both models' log-probabilities, their terms, and another gradient.
  if (teacher.exists)
    passes += 2 * kForwardPasses + kBackwardPasses;
  if (shape.block != 0)
    passes += kForwardPasses;
  work.bytes += logits * passes * shape.lossBytes();
  // Each chunk but the first reads and writes the sum of the weight's gradient.
  if (shape.trainsWeight && shape.block == 0)
    work.bytes += 2.0 * (loss.countChunks() - 1) * shape.vocabulary *
                  shape.hidden * std::max<int64_t>(shape.modelBytes, 4);
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
      work.bytes += results - countBytes(call.getOperands().front());
    break;
  case Work::MatMul:
    addMatMul(work, call);
    break;
  case Work::GroupedMatMul:
    addGroupedMatMul(work, call);
    break;
  case Work::Convolution:
    addConvolution(work, call, getFirstResult(call), 1);
    break;
  case Work::ConvolutionBackward:
    addConvolutionBackward(work, call);
    break;
  // Dao et al., "FlashAttention" (2022): the forward pass has 2 products; the
  // backward pass computes the scores again and has 4 more.
  case Work::Attention:
    addAttention(work, call, kForwardProducts);
    break;
  case Work::AttentionBackward:
    addAttention(work, call, 5);
    work.repeatedFlops = work.flops / 5;
    break;
  case Work::ChunkedLoss:
    addChunkedLoss(work, call);
    break;
  }
  return work;
}

static RateType getRateType(Type type) {
  if (type.isF64())
    return RateType::f64;
  if (type.isBF16())
    return RateType::bf16;
  return type.isF16() ? RateType::f16 : RateType::f32;
}

double fcdp::peakTimeOfWork(const Device &device, const OperatorWork &work) {
  return work.flops == 0
             ? 0
             : work.flops / device.flops.get(getRateType(work.type));
}

double fcdp::costOfWork(const Device &device, const OperatorWork &work,
                        double expertSkew) {
  if (work.flops == 0)
    return device.getMemoryTime(work.bytes);
  RateType type = getRateType(work.type);
  if (work.attention)
    return std::max(device.getAttentionTime(type, work.flops, *work.attention),
                    device.getMemoryTime(work.bytes));
  if (work.divided)
    return device.getGroupedTime(type, {work.product, work.divided, expertSkew},
                                 work.bytes);
  return work.products *
         device.getProductTime(type, work.product, work.bytes / work.products);
}
