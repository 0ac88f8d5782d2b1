// SPDX-License-Identifier: Apache-2.0
//
// The table of ATen operators' properties. At load, the runtime checks "fresh"
// claims against libtorch's alias annotations.

#include "dialects/Aten/OpTable.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/StringSwitch.h"

using namespace fcdp::aten;

// Operators are listed without overload, because all overloads of a name agree.
static const llvm::StringSet<> &views() {
  // _unsafe_view has no alias annotation in libtorch, but it is a view.
  static const llvm::StringSet<> names{
      "aten._reshape_alias", "aten._unsafe_view", "aten.alias",
      "aten.as_strided",     "aten.chunk",        "aten.detach",
      "aten.diagonal",       "aten.expand",       "aten.expand_as",
      "aten.narrow",         "aten.permute",      "aten.select",
      "aten.slice",          "aten.split",        "aten.split_with_sizes",
      "aten.squeeze",        "aten.swapaxes",     "aten.t",
      "aten.transpose",      "aten.unbind",       "aten.unfold",
      "aten.unsqueeze",      "aten.view",         "aten.view_as"};
  return names;
}

static const llvm::StringSet<> &fresh() {
  static const llvm::StringSet<> names{
      "aten._adaptive_avg_pool2d",
      "aten._adaptive_avg_pool2d_backward",
      "aten._flash_attention_backward",
      "aten._fused_rms_norm",
      "aten._fused_rms_norm_backward",
      "aten._grouped_mm",
      "aten._log_softmax",
      "aten._log_softmax_backward_data",
      "aten._native_batch_norm_legit_functional",
      "aten._scaled_dot_product_cudnn_attention_backward",
      "aten._scaled_dot_product_efficient_attention_backward",
      "aten._scaled_dot_product_flash_attention_backward",
      "aten._scaled_dot_product_flash_attention_for_cpu",
      "aten._scaled_dot_product_flash_attention_for_cpu_backward",
      "aten._softmax",
      "aten._softmax_backward_data",
      "aten._to_copy",
      "aten.abs",
      "aten.add",
      "aten.addmm",
      "aten.all",
      "aten.amax",
      "aten.amin",
      "aten.any",
      "aten.arange",
      "aten.argmax",
      "aten.avg_pool2d",
      "aten.avg_pool2d_backward",
      "aten.baddbmm",
      "aten.bitwise_and",
      "aten.bitwise_not",
      "aten.bitwise_or",
      "aten.bmm",
      "aten.cat",
      "aten.ceil",
      "aten.clamp",
      "aten.clamp_min",
      "aten.clone",
      "aten.constant_pad_nd",
      "aten.convolution",
      "aten.convolution_backward",
      "aten.copy",
      "aten.cos",
      "aten.cumsum",
      "aten.div",
      "aten.elu",
      "aten.elu_backward",
      "aten.embedding",
      "aten.embedding_dense_backward",
      "aten.empty",
      "aten.empty_like",
      "aten.eq",
      "aten.erf",
      "aten.exp",
      "aten.eye",
      "aten.fill",
      "aten.flip",
      "aten.floor",
      "aten.floor_divide",
      "aten.full",
      "aten.full_like",
      "aten.gather",
      "aten.ge",
      "aten.gelu",
      "aten.gelu_backward",
      "aten.gt",
      "aten.hardtanh",
      "aten.index",
      "aten.index_add",
      "aten.index_put",
      "aten.index_select",
      "aten.isnan",
      "aten.le",
      "aten.leaky_relu",
      "aten.leaky_relu_backward",
      "aten.linalg_vector_norm",
      "aten.log",
      "aten.log1p",
      "aten.logical_and",
      "aten.logical_not",
      "aten.logical_or",
      "aten.lt",
      "aten.masked_fill",
      "aten.max_pool2d_with_indices",
      "aten.max_pool2d_with_indices_backward",
      "aten.maximum",
      "aten.mean",
      "aten.minimum",
      "aten.mm",
      "aten.mse_loss",
      "aten.mse_loss_backward",
      "aten.mul",
      "aten.native_batch_norm_backward",
      "aten.native_group_norm",
      "aten.native_group_norm_backward",
      "aten.native_layer_norm",
      "aten.native_layer_norm_backward",
      "aten.ne",
      "aten.neg",
      "aten.new_empty",
      "aten.new_empty_strided",
      "aten.new_full",
      "aten.new_ones",
      "aten.new_zeros",
      "aten.nll_loss_backward",
      "aten.nll_loss_forward",
      "aten.ones",
      "aten.ones_like",
      "aten.pow",
      "aten.reciprocal",
      "aten.relu",
      "aten.remainder",
      "aten.repeat",
      "aten.round",
      "aten.rsqrt",
      "aten.rsub",
      "aten.scalar_tensor",
      "aten.scatter",
      "aten.scatter_add",
      "aten.select_backward",
      "aten.sigmoid",
      "aten.sigmoid_backward",
      "aten.sign",
      "aten.silu",
      "aten.silu_backward",
      "aten.sin",
      "aten.slice_backward",
      "aten.slice_scatter",
      "aten.softplus",
      "aten.softplus_backward",
      "aten.sort",
      "aten.sqrt",
      "aten.stack",
      "aten.std",
      "aten.sub",
      "aten.sum",
      "aten.tan",
      "aten.tanh",
      "aten.tanh_backward",
      "aten.threshold_backward",
      "aten.topk",
      "aten.tril",
      "aten.triu",
      "aten.var",
      "aten.var_mean",
      "aten.where",
      "aten.zeros",
      "aten.zeros_like",
      "fcdp.chunked_distillation",
      "fcdp.chunked_loss",
      "fcdp.kernel",
      "fcdp.packed_attention",
      "fcdp.packed_attention_backward",
      "fcdp.unpack_int8",
      "fcdp.unpack_nf4"};
  return names;
}

// Operators that are not listed here and are not views read their operands and
// write their results.
static const llvm::StringMap<Work> &works() {
  static const llvm::StringMap<Work> names{
      {"aten._flash_attention_backward", Work::AttentionBackward},
      {"aten._flash_attention_forward", Work::Attention},
      {"aten._grouped_mm", Work::GroupedMatMul},
      {"aten._scaled_dot_product_cudnn_attention", Work::Attention},
      {"aten._scaled_dot_product_cudnn_attention_backward",
       Work::AttentionBackward},
      {"aten._scaled_dot_product_efficient_attention", Work::Attention},
      {"aten._scaled_dot_product_efficient_attention_backward",
       Work::AttentionBackward},
      {"aten._scaled_dot_product_flash_attention", Work::Attention},
      {"aten._scaled_dot_product_flash_attention_backward",
       Work::AttentionBackward},
      {"aten._scaled_dot_product_flash_attention_for_cpu", Work::Attention},
      {"aten._scaled_dot_product_flash_attention_for_cpu_backward",
       Work::AttentionBackward},
      {"aten.addmm", Work::MatMul},
      {"aten.arange", Work::Fill},
      {"aten.baddbmm", Work::MatMul},
      {"aten.bmm", Work::MatMul},
      {"aten.convolution", Work::Convolution},
      {"aten.convolution_backward", Work::ConvolutionBackward},
      {"aten.embedding", Work::Lookup},
      {"aten.empty", Work::None},
      {"aten.empty_like", Work::None},
      {"aten.eye", Work::Fill},
      {"aten.fill", Work::Fill},
      {"aten.full", Work::Fill},
      {"aten.full_like", Work::Fill},
      {"aten.gather", Work::Lookup},
      {"aten.index", Work::Lookup},
      {"aten.index_select", Work::Lookup},
      {"aten.linear", Work::MatMul},
      {"aten.matmul", Work::MatMul},
      {"aten.mm", Work::MatMul},
      {"aten.new_empty", Work::None},
      {"aten.new_empty_strided", Work::None},
      {"aten.new_full", Work::Fill},
      {"aten.new_ones", Work::Fill},
      {"aten.new_zeros", Work::Fill},
      {"aten.nll_loss_backward", Work::Fill},
      {"aten.nll_loss_forward", Work::Lookup},
      {"aten.ones", Work::Fill},
      {"aten.ones_like", Work::Fill},
      {"aten.rand", Work::Fill},
      {"aten.randn", Work::Fill},
      {"aten.scalar_tensor", Work::Fill},
      {"aten.scaled_dot_product_attention", Work::Attention},
      {"aten.zeros", Work::Fill},
      {"aten.zeros_like", Work::Fill},
      {"fcdp.chunked_distillation", Work::ChunkedLoss},
      {"fcdp.chunked_loss", Work::ChunkedLoss},
      {"fcdp.packed_attention", Work::Attention},
      {"fcdp.packed_attention_backward", Work::AttentionBackward}};
  return names;
}

/// Returns whether it is one of CUDA's attention kernels. Without dropout they
/// return an unused random state.
static bool isRandomIfDropout(llvm::StringRef name) {
  return name == "aten._flash_attention_forward" ||
         name == "aten._scaled_dot_product_cudnn_attention" ||
         name == "aten._scaled_dot_product_efficient_attention" ||
         name == "aten._scaled_dot_product_flash_attention";
}

static OpInfo lookupAliasing(llvm::StringRef name) {
  if (views().contains(name))
    return {Aliasing::View, /*random=*/false};
  if (fresh().contains(name))
    return {Aliasing::Fresh, /*random=*/false};
  // These are random, but their results are new memory.
  if (name == "aten.native_dropout" || name == "aten.bernoulli" ||
      name == "aten.rand" || name == "aten.randn")
    return {Aliasing::Fresh, /*random=*/true};
  if (name == "aten.native_dropout_backward")
    return {Aliasing::Fresh, /*random=*/false};
  if (isRandomIfDropout(name))
    return {Aliasing::Fresh, /*random=*/true, Work::Bytes,
            /*randomIfDropout=*/true};
  // The result is the operand if that is contiguous, and new memory otherwise.
  if (name == "aten.contiguous")
    return {Aliasing::Unknown, /*random=*/false};
  return {};
}

OpInfo fcdp::aten::lookupOp(llvm::StringRef callee) {
  llvm::StringRef name = callee.rsplit('.').first;
  OpInfo info = lookupAliasing(name);
  auto work = works().find(name);
  if (work != works().end())
    info.work = work->second;
  else if (info.aliasing == Aliasing::View)
    info.work = Work::None;
  return info;
}

llvm::StringRef fcdp::aten::lookupOut(llvm::StringRef callee) {
  return llvm::StringSwitch<llvm::StringRef>(callee)
      .Cases({"aten.addmm.default", "aten.bmm.default", "aten.mm.default"},
             "out")
      .Case("aten.sum.dim_IntList", "IntList_out")
      .Default("");
}
