// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Analysis/Casts.h"

#include "dialects/Aten/Aten.h"
#include "dialects/Fcdp/Fcdp.h"
#include "fcdp/Analysis/Aliases.h"

using namespace mlir;
using namespace fcdp;

FloatType fcdp::getCastType(Operation *op) {
  auto call = dyn_cast<aten::CallOp>(op);
  if (!call || call.getCallee() != "aten._to_copy.default" ||
      call->getNumOperands() != 1 || call->getNumResults() != 1)
    return {};
  Attribute format = call.getArgument("memory_format");
  if (format && !isa<UnitAttr>(format) &&
      format != aten::MemoryFormatAttr::get(op->getContext(),
                                            aten::MemoryFormat::preserve))
    return {};
  auto result = cast<RankedTensorType>(call.getResult(0).getType());
  return dyn_cast<FloatType>(result.getElementType());
}

bool fcdp::isWholeView(Operation *op) {
  if (!isView(op) || op->getNumResults() != 1)
    return false;
  auto call = dyn_cast<aten::CallOp>(op);
  if (!call || call.getCallee().starts_with("aten.as_strided."))
    return false;
  auto operand = cast<RankedTensorType>(op->getOperand(0).getType());
  auto result = cast<RankedTensorType>(op->getResult(0).getType());
  return operand.getElementType() == result.getElementType() &&
         operand.getNumElements() == result.getNumElements();
}

/// Merges the casts of `value` into `type`. Returns false if they differ or if
/// another operation reads it.
static bool mergeCasts(Value value, FloatType &type) {
  return llvm::all_of(value.getUsers(), [&](Operation *user) {
    if (isWholeView(user))
      return mergeCasts(user->getResult(0), type);
    FloatType cast = getCastType(user);
    if (!cast || (type && type != cast))
      return false;
    type = cast;
    return true;
  });
}

FloatType fcdp::findNarrowReadType(Value value) {
  FloatType type;
  Type own = mlir::cast<RankedTensorType>(value.getType()).getElementType();
  if (!mergeCasts(value, type) || !type ||
      elementBytes(type) >= elementBytes(own))
    return {};
  return type;
}
