// SPDX-License-Identifier: Apache-2.0
//
// Types are those of the kernels of PyTorch 2.13 and of their fake versions;
// test/e2e/test_retarget.py compares them.

#include "CudaStatistics.h"

#include "CallBuilder.h"
#include "TensorCalls.h"
#include "dialects/Fcdp/Fcdp.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace fcdp;
using aten::CallOp;

namespace {
/// The second and third result of a norm.
enum class Statistics {
  None,
  /// Mean and inverse deviation, in f32 for input of half precision. The CPU's
  /// have the input's type.
  InF32,
  /// Mean and inverse deviation of each channel. The CPU's have no elements.
  OfChannels
};
} // namespace

static Statistics findStatistics(StringRef callee) {
  return llvm::StringSwitch<Statistics>(callee)
      .Cases({"aten.native_layer_norm.default",
              "aten.native_batch_norm.default",
              "aten._native_batch_norm_legit.default",
              "aten._native_batch_norm_legit.no_stats",
              "aten._native_batch_norm_legit_functional.default",
              "aten._batch_norm_with_update_functional.default"},
             Statistics::InF32)
      .Cases({"aten._native_batch_norm_legit_no_training.default",
              "aten._batch_norm_no_update.default"},
             Statistics::OfChannels)
      .Default(Statistics::None);
}

static Type getStatisticType(CallOp call, Statistics kind, Value result) {
  RankedTensorType type = getTensorType(result);
  RankedTensorType input = getTensorType(call.getOperand(0));
  Type element = input.getElementType();
  if (element.isF16() || element.isBF16())
    element = Float32Type::get(call.getContext());
  SmallVector<int64_t> shape(type.getShape());
  if (kind == Statistics::OfChannels)
    shape = {input.getDimSize(1)};
  return RankedTensorType::get(shape, element);
}

static void changeType(Value value, Type type);

/// Makes `use` read `value`, whose type was `former`.
static void adaptUse(OpOperand &use, Type former) {
  auto call = dyn_cast<CallOp>(use.getOwner());
  StringRef callee = call ? call.getCallee() : "";
  if (callee == "aten.detach.default" || callee == "aten.alias.default")
    return changeType(call.getResult(0), use.get().getType());
  auto wanted = cast<RankedTensorType>(former);
  if (callee.ends_with("_backward.default") || wanted.getNumElements() == 0)
    return;
  OpBuilder builder(use.getOwner());
  CallBuilder cast(builder, use.getOwner()->getLoc(), "aten._to_copy.default");
  cast.tensor("self", use.get());
  cast.literal("dtype", TypeAttr::get(wanted.getElementType()));
  use.set(cast.create({former}).getResult(0));
}

static void changeType(Value value, Type type) {
  Type former = value.getType();
  if (former == type)
    return;
  value.setType(type);
  for (OpOperand &use : llvm::make_early_inc_range(value.getUses()))
    adaptUse(use, former);
}

void fcdp::retargetStatistics(func::FuncOp function) {
  function.walk([](CallOp call) {
    Statistics kind = findStatistics(call.getCallee());
    if (kind == Statistics::None)
      return;
    for (unsigned result : {1u, 2u})
      if (result < call.getNumResults())
        changeType(call.getResult(result),
                   getStatisticType(call, kind, call.getResult(result)));
  });
}
