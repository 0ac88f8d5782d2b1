// SPDX-License-Identifier: Apache-2.0

#include "CudaKernels.h"

#include "dialects/Fcdp/Fcdp.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace fcdp;
using aten::CallOp;

/// The memory-efficient kernel pads the rows of its log-sum-exp to this many.
static constexpr int64_t kLogSumExpRows = 32;

SmallVector<int64_t> fcdp::getOrder(CallOp call) {
  if (std::optional<ArrayRef<int64_t>> order = getDimOrder(call))
    return SmallVector<int64_t>(*order);
  return llvm::to_vector(llvm::seq<int64_t>(0, 4));
}

CallOp EfficientAttention::forward(bool hasBackward, Location loc,
                                   OpBuilder &builder) const {
  ArrayRef<int64_t> q = getTensorType(query).getShape();
  int64_t rows = hasBackward ? llvm::alignTo(q[2], kLogSumExpRows) : 0;
  auto number = RankedTensorType::get({}, builder.getI64Type());
  CallBuilder call(builder, loc,
                   "aten._scaled_dot_product_efficient_attention.default");
  call.tensor("query", query).tensor("key", key);
  call.tensor("value", value).tensor("attn_bias", bias);
  call.boolean("compute_log_sumexp", hasBackward);
  call.number("dropout_p", 0).boolean("is_causal", isCausal);
  call.optional("scale", scale);
  return call.create(
      {query.getType(),
       RankedTensorType::get({q[0], q[1], rows}, builder.getF32Type()), number,
       number});
}

CallOp EfficientAttention::backward(Value grad, Value out, const Saved &saved,
                                    Location loc, OpBuilder &builder) const {
  CallBuilder call(
      builder, loc,
      "aten._scaled_dot_product_efficient_attention_backward.default");
  call.tensor("grad_out_", grad).tensor("query", query);
  call.tensor("key", key).tensor("value", value);
  call.tensor("attn_bias", bias).tensor("out", out);
  call.tensor("logsumexp", saved.logSumExp).tensor("philox_seed", saved.seed);
  call.tensor("philox_offset", saved.offset).number("dropout_p", 0);
  call.literal("grad_input_mask",
               builder.getBoolArrayAttr({true, true, true, false}));
  call.boolean("is_causal", isCausal).optional("scale", scale);
  // The bias has no gradient.
  return call.create({query.getType(), key.getType(), value.getType()},
                     /*undefined=*/{3});
}

CallOp FlashAttention::forward(Location loc, OpBuilder &builder) const {
  ArrayRef<int64_t> q = getTensorType(query).getShape();
  Type u64 = builder.getIntegerType(64, /*isSigned=*/false);
  CallBuilder call(builder, loc, "aten._flash_attention_forward.default");
  call.tensor("query", query).tensor("key", key).tensor("value", value);
  call.tensor("cum_seq_q", bounds).tensor("cum_seq_k", bounds);
  call.integer("max_q", longest).integer("max_k", longest);
  call.number("dropout_p", 0).boolean("is_causal", true);
  call.boolean("return_debug_mask", false).optional("scale", scale);
  return call.create({query.getType(),
                      RankedTensorType::get({q[1], q[0]}, builder.getF32Type()),
                      RankedTensorType::get({2}, u64),
                      RankedTensorType::get({}, u64),
                      getTensorType(query).clone(ArrayRef<int64_t>{0})});
}

CallOp FlashAttention::backward(Value grad, Value out, const Saved &saved,
                                Location loc, OpBuilder &builder) const {
  CallBuilder call(builder, loc, "aten._flash_attention_backward.default");
  call.tensor("grad_out", grad).tensor("query", query).tensor("key", key);
  call.tensor("value", value).tensor("out", out);
  call.tensor("logsumexp", saved.logSumExp);
  call.tensor("cum_seq_q", bounds).tensor("cum_seq_k", bounds);
  call.integer("max_q", longest).integer("max_k", longest);
  call.number("dropout_p", 0).boolean("is_causal", true);
  call.tensor("rng_state", saved.state).tensor("unused", saved.unused);
  call.optional("scale", scale);
  return call.create({query.getType(), key.getType(), value.getType()});
}
