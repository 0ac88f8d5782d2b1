// SPDX-License-Identifier: Apache-2.0

#include "Types.h"

#include "Archive.h"
#include "mlir/IR/Builders.h"
#include "llvm/Support/MathExtras.h"

using namespace llvm;
using namespace mlir;
using namespace fcdp;
using namespace fcdp::pt2;

// The numbers are those of ScalarType in torch/_export/serde/schema.py.
Type fcdp::pt2::getElementType(int64_t scalarType, MLIRContext *context) {
  Builder builder(context);
  switch (scalarType) {
  case 1:
    return builder.getIntegerType(8, /*isSigned=*/false);
  case 2:
    return builder.getI8Type();
  case 3:
    return builder.getI16Type();
  case 4:
    return builder.getI32Type();
  case 5:
    return builder.getI64Type();
  case 6:
    return builder.getF16Type();
  case 7:
    return builder.getF32Type();
  case 8:
    return builder.getF64Type();
  case 9:
    return ComplexType::get(builder.getF16Type());
  case 10:
    return ComplexType::get(builder.getF32Type());
  case 11:
    return ComplexType::get(builder.getF64Type());
  case 12:
    return builder.getI1Type();
  case 13:
    return builder.getBF16Type();
  case 28:
    return builder.getIntegerType(16, /*isSigned=*/false);
  case 29:
    return Float8E4M3FNType::get(context);
  case 30:
    return Float8E5M2Type::get(context);
  case 31:
    return Float8E4M3FNUZType::get(context);
  case 32:
    return Float8E5M2FNUZType::get(context);
  case 33:
    return Float8E8M0FNUType::get(context);
  case 34:
    return builder.getIntegerType(32, /*isSigned=*/false);
  case 35:
    return builder.getIntegerType(64, /*isSigned=*/false);
  default:
    return {};
  }
}

int64_t fcdp::pt2::getElementBytes(int64_t scalarType) {
  switch (scalarType) {
  case 1:
  case 2:
  case 12:
  case 29:
  case 30:
  case 31:
  case 32:
  case 33:
    return 1;
  case 3:
  case 6:
  case 13:
  case 28:
    return 2;
  case 4:
  case 7:
  case 9:
  case 34:
    return 4;
  case 5:
  case 8:
  case 10:
  case 35:
    return 8;
  case 11:
    return 16;
  default:
    return 0;
  }
}

StringRef fcdp::pt2::getSymbol(const Json &symInt) {
  StringRef text = symInt["as_expr"]["expr_str"].asString().value_or("?");
  StringRef name = text.split("Symbol('").second.split('\'').first;
  return name.empty() ? text : name;
}

Expected<RankedTensorType> fcdp::pt2::getTensorType(const Json &meta,
                                                    const Twine &what,
                                                    MLIRContext *context) {
  int64_t scalarType = meta["dtype"].asInteger().value_or(0);
  Type element = getElementType(scalarType, context);
  if (!element)
    return makeError(what + " has the unknown data type " + Twine(scalarType));
  if (meta["layout"].asInteger().value_or(7) != 7)
    return makeError(what +
                     " is not strided: sparse tensors are not supported");
  if (!meta["sizes"].isArray())
    return makeError(what + " has no sizes");
  if (meta["sizes"].elements().size() > kMaxRank)
    return makeError(what + " has more than " + Twine(kMaxRank) +
                     " dimensions");
  SmallVector<int64_t> shape;
  // The widest element has 16 bytes, so this also checks that the size in bytes
  // fits.
  int64_t elements = 16;
  for (const Json &size : meta["sizes"].elements()) {
    if (size["as_expr"].isObject())
      return makeError(what + " has the symbolic size '" + getSymbol(size) +
                       "' in dimension " + Twine(shape.size()) +
                       ": only static shapes are supported so far; export "
                       "without dynamic_shapes");
    std::optional<int64_t> value = size["as_int"].asInteger();
    if (!value || *value < 0 ||
        MulOverflow(elements, std::max<int64_t>(*value, 1), elements))
      return makeError(what + " has an impossible size in dimension " +
                       Twine(shape.size()));
    shape.push_back(*value);
  }
  return RankedTensorType::get(shape, element);
}
