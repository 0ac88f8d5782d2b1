// SPDX-License-Identifier: Apache-2.0

#include "dialects/Aten/UnpackedMatrix.h"

#include "core/PackedLayout.h"
#include "dialects/Aten/ResultShapes.h"

using namespace mlir;
using namespace fcdp;
using namespace fcdp::aten;

/// Returns the literal `size`, or none if it is not two sizes of a matrix.
static std::optional<std::pair<int64_t, int64_t>> getSize(CallOp call) {
  auto list = dyn_cast_or_null<ArrayAttr>(call.getArgument("size"));
  if (!list || list.size() != 2)
    return std::nullopt;
  int64_t sizes[2];
  for (auto [size, attr] : llvm::zip_equal(sizes, list)) {
    auto number = dyn_cast<IntegerAttr>(attr);
    if (!number || isa<BoolAttr>(number) || number.getInt() < 0 ||
        number.getInt() > kMostTensorBytes)
      return std::nullopt;
    size = number.getInt();
  }
  if (sizes[1] != 0 && sizes[0] > kMostTensorBytes / sizes[1])
    return std::nullopt;
  return std::pair(sizes[0], sizes[1]);
}

LogicalResult fcdp::aten::verifyUnpackedMatrix(CallOp call) {
  bool isNf4 = call.getCallee() == kUnpackNf4;
  if (!isNf4 && call.getCallee() != kUnpackInt8)
    return success();
  auto size = getSize(call);
  if (!size)
    return call.emitOpError("expected 'size' to be the two sizes of a matrix");
  auto dtype = dyn_cast_or_null<TypeAttr>(call.getArgument("dtype"));
  if (!dtype || !(dtype.getValue().isF32() || dtype.getValue().isBF16() ||
                  dtype.getValue().isF16()))
    return call.emitOpError("expected 'dtype' to be f32, bf16 or f16");
  PackedLayout layout = isNf4 ? PackedLayout::ofNf4(size->first * size->second)
                              : PackedLayout::ofInt8(size->first, size->second);
  auto packed = RankedTensorType::get(
      {layout.countBytes()},
      IntegerType::get(call.getContext(), 8, IntegerType::Unsigned));
  if (call->getNumOperands() != 1 ||
      !isa_and_present<OperandAttr>(call.getArgument("packed")) ||
      call.getOperand(0).getType() != packed)
    return call.emitOpError("expected one operand 'packed' of ") << packed;
  auto result =
      RankedTensorType::get({size->first, size->second}, dtype.getValue());
  if (call->getNumResults() != 1 || call.getResult(0).getType() != result)
    return call.emitOpError("expected one result of ") << result;
  return success();
}
