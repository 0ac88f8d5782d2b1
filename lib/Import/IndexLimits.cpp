// SPDX-License-Identifier: Apache-2.0

#include "IndexLimits.h"

#include "dialects/Aten/Aten.h"
#include "dialects/Fcdp/Fcdp.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringSet.h"

using namespace llvm;
using namespace mlir;
using namespace fcdp;
using namespace fcdp::pt2;

namespace {
/// The values that all uses of an input allow: [0, limit), or `ignore`.
struct Bound {
  std::optional<int64_t> limit;
  std::optional<int64_t> ignore;

  void meet(int64_t rows, std::optional<int64_t> alsoIgnore) {
    if (!limit) {
      limit = rows;
      ignore = alsoIgnore;
      return;
    }
    // A value may be ignored only if all uses ignore it.
    if (ignore != alsoIgnore)
      ignore = std::nullopt;
    limit = std::min(*limit, rows);
  }
};
} // namespace

/// Returns whether the results consist of values of the first operand and
/// possibly constants.
static bool keepsValues(aten::CallOp call) {
  static const llvm::StringSet<> names{
      "aten._reshape_alias", "aten._to_copy",
      "aten._unsafe_view",   "aten.alias",
      "aten.clone",          "aten.constant_pad_nd",
      "aten.detach",         "aten.expand",
      "aten.flip",           "aten.narrow",
      "aten.permute",        "aten.repeat",
      "aten.select",         "aten.slice",
      "aten.split",          "aten.split_with_sizes",
      "aten.squeeze",        "aten.t",
      "aten.transpose",      "aten.unbind",
      "aten.unsqueeze",      "aten.view"};
  return names.contains(call.getCallee().rsplit('.').first);
}

static bool isIndexType(Type type) {
  Type element = cast<RankedTensorType>(type).getElementType();
  return element.isInteger() && !element.isInteger(1);
}

static RankedTensorType getOperandType(aten::CallOp call, StringRef name) {
  auto operand = dyn_cast_or_null<aten::OperandAttr>(call.getArgument(name));
  if (!operand || operand.getIndex() >= call.getOperands().size())
    return {};
  return cast<RankedTensorType>(
      call.getOperands()[operand.getIndex()].getType());
}

static bool isArgument(aten::CallOp call, StringRef name, unsigned operand) {
  auto attr = dyn_cast_or_null<aten::OperandAttr>(call.getArgument(name));
  return attr && attr.getIndex() == operand;
}

/// Restricts `bound` to the values that `call` allows for its operand number
/// `operand`.
static void meetUse(aten::CallOp call, unsigned operand, Bound &bound) {
  StringRef name = call.getCallee().rsplit('.').first;
  if (name == "aten.embedding" && isArgument(call, "indices", operand)) {
    RankedTensorType weight = getOperandType(call, "weight");
    if (weight && weight.getRank() == 2)
      bound.meet(weight.getDimSize(0), std::nullopt);
  } else if ((name == "aten.nll_loss_forward" ||
              name == "aten.nll_loss2d_forward") &&
             isArgument(call, "target", operand)) {
    RankedTensorType scores = getOperandType(call, "self");
    if (!scores || scores.getRank() == 0)
      return;
    int64_t classes = scores.getDimSize(scores.getRank() == 1 ? 0 : 1);
    int64_t ignore = -100; // the default in the schema
    if (auto given =
            dyn_cast_or_null<IntegerAttr>(call.getArgument("ignore_index")))
      ignore = given.getInt();
    bool isClass = ignore >= 0 && ignore < classes;
    bound.meet(classes, isClass ? std::nullopt : std::optional(ignore));
  }
}

static Bound findBound(ArrayRef<Value> reads) {
  Bound bound;
  SmallVector<Value> pending(reads);
  llvm::DenseSet<Value> seen(reads.begin(), reads.end());
  while (!pending.empty()) {
    Value value = pending.pop_back_val();
    for (OpOperand &use : value.getUses()) {
      auto call = dyn_cast<aten::CallOp>(use.getOwner());
      if (!call)
        continue;
      meetUse(call, use.getOperandNumber(), bound);
      if (use.getOperandNumber() != 0 || !keepsValues(call))
        continue;
      for (Value result : call.getResults())
        if (isIndexType(result.getType()) && seen.insert(result).second)
          pending.push_back(result);
    }
  }
  return bound;
}

void fcdp::pt2::annotateIndexLimits(ModuleOp module) {
  llvm::DenseMap<StringAttr, SmallVector<Value>> reads;
  module.walk([&](ReadInputOp read) {
    if (isIndexType(read.getResult().getType()))
      reads[read.getSourceAttr().getAttr()].push_back(read.getResult());
  });
  for (auto input : module.getOps<InputOp>()) {
    auto found = reads.find(input.getSymNameAttr());
    if (found == reads.end())
      continue;
    Bound bound = findBound(found->second);
    if (!bound.limit || *bound.limit <= 0)
      continue;
    Builder builder(module.getContext());
    input.setLimitAttr(builder.getI64IntegerAttr(*bound.limit));
    if (bound.ignore)
      input.setIgnoreAttr(builder.getI64IntegerAttr(*bound.ignore));
  }
}
