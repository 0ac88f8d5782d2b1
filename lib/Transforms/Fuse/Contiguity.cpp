// SPDX-License-Identifier: Apache-2.0

#include "Fuse/Contiguity.h"

#include "Fuse/PointwiseOps.h"
#include "dialects/Fcdp/Kernels.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace fcdp;

using aten::CallOp;

namespace {
enum class Rule {
  Unknown,
  /// The result is contiguous.
  Always,
  /// The result is contiguous if the first operand is.
  AsFirst,
};
} // namespace

static Rule lookupRule(StringRef callee) {
  return llvm::StringSwitch<Rule>(callee)
      .Cases({"aten.mm.default", "aten.addmm.default", "aten.bmm.default",
              "aten.embedding.default"},
             Rule::Always)
      .Cases({"aten.view.default", "aten._unsafe_view.default",
              "aten.alias.default", "aten.detach.default",
              "aten.unsqueeze.default", "aten.squeeze.dim", "aten.mean.dim",
              "aten.sum.dim_IntList", "aten.pow.Tensor_Scalar"},
             Rule::AsFirst)
      .Default(Rule::Unknown);
}

static bool isContiguousClone(CallOp call) {
  auto format = dyn_cast_or_null<aten::MemoryFormatAttr>(
      call.getArgument("memory_format"));
  return call.getCallee() == "aten.clone.default" && format &&
         format.getValue() == aten::MemoryFormat::contiguous;
}

bool Contiguity::compute(Value value) {
  Operation *op = value.getDefiningOp();
  if (isa_and_present<ReadParameterOp, ReadBufferOp, ReadInputOp>(op))
    return true;
  auto call = dyn_cast_or_null<CallOp>(op);
  if (!call || getDimOrder(call))
    return false;
  if (isKernelCall(call) || isContiguousClone(call))
    return true;
  auto isOperandContiguous = [&](Value operand) {
    return isContiguous(operand);
  };
  if (matchPointwise(call))
    return llvm::all_of(call.getOperands(), isOperandContiguous);
  switch (lookupRule(call.getCallee())) {
  case Rule::Always:
    return true;
  case Rule::AsFirst:
    return call.getNumOperands() > 0 && isContiguous(call.getOperand(0));
  case Rule::Unknown:
    return false;
  }
  llvm_unreachable("unknown rule");
}

bool Contiguity::isContiguous(Value value) {
  auto found = known.find(value);
  if (found != known.end())
    return found->second;
  bool isIt = compute(value);
  known[value] = isIt;
  return isIt;
}
