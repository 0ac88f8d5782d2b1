// SPDX-License-Identifier: Apache-2.0

#include "DocumentOrder.h"

#include "CpuAttention.h"
#include "TensorCalls.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace fcdp;
using aten::CallOp;

static std::optional<int64_t> getInteger(CallOp call, StringRef name) {
  auto integer = dyn_cast_or_null<IntegerAttr>(call.getArgument(name));
  return integer ? std::optional(integer.getInt()) : std::nullopt;
}

/// Returns whether the argument `dim` names the last dimension of `value`.
static bool isLastDim(CallOp call, Value value) {
  std::optional<int64_t> dim = getInteger(call, "dim");
  return dim && (*dim == -1 || *dim == getTensorType(value).getRank() - 1);
}

/// Returns the width of integers that are wide enough to count tokens, or 0.
static unsigned getWidth(Value value) {
  auto type = dyn_cast<IntegerType>(getTensorType(value).getElementType());
  return type && type.getWidth() >= 32 ? type.getWidth() : 0;
}

/// Looks through calls that keep the rows of `tokens` integers, one by one or
/// with one row for all. `areCounts`: the integers fit 32 bits.
static Value skipViews(Value value, int64_t tokens, bool areCounts) {
  static const llvm::StringSet<> names{
      "aten._to_copy.default",   "aten._unsafe_view.default",
      "aten.alias.default",      "aten.clone.default",
      "aten.contiguous.default", "aten.detach.default",
      "aten.expand.default",     "aten.unsqueeze.default",
      "aten.view.default"};
  while (auto call = value.getDefiningOp<CallOp>()) {
    Value self = getTensor(call, "self");
    if (!names.contains(call.getCallee()) || !self || !getWidth(self) ||
        getTensorType(self).getRank() == 0 ||
        getTensorType(self).getShape().back() != tokens)
      break;
    if (!getWidth(value) || (getWidth(value) < getWidth(self) && !areCounts))
      break;
    bool repeats = getTensorType(self).getNumElements() !=
                   getTensorType(value).getNumElements();
    if (repeats && getTensorType(self).getNumElements() != tokens)
      break;
    value = self;
  }
  return value;
}

/// Returns whether `call` takes `tokens` elements of the last dimension of
/// `value`, from `start` on.
static bool takes(CallOp call, Value value, int64_t start, int64_t tokens) {
  return call && getTensor(call, "self") == value && isLastDim(call, value) &&
         getInteger(call, "start").value_or(0) == start &&
         getInteger(call, "step").value_or(1) == 1 &&
         getTensorType(call.getResult(0)).getShape().back() == tokens;
}

/// Returns whether `flags` are true for each token but the first whose position
/// is not the one after that of the token before it, as Transformers has it:
/// (torch.diff(positions, prepend=positions[:, :1] - 1) != 1).
static bool marksSteps(Value flags, Value positions, int64_t tokens) {
  CallOp differs = getDefinition(flags, "aten.ne.Scalar");
  CallOp step =
      differs && getInteger(differs, "other") == 1
          ? getDefinition(getTensor(differs, "self"), "aten.sub.Tensor")
          : CallOp();
  if (!step || step.getArgument("alpha"))
    return false;
  CallOp later = getDefinition(getTensor(step, "self"), "aten.slice.Tensor"),
         before = getDefinition(getTensor(step, "other"), "aten.slice.Tensor");
  Value all = later ? getTensor(later, "self") : Value();
  CallOp joined = getDefinition(all, "aten.cat.default");
  if (!joined || joined.getNumOperands() != 2 || !isLastDim(joined, all) ||
      !takes(later, all, 1, tokens) || !takes(before, all, 0, tokens))
    return false;
  Value first = joined.getOperand(0), rest = joined.getOperand(1);
  return getTensorType(first).getShape().back() == 1 &&
         getTensorType(rest).getShape().back() == tokens &&
         skipViews(rest, tokens, /*areCounts=*/false) ==
             skipViews(positions, tokens, /*areCounts=*/false);
}

/// Sums of flags from the left do not fall within a row.
static bool sumsFlags(CallOp sums, Value positions, int64_t tokens) {
  Value flags = getTensor(sums, "self");
  return flags && getTensorType(flags).getElementType().isInteger(1) &&
         isLastDim(sums, flags) &&
         (!positions || marksSteps(flags, positions, tokens));
}

/// A search for growing numbers finds places that do not fall, also in numbers
/// that are not sorted: each comparison sends the greater number to the right.
static bool searchesRange(CallOp search, int64_t tokens) {
  Value wanted = getTensor(search, "self");
  if (!wanted || getTensor(search, "sorter") ||
      getTensorType(getTensor(search, "sorted_sequence")).getRank() != 1)
    return false;
  Value range = skipViews(wanted, tokens, /*areCounts=*/true);
  return getDefinition(range, "aten.arange.default") ||
         getDefinition(range, "aten.arange.start");
}

Value fcdp::getSourceOfRows(Value rows) {
  return rows ? skipViews(rows, getTensorType(rows).getShape().back(),
                          /*areCounts=*/false)
              : Value();
}

std::optional<DocumentOrder> fcdp::findDocumentOrder(Value documents,
                                                     Value positions) {
  int64_t tokens = getTensorType(documents).getShape().back();
  Value source = skipViews(documents, tokens, /*areCounts=*/true);
  if (!getWidth(source))
    return std::nullopt;
  if (CallOp sums = getDefinition(source, "aten.cumsum.default"))
    return sumsFlags(sums, positions, tokens) ? std::optional(DocumentOrder())
                                              : std::nullopt;
  CallOp search = getDefinition(source, "aten.searchsorted.Tensor");
  if (!search || positions || !searchesRange(search, tokens))
    return std::nullopt;
  int64_t bounds =
      getTensorType(getTensor(search, "sorted_sequence")).getNumElements();
  return DocumentOrder{bounds + 1};
}
